//! An assigned partition: where it is being read, and what was fetched ahead.
//!
//! The position is the offset of the next record to hand out; the fetch offset is where the next
//! fetch begins, at or after it. What is handed out has strictly rising offsets, whatever a broker
//! sends: records below the position, as at the front of a batch that was entered in its middle,
//! are left out.

use alloc::collections::VecDeque;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use bytes::Bytes;

use crate::bugs::{Bug, Bugs};
use crate::client::effect::{ConsumerRecord, Polled};
use crate::client::error::ClientError;
use crate::client::input::{OffsetSpec, StartAt, TopicPartition};
use crate::ids::{LeaderEpoch, Offset};
use crate::record::batch::verify_crc;
use crate::record::compression::Tables;
use crate::record::{BatchError, BatchHeader, BatchRecords, Record, RecordCursor};
use crate::time::Mono;

/// An assigned partition.
#[derive(Debug)]
pub(super) struct Assigned {
    pub(super) position: Position,
    pub(super) paused: bool,
    /// Whether it is being given up: nothing is fetched or handed out any more.
    pub(super) revoking: bool,
    /// Up to where the application is done, as far as its polls say.
    pub(super) processed: Option<Offset>,
    /// What the group has committed, as far as known.
    pub(super) committed: Option<Offset>,
    /// Epoch of the leader of the last batch that records were handed out of.
    pub(super) last_epoch: Option<LeaderEpoch>,
    /// Changes whenever what is under way for the partition has become useless.
    pub(super) generation: u64,
    /// Where the next fetch begins, if the position is known.
    pub(super) fetch_offset: Offset,
    fetched: VecDeque<Fetched>,
    /// The batch that records are being handed out of.
    open: Option<Open>,
    /// Bytes of batches that are fetched and not yet handed out.
    pub(super) buffered_bytes: usize,
    pub(super) high_watermark: Option<Offset>,
    /// Nothing is asked for this partition before.
    pub(super) retry_at: Mono,
    pub(super) failures: u32,
    /// Whether a fetch in flight reads it.
    pub(super) fetching: bool,
    /// The end that was told last.
    end_told: Option<Offset>,
    /// The error that was told last, unless something went well since.
    told: Option<ClientError>,
}

/// Where a partition is being read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Position {
    /// The next record to hand out.
    At(Offset),
    /// To be looked up.
    Unknown(OffsetSpec),
    /// Being looked up.
    LookingUp,
    /// What the group has committed, which is not known yet.
    Committed,
    /// Out of range: waits for a seek.
    Lost,
}

/// Something to hand out.
#[derive(Debug)]
enum Fetched {
    Batch(Bytes),
    End(Offset),
    Error(ClientError),
}

#[derive(Debug)]
struct Open {
    records: BatchRecords,
    cursor: RecordCursor,
    size: usize,
}

/// How much a poll may still hand out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    pub(super) records: usize,
    pub(super) bytes: usize,
}

/// How batches are read.
#[derive(Debug)]
pub(super) struct Reading<'a> {
    pub(super) check_crcs: bool,
    pub(super) max_decompressed_bytes: usize,
    pub(super) bugs: Bugs,
    pub(super) tables: &'a mut Tables,
}

impl Assigned {
    pub(super) fn new(start: StartAt, generation: u64) -> Self {
        let mut assigned = Self {
            position: Position::Lost,
            paused: false,
            revoking: false,
            processed: None,
            committed: None,
            last_epoch: None,
            generation,
            fetch_offset: Offset(0),
            fetched: VecDeque::new(),
            open: None,
            buffered_bytes: 0,
            high_watermark: None,
            retry_at: Mono(0),
            failures: 0,
            fetching: false,
            end_told: None,
            told: None,
        };
        assigned.seek(start, generation);
        assigned
    }

