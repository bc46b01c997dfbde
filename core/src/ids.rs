//! Newtypes for what must not be confused.

use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;

/// A record's offset in its partition. Never negative: `-1` exists only on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Offset(pub i64);

/// A byte position in a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(pub u64);

/// The epoch of a partition's leader, patched into every batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaderEpoch(pub i32);

/// A broker's id in the cluster (`node.id`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub i32);

/// An idempotent producer (KIP-98). Never given out twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProducerId(pub i64);

/// The epoch of a producer: of two with the same id, the older one is fenced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProducerEpoch(pub i16);

/// A connection. The host numbers them; an id is never reused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);

/// An open log file. The core numbers them; an id is never reused within a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(pub u64);

/// A read or a file-management operation under way. The core numbers them; never reused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OperationId(pub u64);

/// A topic's 128-bit id, in the byte order of the wire (KIP-516).
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicId(pub [u8; 16]);

impl Offset {
    /// The offset `count` records later.
    #[must_use]
    pub const fn plus(self, count: i64) -> Self {
        Self(self.0 + count)
    }
}

impl Position {
    /// The position `bytes` further on.
    #[must_use]
    pub const fn plus(self, bytes: u64) -> Self {
        Self(self.0 + bytes)
    }
}

macro_rules! display_number {
    ($($name:ident $prefix:literal),*) => {$(
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }
    )*};
}
display_number!(Offset "", Position "", LeaderEpoch "", NodeId "", ProducerId "", ProducerEpoch "", ConnectionId "c", FileId "f", OperationId "op");

impl TopicId {
    /// The id of no topic: what requests below topic ids carry.
    pub const ZERO: Self = Self([0; 16]);

    /// Reads the URL-safe base64 form in which Kafka prints ids; `None` if it is not one.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut bits: u128 = 0;
        let bytes = text.as_bytes();
        if bytes.len() != 22 {
            return None;
        }
        for (i, b) in bytes.iter().enumerate() {
            let value = BASE64.iter().position(|c| c == b)? as u128;
            // 22 characters hold 132 bits; the last one carries only two.
            bits = if i == 21 {
                (bits << 2) | (value >> 4)
            } else {
                (bits << 6) | value
            };
        }
        Some(Self(bits.to_be_bytes()))
    }
}

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

impl fmt::Display for TopicId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = u128::from_be_bytes(self.0);
        let mut text = String::with_capacity(22);
        for i in 0..21 {
            text.push(BASE64[(bits >> (122 - 6 * i)) as usize & 63] as char);
        }
        text.push(BASE64[((bits & 3) << 4) as usize] as char);
        f.write_str(&text)
    }
}

impl fmt::Debug for TopicId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A path below the data directory, with `/` between its parts. The empty path is the directory
/// itself.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FilePath(Arc<str>);

impl FilePath {
    /// The data directory itself.
    #[must_use]
    pub fn root() -> Self {
        Self(Arc::from(""))
    }

    /// The path as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The entry `name` in this directory.
    #[must_use]
    pub fn join(&self, name: &str) -> Self {
        if self.0.is_empty() {
            return Self(Arc::from(name));
        }
        let mut path = String::with_capacity(self.0.len() + 1 + name.len());
        path.push_str(&self.0);
        path.push('/');
        path.push_str(name);
        Self(Arc::from(path))
    }

    /// The directory that holds this entry.
    #[must_use]
    pub fn parent(&self) -> Self {
        Self(Arc::from(
            self.0.rsplit_once('/').map_or("", |(parent, _)| parent),
        ))
    }

    /// The last part.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.rsplit_once('/').map_or(&self.0, |(_, name)| name)
    }
}

impl From<&str> for FilePath {
    fn from(path: &str) -> Self {
        Self(Arc::from(path))
    }
}

impl fmt::Display for FilePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "." } else { &self.0 })
    }
}

impl fmt::Debug for FilePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn a_topic_id_reads_back_from_its_text() {
        let id = TopicId([0xff, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 0x3d]);
        assert_eq!(id.to_string().len(), 22);
        assert_eq!(TopicId::parse(&id.to_string()), Some(id));
        assert_eq!(TopicId::parse("short"), None);
    }

    #[test]
    fn a_path_has_a_parent_and_a_name() {
        let path = FilePath::root()
            .join("orders-0")
            .join("00000000000000000000.log");
        assert_eq!(path.as_str(), "orders-0/00000000000000000000.log");
        assert_eq!(path.parent().as_str(), "orders-0");
        assert_eq!(path.name(), "00000000000000000000.log");
        assert_eq!(path.parent().parent(), FilePath::root());
    }
}
