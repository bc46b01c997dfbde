//! What the program promised, and when: each promise stands with the number of disk events that had
//! happened when the client heard it. A power cut after that many events or more must keep it.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use odradek_client_tests::chance::Chance;
use odradek_client_tests::records::{TestRecord, binary};
use odradek_client_tests::wire::{Connection, EARLIEST, LATEST, WireError};

/// The partitions that are written all the time; the last one is also trimmed by DeleteRecords.
pub(crate) const PARTITIONS: i32 = 4;
pub(crate) const TRIMMED: i32 = PARTITIONS - 1;
pub(crate) const TOPIC: &str = "steady";

/// The number of disk events that a promise may rest on.
pub(crate) type Events = usize;

#[derive(Debug, Default, Clone)]
pub(crate) struct Promises {
    /// By partition: everything below this offset was acknowledged to its producer or seen by a
    /// reader.
    ends: BTreeMap<i32, Vec<(Events, i64)>>,
    /// DeleteRecords of [`TRIMMED`] answered that nothing below this offset is left.
    starts: Vec<(Events, i64)>,
    topics: BTreeMap<String, TopicLife>,
}

/// What is known of a topic that comes and goes.
#[derive(Debug, Default, Clone)]
struct TopicLife {
    created: Option<Events>,
    record_acknowledged: Option<Events>,
    delete_sent: Option<Events>,
    deleted: Option<Events>,
}

impl Promises {
    pub(crate) fn records_below(&mut self, partition: i32, end: i64, events: Events) {
        self.ends.entry(partition).or_default().push((events, end));
    }

    pub(crate) fn nothing_below(&mut self, start: i64, events: Events) {
        self.starts.push((events, start));
    }

    pub(crate) fn topic_created(&mut self, name: &str, events: Events) {
        self.topics.entry(name.to_owned()).or_default().created = Some(events);
    }

    pub(crate) fn topic_record_acknowledged(&mut self, name: &str, events: Events) {
        self.topics
            .entry(name.to_owned())
            .or_default()
            .record_acknowledged = Some(events);
    }

    pub(crate) fn topic_delete_sent(&mut self, name: &str, events: Events) {
        self.topics.entry(name.to_owned()).or_default().delete_sent = Some(events);
    }

    pub(crate) fn topic_deleted(&mut self, name: &str, events: Events) {
        self.topics.entry(name.to_owned()).or_default().deleted = Some(events);
    }

    /// How far the records of a partition were promised when the disk had `cut` events.
    pub(crate) fn end(&self, partition: i32, cut: Events) -> i64 {
        let ends = self.ends.get(&partition).map_or(&[][..], Vec::as_slice);
        ends.iter()
            .filter(|(events, _)| *events <= cut)
            .map(|(_, end)| *end)
            .max()
            .unwrap_or(0)
    }

    fn start(&self, cut: Events) -> i64 {
        self.starts
            .iter()
            .filter(|(events, _)| *events <= cut)
            .map(|(_, start)| *start)
            .max()
            .unwrap_or(0)
    }

    /// Checks the program at the other end of `connection`, started on what a power cut after `cut`
    /// events left, and gives what it showed there: by partition, the end of the log.
    ///
    /// # Errors
    /// The promise that is broken.
    pub(crate) fn check(
        &self,
        connection: &mut Connection,
        cut: Events,
    ) -> Result<Vec<i64>, String> {
        let wrong = |what: &str| {
            let what = what.to_owned();
            move |error: WireError| format!("{what}: {error:?}")
        };
        if !connection.topic_exists(TOPIC).map_err(wrong("Metadata"))? {
            let promised: i64 = (0..PARTITIONS)
                .map(|partition| self.end(partition, cut))
                .sum();
            // Before it was promised there is nothing to ask for.
            return match promised {
                0 => Ok(vec![0; PARTITIONS as usize]),
                _ => Err(format!(
                    "topic {TOPIC} is lost with its {promised} promised records"
                )),
            };
        }
        let mut shown = Vec::new();
        for partition in 0..PARTITIONS {
            let promised = self.end(partition, cut);
            let end = connection
                .list_offset(TOPIC, partition, LATEST)
                .map_err(wrong("the end"))?;
            if end < promised {
                return Err(format!(
                    "{TOPIC}-{partition}: offset {end} is lost: {promised} is the promised end"
                ));
            }
            let start = connection
                .list_offset(TOPIC, partition, EARLIEST)
                .map_err(wrong("the start"))?;
            let promised_start = if partition == TRIMMED {
                self.start(cut)
            } else {
                0
            };
            if start < promised_start || (partition != TRIMMED && start > 0) {
                return Err(format!(
                    "{TOPIC}-{partition}: starts at {start} instead of {promised_start}"
                ));
            }
            read_all(connection, partition, start, end)?;
            shown.push(end);
        }
        self.check_topics(connection, cut)?;
        Ok(shown)
    }

