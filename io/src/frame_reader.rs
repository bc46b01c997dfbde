//! From what a socket delivers to whole frames.
//!
//! A frame that is small, or much smaller than the buffer it was read into, is copied out, so that
//! it keeps nothing else in memory while it waits. A large one is read into a buffer of its own and never copied, as long
//! as frames come in about the same size: the buffer is chosen by the size of the one before.
//! Memory grows with the bytes that arrive, never with the length that was declared, and a
//! connection from which nothing comes holds no buffer.

use std::sync::Arc;

use bytes::{BufMut, Bytes};

use crate::buffer_pool::{BufferPool, LARGEST_BYTES, SMALLEST_BYTES};
use crate::hand_over::budget::Budget;

/// Frames up to this size, their length included, are copied out.
const SMALL_BYTES: usize = SMALLEST_BYTES;
/// How far the buffer of a large frame grows beyond what has arrived.
const MIN_GROWTH_BYTES: usize = 64 << 10;
const MAX_GROWTH_BYTES: usize = 1 << 20;
const LENGTH_BYTES: usize = 4;

/// Cuts one connection's bytes into frames.
#[derive(Debug)]
pub(crate) struct FrameReader {
    pool: Arc<BufferPool>,
    max_frame_bytes: usize,
    buffer: Vec<u8>,
    /// Where in the buffer the next frame starts.
    start: usize,
    /// Size of the last frame, its length included.
    last: usize,
    budget: Arc<Budget>,
}

/// A frame in memory. Its bytes count in the budget until the last slice of them is gone, and then
/// the buffer goes back to its pool.
struct Frame {
    buffer: Vec<u8>,
    charged: usize,
    budget: Arc<Budget>,
    pool: Arc<BufferPool>,
}

impl AsRef<[u8]> for Frame {
    fn as_ref(&self) -> &[u8] {
        &self.buffer
    }
}

impl Drop for Frame {
    fn drop(&mut self) {
        self.pool.put(std::mem::take(&mut self.buffer));
        self.budget.release(self.charged);
    }
}

/// The frame's length makes no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BadLength {
    /// As it was declared.
    pub(crate) declared: i32,
    /// `socket.request.max.bytes`.
    pub(crate) max: usize,
}

impl std::fmt::Display for BadLength {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "a frame of {} bytes was announced, allowed are 0 to {} (socket.request.max.bytes)",
            self.declared, self.max
        )
    }
}

impl FrameReader {
    /// Accepts frames of up to `max_frame_bytes`, without their length.
    pub(crate) fn new(pool: Arc<BufferPool>, budget: Arc<Budget>, max_frame_bytes: usize) -> Self {
        Self {
            budget,
            pool,
            max_frame_bytes,
            buffer: Vec::new(),
            start: 0,
            last: 0,
        }
    }

    /// How many bytes are held that belong to no complete frame yet (after
    /// [`Self::next_frame`] returned `None`).
    pub(crate) fn half_read(&self) -> usize {
        self.buffer.len() - self.start
    }

