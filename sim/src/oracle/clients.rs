//! What clients saw, as Jepsen's checker of Kafka judges it: LostWrite, UnsentRead, FailedRead,
//! InconsistentOffsets, NonMonotonicPoll, SkippedPoll, SendOrder, IdempotentSendOnce.
//!
//! Every record that is handed in has an id of its own, which whoever reads it finds again. It ends
//! ok, failed or unknown. Ok: at the end it is at the offset that the producer was told. Failed: it
//! is nowhere, ever. Unknown: either. What is deleted on request excuses what it covers; so does a
//! power loss under `os`, for what lay beyond the end that it left.

use std::collections::BTreeMap;
use std::fmt;

use odradek_core::client::{OffsetReset, OffsetSpec, Outcome, StartAt, TopicName, TopicPartition};

use super::long_poll::directory;
use super::{Check, Mark, Oracle};
use crate::workload::hostile;
use crate::workload::seen::{Id, ReadRecord, Seen};
use crate::workload::verifier;

/// What clients saw so far.
#[derive(Clone, Debug, Default)]
pub struct Clients {
    producers: BTreeMap<u64, Sends>,
    /// The last record of each producer of raw frames.
    raw: BTreeMap<u64, u64>,
    partitions: BTreeMap<String, Contents>,
    readers: BTreeMap<u64, Reader>,
}

/// The records of one producer, in the order of its sends.
#[derive(Clone, Debug, Default)]
struct Sends {
    is_ordered: bool,
    is_idempotent: bool,
    list: Vec<Sent>,
}

#[derive(Clone, Debug)]
struct Sent {
    topic: TopicName,
    partition: Option<i32>,
    content: u32,
    fate: Fate,
    was_read: bool,
    /// Whether the reading of everything came across it.
    is_there: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// Not known yet, or never.
    Unknown,
    /// Appended here; without an offset (`acks=0`) nothing is promised.
    Ok(i32, Option<i64>),
    /// Never appended.
    Failed,
}

/// What is known to be in a partition.
#[derive(Clone, Debug, Default)]
struct Contents {
    /// By offset: what a producer was told, or a reader found.
    at: Vec<Option<Id>>,
    /// From here on a power loss took what was promised, as `os` allows.
    lost_from: Option<i64>,
    /// Of the reading of everything: the last record of each producer that came in its order.
    last_in_order: BTreeMap<u64, u64>,
}

#[derive(Clone, Debug)]
struct Reader {
    reset: OffsetReset,
    expects: BTreeMap<String, Expected>,
}

/// What a reader of a partition must be handed next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
    /// This offset.
    At(i64),
    /// The first there is.
    First,
    /// This one or a later.
    AtLeast(i64),
    /// Whatever there is.
    Anything,
}

impl Oracle {
    /// A client saw something.
    pub fn client_saw(&mut self, seen: Seen) {
        match seen {
            Seen::Producer {
                producer,
                ordered,
                idempotent,
            } => {
                let sends = self.clients.producers.entry(producer).or_default();
                sends.is_ordered = ordered;
                sends.is_idempotent = idempotent;
            }
            Seen::Sent {
                id,
                topic,
                partition,
                content,
            } => {
                let sends = self.clients.producers.entry(id.producer).or_default();
                assert_eq!(
                    sends.list.len() as u64 + 1,
                    id.number,
                    "records are counted"
                );
                sends.list.push(Sent {
                    topic,
                    partition,
                    content,
                    fate: Fate::Unknown,
                    was_read: false,
                    is_there: false,
                });
            }
            Seen::Outcome { id, outcome } => self.settled(id, &outcome),
            Seen::Abandoned { .. } => {}
            Seen::Raw { producer, up_to } => {
                self.clients.raw.insert(producer, up_to);
            }
            Seen::Reader { reader, reset } => {
                let expects = BTreeMap::new();
                let new = Reader { reset, expects };
                self.clients.readers.insert(reader, new);
            }
            Seen::Goes {
                reader,
                partition,
                to,
            } => self.goes(reader, &partition, to),
            Seen::Leaves { reader } => {
                if let Some(reader) = self.clients.readers.get_mut(&reader) {
                    reader.expects.clear();
                }
            }
            Seen::Read {
                reader,
                partition,
                records,
            } => self.read(reader, &partition, &records),
            Seen::End {
                reader,
                partition,
                offset,
            } => {
                let directory = directory(&partition.topic, partition.partition);
                self.check_position(reader, &directory, offset, "the end");
                self.expect(reader, directory, Expected::At(offset));
            }
            Seen::Restless(restless) => self.restless(&restless),
            Seen::Mark(mark) => self.mark(mark),
            Seen::LostKey(topic, what) => {
                let directory = directory(&topic, 0);
                let contents = self.clients.partitions.get(&directory);
                // Under `os` a power loss takes what was acknowledged.
                if contents.is_none_or(|contents| contents.lost_from.is_none()) {
                    self.violate(Check::CleanedKeepsLatest, format!("{directory}: {what}"));
                }
            }
            Seen::Broken(what) => self.violate(Check::ClientKeepsItsWord, what),
        }
    }

