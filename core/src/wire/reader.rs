//! Reading a frame: every read checks what is there, and takes slices instead of copies.

use bytes::{Buf, Bytes};
use core::fmt;

/// The unread rest of a frame.
#[derive(Clone, Debug)]
pub struct Reader {
    bytes: Bytes,
}

/// Why bytes are not what they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeError {
    /// The innermost field of the table being read, empty outside of one.
    pub field: &'static str,
    /// What is wrong.
    pub reason: Malformation,
}

/// What can be wrong with bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformation {
    /// Fewer bytes than the value takes.
    UnexpectedEnd {
        /// How many it takes.
        needed: usize,
        /// How many there are.
        remaining: usize,
    },
    /// An array claims more elements than the bytes left could hold.
    TooManyElements {
        /// How many it claims.
        count: usize,
        /// How many bytes are left.
        remaining: usize,
    },
    /// Null where the version has no null.
    Null,
    /// A string is not UTF-8.
    NotUtf8,
    /// A string is longer than the 32,767 bytes that Kafka allows.
    StringTooLong(usize),
    /// A varint that does not end, or does not fit its type.
    Varint,
    /// The marker in front of a nullable struct is neither 1 nor -1.
    Marker(i8),
    /// Bytes after the end of the value.
    TrailingBytes(usize),
    /// A version that the message does not have.
    Version(i16),
}

impl Reader {
    /// Reads `bytes` from the start.
    #[must_use]
    pub const fn new(bytes: Bytes) -> Self {
        Self { bytes }
    }

    /// How many bytes are left.
    #[must_use]
    pub const fn remaining(&self) -> usize {
        self.bytes.len()
    }

    /// Takes the next `count` bytes as a slice.
    pub fn take(&mut self, count: usize) -> Result<Bytes, DecodeError> {
        if count > self.bytes.len() {
            return Err(self.unexpected_end(count));
        }
        Ok(self.bytes.split_to(count))
    }

    /// Takes everything that is left.
    pub fn take_rest(&mut self) -> Bytes {
        core::mem::take(&mut self.bytes)
    }

    /// Fails if anything is left.
    pub const fn finish(&self) -> Result<(), DecodeError> {
        match self.bytes.len() {
            0 => Ok(()),
            rest => Err(DecodeError::new(Malformation::TrailingBytes(rest))),
        }
    }

