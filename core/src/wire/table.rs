//! The macro that makes a message out of its table.
//!
//! A table reads like one of Kafka's definitions: a line is a field, its type, the versions that
//! have it, the versions in which it may be null, its tag, and its default.
//!
//! ```text
//! message! {
//!     /// Asks for records.
//!     pub message FetchRequest (Fetch, versions [4-18], flexible [12+]) {
//!         cluster_id:     Option<Str>      [12+]  nullable [12+]  tag 0  = None,
//!         replica_id:     i32              [0-14]                        = -1,
//!         topics:         Vec<FetchTopic>  [0+],
//!     }
//!
//!     /// One topic of a [`FetchRequest`].
//!     pub struct FetchTopic {
//!         topic:          Str              [0-12],
//!         topic_id:       TopicId          [13+],
//!     }
//! }
//! ```
//!
//! - A field is a Rust type that is a [`Value`](super::value::Value); `Option` where some version
//!   has null. Without a default it begins as Kafka's do: 0, false, empty. That holds for nullable
//!   fields too: they begin empty, and null only where the table says `= None`.
//! - Fields are written in the order of the table; tagged ones, in the order of their tags, come
//!   last and only when they differ from their default.
//! - A field that the version lacks keeps its default when read, and is dropped when written.
//!   (Kafka refuses to write a message that loses a field it does not call ignorable. Here the
//!   handlers see to it that such a field is never set for an old version; a codec that can fail
//!   to write would only move that bug to a worse place.)
//! - Every struct ends with `unknown_tagged_fields`, so literals end with `..Default::default()`.
//! - The names are Kafka's, in Rust's spelling; a field has a comment where its name does not say
//!   all.

use super::value::Format;
use super::versions::Versions;

/// A line of a table, as far as it decides how the field is written.
#[derive(Clone, Copy)]
pub(crate) struct Field {
    pub(crate) versions: Versions,
    pub(crate) nullable: Versions,
    pub(crate) tag: Option<u32>,
}

impl Field {
    /// Whether the field stands in the body, in its place, in `version`.
    pub(crate) const fn in_body(self, version: i16) -> bool {
        self.tag.is_none() && self.versions.contains(version)
    }

    /// Whether the field is among the tagged ones in `version`.
    pub(crate) const fn in_tags(self, version: i16) -> bool {
        self.tag.is_some() && self.versions.contains(version)
    }

    /// The form of the field's value.
    pub(crate) const fn format(self, message: Format) -> Format {
        Format {
            nullable: self.nullable.contains(message.version),
            tagged: self.tag.is_some(),
            ..message
        }
    }
}

/// A range of versions as tables write it.
macro_rules! versions {
    ([$min:literal +]) => {
        $crate::wire::versions::Versions::new($min, i16::MAX)
    };
    ([$min:literal - $max:literal]) => {
        $crate::wire::versions::Versions::new($min, $max)
    };
    ([$only:literal]) => {
        $crate::wire::versions::Versions::new($only, $only)
    };
    () => {
        $crate::wire::versions::Versions::NONE
    };
}

macro_rules! optional {
    () => {
        None
    };
    ($value:expr) => {
        Some($value)
    };
}

macro_rules! initial {
    ($type:ty) => {
        <$type as $crate::wire::value::Value>::initial()
    };
    ($type:ty, $default:expr) => {
        $default
    };
}

