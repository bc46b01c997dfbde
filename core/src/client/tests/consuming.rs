//! The consumer: positions, order, errors, bounds.

use std::format;
use std::string::String;
use std::vec;
use std::vec::Vec;

use bytes::{Bytes, BytesMut};

use super::world::{Asked, World, partition, stored};
use crate::client::{
    ClientError, ClientEvent, Command, FoundOffset, OffsetReset, OffsetSpec, Polled, StartAt,
};
use crate::ids::{LeaderEpoch, Offset};
use crate::record::{BatchBuilder, BatchFields, Compression};
use crate::wire::messages::ListOffsetsResponse;
use crate::wire::messages::list_offsets::{ListOffsetsPartitionResponse, ListOffsetsTopicResponse};
use crate::wire::{ApiKey, ErrorCode, RequestBody};

/// Offsets and values of the records.
fn records(items: &[Polled]) -> Vec<(i64, String)> {
    items
        .iter()
        .filter_map(|item| match item {
            Polled::Record(record) => {
                let value = record.value.as_deref().unwrap_or_default();
                Some((record.offset.0, String::from_utf8_lossy(value).into_owned()))
            }
            _ => None,
        })
        .collect()
}

fn errors(items: &[Polled]) -> Vec<ClientError> {
    items
        .iter()
        .filter_map(|item| match item {
            Polled::Error { error, .. } => Some(error.clone()),
            _ => None,
        })
        .collect()
}

fn expected(pairs: &[(i64, &str)]) -> Vec<(i64, String)> {
    pairs
        .iter()
        .map(|(offset, value)| (*offset, String::from(*value)))
        .collect()
}

fn join(batches: &[Bytes]) -> Bytes {
    let mut joined = BytesMut::new();
    for batch in batches {
        joined.extend_from_slice(batch);
    }
    joined.freeze()
}

/// Answers a look-up with the same for every partition.
fn listed(asked: &Asked, error_code: ErrorCode, offset: i64) -> ListOffsetsResponse {
    let RequestBody::ListOffsets(request) = &asked.request.body else {
        panic!()
    };
    ListOffsetsResponse {
        topics: request
            .topics
            .iter()
            .map(|topic| ListOffsetsTopicResponse {
                name: topic.name.clone(),
                partitions: topic
                    .partitions
                    .iter()
                    .map(|partition| ListOffsetsPartitionResponse {
                        partition_index: partition.partition_index,
                        error_code,
                        offset,
                        ..Default::default()
                    })
                    .collect(),
                ..Default::default()
            })
            .collect(),
        ..Default::default()
    }
}

fn timestamps(asked: &Asked) -> Vec<i64> {
    let RequestBody::ListOffsets(request) = &asked.request.body else {
        panic!()
    };
    request
        .topics
        .iter()
        .flat_map(|topic| topic.partitions.iter().map(|partition| partition.timestamp))
        .collect()
}

fn assigned(world: &mut World, start: StartAt) {
    world.command(Command::Assign(vec![(partition("single", 0), start)]));
}

#[test]
fn records_come_in_order_from_the_position_on() {
    let mut world = World::new(|_| {});
    assigned(&mut world, StartAt::Offset(Offset(11)));
    let asked = world.next(ApiKey::Fetch);
    assert_eq!(asked.request.header.api_version, 18);
    let what = &asked.fetch().topics[0].partitions[0];
    assert_eq!((what.fetch_offset, what.current_leader_epoch), (11, 3));
    // The batch begins below the position.
    let batches = join(&[
        stored(10, Compression::Lz4, &["a", "b", "c"]),
        stored(13, Compression::None, &["d"]),
    ]);
    let answer = asked.fetched(ErrorCode::NONE, 14, &batches);
    world.answer(&asked, answer);
    assert_eq!(
        world.next(ApiKey::Fetch).fetch().topics[0].partitions[0].fetch_offset,
        14,
        "it fetches ahead"
    );
    let items = world.poll();
    assert_eq!(
        records(&items),
        expected(&[(11, "b"), (12, "c"), (13, "d")])
    );
    let Polled::Record(first) = &items[0] else {
        panic!()
    };
    assert_eq!(first.leader_epoch, Some(LeaderEpoch(3)));
    assert_eq!(first.timestamp, 5);
    assert_eq!(
        world.client.position(&partition("single", 0)),
        Some(Offset(14))
    );
    assert_eq!(
        world.client.high_watermark(&partition("single", 0)),
        Some(Offset(14))
    );
    assert!(world.poll().is_empty());
}

