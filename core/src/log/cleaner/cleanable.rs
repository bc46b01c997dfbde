//! What of a log may be cleaned, whether that is worth it, and which segments become one.

use alloc::vec::Vec;

use crate::context::Context;
use crate::ids::Offset;
use crate::log::{Log, offset_index, time_index};
use crate::time::Wall;

/// How much of a log is dirty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dirt {
    /// Bytes that may be cleaned and were not yet.
    pub dirty_bytes: u64,
    /// Bytes that may be cleaned.
    pub bytes: u64,
}

impl Dirt {
    /// Whether it has a larger share of dirt than another.
    #[must_use]
    pub fn is_more_than(&self, other: &Self) -> bool {
        let share = |a: &Self, b: &Self| u128::from(a.dirty_bytes) * u128::from(b.bytes);
        share(self, other) > share(other, self)
    }

    fn is_above(&self, ppm: u32) -> bool {
        u128::from(self.dirty_bytes) * 1_000_000 > u128::from(self.bytes) * u128::from(ppm)
    }
}

impl Log {
    /// Where the part begins that was not cleaned yet.
    pub(super) fn first_dirty(&self) -> Offset {
        self.cleaner.point.first_dirty.max(self.log_start_offset)
    }

    /// Where the part ends that may be cleaned: closed segments below the recovery point, all of whose records are at least
    /// `min.compaction.lag.ms` old.
    pub(super) fn uncleanable_from(&self, now: Wall) -> Offset {
        let lag = i64::try_from(self.config.min_compaction_lag_ms).unwrap_or(i64::MAX);
        let mut end = self.log_start_offset;
        for segment in self.segments.values() {
            // What is not known to be old enough is not.
            let young = lag > 0
                && segment
                    .max_timestamp
                    .is_none_or(|newest| newest > now.0.saturating_sub(lag));
            // A load judges anew what lies above the recovery point, and expects no gaps there. It may
            // lag behind what is closed.
            let above = segment.next_offset > self.recovery_point.segment_base;
            if segment.tail.is_some() || young || above {
                break;
            }
            end = segment.next_offset;
        }
        end
    }

    /// [`Log::dirt`], for whoever looks again and again: reads what is not known of the age of
    /// segments.
    pub fn look_for_dirt(&mut self, cx: &mut Context<'_>) -> Option<Dirt> {
        let mut closed = self.segments.values().filter(|s| s.tail.is_none());
        let asks = self.config.compact && self.config.min_compaction_lag_ms > 0;
        if asks && self.is_running() && closed.any(|segment| segment.max_timestamp.is_none()) {
            self.read_times(cx);
        }
        self.dirt(cx.now.wall)
    }

    /// How dirty it is, if that is worth a cleaning now: the share of dirt is above
    /// `min.cleanable.dirty.ratio`, or a record is uncompacted for longer than
    /// `max.compaction.lag.ms`.
    #[must_use]
    pub fn dirt(&self, now: Wall) -> Option<Dirt> {
        let idle = self.is_running() && self.closing.is_none() && self.load.is_none();
        if !self.config.compact || !idle || self.cleaner.gave_up || self.is_cleaning() {
            return None;
        }
        let (first_dirty, limit) = (self.first_dirty(), self.uncleanable_from(now));
        let mut dirt = Dirt::default();
        let mut overdue = false;
        for segment in self.segments.values().filter(|s| s.next_offset <= limit) {
            dirt.bytes += segment.size;
            if segment.next_offset > first_dirty {
                dirt.dirty_bytes += segment.size;
                overdue |= self.config.max_compaction_lag_ms.is_some_and(|lag| {
                    let lag = i64::try_from(lag).unwrap_or(i64::MAX);
                    // A segment whose age is not known is as good as old.
                    segment
                        .first_timestamp
                        .is_none_or(|first| first < now.0.saturating_sub(lag))
                });
            }
        }
        let worth_it = dirt.is_above(self.config.min_cleanable_dirty_ppm) || overdue;
        (dirt.dirty_bytes > 0 && worth_it).then_some(dirt)
    }

    /// Puts neighbours together that fit into one segment: by the bytes of the log and of both indexes,
    /// and by offsets, as Kafka's `groupSegmentsBySize` does.
    pub(super) fn groups(&self, bases: &[Offset]) -> Vec<Vec<Offset>> {
        let max_index = self.config.segment_index_bytes;
        let mut groups: Vec<Vec<Offset>> = Vec::new();
        let (mut bytes, mut index, mut time_index) = (0, 0, 0);
        for base in bases {
            let Some(segment) = self.segments.get(base) else {
                continue;
            };
            let more = (
                segment.size,
                u64::from(segment.offset_entries) * offset_index::ENTRY_BYTES,
                // The last entry may be one that the copy adds.
                (u64::from(segment.time_entries) + 1) * time_index::ENTRY_BYTES,
            );
            let group = groups.last_mut().filter(|group| {
                let first = group.first().copied().unwrap_or_default();
                bytes + more.0 <= self.max_segment_bytes()
                    && index + more.1 <= max_index
                    && time_index + more.2 <= max_index
                    && segment.next_offset.0 - 1 - first.0 <= i64::from(i32::MAX)
            });
            match group {
                Some(group) => {
                    group.push(*base);
                    bytes += more.0;
                    index += more.1;
                    time_index += more.2;
                }
                None => {
                    groups.push([*base].into());
                    (bytes, index, time_index) = more;
                }
            }
        }
        groups
    }
}
