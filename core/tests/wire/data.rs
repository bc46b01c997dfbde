//! What is no request or response, against the bytes of Kafka's own Java classes and against hostile
//! bytes: records of groups, the consumer protocol, the producer snapshot.

use crate::golden::{concat, from_hex};
use crate::hostile::{FLOOR, MULTIPLE, mutation, peak};
use crate::kafka::{DebugText, assert_same};

use std::sync::LazyLock;

use bytes::Bytes;
use odradek_core::wire::consumer_protocol::{
    ConsumerProtocolAssignment, ConsumerProtocolSubscription,
};
use odradek_core::wire::coordinator_records::*;
use odradek_core::wire::producer_snapshot::ProducerSnapshot;
use odradek_core::wire::{DecodeError, Reader, Versioned, Versions, Writer};
use proptest::prelude::*;

/// A struct of the tables, its type forgotten.
struct Kind {
    name: &'static str,
    versions: Versions,
    /// What `Debug` shows of the bytes, and the bytes that are written of it.
    through: fn(i16, Bytes) -> Through,
}

type Through = Result<(String, Vec<u8>), DecodeError>;

fn kind<T: Versioned + std::fmt::Debug>() -> Kind {
    Kind {
        name: T::NAME,
        versions: T::VERSIONS,
        through: |version, bytes| {
            let mut reader = Reader::new(bytes);
            let value = T::decode(&mut reader, version)?;
            reader.finish()?;
            let mut writer = Writer::new();
            value.encode(&mut writer, version);
            Ok((format!("{value:?}"), concat(&writer.finish())))
        },
    }
}

fn kinds() -> Vec<Kind> {
    vec![
        kind::<OffsetCommitKey>(),
        kind::<OffsetCommitValue>(),
        kind::<GroupMetadataKey>(),
        kind::<GroupMetadataValue>(),
        kind::<ConsumerGroupMetadataKey>(),
        kind::<ConsumerGroupMetadataValue>(),
        kind::<ConsumerGroupPartitionMetadataKey>(),
        kind::<ConsumerGroupPartitionMetadataValue>(),
        kind::<ConsumerGroupMemberMetadataKey>(),
        kind::<ConsumerGroupMemberMetadataValue>(),
        kind::<ConsumerGroupTargetAssignmentMetadataKey>(),
        kind::<ConsumerGroupTargetAssignmentMetadataValue>(),
        kind::<ConsumerGroupTargetAssignmentMemberKey>(),
        kind::<ConsumerGroupTargetAssignmentMemberValue>(),
        kind::<ConsumerGroupCurrentMemberAssignmentKey>(),
        kind::<ConsumerGroupCurrentMemberAssignmentValue>(),
        kind::<ConsumerGroupRegularExpressionKey>(),
        kind::<ConsumerGroupRegularExpressionValue>(),
        kind::<ConsumerProtocolSubscription>(),
        kind::<ConsumerProtocolAssignment>(),
        kind::<ProducerSnapshot>(),
    ]
}

/// One line of the file.
struct Golden {
    name: &'static str,
    version: i16,
    case: &'static str,
    bytes: Bytes,
    json: serde_json::Value,
}

impl Golden {
    fn title(&self) -> String {
        format!("{} v{} {}", self.name, self.version, self.case)
    }

    fn kind(&self) -> Kind {
        kinds()
            .into_iter()
            .find(|kind| kind.name == self.name)
            .unwrap_or_else(|| panic!("what is {}?", self.name))
    }
}

fn golden() -> &'static [Golden] {
    static ALL: LazyLock<Vec<Golden>> = LazyLock::new(|| {
        let parse = |line: &'static str| {
            let [name, version, case, _, hex, json] = line
                .split('\t')
                .collect::<Vec<_>>()
                .try_into()
                .expect("six columns");
            Golden {
                name,
                version: version.parse().unwrap(),
                case,
                bytes: from_hex(hex),
                json: serde_json::from_str(json).unwrap(),
            }
        };
        include_str!("../golden/data-4.3.1.txt")
            .lines()
            .map(parse)
            .collect()
    });
    &ALL
}

