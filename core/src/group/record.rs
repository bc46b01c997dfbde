//! Records of `__consumer_offsets`: out of groups, into batches, and back.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use bytes::Bytes;

use super::classic::ClassicGroup;
use super::offsets::CommittedOffset;
use crate::record::batch::{CheckedBatch, Compression};
use crate::record::builder::{BatchBuilder, BatchFields};
use crate::record::check::{Limits, check_own_batch};
use crate::record::records::BatchRecords;
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

/// The records of a batch, in order; those of kinds of groups that are not known here are left out.
/// What is returned holds nothing of the batch.
pub(crate) fn records_of(batch: &Bytes) -> Result<Vec<(Bytes, CoordinatorRecord)>, String> {
    let limits = Limits::default();
    let opened = BatchRecords::open(batch, limits.max_decompressed_bytes)
        .map_err(|error| error.to_string())?;
    let base = opened.header().base_offset;
    if opened.header().is_control() {
        return Ok(Vec::new());
    }
    let mut records = Vec::new();
    for (delta, record) in (0..).zip(opened.iter()) {
        let record = record.map_err(|error| error.to_string())?;
        let key = Bytes::copy_from_slice(record.key.unwrap_or_default());
        let value = record.value.map(Bytes::copy_from_slice);
        match CoordinatorRecord::read(key.clone(), value) {
            Ok(record) => records.push((key, record)),
            Err(CoordinatorRecordError::UnknownType(_)) => {}
            Err(error) => {
                return Err(alloc::format!(
                    "record at offset {}: {error}",
                    base.plus(delta)
                ));
            }
        }
    }
    Ok(records)
}
