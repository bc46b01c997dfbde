//! Zigzag varints, as records use them (`ByteUtils` in Kafka, `sint` in Protocol Buffers).
//!
//! Overlong forms are accepted, as Kafka does; bits beyond the type's width are not, where Kafka
//! drops them, because clients disagree on what such a number means.

use alloc::vec::Vec;

/// Reads a 32-bit varint off the front; `None` if it is cut short or does not fit.
#[inline]
pub(crate) fn take_i32(input: &mut &[u8]) -> Option<i32> {
    let (&first, rest) = input.split_first()?;
    if first < 0x80 {
        *input = rest;
        return Some(unzigzag_32(u32::from(first)));
    }
    take_long(input, 5, u64::from(u32::MAX)).map(|raw| unzigzag_32(raw as u32))
}

/// Reads a 64-bit varint off the front; `None` if it is cut short or does not fit.
#[inline]
pub(crate) fn take_i64(input: &mut &[u8]) -> Option<i64> {
    let (&first, rest) = input.split_first()?;
    if first < 0x80 {
        *input = rest;
        return Some(unzigzag_64(u64::from(first)));
    }
    take_long(input, 10, u64::MAX).map(unzigzag_64)
}

fn take_long(input: &mut &[u8], max_bytes: u32, max: u64) -> Option<u64> {
    let mut value: u64 = 0;
    let mut bytes = input.iter();
    for i in 0..max_bytes {
        let byte = *bytes.next()?;
        let bits = u64::from(byte & 0x7f);
        // The tenth byte of a 64-bit number has room for one bit.
        if i == 9 && bits > 1 {
            return None;
        }
        value |= bits << (7 * i);
        if byte < 0x80 {
            if value > max {
                return None;
            }
            *input = bytes.as_slice();
            return Some(value);
        }
    }
    None
}

/// Appends a 32-bit varint.
pub(crate) fn put_i32(out: &mut Vec<u8>, value: i32) {
    put_raw(out, u64::from(zigzag_32(value)));
}

/// Appends a 64-bit varint.
pub(crate) fn put_i64(out: &mut Vec<u8>, value: i64) {
    put_raw(out, zigzag_64(value));
}

fn put_raw(out: &mut Vec<u8>, mut raw: u64) {
    while raw >= 0x80 {
        out.push(raw as u8 | 0x80);
        raw >>= 7;
    }
    out.push(raw as u8);
}

/// How many bytes [`put_i32`] writes.
pub(crate) const fn len_i32(value: i32) -> usize {
    len_raw(zigzag_32(value) as u64)
}

/// How many bytes [`put_i64`] writes.
pub(crate) const fn len_i64(value: i64) -> usize {
    len_raw(zigzag_64(value))
}

const fn len_raw(raw: u64) -> usize {
    let bits = 64 - (raw | 1).leading_zeros() as usize;
    bits.div_ceil(7)
}

const fn zigzag_32(value: i32) -> u32 {
    ((value << 1) ^ (value >> 31)) as u32
}

const fn zigzag_64(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

const fn unzigzag_32(raw: u32) -> i32 {
    (raw >> 1) as i32 ^ -((raw & 1) as i32)
}

const fn unzigzag_64(raw: u64) -> i64 {
    (raw >> 1) as i64 ^ -((raw & 1) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_number_reads_back_and_its_length_is_known(a: i32, b: i64, tail: Vec<u8>) {
            let mut out = Vec::new();
            put_i32(&mut out, a);
            prop_assert_eq!(out.len(), len_i32(a));
            put_i64(&mut out, b);
            prop_assert_eq!(out.len(), len_i32(a) + len_i64(b));
            out.extend_from_slice(&tail);
            let mut input = out.as_slice();
            prop_assert_eq!(take_i32(&mut input), Some(a));
            prop_assert_eq!(take_i64(&mut input), Some(b));
            prop_assert_eq!(input, tail.as_slice());
        }
    }

    #[test]
    fn a_number_that_is_cut_short_or_too_wide_is_refused() {
        assert_eq!(take_i32(&mut &[][..]), None);
        assert_eq!(take_i32(&mut &[0x80, 0x80][..]), None);
        assert_eq!(
            take_i32(&mut &[0xff, 0xff, 0xff, 0xff, 0x0f][..]),
            Some(i32::MIN)
        );
        assert_eq!(take_i32(&mut &[0xff, 0xff, 0xff, 0xff, 0x1f][..]), None);
        assert_eq!(take_i32(&mut &[0x80, 0x80, 0x80, 0x80, 0x80, 0][..]), None);
        let mut widest = [0xff; 10];
        widest[9] = 1;
        assert_eq!(take_i64(&mut &widest[..]), Some(i64::MIN));
        widest[9] = 2;
        assert_eq!(take_i64(&mut &widest[..]), None);
        widest[9] = 0x81;
        assert_eq!(take_i64(&mut &widest[..]), None);
    }

    #[test]
    fn an_overlong_number_is_accepted() {
        let mut input = &[0x82, 0x80, 0x00, 7][..];
        assert_eq!(take_i32(&mut input), Some(1));
        assert_eq!(input, [7]);
    }
}
