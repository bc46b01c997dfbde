//! The producer: batches, order, retries, outcomes.

use std::format;
use std::string::String;
use std::vec;
use std::vec::Vec;

use bytes::Bytes;

use super::world::{World, record, values};
use crate::client::{Acks, ClientError, ClientEvent, Command, Outcome, Timeout};
use crate::ids::Offset;
use crate::record::{BatchHeader, Compression};
use crate::wire::messages::ProduceResponse;
use crate::wire::{ApiKey, ErrorCode, Records};

fn strings(values: &[&str]) -> Vec<String> {
    values.iter().map(|value| String::from(*value)).collect()
}

#[test]
fn records_that_come_while_one_is_on_its_way_become_one_batch() {
    let mut world = World::new(|_| {});
    let first = world.produce("orders", 0, "a");
    let more = [
        world.produce("orders", 0, "b"),
        world.produce("orders", 0, "c"),
    ];
    let asked = world.next(ApiKey::Produce);
    assert_eq!(asked.batches(), [(0, strings(&["a"]))]);
    assert_eq!(asked.produce().acks, -1);
    assert_eq!(world.count(ApiKey::Produce), 0, "one batch a partition");
    let answer = asked.produced(Ok(10));
    world.answer(&asked, answer);
    let ok = |offset| Outcome::Ok {
        partition: 0,
        offset: Some(Offset(offset)),
        timestamp: 1_700_000_000_000,
    };
    assert_eq!(world.outcome(first), Some(ok(10)));
    let asked = world.next(ApiKey::Produce);
    assert_eq!(asked.batches(), [(0, strings(&["b", "c"]))]);
    let answer = asked.produced(Ok(11));
    world.answer(&asked, answer);
    assert_eq!(world.outcome(more[0]), Some(ok(11)));
    assert_eq!(world.outcome(more[1]), Some(ok(12)));
}

#[test]
fn a_batch_lingers_unless_it_is_full_or_flushed() {
    let mut world = World::new(|config| {
        config.producer.linger_ms = 50;
        config.producer.batch_size = 400;
    });
    world.produce("orders", 0, "a");
    world.produce("orders", 0, "b");
    world.advance(49);
    assert_eq!(world.count(ApiKey::Produce), 0);
    world.advance(1);
    let asked = world.next(ApiKey::Produce);
    assert_eq!(asked.batches(), [(0, strings(&["a", "b"]))]);
    let answer = asked.produced(Ok(0));
    world.answer(&asked, answer);

    let large = "x".repeat(350);
    world.produce("orders", 1, &large);
    let asked = world.next(ApiKey::Produce);
    assert_eq!(asked.batches(), [(1, vec![large])]);
    let answer = asked.produced(Ok(0));
    world.answer(&asked, answer);

    world.produce("orders", 1, "c");
    assert_eq!(world.count(ApiKey::Produce), 0);
    world.command(Command::Flush);
    let asked = world.next(ApiKey::Produce);
    assert_eq!(asked.batches(), [(1, strings(&["c"]))]);
}

#[test]
fn a_flush_waits_for_what_came_before_it_and_for_nothing_else() {
    let mut world = World::new(|config| config.producer.linger_ms = 10_000);
    world.produce("orders", 0, "a");
    world.produce("orders", 1, "b");
    let flush = world.command(Command::Flush);
    world.produce("orders", 0, "later");
    let asked = world.next(ApiKey::Produce);
    assert_eq!(
        asked.batches(),
        [(0, strings(&["a"])), (1, strings(&["b"]))],
        "one request to the leader of both"
    );
    let answer = asked.produced(Ok(0));
    world.answer(&asked, answer);
    assert!(
        world
            .events
            .iter()
            .any(|event| matches!(event, ClientEvent::Flushed { id } if *id == flush))
    );
    assert_eq!(world.count(ApiKey::Produce), 0, "the later one lingers");
}

#[test]
fn a_flush_of_nothing_is_over_at_once() {
    let mut world = World::new(|_| {});
    let flush = world.command(Command::Flush);
    assert_eq!(
        world
            .events
            .iter()
            .map(|e| format!("{e}"))
            .collect::<Vec<_>>(),
        [format!("flushed {flush}")]
    );
}

