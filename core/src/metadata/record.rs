//! The records of the metadata log: the only thing that changes the cluster's state.
//!
//! A record's value is: version of this format (1 byte), kind (1 byte), then the fields of the
//! kind, integers big-endian, text as a two-byte length and UTF-8. An unknown version or kind is
//! an error: a newer Odradek wrote it.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use crate::ids::TopicId;

/// Version of the encoding, the first byte of each record.
pub const FORMAT_VERSION: u8 = 1;

/// One change of the cluster's state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MetadataRecord {
    /// The cluster got its id; the first record of all.
    Cluster {
        /// 22 characters of URL-safe base64.
        id: String,
    },
    /// A topic was created.
    Topic {
        /// Its id.
        id: TopicId,
        /// Its name.
        name: String,
        /// Number of partitions.
        partitions: i32,
        /// The cluster's epoch at its creation: its partitions' epochs count from here.
        epoch: i32,
    },
    /// A topic has more partitions now.
    Partitions {
        /// The topic.
        id: TopicId,
        /// The new number.
        count: i32,
    },
    /// A topic was deleted, its configs with it.
    RemoveTopic {
        /// The topic.
        id: TopicId,
    },
    /// A config was set, or with no value taken back.
    Config {
        /// Whose.
        resource: Resource,
        /// The key.
        name: String,
        /// Its value.
        value: Option<String>,
    },
    /// The first record of a snapshot, and only there.
    Snapshot {
        /// The offset of the metadata log at which it was taken: a replay goes on from there.
        offset: i64,
        /// How many records follow.
        records: i32,
    },
    /// Producer ids below this are taken: a block of them was set aside.
    ProducerIds {
        /// The first id that is free.
        next: i64,
    },
    /// The broker started after an unclean end: every partition's leader epoch is raised to this.
    Epoch {
        /// The cluster's epoch.
        epoch: i32,
    },
}

/// What a config belongs to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Resource {
    /// A topic.
    Topic(TopicId),
    /// The broker with this id, as text, or all of them if empty.
    Broker(String),
    /// The group of this name, whether it is there or not.
    Group(String),
}

/// Why a record cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordProblem {
    /// A version this build does not know.
    Version(u8),
    /// A kind this build does not know.
    Kind(u8),
    /// The fields do not fit the kind.
    Malformed,
}

const CLUSTER: u8 = 1;
const TOPIC: u8 = 2;
const PARTITIONS: u8 = 3;
const REMOVE_TOPIC: u8 = 4;
const CONFIG: u8 = 5;
const EPOCH: u8 = 6;
const SNAPSHOT: u8 = 7;
const PRODUCER_IDS: u8 = 8;

impl MetadataRecord {
    /// The record's bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(64);
        out.push(FORMAT_VERSION);
        match self {
            Self::Cluster { id } => {
                out.push(CLUSTER);
                put_text(&mut out, id);
            }
            Self::Topic {
                id,
                name,
                partitions,
                epoch,
            } => {
                out.push(TOPIC);
                out.extend_from_slice(&id.0);
                put_text(&mut out, name);
                out.extend_from_slice(&partitions.to_be_bytes());
                out.extend_from_slice(&epoch.to_be_bytes());
            }
            Self::Partitions { id, count } => {
                out.push(PARTITIONS);
                out.extend_from_slice(&id.0);
                out.extend_from_slice(&count.to_be_bytes());
            }
            Self::RemoveTopic { id } => {
                out.push(REMOVE_TOPIC);
                out.extend_from_slice(&id.0);
            }
            Self::Config {
                resource,
                name,
                value,
            } => {
                out.push(CONFIG);
                match resource {
                    Resource::Topic(id) => {
                        out.push(2);
                        out.extend_from_slice(&id.0);
                    }
                    Resource::Broker(id) => {
                        out.push(4);
                        put_text(&mut out, id);
                    }
                    Resource::Group(id) => {
                        out.push(32);
                        put_text(&mut out, id);
                    }
                }
                put_text(&mut out, name);
                out.push(u8::from(value.is_some()));
                if let Some(value) = value {
                    put_text(&mut out, value);
                }
            }
            Self::Snapshot { offset, records } => {
                out.push(SNAPSHOT);
                out.extend_from_slice(&offset.to_be_bytes());
                out.extend_from_slice(&records.to_be_bytes());
            }
            Self::ProducerIds { next } => {
                out.push(PRODUCER_IDS);
                out.extend_from_slice(&next.to_be_bytes());
            }
            Self::Epoch { epoch } => {
                out.push(EPOCH);
                out.extend_from_slice(&epoch.to_be_bytes());
            }
        }
        out
    }

    /// Reads a record; every byte must be accounted for.
    pub fn decode(bytes: &[u8]) -> Result<Self, RecordProblem> {
        let mut rest = Fields(bytes);
        match rest.byte()? {
            FORMAT_VERSION => {}
            version => return Err(RecordProblem::Version(version)),
        }
        let record = match rest.byte()? {
            CLUSTER => Self::Cluster { id: rest.text()? },
            TOPIC => Self::Topic {
                id: TopicId(rest.array()?),
                name: rest.text()?,
                partitions: i32::from_be_bytes(rest.array()?),
                epoch: i32::from_be_bytes(rest.array()?),
            },
            PARTITIONS => Self::Partitions {
                id: TopicId(rest.array()?),
                count: i32::from_be_bytes(rest.array()?),
            },
            REMOVE_TOPIC => Self::RemoveTopic {
                id: TopicId(rest.array()?),
            },
            CONFIG => {
                let resource = match rest.byte()? {
                    2 => Resource::Topic(TopicId(rest.array()?)),
                    4 => Resource::Broker(rest.text()?),
                    32 => Resource::Group(rest.text()?),
                    _ => return Err(RecordProblem::Malformed),
                };
                let name = rest.text()?;
                let value = match rest.byte()? {
                    0 => None,
                    1 => Some(rest.text()?),
                    _ => return Err(RecordProblem::Malformed),
                };
                Self::Config {
                    resource,
                    name,
                    value,
                }
            }
            SNAPSHOT => Self::Snapshot {
                offset: i64::from_be_bytes(rest.array()?),
                records: i32::from_be_bytes(rest.array()?),
            },
            PRODUCER_IDS => Self::ProducerIds {
                next: i64::from_be_bytes(rest.array()?),
            },
            EPOCH => Self::Epoch {
                epoch: i32::from_be_bytes(rest.array()?),
            },
            kind => return Err(RecordProblem::Kind(kind)),
        };
        if rest.0.is_empty() {
            Ok(record)
        } else {
            Err(RecordProblem::Malformed)
        }
    }
}

