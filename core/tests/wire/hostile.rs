//! Hostile bytes: nothing panics, and nothing takes more memory than a small multiple of what came.

use crate::golden;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use bytes::Bytes;
use odradek_core::wire::{ApiKey, frame};
use proptest::prelude::*;

/// Bytes in memory per byte of input, at most. An empty string takes 32 for its one; the worst there
/// is, arrays of empty topics with an unknown tagged field each, comes to 40.
pub(crate) const MULTIPLE: usize = 48;

/// What decoding anything may take on top.
pub(crate) const FLOOR: usize = 1024;

/// Counts what the current thread holds.
struct Counting;

thread_local! {
    static HELD: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

fn count(bytes: isize) {
    // A thread that ends frees memory after its counters are gone.
    let _ = HELD.try_with(|held| {
        held.set(held.get() + bytes);
        let _ = PEAK.try_with(|peak| peak.set(peak.get().max(held.get())));
    });
}

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The most memory held at once while `work` runs, beyond what was held before.
pub(crate) fn peak<T>(work: impl FnOnce() -> T) -> (usize, T) {
    let before = HELD.get();
    PEAK.set(before);
    let result = work();
    ((PEAK.get() - before) as usize, result)
}

/// Decodes, checks the memory it took, and checks that what was understood is written to bytes
/// that mean the same.
fn survives(api: ApiKey, is_request: bool, version: i16, bytes: Bytes) {
    let length = bytes.len();
    let (taken, result) = peak(|| golden::decode(api, is_request, version, bytes));
    assert!(
        taken <= MULTIPLE * length + FLOOR,
        "{api} v{version}: {taken} bytes for {length}"
    );
    if let Ok(body) = result {
        let written = body.encode(version);
        let again = golden::decode(api, is_request, version, written.clone().into())
            .expect("what we write we read");
        assert_eq!(again.encode(version), written);
        assert_eq!(again, body);
    }
}

fn survives_as_frame(bytes: Bytes) {
    let length = bytes.len();
    let (taken, _) = peak(|| frame::decode_request(bytes));
    assert!(
        taken <= MULTIPLE * length + FLOOR,
        "{taken} bytes for {length}"
    );
}

/// Something that happens to honest bytes.
#[derive(Clone, Debug)]
pub(crate) enum Mutation {
    Set(prop::sample::Index, u8),
    Truncate(prop::sample::Index),
    Insert(prop::sample::Index, Vec<u8>),
    Remove(prop::sample::Index, usize),
    /// A length of 2 GiB, 4 GiB or so, as an integer or as a varint.
    Bomb(prop::sample::Index, prop::sample::Index),
}

pub(crate) const BOMBS: [&[u8]; 6] = [
    &[0x7f, 0xff, 0xff, 0xff],
    &[0xff, 0xff, 0xff, 0xff, 0x0f],
    &[0xff, 0xff, 0xff, 0xff, 0x07],
    &[0x7f, 0xff],
    &[0x00, 0x00, 0x10, 0x00],
    &[0xff, 0x7f],
];

impl Mutation {
    pub(crate) fn apply(&self, bytes: &mut Vec<u8>) {
        if bytes.is_empty() {
            return;
        }
        match self {
            Self::Set(at, value) => *at.get_mut(bytes) = *value,
            Self::Truncate(at) => bytes.truncate(at.index(bytes.len())),
            Self::Insert(at, inserted) => {
                let at = at.index(bytes.len());
                bytes.splice(at..at, inserted.iter().copied());
            }
            Self::Remove(at, count) => {
                let at = at.index(bytes.len());
                bytes.drain(at..(at + count).min(bytes.len()));
            }
            Self::Bomb(at, bomb) => {
                let at = at.index(bytes.len());
                overwrite(bytes, at, BOMBS[bomb.index(BOMBS.len())]);
            }
        }
    }
}

pub(crate) fn overwrite(bytes: &mut [u8], at: usize, with: &[u8]) {
    for (byte, value) in bytes[at..].iter_mut().zip(with) {
        *byte = *value;
    }
}

pub(crate) fn mutation() -> impl Strategy<Value = Mutation> {
    let index = any::<prop::sample::Index>;
    prop_oneof![
        (index(), any::<u8>()).prop_map(|(at, value)| Mutation::Set(at, value)),
        index().prop_map(Mutation::Truncate),
        (index(), prop::collection::vec(any::<u8>(), 1..20))
            .prop_map(|(at, bytes)| Mutation::Insert(at, bytes)),
        (index(), 1..20_usize).prop_map(|(at, count)| Mutation::Remove(at, count)),
        (index(), index()).prop_map(|(at, bomb)| Mutation::Bomb(at, bomb)),
    ]
}

fn every_form() -> Vec<(ApiKey, bool, i16)> {
    let mut forms = Vec::new();
    for &api in ApiKey::ALL {
        for version in api.versions().min..=api.versions().max {
            forms.extend([(api, true, version), (api, false, version)]);
        }
    }
    forms
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Bytes that never were a message, as each message in each version.
    #[test]
    fn arbitrary_bytes(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let bytes = Bytes::from(bytes);
        for (api, is_request, version) in every_form() {
            survives(api, is_request, version, bytes.clone());
        }
        survives_as_frame(bytes);
    }

    /// Bytes that are mostly small numbers, which get further.
    #[test]
    fn arbitrary_small_numbers(bytes in prop::collection::vec(0..4_u8, 0..200)) {
        let bytes = Bytes::from(bytes);
        for (api, is_request, version) in every_form() {
            survives(api, is_request, version, bytes.clone());
        }
    }

    /// Each message of Kafka's, damaged.
    #[test]
    fn damaged_messages(mutations in prop::collection::vec(mutation(), 1..4)) {
        for g in golden::all() {
            let mut bytes = g.bytes.to_vec();
            for mutation in &mutations {
                mutation.apply(&mut bytes);
            }
            survives(g.api, g.is_request, g.version, bytes.into());
        }
    }

    /// Frames of any API key and version, with a header that is mostly right.
    #[test]
    fn damaged_frames(
        key in prop_oneof![0..80_i16, any::<i16>()],
        version in prop_oneof![0..20_i16, any::<i16>()],
        rest in prop::collection::vec(prop_oneof![0..4_u8, any::<u8>()], 0..300),
    ) {
        let mut bytes = Vec::new();
        bytes.extend(key.to_be_bytes());
        bytes.extend(version.to_be_bytes());
        bytes.extend(rest);
        survives_as_frame(bytes.into());
    }
}

/// A huge length in each place where a length can be.
#[test]
fn length_bombs_in_every_place() {
    for g in golden::all() {
        let versions = g.api.versions();
        if g.case != "full" || (g.version != versions.min && g.version != versions.max) {
            continue;
        }
        for at in 0..g.bytes.len() {
            for bomb in BOMBS {
                let mut bytes = g.bytes.to_vec();
                overwrite(&mut bytes, at, bomb);
                survives(g.api, g.is_request, g.version, bytes.into());
            }
        }
    }
}

/// The densest input there is: 64 KiB that are all elements, behind a count that fits them.
#[test]
fn the_smallest_elements_there_are() {
    const LENGTH: usize = 64 << 10;
    for (api, is_request, version) in every_form() {
        for filler in [0_u8, 1, 2] {
            for prefix in [
                &[0xff, 0xff, 0x03][..],
                &[0xff, 0xff, 0x01],
                &[0, 0xff, 0xff, 0x01],
                &[0, 0, 0, 0, 0xff, 0xff, 0x01],
                &[2, 1, 1, 0xff, 0xff, 0x01],
                &[0, 0, 0x40, 0],
                &[0, 0, 0, 0, 0, 0, 0x40, 0],
            ] {
                let mut bytes = prefix.to_vec();
                bytes.resize(LENGTH, filler);
                survives(api, is_request, version, bytes.into());
            }
        }
    }
}