#[test]
fn a_poll_takes_no_more_than_it_asked_for_and_the_rest_follows() {
    let mut world = World::new(|_| {});
    assigned(&mut world, StartAt::Offset(Offset(0)));
    let asked = world.next(ApiKey::Fetch);
    let batch = stored(0, Compression::Zstd, &["a", "b", "c", "d", "e"]);
    let answer = asked.fetched(ErrorCode::NONE, 5, &batch);
    world.answer(&asked, answer);
    assert_eq!(
        records(&world.poll_up_to(2)),
        expected(&[(0, "a"), (1, "b")])
    );
    assert_eq!(
        world.client.position(&partition("single", 0)),
        Some(Offset(2))
    );
    assert_eq!(
        records(&world.poll_up_to(2)),
        expected(&[(2, "c"), (3, "d")])
    );
    assert_eq!(records(&world.poll_up_to(2)), expected(&[(4, "e")]));
}

#[test]
fn a_poll_waits_for_records_and_not_longer_than_it_said() {
    let mut world = World::new(|_| {});
    assigned(&mut world, StartAt::Offset(Offset(0)));
    let poll = |world: &mut World| {
        world.command(Command::Poll {
            max_records: 10,
            max_bytes: 1_000,
            max_wait_ms: 400,
        })
    };
    let first = poll(&mut world);
    world.advance(399);
    assert!(world.events.is_empty());
    world.advance(1);
    let answered = |world: &World, of| {
        world.events.iter().find_map(|event| match event {
            ClientEvent::Polled { id, items } if *id == of => Some(items.clone()),
            _ => None,
        })
    };
    assert_eq!(answered(&world, first), Some(vec![]));
    let second = poll(&mut world);
    let asked = world.next(ApiKey::Fetch);
    let answer = asked.fetched(ErrorCode::NONE, 1, &stored(0, Compression::None, &["a"]));
    world.answer(&asked, answer);
    let items = answered(&world, second).expect("answered as soon as there is something");
    assert_eq!(records(&items), expected(&[(0, "a")]));
}

#[test]
fn the_end_of_a_partition_is_told_once() {
    let mut world = World::new(|config| config.consumer.enable_partition_eof = true);
    assigned(&mut world, StartAt::Offset(Offset(0)));
    let batch = stored(0, Compression::None, &["a"]);
    let asked = world.next(ApiKey::Fetch);
    let answer = asked.fetched(ErrorCode::NONE, 1, &batch);
    world.answer(&asked, answer);
    let items = world.poll();
    assert_eq!(records(&items), expected(&[(0, "a")]));
    assert!(matches!(
        items[1],
        Polled::EndOfPartition {
            offset: Offset(1),
            ..
        }
    ));
    let asked = world.next(ApiKey::Fetch);
    let answer = asked.fetched(ErrorCode::NONE, 1, &Bytes::new());
    world.answer(&asked, answer);
    assert!(world.poll().is_empty());
}

#[test]
fn a_start_by_time_looks_the_offset_up() {
    let mut world = World::new(|_| {});
    assigned(&mut world, StartAt::Spec(OffsetSpec::Timestamp(1_234)));
    let asked = world.next(ApiKey::ListOffsets);
    assert_eq!(timestamps(&asked), [1_234]);
    // A leader that moves meanwhile is asked again.
    let answer = listed(&asked, ErrorCode::NOT_LEADER_OR_FOLLOWER, -1);
    world.answer(&asked, answer);
    world.advance(200);
    let asked = world.next(ApiKey::ListOffsets);
    // Nothing is that new: it goes on at the end.
    let answer = listed(&asked, ErrorCode::NONE, -1);
    world.answer(&asked, answer);
    let asked = world.next(ApiKey::ListOffsets);
    assert_eq!(timestamps(&asked), [-1]);
    let answer = listed(&asked, ErrorCode::NONE, 40);
    world.answer(&asked, answer);
    assert_eq!(
        world.client.position(&partition("single", 0)),
        Some(Offset(40))
    );
    assert_eq!(
        world.next(ApiKey::Fetch).fetch().topics[0].partitions[0].fetch_offset,
        40
    );
}