#[test]
fn order_is_kept_when_a_batch_is_sent_again() {
    let mut world = World::new(|_| {});
    world.produce("orders", 0, "a");
    world.produce("orders", 0, "b");
    let asked = world.next(ApiKey::Produce);
    let answer = asked.produced(Err(ErrorCode::NOT_LEADER_OR_FOLLOWER));
    world.answer(&asked, answer);
    world.produce("orders", 0, "c");
    assert_eq!(world.count(ApiKey::Produce), 0, "it backs off first");
    world.advance(200);
    let asked = world.next(ApiKey::Produce);
    assert_eq!(asked.batches(), [(0, strings(&["a"]))]);
    world.advance(500);
    assert_eq!(world.count(ApiKey::Produce), 0, "nothing overtakes it");
    let answer = asked.produced(Ok(0));
    world.answer(&asked, answer);
    let asked = world.next(ApiKey::Produce);
    assert_eq!(asked.batches(), [(0, strings(&["b", "c"]))]);
}

#[test]
fn several_batches_of_a_partition_in_flight_stop_for_one_that_is_sent_again() {
    let mut world = World::new(|config| {
        config.producer.max_in_flight_batches_per_partition = 3;
    });
    for value in ["a", "b", "c"] {
        world.produce("orders", 0, value);
    }
    let asked: Vec<_> = (0..3).map(|_| world.next(ApiKey::Produce)).collect();
    world.produce("orders", 0, "d");
    for asked in &asked {
        let answer = asked.produced(Err(ErrorCode::NOT_LEADER_OR_FOLLOWER));
        world.answer(asked, answer);
    }
    world.advance(2_000);
    for expected in [vec!["a"], vec!["b"], vec!["c"]] {
        let asked = world.next(ApiKey::Produce);
        assert_eq!(asked.batches(), [(0, strings(&expected))]);
        assert_eq!(world.count(ApiKey::Produce), 0, "one at a time");
        let answer = asked.produced(Ok(0));
        world.answer(&asked, answer);
    }
    assert_eq!(
        world.next(ApiKey::Produce).batches(),
        [(0, strings(&["d"]))]
    );
}

/// Seed 105 of the simulator.
#[test]
fn the_halves_of_a_batch_wait_for_what_was_sent_behind_it() {
    let mut world = World::new(|config| {
        config.producer.max_in_flight_batches_per_partition = 2;
    });
    world.produce("orders", 0, "x");
    world.produce("orders", 0, "y");
    let x = world.next(ApiKey::Produce);
    let y = world.next(ApiKey::Produce);
    world.produce("orders", 0, "a");
    world.produce("orders", 0, "b");
    let answer = x.produced(Ok(0));
    world.answer(&x, answer);
    let both = world.next(ApiKey::Produce);
    assert_eq!(both.batches(), [(0, strings(&["a", "b"]))]);
    world.produce("orders", 0, "c");
    let answer = y.produced(Ok(1));
    world.answer(&y, answer);
    let behind = world.next(ApiKey::Produce);
    assert_eq!(behind.batches(), [(0, strings(&["c"]))]);
    let answer = both.produced(Err(ErrorCode::MESSAGE_TOO_LARGE));
    world.answer(&both, answer);
    assert_eq!(
        world.count(ApiKey::Produce),
        0,
        "it may have to come back too"
    );
    let answer = behind.produced(Ok(2));
    world.answer(&behind, answer);
    for half in ["a", "b"] {
        let asked = world.next(ApiKey::Produce);
        assert_eq!(asked.batches(), [(0, strings(&[half]))]);
    }
}

#[test]
fn partitions_have_their_requests_side_by_side_up_to_the_limit() {
    let mut world = World::new(|config| {
        config.producer.max_in_flight_requests_per_connection = 2;
    });
    world.topics.insert("wide", vec![1; 4]);
    for number in 0..4 {
        world.produce("wide", number, "x");
    }
    assert_eq!(world.count(ApiKey::Produce), 2);
    let asked = world.next(ApiKey::Produce);
    let answer = asked.produced(Ok(0));
    world.answer(&asked, answer);
    let rest: Vec<i32> = world.asked[1].batches().iter().map(|(n, _)| *n).collect();
    assert_eq!(rest, [2, 3], "what waited goes in one request");
}