    /// What was promised may be gone, rightly, from an offset on: a power loss took it under `os`, or
    /// damage of the disk.
    pub(super) fn may_have_lost(&mut self, directory: &str, from: i64) {
        let contents = self
            .clients
            .partitions
            .entry(directory.to_owned())
            .or_default();
        contents.lost_from = Some(contents.lost_from.map_or(from, |lost| lost.min(from)));
        contents.at.truncate(from.max(0) as usize);
    }

    fn settled(&mut self, id: Id, outcome: &Outcome) {
        let Some(sent) = self.clients.sent_mut(id) else {
            return self.violate(
                Check::ClientKeepsItsWord,
                format!("{id} has an outcome and was never sent"),
            );
        };
        let (topic, asked, was_read) = (sent.topic.clone(), sent.partition, sent.was_read);
        match outcome {
            Outcome::Ok {
                partition, offset, ..
            } => {
                sent.fate = Fate::Ok(*partition, offset.map(|offset| offset.0));
                if asked.is_some_and(|asked| asked != *partition) {
                    self.violate(
                        Check::ClientKeepsItsWord,
                        format!("{id} was sent to {topic}-{asked:?} and is in {partition}"),
                    );
                }
                if let Some(offset) = offset {
                    let directory = directory(&topic, *partition);
                    self.found(&directory, offset.0, id, "acknowledged");
                }
            }
            Outcome::Failed(error) => {
                sent.fate = Fate::Failed;
                if was_read {
                    self.violate(
                        Check::FailedRead,
                        format!("{id} failed ({error}), and was read before"),
                    );
                }
            }
            Outcome::Unknown(_) => {}
        }
    }

    /// A record is said to be at an offset.
    fn found(&mut self, directory: &str, offset: i64, id: Id, how: &str) {
        let Ok(index) = usize::try_from(offset) else {
            return;
        };
        if self.models.get(directory).is_none_or(|log| log.may_vanish) {
            return;
        }
        if !self.clients.partitions.contains_key(directory) {
            let contents = Contents::default();
            self.clients
                .partitions
                .insert(directory.to_owned(), contents);
        }
        let Some(contents) = self.clients.partitions.get_mut(directory) else {
            return;
        };
        if contents.lost_from.is_some_and(|lost| lost <= offset) {
            return;
        }
        if contents.at.len() <= index {
            contents.at.resize(index + 1, None);
        }
        let Some(place) = contents.at.get_mut(index) else {
            return;
        };
        match *place {
            None => *place = Some(id),
            Some(known) if known == id => {}
            Some(known) => self.violate(
                Check::InconsistentOffsets,
                format!("{directory}: at offset {offset} {id} is {how}, and {known} was before"),
            ),
        }
    }

    fn goes(&mut self, reader: u64, partition: &TopicPartition, to: StartAt) {
        let directory = directory(&partition.topic, partition.partition);
        let visible = self.models.get(&directory).map_or(0, |log| log.visible_end);
        let expected = match to {
            // Beyond the end the policy decides.
            StartAt::Offset(offset) if offset.0 > visible => Expected::Anything,
            StartAt::Offset(offset) => Expected::At(offset.0),
            StartAt::Spec(OffsetSpec::Earliest) => Expected::First,
            StartAt::Spec(OffsetSpec::Latest) => Expected::AtLeast(visible),
            StartAt::Spec(OffsetSpec::Timestamp(_) | OffsetSpec::MaxTimestamp)
            | StartAt::Committed => Expected::Anything,
        };
        self.expect(reader, directory, expected);
    }

