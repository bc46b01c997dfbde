//! The group coordinator: consumer groups and their committed offsets.
//!
//! The records of `__consumer_offsets` are the state: each partition of it is a `shard` of groups,
//! read back from its log when the log is loaded. A command is judged against everything that is
//! appended; its records are appended and take effect in the same step; its answer, and any answer
//! that saw them, waits until they are durable. If a write fails, the shard is thrown away and read
//! again.
//!
//! `coordinator` brings requests and time to the groups and their decisions to the log and the
//! clients. `classic` is the state machine of a classic group, `consumer` that of one for which
//! the broker assigns (KIP-848).

mod assignor;
mod classic;
pub mod config;
mod consumer;
pub(crate) mod coordinator;
mod expiry;
pub mod load;
mod offsets;
mod record;
mod sessions;
mod shard;

pub(crate) use assignor::{Assignor, Partitions, Subscriber};
pub(crate) use classic::{
    ClassicState, Join, JoinReply, MAX_GROUP_BYTES, MemberRef, Reply, Sync, SyncReply,
    protocol_bytes,
};
pub(crate) use consumer::{
    Beat, BeatReply, ConsumerGroup, ConsumerState, LEAVE, LEAVE_STATIC, Refusal, collect,
};
pub(crate) use expiry::subscribed_topics;
pub(crate) use offsets::CommittedOffset;
pub(crate) use shard::{Group, GroupKind};