#[test]
fn a_position_out_of_range_follows_the_policy() {
    for (policy, asked_for) in [(OffsetReset::Earliest, -2), (OffsetReset::Latest, -1)] {
        let mut world = World::new(|config| config.consumer.auto_offset_reset = policy);
        assigned(&mut world, StartAt::Offset(Offset(1_000)));
        let asked = world.next(ApiKey::Fetch);
        let answer = asked.fetched(ErrorCode::OFFSET_OUT_OF_RANGE, -1, &Bytes::new());
        world.answer(&asked, answer);
        let asked = world.next(ApiKey::ListOffsets);
        assert_eq!(timestamps(&asked), [asked_for]);
        let answer = listed(&asked, ErrorCode::NONE, 17);
        world.answer(&asked, answer);
        assert_eq!(
            world.client.position(&partition("single", 0)),
            Some(Offset(17))
        );
    }
    let mut world = World::new(|config| config.consumer.auto_offset_reset = OffsetReset::None);
    assigned(&mut world, StartAt::Offset(Offset(1_000)));
    let asked = world.next(ApiKey::Fetch);
    let answer = asked.fetched(ErrorCode::OFFSET_OUT_OF_RANGE, -1, &Bytes::new());
    world.answer(&asked, answer);
    let offset = Offset(1_000);
    assert_eq!(
        errors(&world.poll()),
        [ClientError::OffsetOutOfRange { offset }]
    );
    world.advance(10_000);
    assert_eq!(world.count(ApiKey::Fetch), 0, "it waits for a seek");
    world.command(Command::Seek {
        partition: partition("single", 0),
        to: StartAt::Offset(Offset(3)),
    });
    assert_eq!(
        world.next(ApiKey::Fetch).fetch().topics[0].partitions[0].fetch_offset,
        3
    );
}

#[test]
fn what_was_fetched_for_an_old_position_is_not_handed_out_after_a_seek() {
    let mut world = World::new(|_| {});
    assigned(&mut world, StartAt::Offset(Offset(0)));
    let asked = world.next(ApiKey::Fetch);
    world.command(Command::Seek {
        partition: partition("single", 0),
        to: StartAt::Offset(Offset(2)),
    });
    let batch = stored(0, Compression::None, &["a", "b", "c"]);
    let answer = asked.fetched(ErrorCode::NONE, 3, &batch);
    world.answer(&asked, answer);
    assert!(world.poll().is_empty());
    let asked = world.next(ApiKey::Fetch);
    assert_eq!(asked.fetch().topics[0].partitions[0].fetch_offset, 2);
    let answer = asked.fetched(ErrorCode::NONE, 3, &batch);
    world.answer(&asked, answer);
    assert_eq!(records(&world.poll()), expected(&[(2, "c")]));
    // Back again, over what was already fetched.
    world.command(Command::Seek {
        partition: partition("single", 0),
        to: StartAt::Offset(Offset(1)),
    });
    let stale = world.next(ApiKey::Fetch);
    let answer = stale.fetched(ErrorCode::NONE, 3, &Bytes::new());
    world.answer(&stale, answer);
    let asked = world.next(ApiKey::Fetch);
    let answer = asked.fetched(ErrorCode::NONE, 3, &batch);
    world.answer(&asked, answer);
    assert_eq!(records(&world.poll()), expected(&[(1, "b"), (2, "c")]));
}

#[test]
fn a_paused_partition_gives_nothing_and_keeps_what_it_has() {
    let mut world = World::new(|_| {});
    assigned(&mut world, StartAt::Offset(Offset(0)));
    let asked = world.next(ApiKey::Fetch);
    let answer = asked.fetched(ErrorCode::NONE, 1, &stored(0, Compression::None, &["a"]));
    world.answer(&asked, answer);
    world.command(Command::Pause(vec![partition("single", 0)]));
    assert!(world.poll().is_empty());
    world.command(Command::Resume(vec![partition("single", 0)]));
    assert_eq!(records(&world.poll()), expected(&[(0, "a")]));
}

#[test]
fn a_damaged_batch_is_told_and_fetched_again() {
    let mut world = World::new(|_| {});
    assigned(&mut world, StartAt::Offset(Offset(0)));
    let asked = world.next(ApiKey::Fetch);
    let good = stored(0, Compression::None, &["a"]);
    let damaged = {
        let mut bytes = stored(1, Compression::None, &["b"]).to_vec();
        *bytes.last_mut().unwrap() ^= 1;
        Bytes::from(bytes)
    };
    let answer = asked.fetched(ErrorCode::NONE, 2, &join(&[good, damaged]));
    world.answer(&asked, answer);
    let items = world.poll();
    assert_eq!(records(&items), expected(&[(0, "a")]));
    assert!(
        matches!(
            &errors(&items)[..],
            [ClientError::Corrupt {
                offset: Offset(1),
                ..
            }]
        ),
        "{items:?}"
    );
    let stale = world.next(ApiKey::Fetch);
    let answer = stale.fetched(ErrorCode::NONE, 2, &Bytes::new());
    world.answer(&stale, answer);
    world.advance(200);
    let asked = world.next(ApiKey::Fetch);
    assert_eq!(asked.fetch().topics[0].partitions[0].fetch_offset, 1);
    let answer = asked.fetched(ErrorCode::NONE, 2, &stored(1, Compression::None, &["b"]));
    world.answer(&asked, answer);
    assert_eq!(records(&world.poll()), expected(&[(1, "b")]));
}

