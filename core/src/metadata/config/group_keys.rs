//! The configs of a group (KIP-848): what it says instead of the broker, within the broker's bounds.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;

use super::broker_keys::{BrokerKey, broker_key};
use super::resolve::ConfigProblem;
use crate::group::config::GroupConfig;

/// A config of a group.
#[derive(Clone, Copy, Debug)]
pub struct GroupKey {
    /// Its name.
    pub name: &'static str,
    /// The broker's config that gives its default.
    pub broker_name: &'static str,
    /// What a group may say at least, and the name of the broker's config that says so.
    min: (fn(&GroupConfig) -> i64, &'static str),
    /// The same at most.
    max: (fn(&GroupConfig) -> i64, &'static str),
}

const HEARTBEAT: &str = "consumer.heartbeat.interval.ms";
const SESSION: &str = "consumer.session.timeout.ms";

/// All configs of groups that mean something here, sorted by name.
pub static GROUP_KEYS: &[GroupKey] = &[
    GroupKey {
        name: HEARTBEAT,
        broker_name: "group.consumer.heartbeat.interval.ms",
        min: (
            |config| config.consumer_min_heartbeat_interval_ms.into(),
            "group.consumer.min.heartbeat.interval.ms",
        ),
        max: (
            |config| config.consumer_max_heartbeat_interval_ms.into(),
            "group.consumer.max.heartbeat.interval.ms",
        ),
    },
    GroupKey {
        name: SESSION,
        broker_name: "group.consumer.session.timeout.ms",
        min: (
            |config| signed(config.consumer_min_session_timeout_ms),
            "group.consumer.min.session.timeout.ms",
        ),
        max: (
            |config| signed(config.consumer_max_session_timeout_ms),
            "group.consumer.max.session.timeout.ms",
        ),
    },
];

fn signed(ms: u64) -> i64 {
    i64::try_from(ms).unwrap_or(i64::MAX)
}

/// The group config of that name.
#[must_use]
pub fn group_key(name: &str) -> Option<&'static GroupKey> {
    GROUP_KEYS.iter().find(|key| key.name == name)
}

impl GroupKey {
    /// The broker's side of it.
    ///
    /// # Panics
    /// Never: each group config names one of the broker's.
    #[must_use]
    pub fn broker_key(&self) -> BrokerKey {
        broker_key(self.broker_name).expect("every group config has a broker's that is its default")
    }

    /// What a group's own value comes to within the broker's bounds, which may have been others when
    /// it was set.
    fn effective(&self, config: &GroupConfig, own: &BTreeMap<String, String>) -> Option<i64> {
        let value: i64 = own.get(self.name)?.trim().parse().ok()?;
        Some(value.max((self.min.0)(config)).min((self.max.0)(config)))
    }
}

/// Checks everything that a group would say. `config` is the broker's.
///
/// # Errors
/// In Kafka's words, what is wrong.
pub fn check_group_configs(
    config: &GroupConfig,
    own: &BTreeMap<String, String>,
) -> Result<(), ConfigProblem> {
    for (name, value) in own {
        let key =
            group_key(name).ok_or_else(|| ConfigProblem::Group(unknown_group_config(name)))?;
        let broker = key.broker_key();
        broker
            .kind
            .check(value, broker.bounds)
            .map_err(|why| ConfigProblem::Invalid {
                name: name.clone(),
                why,
            })?;
        let number: i64 = value.trim().parse().unwrap_or(0);
        let ((min, min_name), (max, max_name)) = (key.min, key.max);
        if number < min(config) {
            let words = format!("{name} must be greater than or equal to {min_name}");
            return Err(ConfigProblem::Group(words));
        }
        if number > max(config) {
            let words = format!("{name} must be less than or equal to {max_name}");
            return Err(ConfigProblem::Group(words));
        }
    }
    let in_force = config.with_own(own);
    if in_force.consumer_session_timeout_ms
        <= u64::try_from(in_force.consumer_heartbeat_interval_ms).unwrap_or(0)
        && !own.is_empty()
    {
        let words = format!("{SESSION} must be greater than {HEARTBEAT}");
        return Err(ConfigProblem::Group(words));
    }
    Ok(())
}

/// Kafka's words for a config that groups do not have.
#[must_use]
pub fn unknown_group_config(name: &str) -> String {
    format!("Unknown group config name: {name}")
}

impl GroupConfig {
    /// The broker's settings with what a group says instead.
    #[must_use]
    pub fn with_own(&self, own: &BTreeMap<String, String>) -> Self {
        let mut config = self.clone();
        for key in GROUP_KEYS {
            let Some(value) = key.effective(self, own) else {
                continue;
            };
            match key.name {
                HEARTBEAT => {
                    config.consumer_heartbeat_interval_ms =
                        i32::try_from(value).unwrap_or(i32::MAX);
                }
                _ => config.consumer_session_timeout_ms = u64::try_from(value).unwrap_or(0),
            }
        }
        config
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    fn own(configs: &[(&str, &str)]) -> BTreeMap<String, String> {
        let configs = configs.iter();
        configs
            .map(|(name, value)| (name.to_string(), value.to_string()))
            .collect()
    }

    #[test]
    fn a_group_stays_within_the_brokers_bounds() {
        let broker = GroupConfig::default();
        let says = |configs: &[(&str, &str)]| {
            check_group_configs(&broker, &own(configs)).map_err(|problem| problem.to_string())
        };
        assert_eq!(says(&[(SESSION, "50000"), (HEARTBEAT, "6000")]), Ok(()));
        assert_eq!(
            says(&[(SESSION, "44999")]).unwrap_err(),
            "consumer.session.timeout.ms must be greater than or equal to \
             group.consumer.min.session.timeout.ms"
        );
        assert_eq!(
            says(&[(HEARTBEAT, "15001")]).unwrap_err(),
            "consumer.heartbeat.interval.ms must be less than or equal to \
             group.consumer.max.heartbeat.interval.ms"
        );
        assert!(says(&[(HEARTBEAT, "soon")]).is_err());
        assert_eq!(
            says(&[("share.session.timeout.ms", "1")]).unwrap_err(),
            "Unknown group config name: share.session.timeout.ms"
        );
        let narrow = GroupConfig {
            consumer_max_heartbeat_interval_ms: 60_000,
            ..broker
        };
        let late = own(&[(HEARTBEAT, "50000")]);
        assert_eq!(
            check_group_configs(&narrow, &late).unwrap_err().to_string(),
            "consumer.session.timeout.ms must be greater than consumer.heartbeat.interval.ms"
        );
    }

    #[test]
    fn what_was_set_under_other_bounds_is_moved_into_those_of_now() {
        let broker = GroupConfig::default();
        let config = broker.with_own(&own(&[(SESSION, "1000"), (HEARTBEAT, "90000")]));
        assert_eq!(config.consumer_session_timeout_ms, 45_000);
        assert_eq!(config.consumer_heartbeat_interval_ms, 15_000);
        assert_eq!(broker.with_own(&own(&[])), broker);
    }
}
