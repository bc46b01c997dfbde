//! Which mutant is on: what `tests/mutants` adds to its copy of the core.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

static CHOSEN: AtomicU32 = AtomicU32::new(0);
static REACHED: AtomicU64 = AtomicU64::new(0);

/// Turns a mutant on; 0 is none.
pub fn choose(mutant: u32) {
    CHOSEN.store(mutant, Ordering::Relaxed);
}

/// How often the place of the chosen mutant was come to.
pub fn reached() -> u64 {
    REACHED.load(Ordering::Relaxed)
}

#[cfg(not(test))]
fn chosen() -> u32 {
    CHOSEN.load(Ordering::Relaxed)
}

/// The core's own tests have no `main` that could choose.
#[cfg(test)]
fn chosen() -> u32 {
    static READ: std::sync::Once = std::sync::Once::new();
    READ.call_once(|| {
        let chosen = std::env::var("ODRADEK_MUTANT").ok();
        choose(chosen.and_then(|number| number.parse().ok()).unwrap_or(0));
    });
    CHOSEN.load(Ordering::Relaxed)
}

/// Whether this mutant is on.
pub fn on(mutant: u32) -> bool {
    let on = chosen() == mutant;
    if on {
        REACHED.fetch_add(1, Ordering::Relaxed);
    }
    on
}