#[test]
fn a_batch_that_unpacks_to_too_much_is_an_error() {
    let mut world = World::new(|config| config.consumer.max_decompressed_bytes = 1_000);
    assigned(&mut world, StartAt::Offset(Offset(0)));
    let asked = world.next(ApiKey::Fetch);
    let bomb = stored(0, Compression::Gzip, &["0".repeat(10_000).as_str()]);
    let answer = asked.fetched(ErrorCode::NONE, 1, &bomb);
    world.answer(&asked, answer);
    assert!(matches!(
        &errors(&world.poll())[..],
        [ClientError::Corrupt { .. }]
    ));
}

#[test]
fn control_batches_and_emptied_batches_are_passed_over() {
    let mut world = World::new(|_| {});
    assigned(&mut world, StartAt::Offset(Offset(0)));
    let mut marker = BatchBuilder::new(1_000);
    assert!(marker.append(1, Some(b"k"), Some(b"v"), &[]));
    let marker = marker.build(BatchFields {
        base_offset: Offset(0),
        control: true,
        ..BatchFields::default()
    });
    let asked = world.next(ApiKey::Fetch);
    let batches = join(&[marker, stored(1, Compression::None, &["a"])]);
    let answer = asked.fetched(ErrorCode::NONE, 2, &batches);
    world.answer(&asked, answer);
    assert_eq!(records(&world.poll()), expected(&[(1, "a")]));
}

#[test]
fn fetching_ahead_is_bounded() {
    let mut world = World::new(|config| {
        config.consumer.prefetch_max_bytes = 300;
        config.consumer.max_partition_fetch_bytes = 250;
    });
    assigned(&mut world, StartAt::Offset(Offset(0)));
    let large = "x".repeat(200);
    let asked = world.next(ApiKey::Fetch);
    assert_eq!(asked.fetch().max_bytes, 300);
    let answer = asked.fetched(ErrorCode::NONE, 9, &stored(0, Compression::None, &[&large]));
    world.answer(&asked, answer);
    world.advance(60_000);
    assert_eq!(world.count(ApiKey::Fetch), 0, "enough for now");
    assert_eq!(world.poll().len(), 1);
    assert_eq!(world.count(ApiKey::Fetch), 1);
}

#[test]
fn partitions_are_read_side_by_side_and_served_in_turn() {
    let mut world = World::new(|_| {});
    world.topics.insert("orders", vec![1, 2]);
    let start = StartAt::Offset(Offset(0));
    world.command(Command::Assign(vec![
        (partition("orders", 0), start),
        (partition("orders", 1), start),
    ]));
    for _ in 0..2 {
        let asked = world.next(ApiKey::Fetch);
        let batch = stored(0, Compression::None, &["a", "b", "c"]);
        let answer = asked.fetched(ErrorCode::NONE, 3, &batch);
        world.answer(&asked, answer);
    }
    let of = |items: &[Polled]| -> Vec<(i32, i64)> {
        items
            .iter()
            .map(|item| match item {
                Polled::Record(record) => (record.partition, record.offset.0),
                other => panic!("{other}"),
            })
            .collect()
    };
    assert_eq!(of(&world.poll_up_to(2)), [(0, 0), (0, 1)]);
    assert_eq!(of(&world.poll_up_to(2)), [(1, 0), (1, 1)]);
    assert_eq!(of(&world.poll_up_to(9)), [(0, 2), (1, 2)]);
}

#[test]
fn a_topic_that_does_not_exist_is_told_once_and_read_when_it_does() {
    let mut world = World::new(|_| {});
    let start = StartAt::Offset(Offset(0));
    world.command(Command::Assign(vec![(partition("nowhere", 0), start)]));
    world.advance(5_000);
    assert_eq!(
        errors(&world.poll()),
        [ClientError::broker(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)]
    );
    world.topics.insert("nowhere", vec![2]);
    world.advance(1_500);
    assert_eq!(world.count(ApiKey::Fetch), 1);
}