    /// Goes on reading elsewhere; what was fetched ahead is dropped.
    pub(super) fn seek(&mut self, to: StartAt, generation: u64) {
        self.drop_fetched(generation);
        self.end_told = None;
        self.told = None;
        self.processed = None;
        self.last_epoch = None;
        self.failures = 0;
        self.retry_at = Mono(0);
        match to {
            StartAt::Offset(offset) => self.start_at(offset),
            StartAt::Spec(spec) => self.position = Position::Unknown(spec),
            StartAt::Committed => self.position = Position::Committed,
        }
    }

    /// Begins reading at an offset.
    pub(super) fn start_at(&mut self, offset: Offset) {
        let offset = Offset(offset.0.max(0));
        self.position = Position::At(offset);
        self.fetch_offset = offset;
    }

    fn drop_fetched(&mut self, generation: u64) {
        self.generation = generation;
        self.fetched.clear();
        self.open = None;
        self.buffered_bytes = 0;
        self.fetching = false;
        if let Position::At(position) = self.position {
            self.fetch_offset = position;
        }
    }

    /// Whether everything that was fetched has been handed out.
    pub(super) fn is_drained(&self) -> bool {
        self.fetched.is_empty() && self.open.is_none()
    }

    /// Whether there is something to hand out.
    pub(super) fn has_something(&self) -> bool {
        !self.paused && !self.revoking && !self.is_drained()
    }

    /// Takes in what a fetch brought: whole batches, then perhaps the beginning of another, which
    /// is dropped. `false` if it brought something, but nothing that leads on.
    pub(super) fn take_in(
        &mut self,
        mut records: Bytes,
        high_watermark: i64,
        tell_end: bool,
    ) -> bool {
        let mut useful = records.is_empty();
        while !records.is_empty() {
            let header = match BatchHeader::parse(&records) {
                Ok(header) => header,
                Err(BatchError::Truncated { .. }) => break,
                Err(error) => {
                    self.fetched.push_back(Fetched::Error(ClientError::Corrupt {
                        offset: self.fetch_offset,
                        reason: error.to_string(),
                    }));
                    return false;
                }
            };
            let Some(size) = usize::try_from(header.size_bytes())
                .ok()
                .filter(|size| *size <= records.len())
            else {
                break;
            };
            let batch = records.split_to(size);
            if header.next_offset() <= self.fetch_offset {
                continue;
            }
            useful = true;
            self.fetch_offset = header.next_offset();
            self.buffered_bytes += size;
            self.fetched.push_back(Fetched::Batch(batch));
        }
        if useful {
            self.failures = 0;
            self.told = None;
        }
        let end = Offset(high_watermark);
        if high_watermark >= 0 {
            self.high_watermark = Some(end);
        }
        if tell_end && self.fetch_offset == end && self.end_told != Some(end) {
            self.end_told = Some(end);
            self.fetched.push_back(Fetched::End(end));
        }
        useful
    }

    /// Queues an error behind what was fetched, unless it was told already and nothing went well
    /// since.
    pub(super) fn complain(&mut self, error: ClientError) {
        if self.told.as_ref() != Some(&error) {
            self.told = Some(error.clone());
            self.fetched.push_back(Fetched::Error(error));
        }
    }

    /// Hands out what there is room for. The error says that what follows cannot be read: it is
    /// then forgotten, to be fetched again under `next_generation`.
    pub(super) fn hand_out(
        &mut self,
        partition: &TopicPartition,
        reading: &mut Reading<'_>,
        room: &mut Room,
        next_generation: u64,
        items: &mut Vec<Polled>,
    ) -> Result<(), Unreadable> {
        while room.records > 0 && room.bytes > 0 {
            let step = if self.open.is_some() {
                self.hand_out_open(partition, reading, room, items)
            } else {
                match self.fetched.pop_front() {
                    None => return Ok(()),
                    Some(Fetched::Batch(batch)) => self.open(&batch, reading),
                    Some(Fetched::End(offset)) => {
                        items.push(Polled::EndOfPartition {
                            partition: partition.clone(),
                            offset,
                        });
                        Ok(())
                    }
                    Some(Fetched::Error(error)) => {
                        items.push(Polled::Error {
                            partition: partition.clone(),
                            error,
                        });
                        Ok(())
                    }
                }
            };
            if let Err(reason) = step {
                let Position::At(offset) = self.position else {
                    unreachable!("only a partition with a position has batches");
                };
                self.drop_fetched(next_generation);
                let error = ClientError::Corrupt { offset, reason };
                if self.told.as_ref() != Some(&error) {
                    self.told = Some(error.clone());
                    items.push(Polled::Error {
                        partition: partition.clone(),
                        error,
                    });
                }
                return Err(Unreadable);
            }
        }
        Ok(())
    }

