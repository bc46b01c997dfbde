//! Seeded choices. The generator is SplitMix64: a test needs its choices repeatable and spread,
//! nothing more.

/// A stream of choices that a seed determines.
#[derive(Debug, Clone)]
pub struct Chance(u64);

impl Chance {
    /// The stream of `seed`.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The stream for item `index` of the run with `seed`: neighbours have nothing in common.
    pub fn of(seed: u64, index: u64) -> Self {
        let mut mixed = Self(seed ^ index.wrapping_mul(0xd6e8_feb8_6659_fd93));
        Self(mixed.next())
    }

    /// The next 64 bits.
    #[expect(
        clippy::should_implement_trait,
        reason = "an endless stream has no use for Option"
    )]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`, which is at least 1.
    pub fn below(&mut self, end: u64) -> u64 {
        assert!(end > 0, "nothing is below zero");
        // The bias of the remainder is far below what any test here could notice.
        self.next() % end
    }

    /// True in `parts` of 256 cases.
    pub fn parts_of_256(&mut self, parts: u64) -> bool {
        self.next() >> 56 < parts
    }
}

/// The seed of this run: `ODRADEK_TEST_SEED` if it is set, else one from the clock. A test prints
/// it first of all.
pub fn run_seed() -> u64 {
    match std::env::var("ODRADEK_TEST_SEED") {
        Ok(text) => text.parse().expect("ODRADEK_TEST_SEED is a decimal number"),
        Err(_) => std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .expect("the clock is past 1970")
            .as_nanos() as u64,
    }
}
