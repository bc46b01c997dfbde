//! The records of `__consumer_offsets`, in Kafka's schemas, so that its
//! `DumpLogSegments --offsets-decoder` reads them.
//!
//! A key is the type of the record as 16 bits, and the key's struct; a value is its version as 16
//! bits, and the value's struct. A record without a value deletes what its key names.
//!
//! Types that stand for groups of other kinds (share, streams) are unknown here: see
//! [`CoordinatorRecordError::UnknownType`].

pub mod consumer_group_current_member_assignment;
pub mod consumer_group_member_metadata;
pub mod consumer_group_metadata;
pub mod consumer_group_partition_metadata;
pub mod consumer_group_regular_expression;
pub mod consumer_group_target_assignment_member;
pub mod consumer_group_target_assignment_metadata;
pub mod group_metadata;
pub mod offset_commit;

pub use consumer_group_current_member_assignment::{
    ConsumerGroupCurrentMemberAssignmentKey, ConsumerGroupCurrentMemberAssignmentValue,
};
pub use consumer_group_member_metadata::{
    ConsumerGroupMemberMetadataKey, ConsumerGroupMemberMetadataValue,
};
pub use consumer_group_metadata::{ConsumerGroupMetadataKey, ConsumerGroupMetadataValue};
pub use consumer_group_partition_metadata::{
    ConsumerGroupPartitionMetadataKey, ConsumerGroupPartitionMetadataValue,
};
pub use consumer_group_regular_expression::{
    ConsumerGroupRegularExpressionKey, ConsumerGroupRegularExpressionValue,
};
pub use consumer_group_target_assignment_member::{
    ConsumerGroupTargetAssignmentMemberKey, ConsumerGroupTargetAssignmentMemberValue,
};
pub use consumer_group_target_assignment_metadata::{
    ConsumerGroupTargetAssignmentMetadataKey, ConsumerGroupTargetAssignmentMetadataValue,
};
pub use group_metadata::{GroupMetadataKey, GroupMetadataValue};
pub use offset_commit::{OffsetCommitKey, OffsetCommitValue};

use bytes::Bytes;
use core::fmt;

use super::reader::{DecodeError, Reader};
use super::versioned::{Versioned, joined};
use super::writer::Writer;

/// The one version that every key has.
const KEY_VERSION: i16 = 0;

/// Why a record is not one of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CoordinatorRecordError {
    /// A type that is not known here. A reader skips it: it belongs to a kind of group that this
    /// broker does not have.
    UnknownType(i16),
    /// The key is not what its type says.
    Key(DecodeError),
    /// The value is not what its version says, or the version is unknown.
    Value(DecodeError),
}

impl fmt::Display for CoordinatorRecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownType(kind) => write!(f, "no record of a group has type {kind}"),
            Self::Key(error) => write!(f, "key: {error}"),
            Self::Value(error) => write!(f, "value: {error}"),
        }
    }
}

impl core::error::Error for CoordinatorRecordError {}

macro_rules! coordinator_records {
    ($($(#[$doc:meta])* $record:ident = $kind:literal: $key:ident, $value:ident in $version:expr;)*) => {
        /// A record: what it is about, and what is said about it; `None` deletes it.
        #[derive(Clone, Debug, PartialEq)]
        pub enum CoordinatorRecord {
            $($(#[$doc])* $record($key, Option<$value>),)*
        }

        impl CoordinatorRecord {
            /// The type, as its key begins.
            #[must_use]
            pub const fn kind(&self) -> i16 {
                match self {
                    $(Self::$record(..) => $kind,)*
                }
            }

            /// Reads a record. What is read holds slices of `key` and `value`: what outlives them
            /// must detach its strings.
            pub fn read(
                key: Bytes,
                value: Option<Bytes>,
            ) -> Result<Self, CoordinatorRecordError> {
                let mut reader = Reader::new(key);
                let kind = reader.i16().map_err(CoordinatorRecordError::Key)?;
                match kind {
                    $($kind => Ok(Self::$record(
                        read_key(&mut reader)?,
                        value
                            .map(Versioned::read_versioned)
                            .transpose()
                            .map_err(CoordinatorRecordError::Value)?,
                    )),)*
                    other => Err(CoordinatorRecordError::UnknownType(other)),
                }
            }

            /// The bytes of the key.
            #[must_use]
            pub fn key(&self) -> Bytes {
                let mut writer = Writer::new();
                writer.put_i16(self.kind());
                match self {
                    $(Self::$record(key, _) => key.encode(&mut writer, KEY_VERSION),)*
                }
                joined(writer.finish())
            }

            /// The bytes of the value, in the version that Kafka 4.3 writes.
            #[must_use]
            pub fn value(&self) -> Option<Bytes> {
                match self {
                    $(Self::$record(_, value) => value.as_ref().map(|value| {
                        let version: fn(&$value) -> i16 = $version;
                        value.to_versioned(version(value))
                    }),)*
                }
            }
        }
    };
}

coordinator_records! {
    /// How far a group has read a partition.
    OffsetCommit = 1: OffsetCommitKey, OffsetCommitValue in |value| {
        // Only version 1 has a time of its own at which the offset expires.
        if value.expire_timestamp == -1 { 4 } else { 1 }
    };
    /// A classic group: its generation and members.
    GroupMetadata = 2: GroupMetadataKey, GroupMetadataValue in |_| 3;
    /// A consumer group: its epoch.
    ConsumerGroupMetadata = 3: ConsumerGroupMetadataKey, ConsumerGroupMetadataValue in |_| 0;
    /// The topics a consumer group knew, as brokers before Kafka 4.1 wrote them.
    ConsumerGroupPartitionMetadata = 4:
        ConsumerGroupPartitionMetadataKey, ConsumerGroupPartitionMetadataValue in |_| 0;
    /// What a member of a consumer group wants.
    ConsumerGroupMemberMetadata = 5:
        ConsumerGroupMemberMetadataKey, ConsumerGroupMemberMetadataValue in |_| 0;
    /// For which group epoch the target assignment was made.
    ConsumerGroupTargetAssignmentMetadata = 6:
        ConsumerGroupTargetAssignmentMetadataKey, ConsumerGroupTargetAssignmentMetadataValue in |_| 0;
    /// What a member shall own in the end.
    ConsumerGroupTargetAssignmentMember = 7:
        ConsumerGroupTargetAssignmentMemberKey, ConsumerGroupTargetAssignmentMemberValue in |_| 0;
    /// What a member owns now.
    ConsumerGroupCurrentMemberAssignment = 8:
        ConsumerGroupCurrentMemberAssignmentKey, ConsumerGroupCurrentMemberAssignmentValue in |_| 0;
    /// What a subscribed regular expression matched.
    ConsumerGroupRegularExpression = 16:
        ConsumerGroupRegularExpressionKey, ConsumerGroupRegularExpressionValue in |_| 0;
}

fn read_key<K: Versioned>(reader: &mut Reader) -> Result<K, CoordinatorRecordError> {
    let key = K::decode(reader, KEY_VERSION).map_err(CoordinatorRecordError::Key)?;
    reader.finish().map_err(CoordinatorRecordError::Key)?;
    Ok(key)
}