    fn expect(&mut self, reader: u64, directory: String, expected: Expected) {
        if let Some(reader) = self.clients.readers.get_mut(&reader) {
            reader.expects.insert(directory, expected);
        }
    }

    fn read(&mut self, reader: u64, partition: &TopicPartition, records: &[ReadRecord]) {
        let directory = directory(&partition.topic, partition.partition);
        if self.models.get(&directory).is_none_or(|log| log.may_vanish) {
            return;
        }
        let mut next = None;
        for record in records {
            if next != Some(record.offset) {
                self.check_position(reader, &directory, record.offset, "a record");
                self.expect(reader, directory.clone(), Expected::At(record.offset));
            }
            next = Some(record.offset + 1);
            self.check_record(reader, partition, &directory, record);
        }
        if let Some(next) = next {
            self.expect(reader, directory, Expected::At(next));
        }
    }

    /// A reader is told of an offset: holds it against where it stands.
    fn check_position(&mut self, reader: u64, directory: &str, offset: i64, what: &str) {
        let Some(log) = self.models.get(directory).filter(|log| !log.may_vanish) else {
            return;
        };
        let lost = self
            .clients
            .partitions
            .get(directory)
            .is_some_and(|contents| contents.lost_from.is_some());
        // Up to here records may have been deleted, at most.
        let start = log.log_start.max(log.log_start_asked.min(log.end));
        let Some(reader) = self.clients.readers.get(&reader) else {
            return;
        };
        let reset = reader.reset;
        let expected = reader
            .expects
            .get(directory)
            .copied()
            .unwrap_or(Expected::Anything);
        if lost {
            return;
        }
        let where_to = match expected {
            Expected::Anything => return,
            Expected::At(at) if offset == at => return,
            Expected::At(at) if offset < at => {
                return self.violate(
                    Check::NonMonotonicPoll,
                    format!("{directory}: {what} at {offset} comes where {at} is next"),
                );
            }
            Expected::AtLeast(at) if offset < at => {
                return self.violate(
                    Check::NonMonotonicPoll,
                    format!("{directory}: {what} at {offset} comes after a look-up of the end, which was {at}"),
                );
            }
            Expected::AtLeast(_) => return,
            Expected::At(at) => at,
            Expected::First if offset <= start => return,
            Expected::First => 0,
        };
        // Skipping is allowed where the position was deleted, and then as the policy says.
        let excused = where_to < start
            && match reset {
                OffsetReset::Earliest => offset <= start,
                OffsetReset::Latest => true,
                OffsetReset::None => false,
            };
        if excused {
            self.mark(Mark::ConsumerReset);
        } else {
            self.violate(
                Check::SkippedPoll,
                format!(
                    "{directory}: {what} at {offset} comes where {where_to} is next, and the log \
                     starts at {start} at most ({reset:?})"
                ),
            );
        }
    }

    fn check_record(
        &mut self,
        reader: u64,
        partition: &TopicPartition,
        directory: &str,
        record: &ReadRecord,
    ) {
        let offset = record.offset;
        let Some(id) = record.id else {
            return self.violate(
                Check::UnsentRead,
                format!("{directory}: nobody sent what is read at {offset}"),
            );
        };
        self.found(directory, offset, id, "read");
        let raw = self.clients.raw.get(&id.producer);
        if id == hostile::ID || raw.is_some_and(|up_to| id.number <= *up_to) {
            return;
        }
        let everything = reader == verifier::READER;
        let Some(sent) = self.clients.sent_mut(id) else {
            return self.violate(
                Check::UnsentRead,
                format!("{directory}: {id} is read at {offset}, and nobody sent it"),
            );
        };
        sent.was_read = true;
        let again = everything && std::mem::replace(&mut sent.is_there, true);
        let fate = sent.fate;
        let elsewhere = *sent.topic != *partition.topic
            || sent.partition.is_some_and(|p| p != partition.partition);
        if elsewhere || sent.content != record.content {
            let what = format!(
                "{directory}: {id} is read at {offset}, and was sent to {}-{:?} with {} contents",
                sent.topic,
                sent.partition,
                if sent.content == record.content {
                    "these"
                } else {
                    "other"
                }
            );
            return self.violate(Check::UnsentRead, what);
        }
        if fate == Fate::Failed {
            return self.violate(
                Check::FailedRead,
                format!("{directory}: {id} is read at {offset}, and had failed"),
            );
        }
        if again {
            self.appended_twice(directory, offset, id);
        } else if everything && matches!(fate, Fate::Ok(..)) {
            self.check_order(directory, offset, id);
        }
    }

