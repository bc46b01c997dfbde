//! The producer snapshot's file: Kafka's `.snapshot`, version 1, which holds the last batch of each
//! producer.
//!
//! It is derived from the log, but only while the log begins at offset 0 (promise 9): what it says of
//! batches that retention deleted is nowhere else.

use alloc::vec::Vec;

use bytes::{Bytes, BytesMut};

use crate::ids::{Offset, ProducerEpoch, ProducerId};
use crate::wire::producer_snapshot::{ProducerEntry, ProducerSnapshot};
use crate::wire::{DecodeError, Reader, Versioned};

use super::producer_state::{ProducerBatch, ProducerState, ProducerStates};

const VERSION: i16 = 1;

/// Bytes of the version, which come first.
const VERSION_BYTES: usize = 2;

/// Where the entries begin: behind the CRC, which covers them.
const ENTRIES_AT: usize = VERSION_BYTES + 4;

/// Why a file is no snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotError {
    /// It cannot be read in the one version there is.
    Malformed(DecodeError),
    /// Its CRC does not hold.
    Crc,
}

/// The file's content.
pub(super) fn encode(states: &ProducerStates) -> Bytes {
    let entries = states.iter().map(|(producer, state)| {
        let last = state.last();
        ProducerEntry {
            producer_id: producer.0,
            epoch: state.epoch.0,
            last_sequence: last.map_or(-1, |batch| batch.last_sequence),
            last_offset: last.map_or(-1, |batch| batch.last_offset.0),
            offset_delta: last.map_or(0, |batch| batch.offset_delta),
            timestamp: last.map_or(-1, |batch| batch.timestamp),
            coordinator_epoch: state.coordinator_epoch,
            current_txn_first_offset: state.transaction_start.map_or(-1, |offset| offset.0),
            ..Default::default()
        }
    });
    let snapshot = ProducerSnapshot {
        producer_entries: entries.collect(),
        ..Default::default()
    };
    let mut bytes = BytesMut::from(snapshot.to_versioned(VERSION));
    let crc = crc32c::crc32c(bytes.get(ENTRIES_AT..).unwrap_or_default());
    if let Some(place) = bytes.get_mut(VERSION_BYTES..ENTRIES_AT) {
        place.copy_from_slice(&crc.to_be_bytes());
    }
    bytes.freeze()
}

/// Reads a file back.
///
/// # Errors
/// If it is not whole, or not a snapshot.
pub fn decode(bytes: &Bytes) -> Result<Vec<(ProducerId, ProducerState)>, SnapshotError> {
    let mut reader = Reader::new(bytes.clone());
    let version = reader.i16().map_err(SnapshotError::Malformed)?;
    let snapshot =
        ProducerSnapshot::decode(&mut reader, version).map_err(SnapshotError::Malformed)?;
    // Kafka's CRC covers everything to the end of the file, so surplus bytes show there.
    let covered = bytes.get(ENTRIES_AT..).unwrap_or_default();
    if crc32c::crc32c(covered) != snapshot.crc {
        return Err(SnapshotError::Crc);
    }
    Ok(snapshot.producer_entries.iter().map(state_of).collect())
}

fn state_of(entry: &ProducerEntry) -> (ProducerId, ProducerState) {
    let mut state = ProducerState::new(ProducerEpoch(entry.epoch));
    state.coordinator_epoch = entry.coordinator_epoch;
    state.transaction_start =
        (entry.current_txn_first_offset >= 0).then_some(Offset(entry.current_txn_first_offset));
    if entry.last_offset >= 0 {
        state.push(ProducerBatch {
            last_sequence: entry.last_sequence,
            last_offset: Offset(entry.last_offset),
            offset_delta: entry.offset_delta,
            timestamp: entry.timestamp,
        });
    }
    (ProducerId(entry.producer_id), state)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Written by Kafka 4.3.1's `ProducerStateManager.writeSnapshot`; see
    /// `tests/golden/Snapshot.java`.
    const KAFKAS: &[u8] = include_bytes!("../../tests/golden/producer-4.3.1.snapshot");

    #[test]
    fn kafkas_file_is_read_and_comes_out_the_same() {
        let read = decode(&Bytes::from_static(KAFKAS)).unwrap();
        let ids: Vec<i64> = read.iter().map(|(id, _)| id.0).collect();
        assert_eq!(ids, [5, 6, 4_000_000_000_000]);
        let (_, first) = &read[0];
        assert_eq!(first.epoch, ProducerEpoch(3));
        let last = first.last().unwrap();
        assert_eq!(
            (
                last.last_sequence,
                last.last_offset,
                last.offset_delta,
                last.timestamp
            ),
            (41, Offset(1_234), 9, 1_700_000_000_000)
        );
        assert_eq!(last.first_offset(), Offset(1_225));
        assert_eq!(last.first_sequence(), 32);
        let (_, bumped) = &read[1];
        assert_eq!((bumped.epoch, bumped.last()), (ProducerEpoch(7), None));
        let (_, open) = &read[2];
        assert_eq!(open.coordinator_epoch, 2);
        assert_eq!(open.transaction_start, Some(Offset(77)));

        let mut states = ProducerStates::default();
        for (id, state) in read {
            states.restore(id, state);
        }
        assert_eq!(encode(&states), KAFKAS);
    }

    #[test]
    fn a_file_that_is_cut_or_changed_is_none() {
        for length in 0..KAFKAS.len() {
            assert!(decode(&Bytes::from_static(&KAFKAS[..length])).is_err());
        }
        for at in 0..KAFKAS.len() {
            let mut bytes = KAFKAS.to_vec();
            bytes[at] ^= 1;
            assert!(decode(&bytes.into()).is_err(), "byte {at}");
        }
        let mut longer = KAFKAS.to_vec();
        longer.push(0);
        assert_eq!(decode(&longer.into()), Err(SnapshotError::Crc));
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode(&bytes.into());
        }
    }
}
