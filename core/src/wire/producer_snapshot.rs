//! `.snapshot` files: what is known of each producer of a log at an offset, which is in the file's
//! name. Kafka's ProducerSnapshot version 1.

use alloc::vec::Vec;

data! {
    /// All producers of a log.
    pub data ProducerSnapshot (versions [1]) {
        /// CRC-32C of what follows it.
        crc:              u32                [1],
        producer_entries: Vec<ProducerEntry> [1],
    }

    /// A producer and its last batch.
    pub struct ProducerEntry {
        producer_id:              i64 [1],
        epoch:                    i16 [1],
        /// -1 if the epoch has no batch yet.
        last_sequence:            i32 [1],
        /// The offset of the last record, -1 if the epoch has no batch yet.
        last_offset:              i64 [1],
        /// How far the last record's sequence and offset are above the first's.
        offset_delta:             i32 [1],
        /// Of the last batch, in milliseconds, -1 if the epoch has none.
        timestamp:                i64 [1],
        /// Of the last transaction marker, -1 if there was none.
        coordinator_epoch:        i32 [1],
        /// Where the open transaction begins, -1 if none is open.
        current_txn_first_offset: i64 [1],
    }
}
