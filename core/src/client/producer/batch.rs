//! A batch on its way: its records, whom to tell, and what is known of its attempts.

use alloc::vec::Vec;
use core::mem;

use bytes::Bytes;

use crate::client::input::{CommandId, ProducerRecord};
use crate::effect::BATCH_HEADER_BYTES;
use crate::record::compression::Tables;
use crate::record::{
    BatchBuilder, BatchFields, BatchRecords, Compression, ProducerFields, Record, RecordsError,
};
use crate::time::{Mono, Wall};
use crate::wire::ErrorCode;

/// A batch on its way.
#[derive(Debug)]
pub(super) struct Batch {
    contents: Contents,
    /// Whom to tell, in the order of the records; empty once they were told.
    pub(super) sends: Vec<Send>,
    /// The place of the first record among all that ever went to the partition: the order in which
    /// batches must be appended.
    pub(super) ordinal: u64,
    /// How an idempotent producer has numbered it.
    pub(super) sequence: Option<ProducerFields>,
    /// How many records it has.
    pub(super) count: usize,
    /// When the oldest of its records was sent.
    pub(super) created: Mono,
    /// Which flush its records wait for.
    pub(super) epoch: u64,
    /// How many times it was sent.
    pub(super) attempts: u32,
    /// Whether one of the attempts may have appended it, so that it can no longer simply fail.
    pub(super) maybe_appended: bool,
    /// The last error on the way.
    pub(super) last_error: Option<ErrorCode>,
    /// What it counts for in `buffer.memory`.
    pub(super) memory: usize,
    /// It takes no more records: one did not fit, it was numbered or sent, or others lie behind it.
    full: bool,
}

/// A record of a batch, as far as its outcome needs it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Send {
    pub(super) id: CommandId,
    pub(super) timestamp: i64,
    pub(super) memory: usize,
}

/// The records themselves.
#[derive(Debug)]
enum Contents {
    /// More can be added.
    Open(BatchBuilder),
    /// As they are sent, again and again if need be.
    Built(Bytes),
}

impl Batch {
    /// A batch without records, which must get one before anything else.
    pub(super) fn new(batch_size: usize, ordinal: u64, created: Mono, epoch: u64) -> Self {
        Self {
            contents: Contents::Open(BatchBuilder::new(batch_size.max(BATCH_HEADER_BYTES))),
            sends: Vec::new(),
            ordinal,
            sequence: None,
            count: 0,
            created,
            epoch,
            attempts: 0,
            maybe_appended: false,
            last_error: None,
            memory: 0,
            full: false,
        }
    }

    /// Adds a record, if the batch takes any and it fits.
    pub(super) fn append(&mut self, id: CommandId, record: &ProducerRecord, wall: Wall) -> bool {
        // A half, or what lost its number, can be written to again, and was sent nevertheless.
        let Contents::Open(builder) = &mut self.contents else {
            return false;
        };
        if self.full {
            return false;
        }
        let timestamp = record.timestamp.unwrap_or(wall.0);
        let headers: Vec<(&[u8], Option<&[u8]>)> = record
            .headers
            .iter()
            .map(|(key, value)| (&**key, value.as_deref()))
            .collect();
        let (key, value) = (record.key.as_deref(), record.value.as_deref());
        if !builder.append(timestamp, key, value, &headers) {
            self.full = true;
            return false;
        }
        let memory = record.size();
        self.memory += memory;
        self.count += 1;
        self.sends.push(Send {
            id,
            timestamp,
            memory,
        });
        true
    }

    /// Takes no more records.
    pub(super) fn close(&mut self) {
        self.full = true;
    }

    /// Whether waiting for more records would be of no use.
    pub(super) fn is_full(&self, batch_size: usize) -> bool {
        match &self.contents {
            Contents::Open(builder) => self.full || builder.estimated_size() >= batch_size,
            Contents::Built(_) => true,
        }
    }