    /// Where to read to. Never empty. Call [`Self::settle`] afterwards.
    pub(crate) fn room(&mut self) -> impl BufMut + '_ {
        let held = self.half_read();
        let limit = match self.declared() {
            // What belongs to the next frame is left in the socket, so that it need not be moved.
            Some(total) if total > SMALL_BYTES => {
                if self.start > 0 || self.buffer.capacity() < total {
                    self.make_room(total, held);
                }
                total.min(self.buffer.capacity()) - held
            }
            _ if held == 0 => {
                let expected = self.last.clamp(SMALL_BYTES, LARGEST_BYTES);
                self.move_to(self.pool.take(expected));
                expected
            }
            _ => {
                if self.buffer.capacity() - self.buffer.len() < SMALL_BYTES / 2 {
                    self.buffer.drain(..self.start);
                    self.start = 0;
                }
                if self.buffer.capacity() < SMALL_BYTES {
                    self.buffer.reserve_exact(SMALL_BYTES - held);
                }
                self.buffer.capacity() - self.buffer.len()
            }
        };
        debug_assert!(limit > 0, "a read without room would look like the end");
        (&mut self.buffer).limit(limit)
    }

    /// So many bytes have been read into the room.
    pub(crate) fn arrived(&self, bytes: usize) {
        self.budget.charge(bytes);
    }

    /// Nothing may have come: an empty buffer goes back.
    pub(crate) fn settle(&mut self) {
        if self.half_read() == 0 {
            self.start = 0;
            self.pool.put(std::mem::take(&mut self.buffer));
        }
    }

    /// The next frame without its length, if it is all there.
    pub(crate) fn next_frame(&mut self) -> Result<Option<Bytes>, BadLength> {
        let Some(declared) = self.declared_raw() else {
            return Ok(None);
        };
        let length = usize::try_from(declared)
            .ok()
            .filter(|length| *length <= self.max_frame_bytes)
            .ok_or(BadLength {
                declared,
                max: self.max_frame_bytes,
            })?;
        let total = LENGTH_BYTES + length;
        let end = self.start + total;
        let Some(frame) = self.buffer.get(self.start + LENGTH_BYTES..end) else {
            return Ok(None);
        };
        self.last = total;
        if total <= SMALL_BYTES || total < self.buffer.capacity() / 4 {
            let frame = self.share(frame.to_vec(), total);
            self.start = end;
            self.settle();
            return Ok(Some(frame));
        }
        // The frame keeps the buffer; what has come of the next one moves on.
        let rest = self.buffer.get(end..).unwrap_or_default();
        let mut next = Vec::new();
        if !rest.is_empty() {
            next = self.pool.take(rest.len());
            next.extend_from_slice(rest);
        }
        let from = self.start + LENGTH_BYTES;
        let buffer = std::mem::replace(&mut self.buffer, next);
        self.start = 0;
        Ok(Some(self.share(buffer, total).slice(from..end)))
    }

    fn share(&self, buffer: Vec<u8>, charged: usize) -> Bytes {
        Bytes::from_owner(Frame {
            buffer,
            charged,
            budget: self.budget.clone(),
            pool: self.pool.clone(),
        })
    }

    /// Size of the frame at the front, its length included, if that is known and allowed.
    fn declared(&self) -> Option<usize> {
        let length = usize::try_from(self.declared_raw()?).ok()?;
        (length <= self.max_frame_bytes).then_some(LENGTH_BYTES + length)
    }

    fn declared_raw(&self) -> Option<i32> {
        let bytes = self.buffer.get(self.start..)?.first_chunk()?;
        Some(i32::from_be_bytes(*bytes))
    }

    /// Makes room for more of a large frame of which `held` bytes are there.
    fn make_room(&mut self, total: usize, held: usize) {
        if let Some(buffer) = self.pool.reuse(total) {
            self.move_to(buffer);
            return;
        }
        let growth = held.clamp(MIN_GROWTH_BYTES, MAX_GROWTH_BYTES);
        let capacity = total.min(held + growth);
        if self.start > 0 || self.buffer.capacity() == 0 {
            self.move_to(self.pool.take(capacity));
        } else if self.buffer.capacity() - held < MIN_GROWTH_BYTES.min(total - held) {
            // The allocator moves large blocks by their page tables, without copying.
            self.buffer.reserve_exact(capacity - held);
        }
    }

    /// Takes what is held over to another buffer.
    fn move_to(&mut self, mut buffer: Vec<u8>) {
        buffer.extend_from_slice(self.buffer.get(self.start..).unwrap_or_default());
        self.start = 0;
        self.pool.put(std::mem::replace(&mut self.buffer, buffer));
    }
}

