//! What the log's producers are at its end: from the newest snapshot and the batches above it, and
//! from so many batches below it that the last five of each producer are known again. A pure function
//! of the files.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec;
use alloc::vec::Vec;

use bytes::Bytes;

use crate::bugs::{Bug, Bugs};
use crate::ids::{FilePath, Offset, Position, ProducerId};
use crate::input::{DiskError, ReadFiles};
use crate::record::batch::BatchHeader;
use crate::time::Mono;

use super::batch_reader::{BatchReader, HEADER_WINDOW_BYTES};
use super::file_names::SegmentFile;
use super::offset_index::{self, OffsetEntry};
use super::producer_state::{BATCHES_REMEMBERED, ProducerBatch, ProducerState, ProducerStates};
use super::scan_segment::present;
use super::{index_file, producer_snapshot};

/// How many bytes of segments below the snapshot are walked over at most, batch by batch, to find the
/// earlier batches of producers of whom the snapshot knows the last one. Retries come within minutes
/// of the batch: what is further away nobody asks about.
const LOOK_BACK_BYTES: u64 = 128 << 20;

/// How much of that is walked over first: the last batches of most producers lie close together.
const FIRST_PIECE_BYTES: u64 = 256 << 10;

/// No snapshot is larger: one entry has 42 bytes.
const MAX_SNAPSHOT_BYTES: u64 = 64 << 20;

/// Where to look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadProducers {
    /// The log's directory.
    pub dir: FilePath,
    /// Its segments, rising: base offset, and how many bytes of it count.
    pub segments: Vec<(Offset, Position)>,
    /// The end of the log.
    pub end: Offset,
    /// The snapshots there are, rising.
    pub snapshots: Vec<Offset>,
    /// The planted bug, if any.
    pub bugs: Bugs,
}

/// What was found.
#[derive(Clone, Debug, Default)]
pub struct LoadedProducers {
    /// The producers at the end of the log.
    pub states: ProducerStates,
    /// Snapshots that cannot be read: they are of no use.
    pub broken: Vec<Offset>,
    /// From there on batches could not be read; what they say is missing.
    pub unreadable: Option<Offset>,
}

impl LoadProducers {
    /// Runs the job.
    pub fn run(&self, files: &mut dyn ReadFiles) -> Result<LoadedProducers, DiskError> {
        let mut found = LoadedProducers::default();
        if self.bugs.has(Bug::ForgetProducersAtStart) {
            return Ok(found);
        }
        let snapshot = self.read_snapshot(files, &mut found)?;
        let from = snapshot.unwrap_or(Offset(0));
        for (at, (base, length)) in self.segments.iter().enumerate() {
            if self.end_of(at) <= from {
                continue;
            }
            let states = &mut found.states;
            let stopped = self.walk(files, *base, Position(0), length.0, |header| {
                if header.base_offset >= from {
                    states.record(header, Mono(0));
                    states.forget_undo(header.next_offset());
                }
            })?;
            if stopped.is_some() {
                found.unreadable = stopped;
                break;
            }
        }
        if let Some(snapshot) = snapshot {
            self.look_back(files, snapshot, &mut found.states)?;
        }
        Ok(found)
    }

    /// Takes the newest snapshot that can be read and lies within the log. Older ones say nothing of
    /// what was written between them and the first segment.
    fn read_snapshot(
        &self,
        files: &mut dyn ReadFiles,
        found: &mut LoadedProducers,
    ) -> Result<Option<Offset>, DiskError> {
        let Some((first, _)) = self.segments.first() else {
            return Ok(None);
        };
        let usable = self.snapshots.iter().rev();
        for offset in usable.filter(|at| **at >= *first && **at <= self.end) {
            let path = SegmentFile::Snapshot.path(&self.dir, *offset);
            let Some(length) = present(files.length(&path))? else {
                continue;
            };
            let mut bytes = vec![0; length.0.min(MAX_SNAPSHOT_BYTES) as usize];
            let read = files.read_at(&path, Position(0), &mut bytes)?;
            bytes.truncate(read);
            match producer_snapshot::decode(&Bytes::from(bytes)) {
                Ok(mut producers) => {
                    // Those that were seen last, last.
                    producers.sort_by_key(|(_, state)| state.last().map(|last| last.last_offset));
                    for (producer, state) in producers {
                        found.states.restore(producer, state);
                    }
                    return Ok(Some(*offset));
                }
                Err(_) => found.broken.push(*offset),
            }
        }
        Ok(None)
    }

    /// Finds the batches before those that are known: from the snapshot downwards, in pieces that
    /// double.
    fn look_back(
        &self,
        files: &mut dyn ReadFiles,
        snapshot: Offset,
        states: &mut ProducerStates,
    ) -> Result<(), DiskError> {
        let mut look = LookBack::new(states);
        let mut budget = LOOK_BACK_BYTES;
        let mut piece = FIRST_PIECE_BYTES;
        for (base, length) in self.segments.iter().rev() {
            if *base >= snapshot {
                continue;
            }
            let mut to = length.0;
            while to > 0 {
                let walked = LOOK_BACK_BYTES - budget;
                let enough = !look.is_sure_of_more(states) && walked >= FIRST_PIECE_BYTES;
                if look.wanting.is_empty() || enough || budget == 0 {
                    return Ok(());
                }
                let from = self.boundary_below(files, *base, to, to.saturating_sub(piece))?;
                self.walk(files, *base, from, to, |header| look.see(states, header))?;
                look.end_piece(states);
                budget = budget.saturating_sub(to - from.0);
                piece *= 2;
                to = from.0;
            }
        }
        Ok(())
    }

