//! What the client may do with a thing (KIP-430), as a set of bits by Kafka's codes of operations.
//!
//! There are no access control lists yet, so that is whatever the thing supports, as with Kafka when no
//! authorizer is configured.

use crate::wire::ErrorCode;

const READ: i32 = 1 << 3;
const WRITE: i32 = 1 << 4;
const CREATE: i32 = 1 << 5;
const DELETE: i32 = 1 << 6;
const ALTER: i32 = 1 << 7;
const DESCRIBE: i32 = 1 << 8;
const CLUSTER_ACTION: i32 = 1 << 9;
const DESCRIBE_CONFIGS: i32 = 1 << 10;
const ALTER_CONFIGS: i32 = 1 << 11;
const IDEMPOTENT_WRITE: i32 = 1 << 12;

/// With the cluster.
pub(super) const CLUSTER: i32 = CREATE
    | ALTER
    | DESCRIBE
    | CLUSTER_ACTION
    | DESCRIBE_CONFIGS
    | ALTER_CONFIGS
    | IDEMPOTENT_WRITE;

/// With a topic.
pub(super) const TOPIC: i32 =
    READ | WRITE | CREATE | DELETE | ALTER | DESCRIBE | DESCRIBE_CONFIGS | ALTER_CONFIGS;

/// With a group.
const GROUP: i32 = READ | DELETE | DESCRIBE | DESCRIBE_CONFIGS | ALTER_CONFIGS;

/// What is told with a group, if the client asked for it and the group could be described.
pub(super) fn of_group(is_asked: bool, error: ErrorCode) -> i32 {
    told(is_asked && !error.is_error(), GROUP)
}

/// The operations if the client asked for them; Kafka's "not told" if it did not.
pub(super) const fn told(is_asked: bool, operations: i32) -> i32 {
    if is_asked { operations } else { i32::MIN }
}