#[test]
fn every_version_of_every_struct_is_there() {
    for kind in kinds() {
        for version in kind.versions.min..=kind.versions.max {
            for case in ["defaults", "full"] {
                assert!(
                    golden()
                        .iter()
                        .any(|g| g.name == kind.name && g.version == version && g.case == case),
                    "{} v{version} {case} is missing",
                    kind.name
                );
            }
        }
    }
}

#[test]
fn kafkas_bytes_are_decoded_and_come_back_the_same() {
    for g in golden() {
        let (text, written) = (g.kind().through)(g.version, g.bytes.clone())
            .unwrap_or_else(|error| panic!("{}: {error}", g.title()));
        assert_eq!(written, g.bytes, "{}: {text}", g.title());
        let ours = DebugText { rest: &text }.value();
        assert_same(&g.title(), g.name, &ours, &g.json);
    }
}

/// A key of Kafka's and a value of Kafka's, with the type and the version in front.
fn record(kind: i16, name: &str, version: i16) -> (Bytes, Bytes) {
    let full = |name: String, version: i16| {
        golden()
            .iter()
            .find(|g| g.name == name && g.version == version && g.case == "full")
            .unwrap()
    };
    let prefixed = |prefix: i16, g: &Golden| {
        let mut bytes = prefix.to_be_bytes().to_vec();
        bytes.extend_from_slice(&g.bytes);
        Bytes::from(bytes)
    };
    (
        prefixed(kind, full(format!("{name}Key"), 0)),
        prefixed(version, full(format!("{name}Value"), version)),
    )
}

/// Kafka's `CoordinatorRecordType`, and the version of the value that its 4.3 writes.
const RECORDS: [(i16, &str, i16); 9] = [
    (1, "OffsetCommit", 4),
    (2, "GroupMetadata", 3),
    (3, "ConsumerGroupMetadata", 0),
    (4, "ConsumerGroupPartitionMetadata", 0),
    (5, "ConsumerGroupMemberMetadata", 0),
    (6, "ConsumerGroupTargetAssignmentMetadata", 0),
    (7, "ConsumerGroupTargetAssignmentMember", 0),
    (8, "ConsumerGroupCurrentMemberAssignment", 0),
    (16, "ConsumerGroupRegularExpression", 0),
];

#[test]
fn records_of_groups_are_written_as_kafka_writes_them() {
    for (kind, name, version) in RECORDS {
        let (key, value) = record(kind, name, version);
        let record = CoordinatorRecord::read(key.clone(), Some(value.clone())).unwrap();
        assert_eq!(record.kind(), kind);
        assert_eq!(record.key(), key, "{record:?}");
        assert_eq!(record.value(), Some(value), "{record:?}");
        let tombstone = CoordinatorRecord::read(key.clone(), None).unwrap();
        assert_eq!(
            (tombstone.key(), tombstone.value()),
            (key, None),
            "{tombstone:?}"
        );
    }
}

#[test]
fn an_offset_that_expires_at_a_time_of_its_own_is_written_in_version_1() {
    let (key, value) = record(1, "OffsetCommit", 1);
    let record = CoordinatorRecord::read(key, Some(value.clone())).unwrap();
    assert_eq!(record.value(), Some(value));
}

#[test]
fn records_of_other_kinds_of_groups_are_told_apart_from_damage() {
    let (key, value) = record(3, "ConsumerGroupMetadata", 0);
    let mut share = key.to_vec();
    share[1] = 11;
    assert_eq!(
        CoordinatorRecord::read(share.into(), Some(value.clone())),
        Err(CoordinatorRecordError::UnknownType(11))
    );
    let cut = key.slice(..key.len() - 1);
    assert!(matches!(
        CoordinatorRecord::read(cut, Some(value.clone())),
        Err(CoordinatorRecordError::Key(_))
    ));
    let mut future = value.to_vec();
    future[1] = 9;
    assert!(matches!(
        CoordinatorRecord::read(key, Some(future.into())),
        Err(CoordinatorRecordError::Value(_))
    ));
}

