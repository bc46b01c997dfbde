//! Kafka's wire protocol: frames, headers, and every message as a table.
//!
//! [`frame`] is the way in and out: a frame's bytes become a [`Request`], a
//! response body becomes an [`effect::Response`](crate::effect::Response), and the other way round
//! for the client. [`api`] says which APIs and versions there are. A message is declared once, in
//! [`messages`], in a table that reads like Kafka's own definition; the macro in `table` makes the
//! struct, its defaults, `Debug`, decode and encode from it. [`coordinator_records`] and
//! [`consumer_protocol`] are tables of the same kind for what stands in records and inside messages.
//!
//! What holds for every decode here:
//!
//! - no input panics, and nothing is allocated from a length before the bytes for it are there
//!   (an array's elements may be up to a few dozen times larger in memory than on the wire);
//! - strings and record bytes are slices of the frame, never copies: whoever keeps one keeps the
//!   whole frame alive, and [`Str::detach`](text::Str::detach) is the way out;
//! - tagged fields that a table does not know are kept and written back (KIP-482).

#[macro_use]
mod table;

pub mod api;
pub mod consumer_protocol;
pub mod coordinator_records;
pub mod error_code;
pub mod frame;
pub mod messages;
pub mod producer_snapshot;
pub mod reader;
pub mod records;
pub mod tagged_fields;
pub mod text;
pub mod value;
pub mod versioned;
pub mod versions;
pub mod writer;

pub use api::{ApiKey, RequestBody, ResponseBody};
pub use error_code::ErrorCode;
pub use frame::{Request, RequestError, RequestHeader};
pub use messages::Message;
pub use reader::{DecodeError, Reader};
pub use records::Records;
pub use tagged_fields::TaggedFields;
pub use text::Str;
pub use versioned::Versioned;
pub use versions::Versions;
pub use writer::Writer;
