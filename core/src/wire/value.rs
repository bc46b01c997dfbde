//! How the types of a table's fields are written.

use alloc::vec::Vec;
use bytes::Bytes;

use super::error_code::ErrorCode;
use super::reader::{DecodeError, Malformation, Reader};
use super::records::Records;
use super::text::Str;
use super::writer::Writer;
use crate::ids::TopicId;

/// What the form of a value depends on.
#[derive(Clone, Copy, Debug)]
pub struct Format {
    /// The version of the message.
    pub version: i16,
    /// Whether lengths are compact and structs end with tagged fields (KIP-482).
    pub flexible: bool,
    /// Whether the value itself may be null; says nothing about what is inside it.
    pub nullable: bool,
    /// Whether the value is a tagged field: a struct that is null has another marker there.
    pub tagged: bool,
}

impl Format {
    const fn inner(self) -> Self {
        Self {
            nullable: false,
            ..self
        }
    }
}

/// A value that a field can hold.
pub trait Value: Sized {
    /// What the field holds unless the table says otherwise: Kafka's zero, empty and false. A
    /// nullable field begins empty, not null.
    fn initial() -> Self;

    /// The fewest bytes any value takes. Never 0, so that it bounds an array's elements.
    fn min_bytes(format: Format) -> usize;

    /// Reads a value.
    fn read(reader: &mut Reader, format: Format) -> Result<Self, DecodeError>;

    /// Writes the value.
    fn write(&self, writer: &mut Writer, format: Format);

    /// Shows every error code in it, in the order of the fields.
    fn error_codes(&self, _: &mut dyn FnMut(ErrorCode)) {}
}

/// A value that has a form for null.
pub trait Nullable: Value {
    /// Reads a value or null.
    fn read_nullable(reader: &mut Reader, format: Format) -> Result<Option<Self>, DecodeError>;

    /// Writes null.
    fn write_null(writer: &mut Writer, format: Format);

    /// Writes a value where null could be. Differs for structs, which have a marker.
    fn write_present(&self, writer: &mut Writer, format: Format) {
        self.write(writer, format);
    }
}

impl<T: Nullable> Value for Option<T> {
    fn initial() -> Self {
        Some(T::initial())
    }

    fn min_bytes(format: Format) -> usize {
        if format.nullable {
            1
        } else {
            T::min_bytes(format)
        }
    }

    fn read(reader: &mut Reader, format: Format) -> Result<Self, DecodeError> {
        if format.nullable {
            T::read_nullable(reader, format.inner())
        } else {
            T::read(reader, format).map(Some)
        }
    }

    /// Null in a version that has none is written as the empty value.
    fn write(&self, writer: &mut Writer, format: Format) {
        match self {
            Some(value) if format.nullable => value.write_present(writer, format.inner()),
            Some(value) => value.write(writer, format),
            None if format.nullable => T::write_null(writer, format.inner()),
            None => T::initial().write(writer, format),
        }
    }

    fn error_codes(&self, see: &mut dyn FnMut(ErrorCode)) {
        if let Some(value) = self {
            value.error_codes(see);
        }
    }
}

macro_rules! integer {
    ($($int:ty, $read:ident, $put:ident;)*) => {$(
        impl Value for $int {
            fn initial() -> Self {
                0
            }

            fn min_bytes(_: Format) -> usize {
                size_of::<Self>()
            }

            fn read(reader: &mut Reader, _: Format) -> Result<Self, DecodeError> {
                reader.$read()
            }

            fn write(&self, writer: &mut Writer, _: Format) {
                writer.$put(*self);
            }
        }
    )*};
}
integer! {
    i8, i8, put_i8;
    i16, i16, put_i16;
    i32, i32, put_i32;
    i64, i64, put_i64;
}

