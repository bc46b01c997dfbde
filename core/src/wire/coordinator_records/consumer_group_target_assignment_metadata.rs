//! ConsumerGroupTargetAssignmentMetadata (6): for which group epoch the target assignment was made.

use crate::wire::text::Str;

data! {
    /// The group.
    pub data ConsumerGroupTargetAssignmentMetadataKey (versions [0]) {
        group_id: Str [0],
    }
}

data! {
    /// The assignment epoch.
    pub data ConsumerGroupTargetAssignmentMetadataValue (versions [0], flexible [0+]) {
        assignment_epoch:     i32 [0+],
        /// Milliseconds.
        assignment_timestamp: i64 [0+] tag 0,
    }
}