#[test]
fn offsets_are_looked_up_at_each_leader() {
    let mut world = World::new(|_| {});
    world.topics.insert("orders", vec![1, 2]);
    let id = world.command(Command::ListOffsets {
        partitions: vec![
            (partition("orders", 0), OffsetSpec::Earliest),
            (partition("orders", 0), OffsetSpec::Latest),
            (partition("orders", 1), OffsetSpec::MaxTimestamp),
            (partition("orders", 7), OffsetSpec::Latest),
        ],
        timeout_ms: 5_000,
    });
    let mut offset = 100;
    while world.count(ApiKey::ListOffsets) > 0 {
        let asked = world.next(ApiKey::ListOffsets);
        assert_eq!(timestamps(&asked).len(), 1, "a partition once a request");
        let answer = listed(&asked, ErrorCode::NONE, offset);
        world.answer(&asked, answer);
        offset += 1;
    }
    let offsets: Vec<_> = world
        .events
        .iter()
        .find_map(|event| match event {
            ClientEvent::Offsets { id: of, offsets } if *of == id => Some(offsets.clone()),
            _ => None,
        })
        .expect("answered");
    let found: Vec<_> = offsets
        .iter()
        .map(|(_, result)| {
            result
                .clone()
                .map(|FoundOffset { offset, .. }| offset.unwrap().0)
        })
        .collect();
    assert_eq!(
        found,
        [
            Ok(100),
            Ok(102),
            Ok(101),
            Err(ClientError::UnknownPartition {
                partition: 7,
                partitions: 2
            })
        ]
    );
}

#[test]
fn a_look_up_that_gets_no_answer_says_why() {
    let mut world = World::new(|_| {});
    let id = world.command(Command::ListOffsets {
        partitions: vec![(partition("single", 0), OffsetSpec::Latest)],
        timeout_ms: 2_000,
    });
    let mut asked = 0;
    for _ in 0..20 {
        while world.count(ApiKey::ListOffsets) > 0 {
            let request = world.next(ApiKey::ListOffsets);
            let answer = listed(&request, ErrorCode::OFFSET_NOT_AVAILABLE, -1);
            world.answer(&request, answer);
            asked += 1;
        }
        world.advance(100);
    }
    assert!((3..10).contains(&asked), "{asked}");
    let said: Vec<_> = world
        .events
        .iter()
        .map(|event| format!("{event}"))
        .collect();
    assert_eq!(said.len(), 1);
    assert!(
        said[0].starts_with(&format!("offsets {id}")) && said[0].contains("OFFSET_NOT_AVAILABLE"),
        "{said:?}"
    );
}

#[test]
fn a_partition_without_news_does_not_keep_the_others_waiting() {
    // Until a fetch is answered, nothing else is fetched from its broker. So while the records of
    // one partition fill its room, another that is at its end must not be waited for at length.
    let mut world = World::new(|config| {
        config.consumer.max_partition_fetch_bytes = 100;
        config.consumer.fetch_max_wait_ms = 500;
    });
    let start = StartAt::Offset(Offset(0));
    world.command(Command::Assign(vec![
        (partition("orders", 0), start),
        (partition("orders", 1), start),
    ]));
    let asked = world.next(ApiKey::Fetch);
    assert_eq!(asked.fetch().max_wait_ms, 500, "both are asked for");
    let large = "x".repeat(200);
    let batch = stored(0, Compression::None, &[&large]);
    let mut answer = asked.fetched(ErrorCode::NONE, 9, &batch);
    for partition in answer.responses.iter_mut().flat_map(|t| &mut t.partitions) {
        if partition.partition_index == 1 {
            partition.high_watermark = 0;
            partition.records = None;
        }
    }
    world.answer(&asked, answer);
    let asked = world.next(ApiKey::Fetch);
    let partitions: Vec<i32> = asked.fetch().topics[0]
        .partitions
        .iter()
        .map(|partition| partition.partition)
        .collect();
    assert_eq!(partitions, [1], "the other's room is full");
    assert_eq!(asked.fetch().max_wait_ms, 10);
    assert_eq!(world.poll().len(), 1);
    let answer = asked.fetched(ErrorCode::NONE, 0, &Bytes::new());
    world.answer(&asked, answer);
    let asked = world.next(ApiKey::Fetch);
    assert_eq!(asked.fetch().topics[0].partitions.len(), 2);
    assert_eq!(asked.fetch().max_wait_ms, 500);
}
