//! Groups whose members choose a leader.

use super::*;

#[test]
fn a_member_joins_with_the_id_it_was_given_and_is_described() {
    let (mut host, client) = started();
    host.send(client, 9, &join_request(""));
    let refused = joined(&mut host, client).unwrap();
    assert_eq!(refused.error_code, ErrorCode::MEMBER_ID_REQUIRED);
    host.send(client, 9, &join_request(&refused.member_id));
    assert!(joined(&mut host, client).is_none());
    assert_eq!(host.broker.held().groups, 1);
    host.advance(1);
    let reply = joined(&mut host, client).unwrap();
    assert_eq!((reply.generation_id, &reply.leader), (1, &reply.member_id));
    assert_eq!(reply.protocol_name, Some("range".into()));
    assert_eq!(reply.members.len(), 1);

    let admin = host.connect();
    assert_eq!(
        &*describe(&mut host, admin).group_state,
        "CompletingRebalance"
    );
    sync(
        &mut host,
        client,
        &reply.member_id,
        1,
        &[(&reply.member_id, "all")],
    );
    assert_eq!(synced(&mut host, client), Some(Ok("all".to_string())));
    let described = describe(&mut host, admin);
    assert_eq!(&*described.group_state, "Stable");
    assert_eq!(
        (&*described.protocol_type, &*described.protocol_data),
        ("consumer", "range")
    );
    let member = &described.members[0];
    assert_eq!(&*member.client_host, "/127.0.0.1");
    assert_eq!(&*member.member_assignment, b"all");
    assert_eq!(list(&mut host, admin, &["stable"]), ["readers"]);
    assert_eq!(list(&mut host, admin, &["Empty"]), Vec::<String>::new());
    assert_eq!(delete_group(&mut host, admin), ErrorCode::NON_EMPTY_GROUP);
}

#[test]
fn an_assignment_is_given_out_when_its_record_is_durable() {
    let (mut host, first) = started();
    let second = host.connect();
    let watcher = host.connect();
    host.send(first, 3, &join_request(""));
    host.send(second, 3, &join_request(""));
    host.advance(1);
    let leader = joined(&mut host, first).unwrap().member_id.to_string();
    let follower = joined(&mut host, second).unwrap().member_id.to_string();
    sync(&mut host, second, &follower, 1, &[]);
    assert_eq!(synced(&mut host, second), None);
    host.hold_flushes = true;
    sync(
        &mut host,
        first,
        &leader,
        1,
        &[(&leader, "a"), (&follower, "b")],
    );
    assert_eq!(synced(&mut host, first), None);
    host.send(
        watcher,
        6,
        &DescribeGroupsRequest {
            groups: vec!["readers".into()],
            ..Default::default()
        },
    );
    assert!(host.receive(watcher).is_none());
    host.complete_flushes();
    assert_eq!(synced(&mut host, first), Some(Ok("a".to_string())));
    assert_eq!(synced(&mut host, second), Some(Ok("b".to_string())));
    assert!(host.receive(watcher).is_some());
}

#[test]
fn a_member_carries_on_after_a_crash_of_the_broker() {
    let (mut host, client) = started();
    let id = stable(&mut host, client);
    assert_eq!(commit(&mut host, client, &id, 1, 5), ErrorCode::NONE);
    let (mut host, client) = restarted(host);
    assert_eq!(heartbeat(&mut host, client, &id, 1), ErrorCode::NONE);
    assert_eq!(commit(&mut host, client, &id, 1, 6), ErrorCode::NONE);
    assert_eq!(
        commit(&mut host, client, &id, 0, 4),
        ErrorCode::ILLEGAL_GENERATION
    );
    assert_eq!(offset(&mut host, client), Ok(6));
    // Its session began anew; silent, it is given up, and that is durable too.
    host.advance(9_999);
    assert_eq!(&*describe(&mut host, client).group_state, "Stable");
    assert_eq!(heartbeat(&mut host, client, &id, 1), ErrorCode::NONE);
    host.advance(10_000);
    assert_eq!(&*describe(&mut host, client).group_state, "Empty");
    let (mut host, client) = restarted(host);
    assert_eq!(&*describe(&mut host, client).group_state, "Empty");
    assert_eq!(
        commit(&mut host, client, &id, 1, 7),
        ErrorCode::UNKNOWN_MEMBER_ID
    );
    assert_eq!(offset(&mut host, client), Ok(6));
}

