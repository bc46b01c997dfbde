//! Planted bugs: what proves that the oracle can find something.

use odradek_core::bugs::Bugs;

/// The bug of a name. An error if there is none of that name, or none in this build.
#[cfg(feature = "bugs")]
pub fn by_name(name: &str) -> Result<Bugs, String> {
    use odradek_core::bugs::Bug;
    Bug::ALL
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, bug)| Bugs::plant(*bug))
        .ok_or_else(|| format!("no bug is called {name}; there are: {}", names().join(", ")))
}

/// The bug of a name. An error if there is none of that name, or none in this build.
#[cfg(not(feature = "bugs"))]
pub fn by_name(name: &str) -> Result<Bugs, String> {
    Err(format!(
        "this build has no planted bugs, so not {name} either; use: cargo run --release -p \
         odradek-sim --features bugs --target-dir target/bugs -- ..."
    ))
}

/// The names of the bugs in this build: none in an ordinary one.
#[must_use]
pub fn names() -> Vec<&'static str> {
    #[cfg(feature = "bugs")]
    return odradek_core::bugs::Bug::ALL
        .iter()
        .map(|(name, _)| *name)
        .collect();
    #[cfg(not(feature = "bugs"))]
    Vec::new()
}

#[cfg(all(test, not(feature = "bugs")))]
mod tests {
    #[test]
    fn the_ordinary_build_has_no_bug_to_switch_on() {
        assert!(super::names().is_empty());
        assert!(super::by_name("ack-before-flush").is_err());
        // A switch that can hold nothing takes no room: the core's type has one value.
        assert_eq!(size_of::<odradek_core::bugs::Bugs>(), 0);
    }
}