    /// The next `N` bytes.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let Some(chunk) = self.bytes.first_chunk::<N>() else {
            return Err(self.unexpected_end(N));
        };
        let chunk = *chunk;
        self.bytes.advance(N);
        Ok(chunk)
    }

    /// A big-endian signed byte.
    pub fn i8(&mut self) -> Result<i8, DecodeError> {
        self.array().map(i8::from_be_bytes)
    }

    /// A big-endian 16-bit integer.
    pub fn i16(&mut self) -> Result<i16, DecodeError> {
        self.array().map(i16::from_be_bytes)
    }

    /// A big-endian 32-bit integer.
    pub fn i32(&mut self) -> Result<i32, DecodeError> {
        self.array().map(i32::from_be_bytes)
    }

    /// A big-endian 64-bit integer.
    pub fn i64(&mut self) -> Result<i64, DecodeError> {
        self.array().map(i64::from_be_bytes)
    }

    /// An unsigned varint of at most five bytes, as Kafka writes compact lengths and tags.
    pub fn unsigned_varint(&mut self) -> Result<u32, DecodeError> {
        let value = self.varint_bits(5)?;
        u32::try_from(value).map_err(|_| DecodeError::new(Malformation::Varint))
    }

    /// A zigzag varint of at most five bytes.
    pub fn varint(&mut self) -> Result<i32, DecodeError> {
        let value = self.unsigned_varint()?;
        Ok((value >> 1) as i32 ^ -((value & 1) as i32))
    }

    /// A zigzag varint of at most ten bytes.
    pub fn varlong(&mut self) -> Result<i64, DecodeError> {
        let value = self.varint_bits(10)?;
        let value = u64::try_from(value).map_err(|_| DecodeError::new(Malformation::Varint))?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    fn varint_bits(&mut self, max_bytes: u32) -> Result<u128, DecodeError> {
        let mut value = 0;
        for i in 0..max_bytes {
            let [byte] = self.array()?;
            value |= u128::from(byte & 0x7f) << (7 * i);
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(DecodeError::new(Malformation::Varint))
    }

    const fn unexpected_end(&self, needed: usize) -> DecodeError {
        DecodeError::new(Malformation::UnexpectedEnd {
            needed,
            remaining: self.bytes.len(),
        })
    }
}

impl DecodeError {
    /// An error outside of any table.
    #[must_use]
    pub const fn new(reason: Malformation) -> Self {
        Self { field: "", reason }
    }

    /// The same error, with the field it happened in unless a deeper one is named already.
    #[must_use]
    pub const fn in_field(self, field: &'static str) -> Self {
        if self.field.is_empty() {
            Self {
                field,
                reason: self.reason,
            }
        } else {
            self
        }
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.field.is_empty() {
            write!(f, "{}: ", self.field)?;
        }
        match self.reason {
            Malformation::UnexpectedEnd { needed, remaining } => {
                write!(f, "{needed} bytes needed, {remaining} left")
            }
            Malformation::TooManyElements { count, remaining } => {
                write!(f, "{count} elements claimed, {remaining} bytes left")
            }
            Malformation::Null => f.write_str("null where null is not allowed"),
            Malformation::NotUtf8 => f.write_str("a string is not UTF-8"),
            Malformation::StringTooLong(length) => write!(f, "a string of {length} bytes"),
            Malformation::Varint => f.write_str("a varint is too long"),
            Malformation::Marker(marker) => write!(f, "{marker} in front of a nullable struct"),
            Malformation::TrailingBytes(count) => write!(f, "{count} bytes after the end"),
            Malformation::Version(version) => write!(f, "there is no version {version}"),
        }
    }
}

impl core::error::Error for DecodeError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn reader(bytes: &'static [u8]) -> Reader {
        Reader::new(Bytes::from_static(bytes))
    }

    #[test]
    fn a_varint_ends_within_its_type() {
        assert_eq!(reader(&[0x00]).unsigned_varint(), Ok(0));
        assert_eq!(reader(&[0xac, 0x02]).unsigned_varint(), Ok(300));
        assert_eq!(
            reader(&[0xff, 0xff, 0xff, 0xff, 0x0f]).unsigned_varint(),
            Ok(u32::MAX)
        );
        let too_big = DecodeError::new(Malformation::Varint);
        assert_eq!(
            reader(&[0xff, 0xff, 0xff, 0xff, 0x10]).unsigned_varint(),
            Err(too_big)
        );
        assert_eq!(reader(&[0x80; 6]).unsigned_varint(), Err(too_big));
        assert!(matches!(
            reader(&[0x80]).unsigned_varint().unwrap_err().reason,
            Malformation::UnexpectedEnd { .. }
        ));
    }

    #[test]
    fn zigzag_gives_small_numbers_small_bytes() {
        assert_eq!(reader(&[0x01]).varint(), Ok(-1));
        assert_eq!(reader(&[0x02]).varint(), Ok(1));
        assert_eq!(
            reader(&[0xff, 0xff, 0xff, 0xff, 0x0f]).varint(),
            Ok(i32::MIN)
        );
        assert_eq!(
            reader(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01]).varlong(),
            Ok(i64::MIN)
        );
        assert_eq!(
            reader(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02]).varlong(),
            Err(DecodeError::new(Malformation::Varint))
        );
    }

    #[test]
    fn a_read_past_the_end_takes_nothing() {
        let mut r = reader(&[1, 2, 3]);
        assert_eq!(
            r.i32(),
            Err(DecodeError::new(Malformation::UnexpectedEnd {
                needed: 4,
                remaining: 3
            }))
        );
        assert_eq!(r.i16(), Ok(0x0102));
        assert_eq!(
            r.finish(),
            Err(DecodeError::new(Malformation::TrailingBytes(1)))
        );
    }
}