#[test]
fn a_record_that_was_never_sent_fails_when_its_time_is_over() {
    let mut world = World::new(|config| config.producer.delivery_timeout_ms = 20_000);
    world.topics.insert("orders", vec![-1, 1]);
    let id = world.produce("orders", 0, "a");
    world.advance(19_999);
    assert_eq!(world.outcome(id), None);
    world.advance(1);
    assert_eq!(
        world.outcome(id),
        Some(Outcome::Failed(ClientError::TimedOut {
            what: Timeout::Delivery,
            last: None
        }))
    );
}

#[test]
fn a_record_that_was_sent_is_unknown_when_its_time_is_over() {
    let mut world = World::new(|config| config.producer.delivery_timeout_ms = 20_000);
    let id = world.produce("orders", 0, "a");
    let asked = world.next(ApiKey::Produce);
    world.advance(20_000);
    assert!(matches!(
        world.outcome(id),
        Some(Outcome::Unknown(ClientError::TimedOut {
            what: Timeout::Delivery,
            ..
        }))
    ));
    // The answer comes too late to change that, and the partition goes on.
    world.produce("orders", 0, "b");
    assert_eq!(world.count(ApiKey::Produce), 0, "behind the one in flight");
    let answer = asked.produced(Ok(0));
    world.answer(&asked, answer);
    assert_eq!(world.outcomes().len(), 1);
    assert_eq!(
        world.next(ApiKey::Produce).batches(),
        [(0, strings(&["b"]))]
    );
}

#[test]
fn a_connection_that_breaks_leaves_the_outcome_open_until_a_retry_succeeds() {
    let mut world = World::new(|_| {});
    let id = world.produce("orders", 0, "a");
    let asked = world.next(ApiKey::Produce);
    world.disconnect(asked.connection);
    assert_eq!(world.outcome(id), None);
    world.advance(1_000);
    let asked = world.next(ApiKey::Produce);
    let answer = asked.produced(Ok(1));
    world.answer(&asked, answer);
    assert!(matches!(world.outcome(id), Some(Outcome::Ok { .. })));
}

#[test]
fn without_retries_the_error_decides_between_failed_and_unknown() {
    let outcome = |code| {
        let mut world = World::new(|config| config.producer.retries = 0);
        let id = world.produce("orders", 0, "a");
        let asked = world.next(ApiKey::Produce);
        let answer = asked.produced(Err(code));
        world.answer(&asked, answer);
        world.outcome(id).unwrap()
    };
    // Refused before the append.
    for code in [ErrorCode::INVALID_RECORD, ErrorCode::NOT_ENOUGH_REPLICAS] {
        assert_eq!(outcome(code), Outcome::Failed(ClientError::broker(code)));
    }
    // Perhaps appended: the disk failed at the flush, or replicas were too slow.
    for code in [ErrorCode::KAFKA_STORAGE_ERROR, ErrorCode::REQUEST_TIMED_OUT] {
        assert_eq!(outcome(code), Outcome::Unknown(ClientError::broker(code)));
    }
}

#[test]
fn a_clear_refusal_after_an_unclear_attempt_is_still_unclear() {
    let mut world = World::new(|_| {});
    let id = world.produce("orders", 0, "a");
    let asked = world.next(ApiKey::Produce);
    world.disconnect(asked.connection);
    world.advance(1_000);
    let asked = world.next(ApiKey::Produce);
    let answer = asked.produced(Err(ErrorCode::INVALID_RECORD));
    world.answer(&asked, answer);
    assert!(matches!(world.outcome(id), Some(Outcome::Unknown(_))));
}

