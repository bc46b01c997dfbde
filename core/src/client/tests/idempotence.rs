//! The idempotent producer: ids, numbers, retries, gaps.

use std::vec;
use std::vec::Vec;

use super::world::{Asked, World, values};
use crate::client::{Acks, ClientError, Command, Outcome};
use crate::ids::Offset;
use crate::record::BatchHeader;
use crate::wire::messages::InitProducerIdResponse;
use crate::wire::{ApiKey, ErrorCode, Records};

fn world() -> World {
    let mut world = World::new(|config| config.producer.enable_idempotence = true);
    // So that the topic is known.
    world.produce("single", 0, "first");
    let asked = world.next(ApiKey::InitProducerId);
    assert_eq!(
        world.count(ApiKey::Produce),
        0,
        "nothing goes without a number"
    );
    world.answer(&asked, identity(7));
    let asked = world.next(ApiKey::Produce);
    assert_eq!(number(&asked), (7, 0, 0));
    let answer = asked.produced(Ok(0));
    world.answer(&asked, answer);
    world
}

fn identity(producer_id: i64) -> InitProducerIdResponse {
    InitProducerIdResponse {
        producer_id,
        producer_epoch: 0,
        ..Default::default()
    }
}

fn header(asked: &Asked) -> BatchHeader {
    let data = &asked.produce().topic_data[0].partition_data[0];
    let Some(Records::Bytes(bytes)) = &data.records else {
        panic!()
    };
    BatchHeader::parse(bytes).unwrap()
}

/// Id, epoch and first sequence number of a request with one batch.
fn number(asked: &Asked) -> (i64, i16, i32) {
    let header = header(asked);
    (
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
    )
}

fn contents(asked: &Asked) -> Vec<std::string::String> {
    let data = &asked.produce().topic_data[0].partition_data[0];
    let Some(Records::Bytes(bytes)) = &data.records else {
        panic!()
    };
    values(bytes)
}

fn send(world: &mut World, value: &str) -> (crate::client::CommandId, Asked) {
    let id = world.produce("single", 0, value);
    let asked = world.next(ApiKey::Produce);
    (id, asked)
}

const OUT_OF_ORDER: Result<i64, ErrorCode> = Err(ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER);

#[test]
fn a_retry_keeps_its_number_and_its_bytes() {
    let mut world = world();
    let (id, asked) = send(&mut world, "a");
    assert_eq!(number(&asked), (7, 0, 1));
    world.disconnect(asked.connection);
    world.advance(1_000);
    let again = world.next(ApiKey::Produce);
    assert_eq!(number(&again), (7, 0, 1));
    assert_eq!(contents(&again), ["a"]);
    let answer = again.produced(Ok(1));
    world.answer(&again, answer);
    assert!(matches!(
        world.outcome(id),
        Some(Outcome::Ok {
            offset: Some(Offset(1)),
            ..
        })
    ));
}

#[test]
fn five_batches_of_a_partition_are_in_flight_and_numbered_in_order() {
    let mut world = world();
    for value in ["a", "b", "c", "d", "e", "f"] {
        world.produce("single", 0, value);
    }
    let asked: Vec<Asked> = (0..5).map(|_| world.next(ApiKey::Produce)).collect();
    let numbers: Vec<i32> = asked.iter().map(|asked| number(asked).2).collect();
    assert_eq!(numbers, [1, 2, 3, 4, 5]);
    assert_eq!(world.count(ApiKey::Produce), 0);
}

#[test]
fn what_waited_behind_a_failed_batch_is_retried_in_order_under_the_same_numbers() {
    let mut world = world();
    let (_, a) = send(&mut world, "a");
    let (_, b) = send(&mut world, "b");
    let answer = a.produced(Err(ErrorCode::NOT_ENOUGH_REPLICAS));
    world.answer(&a, answer);
    let answer = b.produced(OUT_OF_ORDER);
    world.answer(&b, answer);
    world.advance(1_500);
    let again = world.next(ApiKey::Produce);
    assert_eq!(
        (number(&again), contents(&again)),
        ((7, 0, 1), vec!["a".into()])
    );
    assert_eq!(world.count(ApiKey::Produce), 0, "one after the other");
    let answer = again.produced(Ok(1));
    world.answer(&again, answer);
    world.advance(1_500);
    let again = world.next(ApiKey::Produce);
    assert_eq!(
        (number(&again), contents(&again)),
        ((7, 0, 2), vec!["b".into()])
    );
}

#[test]
fn a_batch_that_is_no_longer_remembered_is_delivered() {
    let mut world = world();
    let (id, asked) = send(&mut world, "a");
    let answer = asked.produced(Err(ErrorCode::DUPLICATE_SEQUENCE_NUMBER));
    world.answer(&asked, answer);
    assert!(matches!(
        world.outcome(id),
        Some(Outcome::Ok { offset: None, .. })
    ));
}