    /// A place where a batch begins, at or below `at`, by the offset index: only if the batch there is
    /// the one that the entry names.
    fn boundary_below(
        &self,
        files: &mut dyn ReadFiles,
        base: Offset,
        end: u64,
        at: u64,
    ) -> Result<Position, DiskError> {
        let path = SegmentFile::Index.path(&self.dir, base);
        let length = present(files.length(&path))?.map_or(0, |length| length.0);
        let entries = u32::try_from(length / offset_index::ENTRY_BYTES).unwrap_or(u32::MAX);
        let low_enough = |entry: &OffsetEntry| u64::from(entry.position) <= at;
        let Some(entry) = index_file::floor(files, &path, entries, low_enough)? else {
            return Ok(Position(0));
        };
        let position = u64::from(entry.position);
        let log = SegmentFile::Log.path(&self.dir, base);
        let named = BatchReader::new(files, log, 0).header_at(position, end)?;
        let expected = base.plus(i64::from(entry.relative_offset));
        let right = position <= at && named.map(|header| header.last_offset()) == Ok(expected);
        Ok(Position(if right { position } else { 0 }))
    }

    /// Shows each batch of a producer in a part of a segment to `see`; the offset at which it had to stop.
    fn walk(
        &self,
        files: &mut dyn ReadFiles,
        base: Offset,
        from: Position,
        to: u64,
        mut see: impl FnMut(&BatchHeader),
    ) -> Result<Option<Offset>, DiskError> {
        let log = SegmentFile::Log.path(&self.dir, base);
        let mut reader = BatchReader::new(files, log, HEADER_WINDOW_BYTES);
        let (mut position, mut next) = (from.0, base);
        while position < to {
            let Ok(header) = reader.header_at(position, to)? else {
                return Ok(Some(next));
            };
            if header.has_producer_id() && !header.is_control() {
                see(&header);
            }
            position += header.size_bytes();
            next = header.next_offset();
        }
        Ok(None)
    }

    fn end_of(&self, segment: usize) -> Offset {
        self.segments
            .get(segment + 1)
            .map_or(self.end, |(next, _)| *next)
    }
}

/// A walk downwards from a snapshot.
struct LookBack {
    /// Producers of which earlier batches are wanted.
    wanting: BTreeSet<ProducerId>,
    /// What the piece under way has of them, oldest first.
    piece: BTreeMap<ProducerId, Vec<ProducerBatch>>,
    /// Producers of which nothing lies further down.
    done: BTreeSet<ProducerId>,
}

impl LookBack {
    fn new(states: &ProducerStates) -> Self {
        let wanting = states.iter().filter(|(_, state)| has_room(state));
        Self {
            wanting: wanting.map(|(producer, _)| producer).collect(),
            piece: BTreeMap::new(),
            done: BTreeSet::new(),
        }
    }

    /// Whether there are earlier batches for certain. One that begins at sequence 0 is the first of its
    /// epoch, but for one in two billion: for that one, a first piece is looked at.
    fn is_sure_of_more(&self, states: &ProducerStates) -> bool {
        let oldest = |producer: &ProducerId| states.get(*producer)?.batches().first();
        let mut wanting = self.wanting.iter().filter_map(oldest);
        wanting.any(|oldest| oldest.first_sequence() != 0)
    }

    fn see(&mut self, states: &ProducerStates, header: &BatchHeader) {
        let producer = ProducerId(header.producer_id);
        if !self.wanting.contains(&producer) {
            return;
        }
        let Some(state) = states.get(producer) else {
            return;
        };
        let oldest = state.batches().first();
        if oldest.is_some_and(|oldest| header.last_offset() >= oldest.last_offset) {
            return;
        }
        if header.producer_epoch == state.epoch.0 {
            let batches = self.piece.entry(producer).or_default();
            if batches.len() == BATCHES_REMEMBERED {
                batches.remove(0);
            }
            batches.push(ProducerBatch::of(header));
        } else {
            // Nothing of the newest epoch lies below a batch of an older one.
            self.done.insert(producer);
        }
    }

    fn end_piece(&mut self, states: &mut ProducerStates) {
        for (producer, batches) in core::mem::take(&mut self.piece) {
            if let Some(state) = states.get_mut(producer) {
                state.prepend(&batches);
                if !has_room(state) {
                    self.done.insert(producer);
                }
            }
        }
        for producer in core::mem::take(&mut self.done) {
            self.wanting.remove(&producer);
        }
    }
}

/// Whether earlier batches of the producer's epoch would be remembered.
fn has_room(state: &ProducerState) -> bool {
    (1..BATCHES_REMEMBERED).contains(&state.batches().len())
}
