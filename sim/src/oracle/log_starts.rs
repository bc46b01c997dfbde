//! Where the logs begin, as `log.checkpoint` has it: read from the disk, without the core's code.
//!
//! Segments that end at a log's start or below it are on their way out, each by itself: of some the
//! files are gone, of others not yet, in any order. So a log as recovery should find it begins in the
//! segment that holds its start, whatever lies below.

use std::collections::BTreeMap;

use odradek_core::ids::FilePath;

use super::METADATA_PREFIX;
use crate::disk::Disk;

const FILE: &str = "log.checkpoint";
/// What it is written as, before it takes that name.
const FRESH: &str = "log.checkpoint.tmp";
const HEADER: &str = "odradek log checkpoint v2";
/// The id of the metadata topic: 1, as Kafka writes ids.
const METADATA_ID: &str = "AAAAAAAAAAAAAAAAAAAAAQ";

/// Whether this is the file that is about to say where the logs begin.
pub(super) fn is_written(path: &FilePath) -> bool {
    path.as_str() == FRESH
}

/// The log start offsets that are on a disk, by topic id and partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct LogStarts {
    offsets: BTreeMap<(String, i32), i64>,
}

impl LogStarts {
    /// What a process that starts now reads. `None` if that cannot be said: the file makes no sense, or
    /// its bytes are not those of the medium.
    pub(super) fn on(disk: &Disk) -> Option<Self> {
        if disk.has_lost_pages(&FilePath::root()) {
            return None;
        }
        match disk.cached(&FILE.into()) {
            Some(bytes) => Self::parse(bytes),
            None => Some(Self::default()),
        }
    }

    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(bytes).ok()?;
        let (body, crc) = text.strip_suffix('\n')?.rsplit_once("crc ")?;
        if u32::from_str_radix(crc, 16) != Ok(crc32c::crc32c(body.as_bytes())) {
            return None;
        }
        let mut lines = body.lines();
        if lines.next() != Some(HEADER) {
            return None;
        }
        let offsets = lines.map(|line| {
            let mut fields = line.split(' ');
            let topic = fields.next()?.to_owned();
            let partition = fields.next()?.parse().ok()?;
            Some(((topic, partition), fields.next()?.parse().ok()?))
        });
        Some(Self {
            offsets: offsets.collect::<Option<_>>()?,
        })
    }

    /// Where the log in a directory begins. `None` if what says whose it is makes no sense.
    pub(super) fn of(&self, directory: &str, disk: &Disk) -> Option<i64> {
        let owner = FilePath::from(directory).join("partition.metadata");
        let topic = match disk.cached(&owner) {
            _ if directory.starts_with(METADATA_PREFIX) => METADATA_ID,
            Some(bytes) => topic_of(bytes)?,
            // It is not made to its end, so nobody deleted anything from it.
            None => return Some(0),
        };
        let (_, partition) = directory.rsplit_once('-')?;
        let key = (topic.to_owned(), partition.parse().ok()?);
        Some(self.offsets.get(&key).copied().unwrap_or(0))
    }
}

/// The id of the topic that a `partition.metadata` names.
fn topic_of(bytes: &[u8]) -> Option<&str> {
    let mut lines = std::str::from_utf8(bytes).ok()?.lines();
    lines.find_map(|line| line.strip_prefix("topic_id: "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_says_where_each_log_begins_unless_a_bit_of_it_is_another() {
        let body = format!("{HEADER}\n{METADATA_ID} 0 14 0 0 14 0 14\nx 3 5 0 0 0 0 0\n");
        let text = format!("{body}crc {:08x}\n", crc32c::crc32c(body.as_bytes()));
        let starts = LogStarts::parse(text.as_bytes()).unwrap();
        let disk = Disk::new();
        assert_eq!(starts.of("__cluster_metadata-0", &disk), Some(14));
        assert_eq!(starts.offsets.get(&("x".to_owned(), 3)), Some(&5));
        let mut flipped = text.into_bytes();
        flipped[HEADER.len() + 2] ^= 1;
        assert_eq!(LogStarts::parse(&flipped), None);
    }
}