    fn check_topics(&self, connection: &mut Connection, cut: Events) -> Result<(), String> {
        let by_then = |events: Option<Events>| events.is_some_and(|events| events <= cut);
        for (name, life) in self.topics.iter().filter(|(_, life)| by_then(life.created)) {
            let exists = connection
                .topic_exists(name)
                .map_err(|error| format!("topic {name}: {error:?}"))?;
            if by_then(life.deleted) && exists {
                return Err(format!(
                    "topic {name} is back after its deletion was acknowledged"
                ));
            }
            // A request sent when the disk had that many events can have left nothing in an earlier
            // one.
            let cannot_be_deleted = life.delete_sent.is_none_or(|sent| cut <= sent);
            if !cannot_be_deleted {
                continue;
            }
            if !exists {
                return Err(format!("topic {name} is lost"));
            }
            if by_then(life.record_acknowledged) {
                let end = connection
                    .list_offset(name, 0, LATEST)
                    .map_err(|error| format!("topic {name}: {error:?}"))?;
                if end != 1 {
                    return Err(format!(
                        "the record of topic {name} is lost: its end is {end}"
                    ));
                }
            }
        }
        Ok(())
    }
}

impl fmt::Display for Promises {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let acknowledgements: usize = self.ends.values().map(Vec::len).sum();
        let records: i64 = (0..PARTITIONS)
            .map(|partition| self.end(partition, usize::MAX))
            .sum();
        let deleted = self
            .topics
            .values()
            .filter(|life| life.deleted.is_some())
            .count();
        write!(
            f,
            "{records} records in {acknowledgements} acknowledgements and sights, {} trims, {} topics created and \
             {deleted} deleted",
            self.starts.len(),
            self.topics.len(),
        )
    }
}

/// Record `offset` of a partition: always the same one, so that what is read needs no copy of what
/// was sent.
pub(crate) fn record_at(partition: i32, offset: i64) -> TestRecord {
    let mut chance = Chance::of(partition as u64, offset as u64);
    let value = match chance.below(10) {
        0 => None,
        1 => Some(binary(&mut chance, 1500)),
        _ => Some(
            format!("{partition}/{offset} ")
                .repeat(1 + chance.below(12) as usize)
                .into_bytes(),
        ),
    };
    TestRecord {
        key: Some(offset.to_be_bytes().to_vec()),
        value,
        headers: vec![("p".to_owned(), Some(vec![partition as u8]))],
    }
}

fn read_all(
    connection: &mut Connection,
    partition: i32,
    start: i64,
    end: i64,
) -> Result<(), String> {
    let mut next = start;
    while next < end {
        let fetched = connection
            .fetch(TOPIC, partition, next, Duration::ZERO)
            .map_err(|error| {
                format!("{TOPIC}-{partition}: a fetch at {next} of {end}: {error:?}")
            })?;
        if fetched.records.is_empty() {
            return Err(format!(
                "{TOPIC}-{partition}: offset {next} is lost: below the end, {end}, and not there"
            ));
        }
        for stored in fetched.records {
            if stored.offset != next {
                return Err(format!(
                    "{TOPIC}-{partition}: offset {} follows {}",
                    stored.offset,
                    next - 1
                ));
            }
            if stored.record != record_at(partition, next) {
                return Err(format!(
                    "{TOPIC}-{partition}: the record at offset {next} is not the one that was sent"
                ));
            }
            next += 1;
        }
    }
    Ok(())
}
