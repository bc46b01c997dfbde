//! Moving a checksum past bytes that are not looked at.
//!
//! A CRC is a polynomial over one-bit numbers, modulo a fixed one of degree 32. If the first part
//! of some bytes changes, the checksum of the whole changes by the change of that part's checksum
//! times x to the power of the bits that follow. So a new header costs about a microsecond,
//! whatever the length of the records; `crc32c_combine` says the same by squaring matrices, which
//! took 24 to 140 us where this takes about one (`examples/check_throughput.rs`). It is the
//! one thing with checksums that happens inside a step.

/// Castagnoli's polynomial, the lowest bit for the highest power.
const POLYNOMIAL: u32 = 0x82f6_3b78;
const ONE: u32 = 1 << 31;
const X: u32 = 1 << 30;

/// x^8, x^16, x^32, ...: each the square of the one before.
const POWERS: [u32; usize::BITS as usize] = {
    let mut powers = [0; usize::BITS as usize];
    let mut power = X;
    let mut doublings = 0;
    while doublings < 3 {
        power = multiply(power, power);
        doublings += 1;
    }
    let mut i = 0;
    while i < powers.len() {
        powers[i] = power;
        power = multiply(power, power);
        i += 1;
    }
    powers
};

/// What the change of a part's checksum does to the checksum of the whole, if `bytes` bytes follow
/// that part.
pub(crate) fn change_past(change: u32, bytes: usize) -> u32 {
    POWERS
        .iter()
        .enumerate()
        .filter(|(bit, _)| bytes >> bit & 1 == 1)
        .fold(change, |change, (_, power)| multiply(*power, change))
}

/// Multiplies two polynomials modulo the CRC's.
const fn multiply(a: u32, mut b: u32) -> u32 {
    let mut product = 0;
    let mut bit = ONE;
    while bit != 0 {
        // Masks instead of branches, which bits as good as random would mislead.
        product ^= b & ((a & bit != 0) as u32).wrapping_neg();
        b = (b >> 1) ^ (POLYNOMIAL & (b & 1).wrapping_neg());
        bit >>= 1;
    }
    product
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_is_what_the_library_combines(change: u32, bytes in 0usize..1 << 40) {
            prop_assert_eq!(change_past(change, bytes), crc32c::crc32c_combine(change, 0, bytes));
        }
    }

    #[test]
    fn a_changed_head_changes_the_whole_by_that() {
        let tail = [7; 1000];
        let whole = |head: &[u8]| crc32c::crc32c_append(crc32c::crc32c(head), &tail);
        let change = crc32c::crc32c(b"before") ^ crc32c::crc32c(b"behind");
        assert_eq!(
            whole(b"before") ^ change_past(change, tail.len()),
            whole(b"behind")
        );
    }
}