macro_rules! by_bytes {
    ($($ty:ty, $bytes:literal, $initial:expr, $from:expr, $to:expr;)*) => {$(
        impl Value for $ty {
            fn initial() -> Self {
                $initial
            }

            fn min_bytes(_: Format) -> usize {
                $bytes
            }

            fn read(reader: &mut Reader, _: Format) -> Result<Self, DecodeError> {
                reader.array::<$bytes>().map($from)
            }

            fn write(&self, writer: &mut Writer, _: Format) {
                writer.put_slice(&$to(*self));
            }
        }
    )*};
}
by_bytes! {
    u16, 2, 0, u16::from_be_bytes, u16::to_be_bytes;
    u32, 4, 0, u32::from_be_bytes, u32::to_be_bytes;
    f64, 8, 0.0, f64::from_be_bytes, f64::to_be_bytes;
    bool, 1, false, |[byte]: [u8; 1]| byte != 0, |value| [u8::from(value)];
    TopicId, 16, TopicId::ZERO, TopicId, |TopicId(bytes)| bytes;
}

impl Value for ErrorCode {
    fn initial() -> Self {
        Self::NONE
    }

    fn min_bytes(_: Format) -> usize {
        2
    }

    fn read(reader: &mut Reader, _: Format) -> Result<Self, DecodeError> {
        reader.i16().map(Self)
    }

    fn write(&self, writer: &mut Writer, _: Format) {
        writer.put_i16(self.0);
    }

    fn error_codes(&self, see: &mut dyn FnMut(ErrorCode)) {
        see(*self);
    }
}

impl Value for Str {
    fn initial() -> Self {
        Self::new()
    }

    fn min_bytes(format: Format) -> usize {
        if format.flexible { 1 } else { 2 }
    }

    fn read(reader: &mut Reader, format: Format) -> Result<Self, DecodeError> {
        Self::read_nullable(reader, format)?.ok_or(DecodeError::new(Malformation::Null))
    }

    /// A string above Kafka's limit, which none that came in by a request can be, is cut.
    fn write(&self, writer: &mut Writer, format: Format) {
        let text = self.as_str();
        let text = text
            .get(..text.floor_char_boundary(Self::MAX_BYTES))
            .unwrap_or_default();
        if format.flexible {
            writer.put_unsigned_varint(text.len() as u32 + 1);
        } else {
            writer.put_i16(text.len() as i16);
        }
        writer.put_slice(text.as_bytes());
    }
}

impl Nullable for Str {
    fn read_nullable(reader: &mut Reader, format: Format) -> Result<Option<Self>, DecodeError> {
        let length = if format.flexible {
            compact_length(reader)?
        } else {
            usize::try_from(reader.i16()?).ok()
        };
        let Some(length) = length else {
            return Ok(None);
        };
        if length > Self::MAX_BYTES {
            return Err(DecodeError::new(Malformation::StringTooLong(length)));
        }
        Self::from_utf8(reader.take(length)?)
            .map(Some)
            .ok_or(DecodeError::new(Malformation::NotUtf8))
    }

    fn write_null(writer: &mut Writer, format: Format) {
        if format.flexible {
            writer.put_unsigned_varint(0);
        } else {
            writer.put_i16(-1);
        }
    }
}

impl Value for Bytes {
    fn initial() -> Self {
        Self::new()
    }

    fn min_bytes(format: Format) -> usize {
        length_bytes(format)
    }

    fn read(reader: &mut Reader, format: Format) -> Result<Self, DecodeError> {
        Self::read_nullable(reader, format)?.ok_or(DecodeError::new(Malformation::Null))
    }

    fn write(&self, writer: &mut Writer, format: Format) {
        put_length(writer, format, self.len());
        writer.put_bytes(self);
    }
}

impl Nullable for Bytes {
    fn read_nullable(reader: &mut Reader, format: Format) -> Result<Option<Self>, DecodeError> {
        match read_length(reader, format)? {
            Some(length) => reader.take(length).map(Some),
            None => Ok(None),
        }
    }

    fn write_null(writer: &mut Writer, format: Format) {
        put_null_length(writer, format);
    }
}

impl Value for Records {
    fn initial() -> Self {
        Self::default()
    }

    fn min_bytes(format: Format) -> usize {
        length_bytes(format)
    }

