//! A record whose bytes come in several pieces.
//!
//! It is checked as in one piece and nothing of it is kept: between two pieces only the field that
//! the walk is in, and the first bytes of a number that was cut, are remembered. So a record of any
//! length costs no memory, even if its length is a lie.

use super::{RecordFault, RecordWalker, check_header_count};
use crate::record::varint::{take_i32, take_i64};

/// Where in a record the walk stands.
#[derive(Clone, Debug, Default)]
pub(super) struct CutRecord {
    /// The number to be read once `skip` bytes are skipped.
    next: Number,
    /// Bytes to skip first.
    skip: usize,
    /// Bytes left of the record, those to skip included.
    left: usize,
    /// Headers of which nothing was read yet.
    headers: i32,
    /// What was read of the next number.
    number: [u8; 10],
    number_len: usize,
}

/// The numbers of a record in their order; what lies between two of them is skipped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Number {
    #[default]
    Length,
    TimestampDelta,
    OffsetDelta,
    KeyLength,
    ValueLength,
    HeaderCount,
    HeaderKeyLength,
    HeaderValueLength,
    /// None: the record ends here.
    End,
}

impl CutRecord {
    /// Takes what belongs to the record off the front; `true` once the record is whole.
    pub(super) fn feed(
        &mut self,
        walker: &mut RecordWalker,
        piece: &mut &[u8],
    ) -> Result<bool, RecordFault> {
        loop {
            if self.skip > 0 {
                let skipped = self.skip.min(piece.len());
                *piece = piece.get(skipped..).unwrap_or_default();
                self.skip -= skipped;
                self.left -= skipped;
                if self.skip > 0 {
                    return Ok(false);
                }
            }
            if self.next == Number::End {
                return if self.left == 0 {
                    Ok(true)
                } else {
                    Err(RecordFault::Surplus(self.left))
                };
            }
            if self.next != Number::Length && self.left == 0 {
                return Err(RecordFault::Varint);
            }
            let Some((&byte, rest)) = piece.split_first() else {
                return Ok(false);
            };
            *piece = rest;
            if self.next != Number::Length {
                self.left -= 1;
            }
            self.push(byte, walker)?;
        }
    }

    /// Adds a byte to the next number, and acts on the number when that was its last.
    fn push(&mut self, byte: u8, walker: &mut RecordWalker) -> Result<(), RecordFault> {
        if let Some(place) = self.number.get_mut(self.number_len) {
            *place = byte;
        }
        self.number_len += 1;
        let longest = if self.next == Number::TimestampDelta {
            10
        } else {
            5
        };
        if byte >= 0x80 && self.number_len < longest {
            return Ok(());
        }
        let number = self.number;
        let mut bytes = number.get(..self.number_len).unwrap_or_default();
        self.number_len = 0;
        if self.next == Number::TimestampDelta {
            walker.timestamp_delta(take_i64(&mut bytes).ok_or(RecordFault::Varint)?)?;
            self.next = Number::OffsetDelta;
            return Ok(());
        }
        self.act(take_i32(&mut bytes).ok_or(RecordFault::Varint)?, walker)
    }

    fn act(&mut self, number: i32, walker: &mut RecordWalker) -> Result<(), RecordFault> {
        self.next = match self.next {
            Number::Length => {
                self.left =
                    usize::try_from(number).map_err(|_| RecordFault::NegativeLength(number))?;
                // The attributes, a byte that means nothing yet.
                if self.left == 0 {
                    return Err(RecordFault::Truncated);
                }
                self.skip = 1;
                Number::TimestampDelta
            }
            Number::OffsetDelta => {
                walker.offset_delta(number)?;
                Number::KeyLength
            }
            Number::KeyLength => {
                walker.key(number);
                self.field(number, RecordFault::Key)?;
                Number::ValueLength
            }
            Number::ValueLength => {
                self.field(number, RecordFault::Value)?;
                Number::HeaderCount
            }
            Number::HeaderCount => {
                check_header_count(number, self.left)?;
                self.headers = number;
                self.header_or_end()
            }
            Number::HeaderKeyLength => {
                if number < 0 {
                    return Err(RecordFault::HeaderKey(number));
                }
                self.field(number, RecordFault::HeaderKey)?;
                Number::HeaderValueLength
            }
            Number::HeaderValueLength => {
                self.field(number, RecordFault::HeaderValue)?;
                self.header_or_end()
            }
            // The first is read as 64 bits, by the caller; the second is no number.
            Number::TimestampDelta | Number::End => self.next,
        };
        Ok(())
    }

    fn field(
        &mut self,
        length: i32,
        fault: impl FnOnce(i32) -> RecordFault,
    ) -> Result<(), RecordFault> {
        self.skip = usize::try_from(length).unwrap_or(0);
        if self.skip > self.left {
            return Err(fault(length));
        }
        Ok(())
    }

    fn header_or_end(&mut self) -> Number {
        if self.headers == 0 {
            return Number::End;
        }
        self.headers -= 1;
        Number::HeaderKeyLength
    }
}
