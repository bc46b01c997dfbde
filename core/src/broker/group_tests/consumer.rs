//! Groups for which the broker assigns (KIP-848).

use super::*;

#[test]
fn a_consumer_group_is_assigned_by_the_broker_and_survives_a_crash() {
    let (mut host, client) = started();
    host.hold_flushes = true;
    host.send(client, 1, &consumer_beat("me", 0));
    assert_eq!(beaten(&mut host, client), None, "told when durable");
    host.hold_flushes = false;
    host.complete_flushes();
    let reply = beaten(&mut host, client).unwrap();
    assert_eq!((reply.error_code, reply.member_epoch), (ErrorCode::NONE, 1));
    assert_eq!(reply.heartbeat_interval_ms, 5_000);
    let topic_id = host.metadata(client, "orders").topics[0].topic_id;
    let owned = reply.assignment.unwrap().topic_partitions;
    assert_eq!(
        (owned[0].topic_id, &*owned[0].partitions),
        (topic_id, &[0][..])
    );
    assert_eq!(commit_at(&mut host, client, 9, 1), ErrorCode::NONE);
    assert_eq!(
        commit_at(&mut host, client, 9, 0),
        ErrorCode::STALE_MEMBER_EPOCH
    );
    assert_eq!(
        commit_at(&mut host, client, 8, 1),
        ErrorCode::UNSUPPORTED_VERSION
    );

    let (mut host, client) = restarted(host);
    assert_eq!(beat(&mut host, client, "me", 1).error_code, ErrorCode::NONE);
    assert_eq!(commit_at(&mut host, client, 9, 1), ErrorCode::NONE);
    assert_eq!(offset(&mut host, client), Ok(5));
    let request = ConsumerGroupDescribeRequest {
        group_ids: vec!["readers".into()],
        ..Default::default()
    };
    let ResponseBody::ConsumerGroupDescribe(response) = host.ask(client, 1, &request) else {
        panic!("not a description")
    };
    let group = &response.groups[0];
    assert_eq!((&*group.group_state, group.group_epoch), ("Stable", 1));
    assert_eq!(&*group.assignor_name, "uniform");
    assert_eq!(
        &*group.members[0].assignment.topic_partitions[0].topic_name,
        "orders"
    );
    let classic = describe(&mut host, client);
    assert_eq!(classic.error_code, ErrorCode::GROUP_ID_NOT_FOUND);

    // Members that are no consumers find no place in it before it is empty.
    let mut connect = join_request("");
    connect.protocol_type = "connect".into();
    host.send(client, 3, &connect);
    let refused = joined(&mut host, client).unwrap();
    assert_eq!(refused.error_code, ErrorCode::INCONSISTENT_GROUP_PROTOCOL);
    assert_eq!(
        beat(&mut host, client, "me", -1).error_code,
        ErrorCode::NONE
    );
    stable(&mut host, client);
    assert_eq!(offset(&mut host, client), Ok(5), "its offsets stay");
    let refused = beat(&mut host, client, "me", 0);
    assert_eq!(refused.error_code, ErrorCode::GROUP_ID_NOT_FOUND);
    let (mut host, client) = restarted(host);
    assert_eq!(&*describe(&mut host, client).group_state, "Stable");
    host.advance(60_000);
    assert_eq!(beat(&mut host, client, "me", 0).member_epoch, 1);
    assert_eq!(
        beat(&mut host, client, "me", -1).error_code,
        ErrorCode::NONE
    );
    assert_eq!(delete_group(&mut host, client), ErrorCode::NONE);
    let (mut host, client) = restarted(host);
    assert_eq!(list(&mut host, client, &[]), Vec::<String>::new());
}

#[test]
fn a_consumer_group_whose_record_is_lost_is_read_again() {
    let (mut host, client) = started();
    let reply = beat(&mut host, client, "me", 0);
    assert_eq!(reply.member_epoch, 1);
    let other = host.connect();
    host.hold_flushes = true;
    host.send(other, 1, &consumer_beat("you", 0));
    host.fail_flushes = true;
    host.hold_flushes = false;
    host.complete_flushes();
    let lost = beaten(&mut host, other).unwrap();
    assert_eq!(lost.error_code, ErrorCode::COORDINATOR_NOT_AVAILABLE);
    host.fail_flushes = false;
    host.advance(40_000);
    let again = beat(&mut host, client, "me", 1);
    assert_eq!(again.error_code, ErrorCode::NONE);
    host.advance(45_000);
    assert_eq!(
        beat(&mut host, client, "me", 1).error_code,
        ErrorCode::UNKNOWN_MEMBER_ID
    );
}

#[test]
fn a_heartbeat_must_say_what_it_is() {
    let (mut host, client) = started();
    let mut ask = |edit: &dyn Fn(&mut ConsumerGroupHeartbeatRequest)| {
        let mut request = consumer_beat("me", 0);
        edit(&mut request);
        host.send(client, 1, &request);
        beaten(&mut host, client).unwrap().error_code
    };
    let invalid = ErrorCode::INVALID_REQUEST;
    assert_eq!(ask(&|r| r.member_id = "".into()), invalid);
    assert_eq!(ask(&|r| r.group_id = "".into()), invalid);
    assert_eq!(ask(&|r| r.rebalance_timeout_ms = -1), invalid);
    assert_eq!(ask(&|r| r.topic_partitions = None), invalid);
    assert_eq!(ask(&|r| r.subscribed_topic_names = None), invalid);
    let names: Vec<_> = (0..60_000)
        .map(|n| alloc::format!("topic-number-{n}").into())
        .collect();
    assert_eq!(
        ask(&|r| r.subscribed_topic_names = Some(names.clone())),
        invalid
    );
    assert_eq!(ask(&|r| r.member_epoch = -3), invalid);
    assert_eq!(ask(&|r| r.member_epoch = -2), invalid);
    assert_eq!(
        ask(&|r| r.server_assignor = Some("best".into())),
        ErrorCode::UNSUPPORTED_ASSIGNOR
    );
    assert_eq!(ask(&|r| r.member_epoch = 1), ErrorCode::GROUP_ID_NOT_FOUND);
    assert_eq!(ask(&|_| {}), ErrorCode::NONE);
}
