//! Tagged fields: the optional tail of every struct in a flexible version (KIP-482).

use alloc::vec::Vec;
use bytes::Bytes;

use super::reader::{DecodeError, Reader};
use super::writer::Writer;

/// Tagged fields whose tags the table does not know, by rising tag.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaggedFields(Vec<(u32, Bytes)>);

impl TaggedFields {
    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.0.len()
    }

    /// The fields by rising tag.
    #[must_use]
    pub fn as_slice(&self) -> &[(u32, Bytes)] {
        &self.0
    }

    /// Reads the tagged fields of a struct. `known` takes the fields it knows and says so; the
    /// others are returned.
    ///
    /// Tags should rise, but Kafka's own decoder does not insist; they are put in order here, and
    /// of one tag the last counts, so that what is written back is as it should be.
    pub fn read(
        reader: &mut Reader,
        mut known: impl FnMut(u32, &mut Reader) -> Result<bool, DecodeError>,
    ) -> Result<Self, DecodeError> {
        let count = reader.unsigned_varint()?;
        let mut unknown = Vec::new();
        let mut in_order = true;
        for _ in 0..count {
            let tag = reader.unsigned_varint()?;
            let size = reader.unsigned_varint()?;
            let mut content = Reader::new(reader.take(size as usize)?);
            if known(tag, &mut content)? {
                content.finish()?;
            } else {
                in_order &= unknown.last().is_none_or(|(last, _)| *last < tag);
                unknown.push((tag, content.take_rest()));
            }
        }
        if !in_order {
            unknown.reverse();
            unknown.sort_by_key(|(tag, _)| *tag);
            unknown.dedup_by_key(|(tag, _)| *tag);
        }
        Ok(Self(unknown))
    }
}

impl FromIterator<(u32, Bytes)> for TaggedFields {
    /// Collects fields whose tags rise.
    fn from_iter<I: IntoIterator<Item = (u32, Bytes)>>(fields: I) -> Self {
        Self(fields.into_iter().collect())
    }
}

/// Writes a struct's tagged fields: the known ones as they are handed in, by rising tag, and the
/// unknown ones between them.
#[derive(Debug)]
pub struct TagWriter<'a> {
    unknown: &'a [(u32, Bytes)],
}

impl<'a> TagWriter<'a> {
    /// Begins with the number of fields; `known` of them will be handed in.
    pub fn begin(writer: &mut Writer, known: u32, unknown: &'a TaggedFields) -> Self {
        writer.put_unsigned_varint(known + unknown.len() as u32);
        Self {
            unknown: &unknown.0,
        }
    }

    /// Writes a known field; `content` writes its value.
    pub fn put(&mut self, writer: &mut Writer, tag: u32, content: impl FnOnce(&mut Writer)) {
        self.put_unknown(writer, |unknown| unknown < tag);
        let mut value = Writer::new();
        content(&mut value);
        writer.put_unsigned_varint(tag);
        writer.put_unsigned_varint(value.len() as u32);
        writer.append(value);
    }

    /// Writes what is left.
    pub fn finish(mut self, writer: &mut Writer) {
        self.put_unknown(writer, |_| true);
    }

    fn put_unknown(&mut self, writer: &mut Writer, due: impl Fn(u32) -> bool) {
        while let Some(((tag, content), rest)) = self.unknown.split_first() {
            if !due(*tag) {
                return;
            }
            writer.put_unsigned_varint(*tag);
            writer.put_unsigned_varint(content.len() as u32);
            writer.put_bytes(content);
            self.unknown = rest;
        }
    }
}