    /// Opens a batch; one without records for the application is passed over.
    fn open(&mut self, batch: &Bytes, reading: &mut Reading<'_>) -> Result<(), String> {
        let header = BatchHeader::parse(batch).map_err(|error| error.to_string())?;
        if reading.check_crcs && !verify_crc(batch) {
            return Err(String::from("the CRC does not hold"));
        }
        if header.is_control() {
            self.pass(&header, batch.len());
            return Ok(());
        }
        let records =
            BatchRecords::open_with(batch, reading.max_decompressed_bytes, reading.tables)
                .map_err(|error| error.to_string())?;
        self.open = Some(Open {
            records,
            cursor: RecordCursor::default(),
            size: batch.len(),
        });
        Ok(())
    }

    fn pass(&mut self, header: &BatchHeader, size: usize) {
        self.buffered_bytes -= size;
        self.advance(header.next_offset());
    }

    fn advance(&mut self, to: Offset) {
        if let Position::At(position) = &mut self.position {
            *position = to.max(*position);
        }
    }

    fn hand_out_open(
        &mut self,
        partition: &TopicPartition,
        reading: &mut Reading<'_>,
        room: &mut Room,
        items: &mut Vec<Polled>,
    ) -> Result<(), String> {
        let Some(mut open) = self.open.take() else {
            return Ok(());
        };
        let Position::At(mut position) = self.position else {
            return Ok(());
        };
        let header = *open.records.header();
        self.last_epoch = Some(header.leader_epoch).filter(|epoch| *epoch >= LeaderEpoch(0));
        let mut records = open.records.iter_from(open.cursor);
        while room.records > 0 && room.bytes > 0 {
            let Some(record) = records.next() else {
                self.advance(position);
                self.pass(&header, open.size);
                return Ok(());
            };
            let record = match record {
                Ok(record) => record,
                Err(error) => {
                    self.advance(position);
                    return Err(error.to_string());
                }
            };
            if record.offset < position && !reading.bugs.has(Bug::HandOutWholeBatches) {
                continue;
            }
            position = record.offset.plus(1);
            let size = record.key.map_or(0, <[u8]>::len) + record.value.map_or(0, <[u8]>::len);
            room.records -= 1;
            room.bytes = room.bytes.saturating_sub(size);
            let payload = open.records.payload();
            let mut record = owned(partition, &header, payload, &record);
            if reading.bugs.has(Bug::CutValues)
                && let Some(value) = &mut record.value
            {
                value.truncate(value.len().saturating_sub(1));
            }
            items.push(Polled::Record(record));
        }
        self.advance(position);
        open.cursor = open.records.cursor(&records);
        self.open = Some(open);
        Ok(())
    }
}

/// What follows in a partition cannot be read.
#[derive(Debug)]
pub(super) struct Unreadable;

fn owned(
    partition: &TopicPartition,
    header: &BatchHeader,
    payload: &Bytes,
    record: &Record<'_>,
) -> ConsumerRecord {
    ConsumerRecord {
        topic: partition.topic.clone(),
        partition: partition.partition,
        offset: record.offset,
        leader_epoch: Some(header.leader_epoch).filter(|epoch| *epoch >= LeaderEpoch(0)),
        timestamp: record.timestamp,
        key: record.key.map(|key| payload.slice_ref(key)),
        value: record.value.map(|value| payload.slice_ref(value)),
        headers: record
            .headers
            .iter()
            .map(|header| {
                let value = header.value.map(|value| payload.slice_ref(value));
                (payload.slice_ref(header.key), value)
            })
            .collect(),
    }
}
