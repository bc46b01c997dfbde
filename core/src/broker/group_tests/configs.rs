//! Configs of a group (KIP-848): set, in force, durable, and taken back.

use super::*;
use crate::wire::messages::describe_configs::{DescribeConfigsRequest, DescribeConfigsResource};
use crate::wire::messages::incremental_alter_configs::{
    AlterConfigsResource, AlterableConfig, IncrementalAlterConfigsRequest,
};
use crate::wire::messages::list_config_resources::ListConfigResourcesRequest;

const GROUP: i8 = 32;
const SESSION: &str = "consumer.session.timeout.ms";
const HEARTBEAT: &str = "consumer.heartbeat.interval.ms";

/// Sets configs of `readers`, or deletes those without a value.
fn alter(
    host: &mut Harness,
    client: ConnectionId,
    configs: &[(&str, Option<&str>)],
) -> Result<(), (ErrorCode, String)> {
    let configs = configs.iter().map(|(name, value)| AlterableConfig {
        name: (*name).into(),
        config_operation: i8::from(value.is_none()),
        value: value.map(Into::into),
        ..Default::default()
    });
    let request = IncrementalAlterConfigsRequest {
        resources: vec![AlterConfigsResource {
            resource_type: GROUP,
            resource_name: "readers".into(),
            configs: configs.collect(),
            ..Default::default()
        }],
        ..Default::default()
    };
    match host.ask(client, 1, &request) {
        ResponseBody::IncrementalAlterConfigs(response) => {
            let result = &response.responses[0];
            if result.error_code.is_error() {
                let words = result.error_message.clone().unwrap_or_default();
                return Err((result.error_code, words.to_string()));
            }
            Ok(())
        }
        other => panic!("{other:?}"),
    }
}

/// Name, value and source of each config of `readers`.
fn described(host: &mut Harness, client: ConnectionId) -> Vec<(String, String, i8)> {
    let request = DescribeConfigsRequest {
        resources: vec![DescribeConfigsResource {
            resource_type: GROUP,
            resource_name: "readers".into(),
            ..Default::default()
        }],
        ..Default::default()
    };
    match host.ask(client, 4, &request) {
        ResponseBody::DescribeConfigs(response) => response.results[0]
            .configs
            .iter()
            .map(|config| {
                let value = config.value.clone().unwrap_or_default();
                (
                    config.name.to_string(),
                    value.to_string(),
                    config.config_source,
                )
            })
            .collect(),
        other => panic!("{other:?}"),
    }
}

fn named(host: &mut Harness, client: ConnectionId) -> Vec<String> {
    let request = ListConfigResourcesRequest {
        resource_types: vec![GROUP],
        ..Default::default()
    };
    match host.ask(client, 1, &request) {
        ResponseBody::ListConfigResources(response) => {
            let resources = response.config_resources.iter();
            resources
                .map(|resource| resource.resource_name.to_string())
                .collect()
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_group_has_its_own_timeouts_across_a_restart() {
    let (mut host, client) = started();
    let entry = |name: &str, value: &str, source| (name.to_string(), value.to_string(), source);
    assert_eq!(
        described(&mut host, client),
        [entry(HEARTBEAT, "5000", 5), entry(SESSION, "45000", 5)]
    );
    assert_eq!(named(&mut host, client), [] as [String; 0]);
    let own = [(SESSION, Some("50000")), (HEARTBEAT, Some("9000"))];
    alter(&mut host, client, &own).unwrap();
    let reply = beat(&mut host, client, "me", 0);
    assert_eq!(reply.heartbeat_interval_ms, 9_000);
    host.advance(49_000);
    let reply = beat(&mut host, client, "me", 1);
    assert_eq!(reply.error_code, ErrorCode::NONE, "it is alive");

    let (mut host, client) = restarted(host);
    assert_eq!(
        described(&mut host, client),
        [entry(HEARTBEAT, "9000", 8), entry(SESSION, "50000", 8)]
    );
    assert_eq!(named(&mut host, client), ["readers"]);
    host.advance(49_000);
    let reply = beat(&mut host, client, "me", 1);
    assert_eq!(
        reply.error_code,
        ErrorCode::NONE,
        "a start gives it as long"
    );
    alter(&mut host, client, &[(SESSION, None), (HEARTBEAT, None)]).unwrap();
    assert_eq!(named(&mut host, client), [] as [String; 0]);
    let reply = beat(&mut host, client, "me", 1);
    assert_eq!(reply.heartbeat_interval_ms, 5_000);
    host.advance(45_001);
    let reply = beat(&mut host, client, "me", 1);
    assert_eq!(reply.error_code, ErrorCode::UNKNOWN_MEMBER_ID);
}

#[test]
fn what_a_group_may_not_say_changes_nothing() {
    let (mut host, client) = started();
    for (name, value) in [
        (SESSION, "1000"),
        (SESSION, "never"),
        (HEARTBEAT, "100000"),
        ("share.session.timeout.ms", "45000"),
    ] {
        let (error, words) = alter(&mut host, client, &[(name, Some(value))]).unwrap_err();
        assert_eq!(error, ErrorCode::INVALID_CONFIG, "{name}: {words}");
    }
    let (error, _) = alter(&mut host, client, &[("retention.ms", None)]).unwrap_err();
    assert_eq!(error, ErrorCode::INVALID_CONFIG);
    assert_eq!(named(&mut host, client), [] as [String; 0]);
}