/// Text longer than the format holds is cut; the request handlers refuse such names and values.
fn put_text(out: &mut Vec<u8>, text: &str) {
    let bytes = text
        .as_bytes()
        .get(..usize::from(u16::MAX))
        .unwrap_or(text.as_bytes());
    out.extend_from_slice(&(bytes.len() as u16).to_be_bytes());
    out.extend_from_slice(bytes);
}

struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take(&mut self, count: usize) -> Result<&[u8], RecordProblem> {
        let (taken, rest) = self
            .0
            .split_at_checked(count)
            .ok_or(RecordProblem::Malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, RecordProblem> {
        self.array::<1>().map(|[byte]| byte)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], RecordProblem> {
        self.take(N)?
            .try_into()
            .map_err(|_| RecordProblem::Malformed)
    }

    fn text(&mut self) -> Result<String, RecordProblem> {
        let length = u16::from_be_bytes(self.array()?);
        core::str::from_utf8(self.take(usize::from(length))?)
            .map(ToString::to_string)
            .map_err(|_| RecordProblem::Malformed)
    }
}

impl fmt::Display for RecordProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version(version) => {
                write!(f, "format version {version} is newer than {FORMAT_VERSION}")
            }
            Self::Kind(kind) => write!(f, "unknown kind {kind}"),
            Self::Malformed => f.write_str("its fields do not fit its kind"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use proptest::prelude::*;

    fn examples() -> Vec<MetadataRecord> {
        let id = TopicId([7; 16]);
        vec![
            MetadataRecord::Cluster {
                id: "AAAAAAAAAAAAAAAAAAAAAA".to_string(),
            },
            MetadataRecord::Topic {
                id,
                name: "orders".to_string(),
                partitions: 3,
                epoch: 2,
            },
            MetadataRecord::Partitions { id, count: 9 },
            MetadataRecord::RemoveTopic { id },
            MetadataRecord::Config {
                resource: Resource::Topic(id),
                name: "retention.ms".to_string(),
                value: Some("1".to_string()),
            },
            MetadataRecord::Config {
                resource: Resource::Broker(String::new()),
                name: "x".to_string(),
                value: None,
            },
            MetadataRecord::Config {
                resource: Resource::Group("readers".to_string()),
                name: "y".to_string(),
                value: Some("2".to_string()),
            },
            MetadataRecord::Epoch { epoch: 5 },
            MetadataRecord::ProducerIds { next: 1 << 40 },
            MetadataRecord::Snapshot {
                offset: 7,
                records: 8,
            },
        ]
    }

    #[test]
    fn records_read_back() {
        for record in examples() {
            let bytes = record.encode();
            assert_eq!(MetadataRecord::decode(&bytes), Ok(record.clone()));
            for length in 0..bytes.len() {
                assert!(
                    MetadataRecord::decode(&bytes[..length]).is_err(),
                    "{record:?} cut"
                );
            }
        }
    }

    #[test]
    fn an_unknown_version_is_refused() {
        let mut bytes = MetadataRecord::Epoch { epoch: 5 }.encode();
        bytes[0] = 9;
        assert_eq!(
            MetadataRecord::decode(&bytes),
            Err(RecordProblem::Version(9))
        );
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = MetadataRecord::decode(&bytes);
        }
    }
}