    /// The batch as it is sent; compressed the first time.
    pub(super) fn build(&mut self, compression: Compression, tables: &mut Tables) -> Bytes {
        let bytes = match mem::replace(&mut self.contents, Contents::Built(Bytes::new())) {
            Contents::Built(bytes) => bytes,
            Contents::Open(builder) => {
                let fields = BatchFields {
                    compression,
                    producer: self.sequence,
                    ..BatchFields::default()
                };
                builder.build_with(fields, tables)
            }
        };
        self.contents = Contents::Built(bytes.clone());
        bytes
    }

    /// How many bytes it will take in a request, at most but for what compression may add.
    pub(super) fn size(&self) -> usize {
        match &self.contents {
            Contents::Open(builder) => builder.estimated_size(),
            Contents::Built(bytes) => bytes.len(),
        }
    }

    /// Takes its number away: it is not in the log under that, and is sent under another.
    ///
    /// # Errors
    /// If its own bytes do not read back, which would be a bug.
    pub(super) fn strip_number(&mut self) -> Result<(), RecordsError> {
        self.sequence = None;
        let Contents::Built(bytes) = &self.contents else {
            return Ok(());
        };
        let records = BatchRecords::open(bytes, usize::MAX)?;
        let mut builder = BatchBuilder::new(usize::MAX);
        for record in records.iter() {
            append(&mut builder, &record?);
        }
        self.contents = Contents::Open(builder);
        Ok(())
    }

    /// Drops the records themselves: nobody waits for them any more.
    pub(super) fn drop_records(&mut self) -> Vec<Send> {
        self.contents = Contents::Built(Bytes::new());
        mem::take(&mut self.sends)
    }

    /// Two batches with half of the records each, since the whole was too large for the broker. It
    /// was sent, and has at least two records.
    ///
    /// # Errors
    /// If its own bytes do not read back, which would be a bug.
    pub(super) fn split(&self) -> Result<[Self; 2], RecordsError> {
        let Contents::Built(bytes) = &self.contents else {
            unreachable!("only a batch that was sent can be too large");
        };
        // These are our own bytes: the limit guards against nothing.
        let records = BatchRecords::open(bytes, usize::MAX)?;
        let middle = self.sends.len() / 2;
        let half = |ordinal: u64, epoch: u64| Self {
            attempts: 0,
            maybe_appended: self.maybe_appended,
            last_error: self.last_error,
            full: true,
            ..Self::new(usize::MAX, ordinal, self.created, epoch)
        };
        let mut first = half(self.ordinal, self.epoch);
        let mut second = half(self.ordinal + middle as u64, self.epoch);
        first.sequence = self.sequence;
        second.sequence = self.sequence.map(|number| ProducerFields {
            base_sequence: add_to_sequence(number.base_sequence, middle),
            ..number
        });
        for (index, (record, send)) in records.iter().zip(&self.sends).enumerate() {
            let record = record?;
            let half = if index < middle {
                &mut first
            } else {
                &mut second
            };
            let Contents::Open(builder) = &mut half.contents else {
                unreachable!("a new batch is open");
            };
            append(builder, &record);
            half.sends.push(*send);
            half.memory += send.memory;
            half.count += 1;
        }
        Ok([first, second])
    }
}

/// Adds a record of a batch of our own to another one that is no longer.
fn append(builder: &mut BatchBuilder, record: &Record<'_>) {
    let headers: Vec<_> = record
        .headers
        .iter()
        .map(|header| (header.key, header.value))
        .collect();
    let fits = builder.append(record.timestamp, record.key, record.value, &headers);
    assert!(fits, "a part of a batch fits where the whole did");
}

/// The sequence number `count` records later; after 2^31-1 comes 0.
pub(super) const fn add_to_sequence(sequence: i32, count: usize) -> i32 {
    ((sequence as u32).wrapping_add(count as u32) & 0x7fff_ffff) as i32
}
