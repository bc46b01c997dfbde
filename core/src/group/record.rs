//! Records of `__consumer_offsets`: out of groups, into batches, and back.

use alloc::string::String;
use alloc::vec::Vec;

use bytes::Bytes;

use super::classic::ClassicGroup;
use super::offsets::CommittedOffset;
use crate::record::batch::{CheckedBatch, Compression};
use crate::record::builder::{BatchBuilder, BatchFields};
use crate::record::check::{Limits, check_own_batch};
use crate::record::records::{BatchRecords, Record};
use crate::time::Wall;
use crate::wire::Str;
use crate::wire::coordinator_records::group_metadata::MemberMetadata;
use crate::wire::coordinator_records::{
    CoordinatorRecord, CoordinatorRecordError, GroupMetadataKey, GroupMetadataValue,
    OffsetCommitKey,
};

/// Batches end before this size, unless one record is larger. What a group says at once is in one
/// batch as far as that goes, so that a crash keeps all of it or nothing.
const BATCH_BYTES: usize = 6 << 20;

/// The type of a commit's record, as its key begins.
const OFFSET_COMMIT: i16 = 1;

/// How far a group has read a partition; `None` for no more.
pub(crate) fn offset_record(
    group: &Str,
    topic: &Str,
    partition: i32,
    offset: Option<&CommittedOffset>,
) -> CoordinatorRecord {
    let key = OffsetCommitKey {
        group: group.clone(),
        topic: topic.clone(),
        partition,
        ..OffsetCommitKey::default()
    };
    CoordinatorRecord::OffsetCommit(key, offset.map(CommittedOffset::to_value))
}

/// A classic group as it is; `None` for no more.
pub(crate) fn classic_record(id: &Str, group: Option<&ClassicGroup>) -> CoordinatorRecord {
    let key = GroupMetadataKey {
        group: id.clone(),
        ..GroupMetadataKey::default()
    };
    CoordinatorRecord::GroupMetadata(key, group.map(classic_value))
}

fn classic_value(group: &ClassicGroup) -> GroupMetadataValue {
    let protocol = group.protocol_name().map_or("", |name| name);
    let members = group.members().iter().map(|(id, member)| MemberMetadata {
        member_id: id.clone(),
        group_instance_id: member.instance_id.clone(),
        client_id: member.client_id.clone(),
        client_host: member.client_host.clone(),
        rebalance_timeout: i32::try_from(member.rebalance_timeout_ms).unwrap_or(i32::MAX),
        session_timeout: i32::try_from(member.session_timeout_ms).unwrap_or(i32::MAX),
        subscription: member.metadata(protocol).cloned().unwrap_or_default(),
        assignment: member.assignment.clone(),
        ..MemberMetadata::default()
    });
    GroupMetadataValue {
        protocol_type: group.protocol_type().cloned().unwrap_or_default(),
        generation: group.generation_id(),
        protocol: group.protocol_name().cloned(),
        leader: group.leader().cloned(),
        current_state_timestamp: group.state_since_ms().unwrap_or(-1),
        members: members.collect(),
        ..GroupMetadataValue::default()
    }
}

/// The records in batches, ready to be appended.
pub(crate) fn batches_of(records: &[CoordinatorRecord], now: Wall) -> Vec<CheckedBatch> {
    let mut batches = Vec::new();
    let mut builder = BatchBuilder::new(BATCH_BYTES);
    for record in records {
        let (key, value) = (record.key(), record.value());
        if !builder.append(now.0, Some(&key), value.as_deref(), &[]) {
            batches.push(finish(builder));
            builder = BatchBuilder::new(BATCH_BYTES);
            let added = builder.append(now.0, Some(&key), value.as_deref(), &[]);
            assert!(added, "the first record of a batch fits");
        }
    }
    if !builder.is_empty() {
        batches.push(finish(builder));
    }
    batches
}

fn finish(builder: BatchBuilder) -> CheckedBatch {
    let bytes = builder.build(BatchFields {
        compression: Compression::None,
        ..BatchFields::default()
    });
    check_own_batch(bytes, &Limits::default())
        .expect("a batch that the builder made passes the checks")
}

/// What a record of a batch says; nothing if it is of a kind of group that is not known here. A
/// commit holds slices of the batch: there are many, and of each only what is kept is copied.
pub(crate) fn record_of(
    batch: &BatchRecords,
    record: Record<'_>,
) -> Result<Option<CoordinatorRecord>, String> {
    let key = record.key.unwrap_or_default();
    let is_commit = key.starts_with(&OFFSET_COMMIT.to_be_bytes());
    let bytes = |slice: &[u8]| match is_commit {
        true => batch.payload().slice_ref(slice),
        false => Bytes::copy_from_slice(slice),
    };
    match CoordinatorRecord::read(bytes(key), record.value.map(bytes)) {
        Ok(record) => Ok(Some(record)),
        Err(CoordinatorRecordError::UnknownType(_)) => Ok(None),
        Err(error) => {
            let offset = record.offset;
            Err(alloc::format!("record at offset {offset}: {error}"))
        }
    }
}