#[test]
fn behind_a_refused_batch_numbers_begin_anew_in_the_next_epoch() {
    let mut world = world();
    let (refused, a) = send(&mut world, "a");
    let (id, b) = send(&mut world, "b");
    let answer = a.produced(Err(ErrorCode::INVALID_RECORD));
    world.answer(&a, answer);
    assert!(matches!(world.outcome(refused), Some(Outcome::Failed(_))));
    // It must wait until nothing with an old number is on its way.
    world.produce("single", 0, "c");
    assert_eq!(world.count(ApiKey::Produce), 0);
    let answer = b.produced(OUT_OF_ORDER);
    world.answer(&b, answer);
    world.advance(1_500);
    let again = world.next(ApiKey::Produce);
    assert_eq!(
        (number(&again), contents(&again)),
        ((7, 1, 0), vec!["b".into()])
    );
    let answer = again.produced(Ok(1));
    world.answer(&again, answer);
    assert!(matches!(world.outcome(id), Some(Outcome::Ok { .. })));
    let next = world.next(ApiKey::Produce);
    assert_eq!(
        (number(&next), contents(&next)),
        ((7, 1, 1), vec!["c".into()])
    );
}

#[test]
fn what_may_be_in_the_log_under_one_number_is_never_sent_under_another() {
    let mut world = world();
    let (_, a) = send(&mut world, "a");
    let (id, b) = send(&mut world, "b");
    let answer = a.produced(Err(ErrorCode::INVALID_RECORD));
    world.answer(&a, answer);
    // Whether this attempt arrives is never known.
    world.disconnect(b.connection);
    world.advance(1_500);
    let again = world.next(ApiKey::Produce);
    assert_eq!(number(&again), (7, 0, 2), "the same number");
    let answer = again.produced(OUT_OF_ORDER);
    world.answer(&again, answer);
    world.advance(1_500);
    let error = ClientError::broker(ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER);
    assert_eq!(world.outcome(id), Some(Outcome::Unknown(error)));
    let (_, next) = send(&mut world, "c");
    assert_eq!(number(&next), (7, 1, 0));
}

#[test]
fn an_id_that_somebody_else_uses_is_given_up() {
    let mut world = world();
    let (id, asked) = send(&mut world, "a");
    let answer = asked.produced(Err(ErrorCode::INVALID_PRODUCER_EPOCH));
    world.answer(&asked, answer);
    assert!(matches!(world.outcome(id), Some(Outcome::Failed(_))));
    world.produce("single", 0, "b");
    let asked = world.next(ApiKey::InitProducerId);
    world.answer(&asked, identity(8));
    assert_eq!(number(&world.next(ApiKey::Produce)), (8, 0, 0));
}

#[test]
fn halves_of_a_batch_that_was_too_large_share_its_numbers() {
    let mut world = World::new(|config| {
        config.producer.enable_idempotence = true;
        config.producer.linger_ms = 100;
    });
    for value in ["a", "b", "c"] {
        world.produce("single", 0, value);
    }
    world.advance(100);
    let asked = world.next(ApiKey::InitProducerId);
    world.answer(&asked, identity(7));
    let asked = world.next(ApiKey::Produce);
    let answer = asked.produced(Err(ErrorCode::MESSAGE_TOO_LARGE));
    world.answer(&asked, answer);
    let first = world.next(ApiKey::Produce);
    assert_eq!(
        (number(&first), contents(&first)),
        ((7, 0, 0), vec!["a".into()])
    );
    let answer = first.produced(Ok(0));
    world.answer(&first, answer);
    let second = world.next(ApiKey::Produce);
    assert_eq!(number(&second), (7, 0, 1));
    assert_eq!(contents(&second), ["b", "c"]);
}

/// A broker that knows nothing of the producer would append "c" as its first batch, and the halves of
/// what was refused behind it (seed 3887, and 487 of the workload `damage`).
#[test]
fn nothing_overtakes_a_first_batch_that_is_too_large() {
    let mut world = World::new(|config| config.producer.enable_idempotence = true);
    world.produce("single", 0, "a");
    world.produce("single", 0, "b");
    let asked = world.next(ApiKey::InitProducerId);
    world.answer(&asked, identity(7));
    let first = world.next(ApiKey::Produce);
    world.produce("single", 0, "c");
    assert_eq!(world.count(ApiKey::Produce), 0, "the first goes alone");
    let answer = first.produced(Err(ErrorCode::MESSAGE_TOO_LARGE));
    world.answer(&first, answer);
    let mut order = Vec::new();
    for offset in 0..3 {
        let next = world.next(ApiKey::Produce);
        order.extend(contents(&next));
        let answer = next.produced(Ok(offset));
        world.answer(&next, answer);
        if order.len() == 3 {
            break;
        }
    }
    assert_eq!(order, ["a", "b", "c"]);
}