#[test]
fn a_subscription_of_the_future_is_read_as_the_newest_that_is_known() {
    let subscription = ConsumerProtocolSubscription {
        topics: vec!["orders".into()],
        generation_id: 7,
        rack_id: Some("b".into()),
        ..Default::default()
    };
    let mut bytes = subscription.to_versioned(3).to_vec();
    assert_eq!(
        ConsumerProtocolSubscription::read_versioned(bytes.clone().into()),
        Ok(subscription.clone())
    );
    bytes[1] = 4;
    bytes.extend([1, 2, 3]);
    assert!(ConsumerProtocolSubscription::read_versioned(bytes.clone().into()).is_err());
    assert_eq!(
        ConsumerProtocolSubscription::read_lenient(bytes.into()),
        Ok(subscription)
    );
}

#[test]
fn large_bytes_inside_a_struct_come_out_in_one_piece() {
    let assignment = ConsumerProtocolAssignment {
        user_data: Some(Bytes::from(vec![7; 5000])),
        ..Default::default()
    };
    let bytes = assignment.to_versioned(3);
    assert_eq!(bytes.len(), 2 + 4 + 4 + 5000);
    assert_eq!(
        ConsumerProtocolAssignment::read_versioned(bytes),
        Ok(assignment)
    );
}

/// Decodes, and checks the memory it took.
fn survives(kind: &Kind, version: i16, bytes: Bytes) {
    let length = bytes.len();
    // What `Debug` writes is not the decoder's; it is counted generously.
    let (taken, result) = peak(|| (kind.through)(version, bytes));
    let text = result.as_ref().map_or(0, |(text, _)| 3 * text.len());
    assert!(
        taken <= (MULTIPLE + 2) * length + FLOOR + text,
        "{} v{version}: {taken} bytes for {length}",
        kind.name
    );
    if let Ok((text, written)) = result {
        let again = (kind.through)(version, written.clone().into()).expect("what we write we read");
        assert_eq!(again, (text, written));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn arbitrary_bytes(
        bytes in prop::collection::vec(prop_oneof![0..4_u8, any::<u8>()], 0..300),
    ) {
        let bytes = Bytes::from(bytes);
        for kind in kinds() {
            for version in kind.versions.min..=kind.versions.max {
                survives(&kind, version, bytes.clone());
            }
        }
        let _ = CoordinatorRecord::read(bytes.clone(), Some(bytes));
    }

    /// Each struct of Kafka's, damaged.
    #[test]
    fn damaged_structs(mutations in prop::collection::vec(mutation(), 1..4)) {
        for g in golden() {
            let mut bytes = g.bytes.to_vec();
            for mutation in &mutations {
                mutation.apply(&mut bytes);
            }
            survives(&g.kind(), g.version, bytes.into());
        }
    }

    /// Each record of Kafka's, damaged in key and value, beside what its type says.
    #[test]
    fn damaged_records(mutations in prop::collection::vec(mutation(), 1..4), other in 0..20_i16) {
        for (kind, name, version) in RECORDS {
            let (key, value) = record(kind, name, version);
            let (mut key, mut value) = (key.to_vec(), value.to_vec());
            let _ = CoordinatorRecord::read(
                [&other.to_be_bytes(), &key[2..]].concat().into(),
                Some(value.clone().into()),
            );
            for mutation in &mutations {
                mutation.apply(&mut key);
                mutation.apply(&mut value);
            }
            if let Ok(record) = CoordinatorRecord::read(key.into(), Some(value.into())) {
                let again = CoordinatorRecord::read(record.key(), record.value());
                prop_assert_eq!(again, Ok(record));
            }
        }
    }
}