    fn read(reader: &mut Reader, format: Format) -> Result<Self, DecodeError> {
        Bytes::read(reader, format).map(Self::Bytes)
    }

    fn write(&self, writer: &mut Writer, format: Format) {
        put_length(writer, format, self.len());
        match self {
            Self::Bytes(bytes) => writer.put_bytes(bytes),
            Self::File(range) if range.length == 0 => {}
            Self::File(range) => writer.put_file(*range),
        }
    }
}

impl Nullable for Records {
    fn read_nullable(reader: &mut Reader, format: Format) -> Result<Option<Self>, DecodeError> {
        Ok(Bytes::read_nullable(reader, format)?.map(Self::Bytes))
    }

    fn write_null(writer: &mut Writer, format: Format) {
        put_null_length(writer, format);
    }
}

impl<T: Value> Value for Vec<T> {
    fn initial() -> Self {
        Self::new()
    }

    fn min_bytes(format: Format) -> usize {
        length_bytes(format)
    }

    fn read(reader: &mut Reader, format: Format) -> Result<Self, DecodeError> {
        Self::read_nullable(reader, format)?.ok_or(DecodeError::new(Malformation::Null))
    }

    fn write(&self, writer: &mut Writer, format: Format) {
        put_length(writer, format, self.len());
        for element in self {
            element.write(writer, format);
        }
    }

    fn error_codes(&self, see: &mut dyn FnMut(ErrorCode)) {
        for element in self {
            element.error_codes(see);
        }
    }
}

impl<T: Value> Nullable for Vec<T> {
    fn read_nullable(reader: &mut Reader, format: Format) -> Result<Option<Self>, DecodeError> {
        let Some(count) = read_length(reader, format)? else {
            return Ok(None);
        };
        // The elements must fit into what is there before memory is reserved for them.
        let remaining = reader.remaining();
        if count > remaining / T::min_bytes(format).max(1) {
            return Err(DecodeError::new(Malformation::TooManyElements {
                count,
                remaining,
            }));
        }
        let mut elements = Self::with_capacity(count);
        for _ in 0..count {
            elements.push(T::read(reader, format)?);
        }
        Ok(Some(elements))
    }

    fn write_null(writer: &mut Writer, format: Format) {
        put_null_length(writer, format);
    }
}

/// A length or count; any negative one is null, as in Kafka's own decoder.
fn read_length(reader: &mut Reader, format: Format) -> Result<Option<usize>, DecodeError> {
    if format.flexible {
        compact_length(reader)
    } else {
        Ok(usize::try_from(reader.i32()?).ok())
    }
}

/// A compact length: one more than the length, 0 for null.
fn compact_length(reader: &mut Reader) -> Result<Option<usize>, DecodeError> {
    Ok((reader.unsigned_varint()? as usize).checked_sub(1))
}

/// Lengths stay below 2 GiB because a frame does.
fn put_length(writer: &mut Writer, format: Format, length: usize) {
    if format.flexible {
        writer.put_unsigned_varint(length as u32 + 1);
    } else {
        writer.put_i32(length as i32);
    }
}

fn put_null_length(writer: &mut Writer, format: Format) {
    if format.flexible {
        writer.put_unsigned_varint(0);
    } else {
        writer.put_i32(-1);
    }
}

const fn length_bytes(format: Format) -> usize {
    if format.flexible { 1 } else { 4 }
}

/// The byte in front of a nullable struct: whether it is there.
pub fn read_marker(reader: &mut Reader, format: Format) -> Result<bool, DecodeError> {
    match reader.i8()? {
        1 => Ok(true),
        other if other == absent(format) => Ok(false),
        other => Err(DecodeError::new(Malformation::Marker(other))),
    }
}

/// Writes the byte of a struct that is null.
pub fn put_absent(writer: &mut Writer, format: Format) {
    writer.put_i8(absent(format));
}

/// Kafka marks null by a negative byte in the body of a message, by a varint of 0 in a tagged field.
const fn absent(format: Format) -> i8 {
    if format.tagged { 0 } else { -1 }
}
