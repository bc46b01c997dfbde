//! Memory for large frames, used again and again: a fresh megabyte costs 256 page faults.

use std::sync::{Arc, Mutex, PoisonError};

/// Buffers below this size are cheaper to allocate than to keep.
pub(crate) const SMALLEST_BYTES: usize = 16 << 10;
/// Buffers beyond this size are not kept.
pub(crate) const LARGEST_BYTES: usize = 4 << 20;
const CLASSES: usize = (LARGEST_BYTES / SMALLEST_BYTES).ilog2() as usize + 1;

/// Keeps buffers by size class (powers of two), up to a number of bytes in total.
#[derive(Debug)]
pub(crate) struct BufferPool {
    max_bytes: usize,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    bytes: usize,
    classes: [Vec<Vec<u8>>; CLASSES],
}

impl BufferPool {
    /// A pool that keeps at most so many bytes.
    pub(crate) fn new(max_bytes: usize) -> Arc<Self> {
        Arc::new(Self {
            max_bytes,
            kept: Mutex::default(),
        })
    }

    /// An empty buffer of at least this capacity, if one is kept.
    pub(crate) fn reuse(&self, capacity: usize) -> Option<Vec<u8>> {
        let class = class_holding(capacity)?;
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let buffer = kept.classes.get_mut(class)?.pop()?;
        kept.bytes -= buffer.capacity();
        Some(buffer)
    }

    /// An empty buffer of at least this capacity.
    pub(crate) fn take(&self, capacity: usize) -> Vec<u8> {
        self.reuse(capacity).unwrap_or_else(|| {
            let capacity =
                class_holding(capacity).map_or(capacity, |class| SMALLEST_BYTES << class);
            Vec::with_capacity(capacity)
        })
    }

    /// Gives a buffer back.
    pub(crate) fn put(&self, mut buffer: Vec<u8>) {
        buffer.clear();
        let Some(class) = class_filled_by(buffer.capacity()) else {
            return;
        };
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.bytes + buffer.capacity() <= self.max_bytes
            && let Some(buffers) = kept.classes.get_mut(class)
        {
            let capacity = buffer.capacity();
            buffers.push(buffer);
            kept.bytes += capacity;
        }
    }
}

/// The smallest class whose buffers hold `capacity`.
fn class_holding(capacity: usize) -> Option<usize> {
    let size = capacity.max(SMALLEST_BYTES).checked_next_power_of_two()?;
    (size <= LARGEST_BYTES).then(|| (size / SMALLEST_BYTES).ilog2() as usize)
}

/// The largest class that a buffer of `capacity` can serve.
fn class_filled_by(capacity: usize) -> Option<usize> {
    (SMALLEST_BYTES..2 * LARGEST_BYTES)
        .contains(&capacity)
        .then(|| (capacity / SMALLEST_BYTES).ilog2() as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_keeps_no_more_than_it_may() {
        let pool = BufferPool::new(64 << 10);
        let buffers: Vec<_> = (0..8).map(|_| pool.take(SMALLEST_BYTES)).collect();
        buffers.into_iter().for_each(|buffer| pool.put(buffer));
        assert_eq!(
            (0..8)
                .filter_map(|_| pool.reuse(SMALLEST_BYTES))
                .collect::<Vec<_>>()
                .len(),
            4
        );
        pool.put(Vec::with_capacity(100 << 20));
        pool.put(Vec::with_capacity(10));
        assert_eq!(pool.kept.lock().unwrap().bytes, 0);
    }

    #[test]
    fn every_size_is_served_by_a_buffer_that_holds_it() {
        let pool = BufferPool::new(usize::MAX);
        for capacity in [1, 16 << 10, (16 << 10) + 1, 1 << 20, 4 << 20, (4 << 20) + 1] {
            let buffer = pool.take(capacity);
            assert!(buffer.capacity() >= capacity);
            pool.put(buffer);
            if let Some(again) = pool.reuse(capacity) {
                assert!(again.capacity() >= capacity);
            }
        }
    }
}