#[test]
fn a_batch_too_large_for_the_broker_is_split_until_it_fits() {
    let mut world = World::new(|config| config.producer.compression = Compression::Gzip);
    world.produce("orders", 0, "first");
    let ids: Vec<_> = ["a", "b", "c"]
        .iter()
        .map(|value| world.produce("orders", 0, value))
        .collect();
    let asked = world.next(ApiKey::Produce);
    let answer = asked.produced(Ok(0));
    world.answer(&asked, answer);
    let asked = world.next(ApiKey::Produce);
    let answer = asked.produced(Err(ErrorCode::MESSAGE_TOO_LARGE));
    world.answer(&asked, answer);
    let asked = world.next(ApiKey::Produce);
    assert_eq!(asked.batches(), [(0, strings(&["a"]))]);
    let answer = asked.produced(Err(ErrorCode::MESSAGE_TOO_LARGE));
    world.answer(&asked, answer);
    assert_eq!(
        world.outcome(ids[0]),
        Some(Outcome::Failed(ClientError::broker(
            ErrorCode::MESSAGE_TOO_LARGE
        ))),
        "one record cannot be split"
    );
    let asked = world.next(ApiKey::Produce);
    assert_eq!(asked.batches(), [(0, strings(&["b", "c"]))]);
    let answer = asked.produced(Ok(1));
    world.answer(&asked, answer);
    assert!(matches!(
        world.outcome(ids[2]),
        Some(Outcome::Ok {
            offset: Some(Offset(2)),
            ..
        })
    ));
}

#[test]
fn without_acks_a_record_is_delivered_once_it_is_sent() {
    let mut world = World::new(|config| config.producer.acks = Acks::None);
    let id = world.produce("orders", 0, "a");
    assert_eq!(
        world.outcome(id),
        Some(Outcome::Ok {
            partition: 0,
            offset: None,
            timestamp: 1_700_000_000_000
        })
    );
    assert_eq!(world.next(ApiKey::Produce).produce().acks, 0);
    world.produce("orders", 0, "b");
    assert_eq!(world.outcomes().len(), 2, "nothing waits for an answer");
}

#[test]
fn every_compression_reaches_the_broker_as_records_it_can_read() {
    for compression in Compression::ALL {
        let mut world = World::new(|config| config.producer.compression = compression);
        let mut full = record("orders", "value");
        full.partition = Some(1);
        full.key = Some(Bytes::from_static(b"key"));
        full.timestamp = Some(77);
        full.headers = vec![
            (Bytes::from_static(b"h"), Some(Bytes::from_static(b"1"))),
            (Bytes::from_static(b"h"), None),
        ];
        world.command(Command::Produce(full));
        let asked = world.next(ApiKey::Produce);
        let Some(Records::Bytes(batch)) = &asked.produce().topic_data[0].partition_data[0].records
        else {
            panic!()
        };
        let checked = crate::record::check_records(batch.clone(), &Default::default()).unwrap();
        assert_eq!(checked[0].header.compression(), Some(compression));
        assert_eq!(BatchHeader::parse(batch).unwrap().max_timestamp, 77);
        assert_eq!(values(batch), ["value"]);
    }
}

#[test]
fn zstd_is_not_sent_to_a_broker_that_does_not_know_it() {
    let mut world = World::new(|config| config.producer.compression = Compression::Zstd);
    world.max_record_version = 6;
    let id = world.produce("orders", 0, "a");
    assert_eq!(
        world.outcome(id),
        Some(Outcome::Failed(ClientError::UnsupportedVersion {
            api: ApiKey::Produce
        }))
    );
}

#[test]
fn memory_is_bounded_and_short_memory_does_not_linger() {
    let mut world = World::new(|config| {
        config.producer.buffer_memory = 1_000;
        config.producer.linger_ms = 1_000;
    });
    let value = "x".repeat(100);
    let mut fits = Vec::new();
    while world.client.takes(&record("orders", &value)) {
        fits.push(world.produce("orders", 0, &value));
        assert!(fits.len() < 10);
    }
    let refused = world.produce("orders", 0, &value);
    assert_eq!(
        world.outcome(refused),
        Some(Outcome::Failed(ClientError::BufferFull))
    );
    assert_eq!(world.count(ApiKey::Produce), 1, "it does not linger");
    let asked = world.next(ApiKey::Produce);
    let answer = asked.produced(Ok(0));
    world.answer(&asked, answer);
    assert!(world.client.takes(&record("orders", &value)), "room again");
    let huge = "x".repeat(2_000);
    assert!(
        world.client.takes(&record("orders", &huge)),
        "it never will"
    );
    let id = world.produce("orders", 0, &huge);
    assert!(matches!(
        world.outcome(id),
        Some(Outcome::Failed(ClientError::RecordTooLarge { .. }))
    ));
}