#[test]
fn a_rebalance_whose_record_is_lost_never_was() {
    let (mut host, client) = started();
    let waiting = host.connect();
    host.send(client, 3, &join_request(""));
    host.advance(1);
    let id = joined(&mut host, client).unwrap().member_id.to_string();
    // A second one joins while the first's assignment is on its way to the disk.
    host.hold_flushes = true;
    sync(&mut host, client, &id, 1, &[(&id, "all")]);
    host.send(waiting, 3, &join_request(""));
    assert!(joined(&mut host, waiting).is_none());
    host.fail_flushes = true;
    host.hold_flushes = false;
    host.complete_flushes();
    let lost = ErrorCode::COORDINATOR_NOT_AVAILABLE;
    assert_eq!(synced(&mut host, client), Some(Err(lost)));
    assert_eq!(joined(&mut host, waiting).unwrap().error_code, lost);
    assert_eq!(host.broker.held().groups, 0);
    host.fail_flushes = false;
    host.advance(60_000);
    let found = describe(&mut host, client);
    assert!(
        matches!(&*found.group_state, "Stable" | "Empty" | "Dead"),
        "{found:?}"
    );
}

#[test]
fn members_leave_and_the_group_is_deleted() {
    let (mut host, client) = started();
    let id = stable(&mut host, client);
    commit(&mut host, client, &id, 1, 5);
    let request = LeaveGroupRequest {
        group_id: "readers".into(),
        members: vec![
            MemberIdentity {
                member_id: id.as_str().into(),
                ..Default::default()
            },
            MemberIdentity {
                member_id: "ghost".into(),
                ..Default::default()
            },
        ],
        ..Default::default()
    };
    let ResponseBody::LeaveGroup(response) = host.ask(client, 5, &request) else {
        panic!("not a leave")
    };
    let errors: Vec<_> = response
        .members
        .iter()
        .map(|member| member.error_code)
        .collect();
    assert_eq!(errors, [ErrorCode::NONE, ErrorCode::UNKNOWN_MEMBER_ID]);
    assert_eq!(&*describe(&mut host, client).group_state, "Empty");
    assert_eq!(offset(&mut host, client), Ok(5));
    assert_eq!(delete_group(&mut host, client), ErrorCode::NONE);
    assert_eq!(
        delete_group(&mut host, client),
        ErrorCode::GROUP_ID_NOT_FOUND
    );
    assert_eq!(offset(&mut host, client), Ok(-1));
    assert_eq!(
        describe(&mut host, client).error_code,
        ErrorCode::GROUP_ID_NOT_FOUND
    );
    let (mut host, client) = restarted(host);
    assert_eq!(offset(&mut host, client), Ok(-1));
    assert_eq!(list(&mut host, client, &[]), Vec::<String>::new());
}

#[test]
fn a_stop_sends_waiting_members_away_and_a_closed_connection_leaves_nothing() {
    let (mut host, client) = started();
    stable(&mut host, client);
    let (gone, waiting) = (host.connect(), host.connect());
    host.send(gone, 3, &join_request(""));
    host.disconnect(gone);
    host.send(waiting, 3, &join_request(""));
    assert_eq!(host.broker.held().groups, 1);
    host.stop();
    assert!(host.stopped, "{:?}", host.reports);
    let reply = joined(&mut host, waiting).unwrap();
    assert_eq!(reply.error_code, ErrorCode::COORDINATOR_NOT_AVAILABLE);
    assert_eq!(host.broker.held().groups, 0);
    assert!(host.files.read("clean.shutdown").is_some());
}

#[test]
fn a_hundred_members_rebalance() {
    let (mut host, admin) = started();
    let clients: Vec<_> = (0..100).map(|_| host.connect()).collect();
    for client in &clients {
        host.send(*client, 3, &join_request(""));
    }
    host.advance(1);
    let mut leader = None;
    let mut followers = Vec::new();
    for client in &clients {
        let reply = joined(&mut host, *client).unwrap();
        assert_eq!(reply.generation_id, 1);
        if reply.leader == reply.member_id {
            assert_eq!(reply.members.len(), 100);
            leader = Some((*client, reply.member_id.to_string()));
        } else {
            followers.push((*client, reply.member_id.to_string()));
        }
    }
    for (client, id) in &followers {
        sync(&mut host, *client, id, 1, &[]);
    }
    let (client, id) = leader.unwrap();
    let shares: Vec<(&str, &str)> = followers
        .iter()
        .map(|(_, id)| (id.as_str(), id.as_str()))
        .collect();
    sync(&mut host, client, &id, 1, &shares);
    for (client, id) in &followers {
        assert_eq!(synced(&mut host, *client), Some(Ok(id.clone())));
    }
    assert_eq!(describe(&mut host, admin).members.len(), 100);
}