/// What comes while halves wait lies behind all that was sent: in a batch of its own.
#[test]
fn nothing_is_added_to_halves_that_wait() {
    let mut world = world();
    for value in ["a", "b", "c", "d", "e", "f", "g"] {
        world.produce("single", 0, value);
    }
    let mut asked: Vec<Asked> = (0..5).map(|_| world.next(ApiKey::Produce)).collect();
    let answer = asked[0].produced(Ok(1));
    world.answer(&asked[0], answer);
    let pair = world.next(ApiKey::Produce);
    assert_eq!(contents(&pair), ["f", "g"]);
    world.produce("single", 0, "h");
    let answer = asked[1].produced(Ok(2));
    world.answer(&asked[1], answer);
    let behind = world.next(ApiKey::Produce);
    assert_eq!(contents(&behind), ["h"]);
    for (asked, offset) in asked.drain(2..).zip(3..) {
        let answer = asked.produced(Ok(offset));
        world.answer(&asked, answer);
    }
    let answer = pair.produced(Err(ErrorCode::MESSAGE_TOO_LARGE));
    world.answer(&pair, answer);
    world.produce("single", 0, "i");
    let answer = behind.produced(OUT_OF_ORDER);
    world.answer(&behind, answer);
    for (place, (value, sequence)) in (6..).zip([("f", 6), ("g", 7), ("h", 8), ("i", 9)]) {
        world.advance(1_500);
        let next = world.next(ApiKey::Produce);
        assert_eq!(
            (number(&next), contents(&next)),
            ((7, 0, sequence), vec![value.into()])
        );
        let answer = next.produced(Ok(place));
        world.answer(&next, answer);
    }
}

/// A batch that lost its number is there to be written again, not to take what comes.
#[test]
fn nothing_is_added_to_a_batch_that_is_to_get_another_number() {
    let mut world = world();
    let (_, a) = send(&mut world, "a");
    let (_, b) = send(&mut world, "b");
    let (_, c) = send(&mut world, "c");
    let answer = a.produced(Err(ErrorCode::INVALID_RECORD));
    world.answer(&a, answer);
    let answer = b.produced(OUT_OF_ORDER);
    world.answer(&b, answer);
    // "c" is on its way still, and "d" comes behind it.
    world.produce("single", 0, "d");
    let answer = c.produced(OUT_OF_ORDER);
    world.answer(&c, answer);
    let mut order = Vec::new();
    for offset in 1..4 {
        world.advance(1_500);
        let next = world.next(ApiKey::Produce);
        order.extend(contents(&next));
        let answer = next.produced(Ok(offset));
        world.answer(&next, answer);
    }
    assert_eq!(order, ["b", "c", "d"]);
}

/// What has its number and waits for room in a request is closed: the next number counts on it.
#[test]
fn nothing_is_added_to_a_batch_that_has_its_number() {
    let mut world = World::new(|config| {
        config.producer.enable_idempotence = true;
        config.producer.max_request_size = 150;
        config.producer.max_in_flight_requests_per_connection = 1;
    });
    let long = "x".repeat(50);
    world.produce("orders", 0, &long);
    world.produce("orders", 1, &long);
    let asked = world.next(ApiKey::InitProducerId);
    world.answer(&asked, identity(7));
    let first = world.next(ApiKey::Produce);
    assert_eq!(first.batches().len(), 1, "there is no room for both");
    let (other, _) = first.batches()[0];
    let waits = 1 - other;
    world.produce("orders", waits, "a");
    let answer = first.produced(Ok(0));
    world.answer(&first, answer);
    let mut seen = Vec::new();
    for offset in 0..2 {
        let next = world.next(ApiKey::Produce);
        let (partition, values) = next.batches().remove(0);
        assert_eq!(partition, waits);
        seen.push((number(&next).2, values.len()));
        let answer = next.produced(Ok(offset));
        world.answer(&next, answer);
    }
    assert_eq!(seen, [(0, 1), (1, 1)]);
}

#[test]
fn without_acks_of_all_nothing_is_numbered() {
    let mut world = World::new(|config| {
        config.producer.enable_idempotence = true;
        config.producer.acks = Acks::Leader;
    });
    world.produce("single", 0, "a");
    assert_eq!(world.count(ApiKey::InitProducerId), 0);
    assert_eq!(number(&world.next(ApiKey::Produce)), (-1, -1, -1));
}

#[test]
fn who_may_not_have_an_id_is_told() {
    let mut world = World::new(|config| config.producer.enable_idempotence = true);
    let id = world.produce("single", 0, "a");
    let asked = world.next(ApiKey::InitProducerId);
    let answer = InitProducerIdResponse {
        error_code: ErrorCode::CLUSTER_AUTHORIZATION_FAILED,
        ..Default::default()
    };
    world.answer(&asked, answer);
    let error = ClientError::broker(ErrorCode::CLUSTER_AUTHORIZATION_FAILED);
    assert_eq!(world.outcome(id), Some(Outcome::Failed(error)));
    world.command(Command::Flush);
}