#[test]
fn a_topic_that_does_not_exist_is_waited_for_and_then_named_as_the_reason() {
    let mut world = World::new(|config| config.producer.max_block_ms = 3_000);
    let id = world.produce("nowhere", 0, "a");
    world.advance(2_999);
    assert_eq!(world.outcome(id), None);
    world.advance(1);
    assert_eq!(
        world.outcome(id),
        Some(Outcome::Failed(ClientError::TimedOut {
            what: Timeout::Metadata,
            last: Some(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)
        }))
    );
    let id = world.produce("nowhere", 0, "b");
    world.topics.insert("nowhere", vec![1]);
    world.advance(1_200);
    assert_eq!(
        world.next(ApiKey::Produce).batches(),
        [(0, strings(&["b"]))],
        "it was made"
    );
    assert_eq!(world.outcome(id), None);
}

#[test]
fn a_partition_that_does_not_exist_fails_once_the_metadata_is_fresh() {
    let mut world = World::new(|_| {});
    world.produce("orders", 0, "a");
    let missing = world.produce("orders", 2, "b");
    let behind = world.produce("orders", 1, "c");
    assert_eq!(world.outcome(missing), None, "it may be new");
    world.advance(200);
    assert_eq!(
        world.outcome(missing),
        Some(Outcome::Failed(ClientError::UnknownPartition {
            partition: 2,
            partitions: 2
        }))
    );
    assert_eq!(world.outcome(behind), None);
    assert_eq!(world.count(ApiKey::Produce), 2);
}

#[test]
fn records_with_a_key_go_where_kafka_puts_them() {
    let mut world = World::new(|config| config.producer.linger_ms = 10);
    world.topics.insert("wide", vec![1; 12]);
    for key in ["21", "foobar", "abc"] {
        let mut keyed = record("wide", key);
        keyed.key = Some(Bytes::copy_from_slice(key.as_bytes()));
        world.command(Command::Produce(keyed));
    }
    world.advance(10);
    let mut placed: Vec<(String, i32)> = world
        .next(ApiKey::Produce)
        .batches()
        .into_iter()
        .flat_map(|(number, values)| values.into_iter().map(move |value| (value, number)))
        .collect();
    placed.sort();
    let expect = |key: &str, hash: i32| (String::from(key), (hash & i32::MAX) % 12);
    assert_eq!(
        placed,
        [
            expect("21", -973_932_308),
            expect("abc", 479_470_107),
            expect("foobar", -790_332_482),
        ]
    );
}

#[test]
fn an_answer_that_leaves_a_partition_out_is_not_taken_for_success() {
    let mut world = World::new(|config| config.producer.retries = 0);
    let id = world.produce("orders", 0, "a");
    let asked = world.next(ApiKey::Produce);
    world.answer(&asked, ProduceResponse::default());
    assert!(matches!(
        world.outcome(id),
        Some(Outcome::Unknown(ClientError::Malformed { .. }))
    ));
}

#[test]
fn a_log_that_gives_its_own_time_is_reported_so() {
    let mut world = World::new(|_| {});
    let id = world.produce("orders", 0, "a");
    let asked = world.next(ApiKey::Produce);
    let mut answer = asked.produced(Ok(7));
    answer.responses[0].partition_responses[0].log_append_time_ms = 99;
    world.answer(&asked, answer);
    assert_eq!(
        world.outcome(id),
        Some(Outcome::Ok {
            partition: 0,
            offset: Some(Offset(7)),
            timestamp: 99
        })
    );
}