/// See the module's documentation.
macro_rules! message {
    (
        $(#[$doc:meta])*
        pub message $name:ident ($api:ident, versions $versions:tt $(, flexible $flexible:tt)?)
        { $($fields:tt)* }
        $(
            $(#[$struct_doc:meta])*
            pub struct $struct:ident { $($struct_fields:tt)* }
        )*
    ) => {
        data! {
            $(#[$doc])*
            pub data $name (versions $versions $(, flexible $flexible)?)
            { $($fields)* }
            $(
                $(#[$struct_doc])*
                pub struct $struct { $($struct_fields)* }
            )*
        }

        impl $crate::wire::messages::Message for $name {
            const API: $crate::wire::api::ApiKey = $crate::wire::api::ApiKey::$api;
        }
    };
}

/// A table that is no request or response: `pub data Name (versions [0-3], flexible [2+])`, without
/// the second where no version is flexible. See [`Versioned`](super::versioned::Versioned).
macro_rules! data {
    (
        $(#[$doc:meta])*
        pub data $name:ident (versions $versions:tt $(, flexible $flexible:tt)?)
        { $($fields:tt)* }
        $(
            $(#[$struct_doc:meta])*
            pub struct $struct:ident { $($struct_fields:tt)* }
        )*
    ) => {
        structure! {
            $(#[$doc])*
            pub struct $name { $($fields)* }
        }
        $(structure! {
            $(#[$struct_doc])*
            pub struct $struct { $($struct_fields)* }
        })*

        impl $crate::wire::versioned::Versioned for $name {
            const NAME: &'static str = stringify!($name);
            const VERSIONS: $crate::wire::versions::Versions = versions!($versions);
            const FLEXIBLE: $crate::wire::versions::Versions = versions!($($flexible)?);
        }
    };
}

/// A struct of a table: the message itself or one inside it.
macro_rules! structure {
    (
        $(#[$doc:meta])*
        pub struct $name:ident {
            $(
                $(#[$field_doc:meta])*
                $field:ident : $type:ty [$($versions:tt)*]
                $(nullable $nullable:tt)? $(tag $tag:literal)? $(= $default:expr)?
            ),* $(,)?
        }
    ) => {
        $(#[$doc])*
        #[allow(missing_docs, reason = "the names are Kafka's; see the table")]
        #[derive(Clone, PartialEq)]
        pub struct $name {
            $(
                $(#[$field_doc])*
                pub $field: $type,
            )*
            /// Tagged fields that the table does not know.
            pub unknown_tagged_fields: $crate::wire::tagged_fields::TaggedFields,
        }

        impl Default for $name {
            fn default() -> Self {
                Self {
                    $($field: initial!($type $(, $default)?),)*
                    unknown_tagged_fields: Default::default(),
                }
            }
        }

        impl core::fmt::Debug for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                let mut debug = f.debug_struct(stringify!($name));
                $(debug.field(stringify!($field), &self.$field);)*
                if !self.unknown_tagged_fields.is_empty() {
                    debug.field("unknown_tagged_fields", &self.unknown_tagged_fields);
                }
                debug.finish()
            }
        }

        impl $crate::wire::value::Value for $name {
            fn initial() -> Self {
                Self::default()
            }

            fn min_bytes(format: $crate::wire::value::Format) -> usize {
                let mut bytes = usize::from(format.flexible);
                $({
                    const FIELD: $crate::wire::table::Field =
                        field!([$($versions)*] [$($nullable)?] [$($tag)?]);
                    if FIELD.in_body(format.version) {
                        bytes += <$type as $crate::wire::value::Value>::min_bytes(
                            FIELD.format(format),
                        );
                    }
                })*
                bytes.max(1)
            }

            fn read(
                reader: &mut $crate::wire::reader::Reader,
                format: $crate::wire::value::Format,
            ) -> Result<Self, $crate::wire::reader::DecodeError> {
                let mut value = Self::default();
                $({
                    const FIELD: $crate::wire::table::Field =
                        field!([$($versions)*] [$($nullable)?] [$($tag)?]);
                    if FIELD.in_body(format.version) {
                        value.$field =
                            $crate::wire::value::Value::read(reader, FIELD.format(format))
                                .map_err(|error| error.in_field(stringify!($field)))?;
                    }
                })*
                if format.flexible {
                    let unknown = $crate::wire::tagged_fields::TaggedFields::read(
                        reader,
                        |tag, content| {
                            $({
                                const FIELD: $crate::wire::table::Field =
                                    field!([$($versions)*] [$($nullable)?] [$($tag)?]);
                                if FIELD.tag == Some(tag) && FIELD.in_tags(format.version) {
                                    value.$field = $crate::wire::value::Value::read(
                                        content,
                                        FIELD.format(format),
                                    )
                                    .map_err(|error| error.in_field(stringify!($field)))?;
                                    return Ok(true);
                                }
                            })*
                            let _ = (tag, content);
                            Ok(false)
                        },
                    )?;
                    value.unknown_tagged_fields = unknown;
                }
                Ok(value)
            }

            fn error_codes(&self, see: &mut dyn FnMut($crate::wire::ErrorCode)) {
                $($crate::wire::value::Value::error_codes(&self.$field, see);)*
            }

            fn write(
                &self,
                writer: &mut $crate::wire::writer::Writer,
                format: $crate::wire::value::Format,
            ) {
                $({
                    const FIELD: $crate::wire::table::Field =
                        field!([$($versions)*] [$($nullable)?] [$($tag)?]);
                    if FIELD.in_body(format.version) {
                        $crate::wire::value::Value::write(
                            &self.$field,
                            writer,
                            FIELD.format(format),
                        );
                    }
                })*
                if format.flexible {
                    let set: [bool; 0 $(+ { let _ = stringify!($field); 1 })*] = [$({
                        const FIELD: $crate::wire::table::Field =
                            field!([$($versions)*] [$($nullable)?] [$($tag)?]);
                        FIELD.in_tags(format.version)
                            && self.$field != initial!($type $(, $default)?)
                    },)*];
                    let known = set.iter().filter(|set| **set).count();
                    let mut set = set.into_iter();
                    let mut tags = $crate::wire::tagged_fields::TagWriter::begin(
                        writer,
                        known as u32,
                        &self.unknown_tagged_fields,
                    );
                    $({
                        const FIELD: $crate::wire::table::Field =
                            field!([$($versions)*] [$($nullable)?] [$($tag)?]);
                        if let (Some(true), Some(tag)) = (set.next(), FIELD.tag) {
                            tags.put(writer, tag, |content| {
                                $crate::wire::value::Value::write(
                                    &self.$field,
                                    content,
                                    FIELD.format(format),
                                );
                            });
                        }
                    })*
                    tags.finish(writer);
                }
            }
        }

        impl $crate::wire::value::Nullable for $name {
            fn read_nullable(
                reader: &mut $crate::wire::reader::Reader,
                format: $crate::wire::value::Format,
            ) -> Result<Option<Self>, $crate::wire::reader::DecodeError> {
                if $crate::wire::value::read_marker(reader, format)? {
                    $crate::wire::value::Value::read(reader, format).map(Some)
                } else {
                    Ok(None)
                }
            }

            fn write_null(
                writer: &mut $crate::wire::writer::Writer,
                format: $crate::wire::value::Format,
            ) {
                $crate::wire::value::put_absent(writer, format);
            }

            fn write_present(
                &self,
                writer: &mut $crate::wire::writer::Writer,
                format: $crate::wire::value::Format,
            ) {
                writer.put_i8(1);
                $crate::wire::value::Value::write(self, writer, format);
            }
        }
    };
}

/// A line's [`Field`].
macro_rules! field {
    ($versions:tt [$($nullable:tt)?] [$($tag:literal)?]) => {
        $crate::wire::table::Field {
            versions: versions!($versions),
            nullable: versions!($($nullable)?),
            tag: optional!($($tag)?),
        }
    };
}
