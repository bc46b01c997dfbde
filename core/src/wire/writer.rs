//! Writing a frame in parts: bytes in memory, and ranges of files that are never read here.

use alloc::vec::Vec;
use bytes::{BufMut, Bytes, BytesMut};

use crate::effect::{FileRange, Part, Response};

/// Bytes of at least this length go out as a part of their own instead of being copied.
const SHARE_BYTES: usize = 1024;

/// A frame under construction.
#[derive(Debug, Default)]
pub struct Writer {
    /// What came before the first part, kept apart because the length prefix is in it.
    first: Option<BytesMut>,
    parts: Vec<Part>,
    /// What is written since the last part.
    tail: BytesMut,
    /// How many bytes `first` and `parts` hold.
    flushed: usize,
}

impl Writer {
    /// An empty writer.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// How many bytes are written.
    #[must_use]
    pub fn len(&self) -> usize {
        self.flushed + self.tail.len()
    }

    /// Whether nothing is written.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A signed byte.
    pub fn put_i8(&mut self, value: i8) {
        self.tail.put_i8(value);
    }

    /// A big-endian 16-bit integer.
    pub fn put_i16(&mut self, value: i16) {
        self.tail.put_i16(value);
    }

    /// A big-endian 32-bit integer.
    pub fn put_i32(&mut self, value: i32) {
        self.tail.put_i32(value);
    }

    /// A big-endian 64-bit integer.
    pub fn put_i64(&mut self, value: i64) {
        self.tail.put_i64(value);
    }

    /// An unsigned varint of one to five bytes.
    pub fn put_unsigned_varint(&mut self, value: u32) {
        self.put_varint_bits(u64::from(value));
    }

    /// A zigzag varint of one to five bytes.
    pub fn put_varint(&mut self, value: i32) {
        self.put_unsigned_varint(((value << 1) ^ (value >> 31)) as u32);
    }

    /// A zigzag varint of one to ten bytes.
    pub fn put_varlong(&mut self, value: i64) {
        self.put_varint_bits(((value << 1) ^ (value >> 63)) as u64);
    }

    fn put_varint_bits(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.tail.put_u8(value as u8 | 0x80);
            value >>= 7;
        }
        self.tail.put_u8(value as u8);
    }

    /// Copies bytes.
    pub fn put_slice(&mut self, bytes: &[u8]) {
        self.tail.put_slice(bytes);
    }

    /// Adds bytes, shared instead of copied when they are many.
    pub fn put_bytes(&mut self, bytes: &Bytes) {
        if bytes.len() < SHARE_BYTES {
            self.put_slice(bytes);
        } else {
            self.put_part(Part::Bytes(bytes.clone()));
        }
    }

    /// Adds a range of a file.
    pub fn put_file(&mut self, range: FileRange) {
        self.put_part(Part::File(range));
    }

    fn put_part(&mut self, part: Part) {
        self.flush_tail();
        self.flushed += part.len();
        self.parts.push(part);
    }

    fn flush_tail(&mut self) {
        if self.tail.is_empty() && self.first.is_some() {
            return;
        }
        self.flushed += self.tail.len();
        let bytes = self.tail.split();
        if self.first.is_none() {
            self.first = Some(bytes);
        } else {
            self.parts.push(Part::Bytes(bytes.freeze()));
        }
    }

    /// Adds everything another writer holds.
    pub fn append(&mut self, other: Self) {
        for part in other.finish() {
            match part {
                Part::Bytes(bytes) => self.put_bytes(&bytes),
                Part::File(range) => self.put_file(range),
            }
        }
    }

    /// The parts, in order.
    #[must_use]
    pub fn finish(mut self) -> Vec<Part> {
        if self.first.is_none() {
            return if self.tail.is_empty() {
                Vec::new()
            } else {
                alloc::vec![Part::Bytes(self.tail.freeze())]
            };
        }
        self.flush_tail();
        if let Some(first) = self.first.filter(|first| !first.is_empty()) {
            self.parts.insert(0, Part::Bytes(first.freeze()));
        }
        self.parts
    }

    /// A writer of a frame: room for the length prefix, which [`finish_frame`](Self::finish_frame)
    /// fills in.
    #[must_use]
    pub fn frame() -> Self {
        let mut writer = Self::new();
        writer.tail.reserve(256);
        writer.put_i32(0);
        writer
    }

    /// The parts of a frame begun by [`frame`](Self::frame), with the length in front of it.
    #[must_use]
    pub fn finish_frame(mut self) -> Response {
        // A frame beyond 2 GiB cannot be: file ranges are bounded by the fetch limits, an i32.
        let length = i32::try_from(self.len() - 4).expect("a frame is shorter than 2 GiB");
        let head = self.first.as_mut().unwrap_or(&mut self.tail);
        let prefix = head
            .first_chunk_mut::<4>()
            .expect("a frame begins with room for its length");
        *prefix = length.to_be_bytes();
        Response {
            parts: self.finish(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{FileId, Position};
    use crate::wire::reader::Reader;

    #[test]
    fn the_length_prefix_counts_file_ranges() {
        let range = FileRange {
            file: FileId(7),
            position: Position(100),
            length: 4096,
        };
        let mut writer = Writer::frame();
        writer.put_i32(1);
        writer.put_file(range);
        writer.put_i8(2);
        let response = writer.finish_frame();
        assert_eq!(response.len(), 4 + 4 + 4096 + 1);
        assert_eq!(
            response.parts,
            [
                Part::Bytes(Bytes::from_static(&[0, 0, 0x10, 5, 0, 0, 0, 1])),
                Part::File(range),
                Part::Bytes(Bytes::from_static(&[2])),
            ]
        );
    }

    #[test]
    fn many_bytes_are_shared_and_few_are_copied() {
        let many = Bytes::from(alloc::vec![1; SHARE_BYTES]);
        let mut writer = Writer::new();
        writer.put_bytes(&Bytes::from_static(b"ab"));
        writer.put_bytes(&many);
        writer.put_bytes(&many);
        let parts = writer.finish();
        assert_eq!(parts.len(), 3);
        let Part::Bytes(shared) = &parts[2] else {
            panic!("a part in memory");
        };
        assert_eq!(shared.as_ptr(), many.as_ptr());
    }

    #[test]
    fn varints_read_back() {
        for value in [0, 1, -1, 63, 64, -65, 8191, i32::MAX, i32::MIN] {
            let mut writer = Writer::new();
            writer.put_varint(value);
            writer.put_unsigned_varint(value as u32);
            writer.put_varlong(i64::from(value) << 31);
            let [Part::Bytes(bytes)] = &writer.finish()[..] else {
                panic!("one part");
            };
            let mut reader = Reader::new(bytes.clone());
            assert_eq!(reader.varint(), Ok(value));
            assert_eq!(reader.unsigned_varint(), Ok(value as u32));
            assert_eq!(reader.varlong(), Ok(i64::from(value) << 31));
            assert_eq!(reader.finish(), Ok(()));
        }
    }
}
