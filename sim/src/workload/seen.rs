//! What clients tell the oracle of their side: what they handed in and what became of it, what they
//! read and where.

use bytes::Bytes;
use odradek_core::client::{OffsetReset, Outcome, StartAt, TopicName, TopicPartition};

use super::hostile;
use crate::batch::crc32c;
use crate::oracle::Mark;

/// Names a record, wherever it turns up. No two that are handed in have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Id {
    /// Who made it. A client that starts over is another producer.
    pub producer: u64,
    /// Counts the records of a producer from 1, in the order of its sends.
    pub number: u64,
}

/// A record as somebody read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadRecord {
    /// Its offset.
    pub offset: i64,
    /// Which it is; `None` if it does not say.
    pub id: Option<Id>,
    /// What [`content`] makes of it; 0 for those of producers of raw frames, whose bytes are held
    /// against what was written already.
    pub content: u32,
}

impl ReadRecord {
    /// A record as it was read.
    pub fn of<'a, H>(
        offset: i64,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: impl Fn() -> H,
    ) -> Self
    where
        H: Iterator<Item = (&'a [u8], Option<&'a [u8]>)>,
    {
        let id = if value == Some(hostile::VALUE) {
            Some(hostile::ID)
        } else {
            id_of(key, value, headers())
        };
        let content = match id {
            Some(id) if id.producer >> 16 != 0 => content(key, value, headers()),
            _ => 0,
        };
        Self {
            offset,
            id,
            content,
        }
    }
}

/// Something that a client saw.
#[derive(Clone, Debug)]
pub enum Seen {
    /// A producer begins.
    Producer {
        /// Which.
        producer: u64,
        /// Whether it promises to keep the order of its sends to a partition.
        ordered: bool,
        /// Whether it promises that nothing it sends is there twice.
        idempotent: bool,
    },
    /// A record is handed in.
    Sent {
        /// Which.
        id: Id,
        /// Where to.
        topic: TopicName,
        /// Which partition, if it says so.
        partition: Option<i32>,
        /// What [`content`] makes of it.
        content: u32,
    },
    /// A record has its outcome.
    Outcome {
        /// Which.
        id: Id,
        /// What became of it.
        outcome: Outcome,
    },
    /// A producer is gone: what has no outcome gets none.
    Abandoned {
        /// Which.
        producer: u64,
    },
    /// A producer of raw frames has made records up to this number; what became of them is judged
    /// from its answers.
    Raw {
        /// Which.
        producer: u64,
        /// Its last record so far.
        up_to: u64,
    },
    /// A reader begins.
    Reader {
        /// Which.
        reader: u64,
        /// Where it goes on if its position does not exist.
        reset: OffsetReset,
    },
    /// A reader goes to some place of a partition.
    Goes {
        /// Which.
        reader: u64,
        /// The partition.
        partition: TopicPartition,
        /// Where to.
        to: StartAt,
    },
    /// A reader reads nothing any more of what it read so far.
    Leaves {
        /// Which.
        reader: u64,
    },
    /// A reader is handed records.
    Read {
        /// Which.
        reader: u64,
        /// The partition.
        partition: TopicPartition,
        /// In the order in which they were handed out.
        records: Vec<ReadRecord>,
    },
    /// A reader is told that a partition ends here.
    End {
        /// Which.
        reader: u64,
        /// The partition.
        partition: TopicPartition,
        /// The offset of the next record there will be.
        offset: i64,
    },
    /// Faults are long over, and a group does not come to rest.
    Restless(Restless),
    /// Something came about that should in some run.
    Mark(Mark),
    /// The last record of a key in a compacted topic is not there: the topic, and what is missing.
    LostKey(String, String),
    /// A client broke a promise that it can be held to without looking anywhere else.
    Broken(String),
}

/// A group that does not come to rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restless {
    /// Its name.
    pub group: String,
    /// Whether it is because somebody is a member who lives no more.
    pub is_about_the_dead: bool,
    /// How it looks.
    pub what: String,
}

/// The bytes by which a record says which it is.
#[must_use]
pub fn signature(id: Id) -> [u8; 16] {
    let mut bytes = [0; 16];
    let (producer, number) = bytes.split_at_mut(8);
    producer.copy_from_slice(&id.producer.to_be_bytes());
    number.copy_from_slice(&id.number.to_be_bytes());
    bytes
}

/// Which record this is: its value begins with the signature, else its key, else its last header's
/// value.
#[must_use]
pub fn id_of<'a>(
    key: Option<&[u8]>,
    value: Option<&[u8]>,
    headers: impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)>,
) -> Option<Id> {
    let signed = |bytes: Option<&[u8]>| {
        let bytes: &[u8; 16] = bytes?.first_chunk()?;
        let (producer, number) = bytes.split_at(8);
        Some(Id {
            producer: u64::from_be_bytes(*producer.first_chunk()?),
            number: u64::from_be_bytes(*number.first_chunk()?),
        })
    };
    signed(value)
        .or_else(|| signed(key))
        .or_else(|| signed(headers.last().and_then(|(_, value)| value)))
}

/// A number that tells records with different keys, values or headers apart.
#[must_use]
pub fn content<'a>(
    key: Option<&[u8]>,
    value: Option<&[u8]>,
    headers: impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)>,
) -> u32 {
    // The checksums of the fields, each with its length, so that null is not empty and no two
    // fields run into each other.
    let mut fields = Vec::with_capacity(64);
    let mut add = |field: Option<&[u8]>| {
        let length = field.map_or(-1, |bytes| bytes.len() as i64);
        fields.extend_from_slice(&length.to_be_bytes());
        fields.extend_from_slice(&crc32c(field.unwrap_or_default()).to_be_bytes());
    };
    add(key);
    add(value);
    for (key, value) in headers {
        add(Some(key));
        add(value);
    }
    crc32c(&fields)
}

/// Headers as the core hands them out, borrowed.
pub fn borrowed(
    headers: &[(Bytes, Option<Bytes>)],
) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
    headers
        .iter()
        .map(|(key, value)| (&key[..], value.as_deref()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: Id = Id {
        producer: 7,
        number: 9,
    };

    #[test]
    fn a_record_says_which_it_is_wherever_there_is_room() {
        let signature = signature(ID);
        let none = || std::iter::empty();
        assert_eq!(id_of(None, Some(&signature), none()), Some(ID));
        assert_eq!(id_of(Some(&signature), None, none()), Some(ID));
        assert_eq!(id_of(Some(&signature), Some(b""), none()), Some(ID));
        let headers: [(&[u8], Option<&[u8]>); 2] = [(b"a", None), (b"b", Some(&signature))];
        assert_eq!(id_of(None, None, headers.into_iter()), Some(ID));
        assert_eq!(id_of(None, Some(b"short"), none()), None);
    }

    #[test]
    fn null_is_not_empty_and_no_two_fields_run_into_each_other() {
        let none = || std::iter::empty();
        let all = [
            content(None, None, none()),
            content(Some(b""), None, none()),
            content(None, Some(b""), none()),
            content(Some(b"ab"), Some(b"c"), none()),
            content(Some(b"a"), Some(b"bc"), none()),
            content(None, None, [(&b"a"[..], None)].into_iter()),
            content(None, None, [(&b"a"[..], Some(&b""[..]))].into_iter()),
        ];
        for (i, one) in all.iter().enumerate() {
            assert!(!all[..i].contains(one), "{i}");
        }
    }
}
