//! Tagged fields: the optional tail of every struct in a flexible version (KIP-482).

use alloc::boxed::Box;
use alloc::vec::Vec;
use bytes::Bytes;
use core::fmt;

use super::reader::{DecodeError, Reader};
use super::writer::Writer;

/// Tagged fields whose tags the table does not know, by rising tag.
///
/// Every struct of every message has these and hardly any has one, so they take one word.
#[derive(Clone, Default, PartialEq, Eq)]
#[expect(
    clippy::box_collection,
    reason = "one word instead of three in every element of every array"
)]
pub struct TaggedFields(Option<Box<Vec<(u32, Bytes)>>>);

impl TaggedFields {
    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.as_slice().is_empty()
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.as_slice().len()
    }

    /// The fields by rising tag.
    #[must_use]
    pub fn as_slice(&self) -> &[(u32, Bytes)] {
        self.0.as_deref().map_or(&[], Vec::as_slice)
    }

    /// Reads the tagged fields of a struct. `known` takes the fields it knows and says so; the
    /// others are returned.
    ///
    /// Tags should rise, but Kafka's own decoder does not insist; they are put in order here, and
    /// of one tag the last counts, so that what is written back is as it should be.
    #[inline]
    pub fn read(
        reader: &mut Reader,
        mut known: impl FnMut(u32, &mut Reader) -> Result<bool, DecodeError>,
    ) -> Result<Self, DecodeError> {
        match reader.unsigned_varint()? {
            0 => Ok(Self::default()),
            count => Self::read_some(reader, count as usize, &mut known),
        }
    }

    /// Of one kind for all structs: hardly any has such fields, and a sort for each of them was a
    /// seventh of the program.
    #[cold]
    fn read_some(
        reader: &mut Reader,
        count: usize,
        known: &mut dyn FnMut(u32, &mut Reader) -> Result<bool, DecodeError>,
    ) -> Result<Self, DecodeError> {
        let mut unknown = Vec::new();
        let mut in_order = true;
        for read in 0..count {
            let tag = reader.unsigned_varint()?;
            let size = reader.unsigned_varint()?;
            let mut content = Reader::new(reader.take(size as usize)?);
            if known(tag, &mut content)? {
                content.finish()?;
                continue;
            }
            if unknown.is_empty() {
                // Another field takes two bytes or more.
                unknown.reserve_exact(1 + (count - read - 1).min(reader.remaining() / 2));
            }
            in_order &= unknown.last().is_none_or(|(last, _)| *last < tag);
            unknown.push((tag, content.take_rest()));
        }
        if !in_order {
            unknown.reverse();
            unknown.sort_by_key(|(tag, _)| *tag);
            unknown.dedup_by_key(|(tag, _)| *tag);
        }
        Ok(unknown.into_iter().collect())
    }
}

impl FromIterator<(u32, Bytes)> for TaggedFields {
    /// Collects fields whose tags rise.
    fn from_iter<I: IntoIterator<Item = (u32, Bytes)>>(fields: I) -> Self {
        let fields = Vec::from_iter(fields);
        Self((!fields.is_empty()).then(|| Box::new(fields)))
    }
}

impl fmt::Debug for TaggedFields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map()
            .entries(self.as_slice().iter().map(|(tag, content)| (tag, content)))
            .finish()
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
            unknown: unknown.as_slice(),
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
