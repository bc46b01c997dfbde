//! What a log is configured with: a topic's settings, resolved from Kafka's keys.

use crate::record::{Codec, Compression, Kept};

/// Settings of one log. Units are in the names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogConfig {
    /// `segment.bytes`: roll before an append would exceed it.
    pub segment_bytes: u64,
    /// `segment.ms`: roll once the segment's first record is this old.
    pub segment_ms: u64,
    /// `segment.index.bytes`: roll before an index would exceed it.
    pub segment_index_bytes: u64,
    /// `index.interval.bytes`: bytes between two entries of the offset index.
    pub index_interval_bytes: u64,
    /// `retention.bytes`: delete whole old segments beyond it; `None` keeps all.
    pub retention_bytes: Option<u64>,
    /// `retention.ms`: delete segments whose newest record is older; `None` keeps all.
    pub retention_ms: Option<u64>,
    /// `file.delete.delay.ms`: how long a deleted segment's files stay.
    pub file_delete_delay_ms: u64,
    /// `producer.id.expiration.ms`: how long an idle producer is remembered.
    pub producer_id_expiration_ms: u64,
    /// `flush.messages`: under `os`, flush before answering once this many are unflushed.
    pub flush_messages: Option<u64>,
    /// How many bytes are worth a flush of their own beside one that is under way. No key of Kafka's.
    pub flush_beside_bytes: u64,
    /// `flush.ms`: under `os`, flush in the background once a record is unflushed for so long.
    pub flush_ms: Option<u64>,
    /// `max.message.bytes`: the largest batch, header included.
    pub max_message_bytes: u32,
    /// `compression.type`: how batches are kept; `None` is as they come.
    pub compression: Option<Compression>,
    /// `compression.gzip.level`.
    pub gzip_level: i32,
    /// `compression.zstd.level`.
    pub zstd_level: i32,
    /// `message.timestamp.type` is `LogAppendTime`.
    pub log_append_time: bool,
    /// `message.timestamp.before.max.ms`: how far in the past a timestamp may be.
    pub timestamp_before_max_ms: u64,
    /// `message.timestamp.after.max.ms`: how far in the future a timestamp may be.
    pub timestamp_after_max_ms: u64,
    /// `cleanup.policy` holds `delete`.
    pub delete: bool,
    /// `cleanup.policy` holds `compact`.
    pub compact: bool,
    /// `min.cleanable.dirty.ratio`, in millionths: which share of a log must not be cleaned yet for a
    /// cleaning to begin.
    pub min_cleanable_dirty_ppm: u32,
    /// `delete.retention.ms`: how long a tombstone stays after a cleaning saw it first.
    pub delete_retention_ms: u64,
    /// `min.compaction.lag.ms`: how long a record stays uncompacted.
    pub min_compaction_lag_ms: u64,
    /// `max.compaction.lag.ms`: after how long a record is compacted whatever the ratio; `None` is
    /// never.
    pub max_compaction_lag_ms: Option<u64>,
}

/// When an append counts as acknowledged (promise 2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// After the data is flushed. The default.
    #[default]
    Fsync,
    /// Once written to the page cache: survives a killed process, not a power cut.
    Os,
}

impl LogConfig {
    /// How batches are kept, if not as they come.
    #[must_use]
    pub fn kept(&self) -> Option<Kept> {
        let compression = self.compression?;
        let level = match compression {
            Compression::Gzip => self.gzip_level,
            Compression::Zstd => self.zstd_level,
            _ => Codec::from(compression).level,
        };
        Some(Kept {
            codec: Codec { compression, level },
            max_bytes: self.max_message_bytes,
        })
    }
}

impl Default for LogConfig {
    /// Kafka's defaults.
    fn default() -> Self {
        Self {
            segment_bytes: 1 << 30,
            segment_ms: 7 * 24 * 3_600_000,
            segment_index_bytes: 10 << 20,
            index_interval_bytes: 4096,
            retention_bytes: None,
            retention_ms: Some(7 * 24 * 3_600_000),
            file_delete_delay_ms: 60_000,
            producer_id_expiration_ms: 86_400_000,
            flush_messages: None,
            flush_beside_bytes: 8 << 10,
            flush_ms: None,
            max_message_bytes: 1_048_588,
            compression: None,
            gzip_level: Codec::GZIP_LEVEL,
            zstd_level: Codec::ZSTD_LEVEL,
            log_append_time: false,
            timestamp_before_max_ms: u64::MAX,
            timestamp_after_max_ms: 3_600_000,
            delete: true,
            compact: false,
            min_cleanable_dirty_ppm: 500_000,
            delete_retention_ms: 86_400_000,
            min_compaction_lag_ms: 0,
            max_compaction_lag_ms: None,
        }
    }
}