impl Drop for FrameReader {
    /// Half a frame that will never be whole.
    fn drop(&mut self) {
        self.budget.release(self.half_read());
        self.pool.put(std::mem::take(&mut self.buffer));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(length: usize, fill: u8) -> Vec<u8> {
        let mut bytes = u32::try_from(length).unwrap().to_be_bytes().to_vec();
        bytes.resize(LENGTH_BYTES + length, fill);
        bytes
    }

    /// Feeds `bytes` in reads of at most `step` bytes; returns the frames, and the largest buffer.
    fn feed(reader: &mut FrameReader, mut bytes: &[u8], step: usize) -> (Vec<Bytes>, usize) {
        let mut frames = Vec::new();
        let mut largest = 0;
        while !bytes.is_empty() {
            let mut room = reader.room();
            let n = step.min(room.remaining_mut()).min(bytes.len());
            let (now, later) = bytes.split_at(n);
            room.put_slice(now);
            drop(room);
            reader.arrived(n);
            bytes = later;
            largest = largest.max(reader.buffer.capacity());
            while let Some(frame) = reader.next_frame().unwrap() {
                frames.push(frame);
            }
            reader.settle();
        }
        (frames, largest)
    }

    fn reader() -> FrameReader {
        let budget = Arc::new(Budget::new(1000));
        FrameReader::new(BufferPool::new(8 << 20), budget, 100 << 20)
    }

    #[test]
    fn frames_of_every_size_arrive_whole_whatever_the_reads() {
        let sizes = [
            0, 1, 100, 16_379, 16_380, 16_381, 40_000, 3, 300_000, 65_536, 12, 5_000_000, 17_000,
        ];
        let mut stream = Vec::new();
        for (n, size) in sizes.iter().enumerate() {
            stream.extend(frame(*size, u8::try_from(n).unwrap()));
        }
        for step in [1, 7, 1000, 20_000, usize::MAX] {
            if step == 1 {
                stream.truncate(500_000);
            }
            let (frames, _) = feed(&mut reader(), &stream, step);
            let mut at = 0;
            for (n, got) in frames.iter().enumerate() {
                assert_eq!(got.len(), sizes[n], "frame {n} in reads of {step}");
                let n = u8::try_from(n).unwrap();
                assert!(got.iter().all(|byte| *byte == n));
                at += LENGTH_BYTES + got.len();
            }
            let left = stream.len() - at;
            assert!(left == 0 || step == 1);
            stream.clear();
            for (n, size) in sizes.iter().enumerate() {
                stream.extend(frame(*size, u8::try_from(n).unwrap()));
            }
        }
    }

    #[test]
    fn a_length_that_is_only_announced_takes_no_memory() {
        let mut reader = reader();
        let bytes = (100u32 << 20).to_be_bytes();
        let (frames, largest) = feed(&mut reader, &bytes, usize::MAX);
        assert!(frames.is_empty());
        assert!(largest <= 16 << 10);
        let (_, largest) = feed(&mut reader, &[0; 10], usize::MAX);
        assert!(largest <= 128 << 10, "{largest}");
        let (_, largest) = feed(&mut reader, &[0; 1 << 20], usize::MAX);
        assert!(largest <= 4 << 20, "{largest}");
    }

    #[test]
    fn lengths_that_make_no_sense_are_refused() {
        for (bytes, declared) in [([0xff; 4], -1), ([0x7f, 0xff, 0xff, 0xff], i32::MAX)] {
            let mut reader = reader();
            reader.room().put_slice(&bytes);
            reader.arrived(4);
            let error = reader.next_frame().unwrap_err();
            assert_eq!(error.declared, declared);
        }
    }

    #[test]
    fn nothing_is_held_between_frames_and_a_small_frame_holds_only_itself() {
        let mut reader = reader();
        let large = frame(1 << 20, 1);
        let (frames, _) = feed(&mut reader, &large, usize::MAX);
        assert_eq!(frames.len(), 1);
        assert_eq!(reader.buffer.capacity(), 0);
        // The next one is expected to be as large, and is not.
        let (small, _) = feed(&mut reader, &frame(20_000, 2), usize::MAX);
        assert_eq!(small.first().map(Bytes::len), Some(20_000));
        let buffer = reader.pool.reuse((1 << 20) + 4);
        assert!(buffer.is_some(), "the buffer is free");
    }

    #[test]
    fn bytes_count_until_the_last_slice_of_their_frame_is_gone() {
        let mut reader = reader();
        let (mut frames, _) = feed(&mut reader, &[frame(996, 1), vec![0; 3]].concat(), 100);
        let slice = frames.pop().unwrap().slice(5..6);
        assert_eq!(reader.budget.used(), 1003);
        drop(slice);
        assert_eq!(reader.budget.used(), 3);
        let budget = reader.budget.clone();
        drop(reader);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn frames_of_one_size_are_read_into_place() {
        let mut reader = reader();
        let stream: Vec<u8> = (0..4).flat_map(|n| frame(100_000, n)).collect();
        let (frames, _) = feed(&mut reader, &stream, usize::MAX);
        assert_eq!(frames.len(), 4);
        let before = frames.last().unwrap().as_ptr();
        drop(frames);
        let mut room = reader.room();
        assert_eq!(room.remaining_mut(), 100_004);
        room.put_slice(&frame(100_000, 9));
        drop(room);
        reader.arrived(100_004);
        let again = reader.next_frame().unwrap().unwrap();
        assert_eq!(again.len(), 100_000);
        assert_eq!(again.as_ptr(), before, "same memory, never moved");
    }
}
