//! Idempotent producers as a client sees them.

use alloc::collections::BTreeSet;

use bytes::Bytes;

use crate::broker::harness::{Harness, produce_request};
use crate::ids::ConnectionId;
use crate::metadata::config::BrokerConfig;
use crate::record::builder::{BatchBuilder, BatchFields, ProducerFields};
use crate::wire::messages::InitProducerIdRequest;
use crate::wire::messages::init_producer_id::InitProducerIdResponse;
use crate::wire::messages::produce::PartitionProduceResponse;
use crate::wire::{ErrorCode, ResponseBody};

fn started() -> (Harness, ConnectionId) {
    let mut host = Harness::start(BrokerConfig::default());
    let client = host.connect();
    host.create_topic(client, "orders");
    (host, client)
}

fn init(
    host: &mut Harness,
    client: ConnectionId,
    version: i16,
    request: &InitProducerIdRequest,
) -> InitProducerIdResponse {
    match host.ask(client, version, request) {
        ResponseBody::InitProducerId(response) => response,
        other => panic!("{other:?}"),
    }
}

fn new_id(host: &mut Harness, client: ConnectionId) -> i64 {
    let response = init(
        host,
        client,
        5,
        &InitProducerIdRequest {
            transactional_id: None,
            ..Default::default()
        },
    );
    assert_eq!(response.error_code, ErrorCode::NONE);
    assert_eq!(response.producer_epoch, 0);
    response.producer_id
}

fn records(
    producer_id: i64,
    producer_epoch: i16,
    base_sequence: i32,
    transactional: bool,
) -> Bytes {
    let mut builder = BatchBuilder::new(1 << 20);
    assert!(builder.append(1_700_000_000_000, None, Some(b"x"), &[]));
    builder.build(BatchFields {
        producer: Some(ProducerFields {
            producer_id,
            producer_epoch,
            base_sequence,
        }),
        transactional,
        ..BatchFields::default()
    })
}

fn send(host: &mut Harness, client: ConnectionId, producer: i64, epoch: i16, sequence: i32) {
    let request = produce_request("orders", -1, records(producer, epoch, sequence, false));
    host.send(client, 9, &request);
}

fn produce(
    host: &mut Harness,
    client: ConnectionId,
    producer: i64,
    epoch: i16,
    sequence: i32,
) -> PartitionProduceResponse {
    send(host, client, producer, epoch, sequence);
    host.produced(client).expect("the answer is there")
}

#[test]
fn no_producer_id_is_given_twice_whatever_ends_the_process() {
    let (mut host, client) = started();
    let mut seen = BTreeSet::new();
    for _ in 0..1_100 {
        assert!(seen.insert(new_id(&mut host, client)));
    }
    for clean in [true, false, false, true] {
        if clean {
            host.stop();
        }
        host = Harness::start_on(host.kill(), BrokerConfig::default());
        let client = host.connect();
        for _ in 0..3 {
            assert!(seen.insert(new_id(&mut host, client)));
        }
    }
}

#[test]
fn a_producer_id_is_told_only_once_its_block_is_durable() {
    let (mut host, client) = started();
    host.hold_flushes = true;
    let request = InitProducerIdRequest {
        transactional_id: None,
        ..Default::default()
    };
    host.send(client, 4, &request);
    assert!(host.receive(client).is_none());
    host.complete_flushes();
    let Some(ResponseBody::InitProducerId(first)) = host.receive(client) else {
        panic!("no answer");
    };
    // The second is from the same block.
    let second = new_id(&mut host, client);
    assert_eq!(second, first.producer_id + 1);
}

#[test]
fn ids_whose_block_was_lost_are_not_told() {
    let (mut host, client) = started();
    host.fail_flushes = true;
    let request = InitProducerIdRequest {
        transactional_id: None,
        ..Default::default()
    };
    let refused = init(&mut host, client, 4, &request);
    assert_eq!(refused.error_code, ErrorCode::COORDINATOR_LOAD_IN_PROGRESS);
    assert_eq!(refused.producer_id, -1);
    host.fail_flushes = false;
    host.advance(60_000);
    assert!(new_id(&mut host, client) >= 0);
}

