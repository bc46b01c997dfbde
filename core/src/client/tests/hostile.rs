//! Brokers that answer with anything at all: nothing panics, and every record still ends once.

use std::vec;
use std::vec::Vec;

use bytes::Bytes;
use proptest::prelude::*;

use super::world::{Asked, World, joined, partition, stored};
use crate::client::{Command, OffsetSpec, StartAt};
use crate::ids::Offset;
use crate::record::Compression;
use crate::wire::frame::encode_response;
use crate::wire::{ErrorCode, RequestBody, ResponseBody};

/// What a broker could have said, as a frame with its length in front.
fn sensible(world: &World, asked: &Asked) -> Vec<u8> {
    let body: ResponseBody = match &asked.request.body {
        RequestBody::ApiVersions(_) => world.api_versions().into(),
        RequestBody::Metadata(request) => world.metadata(request).into(),
        RequestBody::Produce(_) => asked.produced(Ok(3)).into(),
        RequestBody::Fetch(_) => {
            let batch = stored(0, Compression::Snappy, &["a", "b"]);
            asked.fetched(ErrorCode::NONE, 2, &batch).into()
        }
        RequestBody::ListOffsets(_) => crate::wire::messages::ListOffsetsResponse::default().into(),
        other => panic!("{other:?}"),
    };
    let header = &asked.request.header;
    joined(&encode_response(
        header.correlation_id,
        header.api_version,
        &body,
    ))
    .to_vec()
}

#[derive(Clone, Debug)]
enum Damage {
    None,
    /// Another byte at a place, as a fraction of the frame.
    Byte(u16, u8),
    /// Four bytes that read as a huge or negative length.
    Length(u16, i32),
    Cut(u16),
    Garbage(Vec<u8>),
}

fn damage() -> impl Strategy<Value = Damage> {
    prop_oneof![
        6 => Just(Damage::None),
        4 => (any::<u16>(), any::<u8>()).prop_map(|(at, byte)| Damage::Byte(at, byte)),
        2 => (any::<u16>(), prop_oneof![Just(-1), Just(i32::MAX), any::<i32>()])
            .prop_map(|(at, length)| Damage::Length(at, length)),
        1 => any::<u16>().prop_map(Damage::Cut),
        1 => prop::collection::vec(any::<u8>(), 0..80).prop_map(Damage::Garbage),
    ]
}

/// A place in the frame, after its length.
fn place(frame: &[u8], at: u16) -> usize {
    4 + usize::from(at) * (frame.len() - 4) / (usize::from(u16::MAX) + 1)
}

fn apply(frame: &mut Vec<u8>, damage: &Damage) {
    match damage {
        Damage::None => {}
        Damage::Byte(at, byte) => {
            let at = place(frame, *at);
            frame[at] = *byte;
        }
        Damage::Length(at, length) => {
            let at = place(frame, *at).min(frame.len() - 4);
            frame[at..at + 4].copy_from_slice(&length.to_be_bytes());
        }
        Damage::Cut(at) => {
            let at = place(frame, *at);
            frame.truncate(at);
        }
        Damage::Garbage(bytes) => {
            // Right after the correlation id, so that it is taken for the answer.
            frame.truncate(8);
            frame.extend_from_slice(bytes);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn no_answer_panics_and_every_record_ends_once(
        damages in prop::collection::vec(damage(), 1..60),
        version in prop_oneof![Just(i16::MAX), 4..18_i16],
    ) {
        let mut world = World::new(|config| {
            config.producer.delivery_timeout_ms = 60_000;
            config.consumer.enable_partition_eof = true;
        });
        world.answers_itself = false;
        world.max_record_version = version;
        let mut records = vec![
            world.produce("orders", 0, "a"),
            world.produce("orders", 1, "b"),
        ];
        world.command(Command::Assign(vec![
            (partition("orders", 0), StartAt::Offset(Offset(0))),
            (partition("single", 0), StartAt::Spec(OffsetSpec::Latest)),
        ]));
        for damage in &damages {
            let Some(asked) = world.asked.pop_front() else {
                world.advance(700);
                continue;
            };
            let mut frame = sensible(&world, &asked);
            apply(&mut frame, damage);
            world.receive(asked.connection, Bytes::from(frame));
            world.poll();
            if records.len() < 20 {
                records.push(world.produce("orders", 0, "c"));
            }
        }
        // Whatever was understood, the time of every record is over at last.
        world.advance(200_000);
        prop_assert_eq!(world.outcomes().len(), records.len());
        for record in records {
            prop_assert!(world.outcome(record).is_some());
        }
    }
}
