//! Every config key that Odradek knows: its type, default, bounds, and whether it works here.
//!
//! Names, defaults and types are Kafka 4.3's. A key is in one of three lists ([`Standing`]).

mod broker_keys;
mod group_keys;
mod resolve;
mod topic_keys;
mod value;

pub use broker_keys::{BROKER_KEYS, BrokerKey, broker_key};
pub use group_keys::{GROUP_KEYS, GroupKey, check_group_configs, group_key, unknown_group_config};
pub use resolve::{BrokerConfig, CleanerConfig, ConfigProblem, Warning, check_topic_config};
pub use topic_keys::{TOPIC_KEYS, TopicKey, topic_key};
pub(crate) use value::split_list;
pub use value::{Bounds, ConfigType, InvalidValue};

/// What Odradek does with a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It changes what the broker does.
    Works,
    /// It is stored and shown, and changes nothing; setting it warns once.
    Stored,
    /// Only its default is accepted.
    Refused,
}

/// The known name nearest to a mistyped one, if one is near enough to suggest.
#[must_use]
pub fn nearest_key<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    known
        .map(|candidate| (edit_distance(name, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= candidate.len() / 3)
        .min()
        .map(|(_, candidate)| candidate)
}

/// Levenshtein's distance in bytes.
fn edit_distance(a: &str, b: &str) -> usize {
    let mut row: alloc::vec::Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        for (cell, y) in row.iter_mut().skip(1).zip(b.bytes()) {
            let here = (diagonal + usize::from(x != y))
                .min(left + 1)
                .min(*cell + 1);
            diagonal = *cell;
            *cell = here;
            left = here;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typo_finds_its_key() {
        let known = ["num.partitions", "log.segment.bytes", "log.dirs"];
        assert_eq!(
            nearest_key("num.partition", known.into_iter()),
            Some("num.partitions")
        );
        assert_eq!(
            nearest_key("log.segments.byte", known.into_iter()),
            Some("log.segment.bytes")
        );
        assert_eq!(
            nearest_key("something.else.entirely", known.into_iter()),
            None
        );
        assert_eq!(edit_distance("kitten", "sitting"), 3);
    }
}