#[test]
fn transactions_are_refused_for_good_and_half_an_identity_is_invalid() {
    let (mut host, client) = started();
    for (transactional_id, producer_id, producer_epoch, error) in [
        (
            Some("t"),
            -1,
            -1,
            ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ),
        (Some(""), -1, -1, ErrorCode::INVALID_REQUEST),
        (None, 5, -1, ErrorCode::INVALID_REQUEST),
        (None, -1, 5, ErrorCode::INVALID_REQUEST),
        (None, 5, 5, ErrorCode::NONE),
    ] {
        let request = InitProducerIdRequest {
            transactional_id: transactional_id.map(Into::into),
            producer_id,
            producer_epoch,
            ..Default::default()
        };
        let response = init(&mut host, client, 3, &request);
        assert_eq!(response.error_code, error, "{request:?}");
        assert!(!response.error_code.is_retriable());
    }
    let request = produce_request("orders", -1, records(1, 0, 0, true));
    host.send(client, 9, &request);
    let refused = host.produced(client).unwrap();
    assert_eq!(refused.error_code, ErrorCode::INVALID_TXN_STATE);
}

#[test]
fn a_retry_gets_the_offset_of_the_original_after_a_restart_too() {
    let (mut host, client) = started();
    let id = new_id(&mut host, client);
    for sequence in 0..3 {
        let answer = produce(&mut host, client, id, 0, sequence);
        assert_eq!(answer.base_offset, i64::from(sequence));
    }
    assert_eq!(produce(&mut host, client, id, 0, 1).base_offset, 1);
    for clean in [false, true] {
        if clean {
            host.stop();
        }
        host = Harness::start_on(host.kill(), BrokerConfig::default());
        let client = host.connect();
        for sequence in 0..3 {
            let answer = produce(&mut host, client, id, 0, sequence);
            assert_eq!(answer.error_code, ErrorCode::NONE);
            assert_eq!(answer.base_offset, i64::from(sequence));
        }
        let gap = produce(&mut host, client, id, 0, 4);
        assert_eq!(gap.error_code, ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER);
        assert_eq!(gap.base_offset, -1);
    }
    let client = host.connect();
    assert_eq!(produce(&mut host, client, id, 1, 0).base_offset, 3);
    let fenced = produce(&mut host, client, id, 0, 3);
    assert_eq!(fenced.error_code, ErrorCode::INVALID_PRODUCER_EPOCH);
}

#[test]
fn a_retry_waits_with_the_original_for_the_same_flush() {
    let (mut host, client) = started();
    let retrying = host.connect();
    let id = new_id(&mut host, client);
    host.hold_flushes = true;
    send(&mut host, client, id, 0, 0);
    send(&mut host, client, id, 0, 1);
    send(&mut host, retrying, id, 0, 0);
    assert!(host.produced(retrying).is_none());
    host.complete_flushes();
    host.complete_flushes();
    let answers = [client, client, retrying].map(|from| host.produced(from).unwrap().base_offset);
    assert_eq!(answers, [0, 1, 0]);
}

#[test]
fn a_retry_shares_the_failure_of_the_original_and_is_then_appended() {
    let (mut host, client) = started();
    let retrying = host.connect();
    let id = new_id(&mut host, client);
    host.hold_flushes = true;
    host.fail_flushes = true;
    send(&mut host, client, id, 0, 0);
    send(&mut host, retrying, id, 0, 0);
    host.complete_flushes();
    for from in [client, retrying] {
        let lost = host.produced(from).unwrap();
        assert_eq!(lost.error_code, ErrorCode::KAFKA_STORAGE_ERROR);
    }
    host.hold_flushes = false;
    host.fail_flushes = false;
    host.advance(60_000);
    assert_eq!(produce(&mut host, client, id, 0, 0).base_offset, 0);
    assert_eq!(produce(&mut host, client, id, 0, 1).base_offset, 1);
}