    /// The reading of everything comes across a record once more.
    fn appended_twice(&mut self, directory: &str, offset: i64, id: Id) {
        let sends = self.clients.producers.get(&id.producer);
        if sends.is_some_and(|sends| sends.is_idempotent) {
            self.violate(
                Check::IdempotentSendOnce,
                format!(
                    "{directory}: {id} is at {offset} once more, and its producer is idempotent"
                ),
            );
        } else {
            self.mark(Mark::AppendedTwice);
        }
    }

    /// The reading of everything comes across a record for the first time. Only what the producer
    /// knows to be there has its place: an attempt of which it heard nothing may arrive at any time.
    fn check_order(&mut self, directory: &str, offset: i64, id: Id) {
        let is_ordered = self
            .clients
            .producers
            .get(&id.producer)
            .is_some_and(|sends| sends.is_ordered);
        // What was deleted may have been a first occurrence.
        let starts_at_zero = self
            .models
            .get(directory)
            .is_some_and(|log| log.log_start.max(log.log_start_asked) == 0);
        let Some(contents) = self.clients.partitions.get_mut(directory) else {
            return;
        };
        if !is_ordered || !starts_at_zero {
            return;
        }
        let last = contents.last_in_order.entry(id.producer).or_default();
        let before = *last;
        *last = before.max(id.number);
        if id.number < before {
            self.violate(
                Check::SendOrder,
                format!(
                    "{directory}: {id} is at {offset} for the first time, behind record {before} \
                     of the same producer"
                ),
            );
        }
    }

    /// Everything was read: holds what producers were told against it. `read` says from where to
    /// where.
    pub(super) fn judge_sends(&mut self, read: &BTreeMap<(String, i32), (i64, i64)>) {
        let bounds: BTreeMap<(&str, i32), (i64, i64)> = read
            .iter()
            .map(|((topic, partition), bounds)| ((topic.as_str(), *partition), *bounds))
            .collect();
        let mut lost = Vec::new();
        for (producer, sends) in &self.clients.producers {
            for (number, sent) in (1..).zip(&sends.list) {
                let Fate::Ok(partition, Some(offset)) = sent.fate else {
                    continue;
                };
                let directory = directory(&sent.topic, partition);
                let excused = self.models.get(&directory).is_none_or(|log| log.may_vanish)
                    || self
                        .clients
                        .partitions
                        .get(&directory)
                        .is_some_and(|contents| contents.lost_from.is_some_and(|l| l <= offset));
                let Some((from, to)) = bounds.get(&(&*sent.topic, partition)) else {
                    continue;
                };
                // Read at its place, or else two would be there, which is another check.
                let there = sent.is_there && (*from..*to).contains(&offset);
                if !excused && !there && offset >= *from {
                    let producer = *producer;
                    lost.push((Id { producer, number }, directory, offset));
                }
            }
        }
        for (id, directory, offset) in lost {
            self.violate(
                Check::LostWrite,
                format!("{directory}: {id} was acknowledged at {offset}, and is not read there"),
            );
        }
    }
}

impl Clients {
    fn sent_mut(&mut self, id: Id) -> Option<&mut Sent> {
        let index = usize::try_from(id.number).ok()?.checked_sub(1)?;
        self.producers.get_mut(&id.producer)?.list.get_mut(index)
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (client, life) = (self.producer & 0xffff, self.producer >> 16);
        write!(f, "record {} of client {client}.{life}", self.number)
    }
}

#[cfg(test)]
mod tests;
