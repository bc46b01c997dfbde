//! Real time, which only progress lines and limits see.

/// Measures from its start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stopwatch(std::time::Duration);

impl Stopwatch {
    pub(crate) fn start() -> Self {
        Self(monotonic())
    }

    pub(crate) fn seconds(&self) -> f64 {
        (monotonic() - self.0).as_secs_f64()
    }
}

#[expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "how long a campaign takes is no part of any run"
)]
fn monotonic() -> std::time::Duration {
    use std::sync::LazyLock;
    use std::time::Instant;
    static ORIGIN: LazyLock<Instant> = LazyLock::new(Instant::now);
    ORIGIN.elapsed()
}
