//! ConsumerGroupMetadata (3): a consumer group (KIP-848).

use crate::wire::text::Str;

data! {
    /// The group.
    pub data ConsumerGroupMetadataKey (versions [0]) {
        group_id: Str [0],
    }
}

data! {
    /// Its epoch.
    pub data ConsumerGroupMetadataValue (versions [0], flexible [0+]) {
        /// The group epoch.
        epoch:         i32 [0+],
        /// A hash over the topics the group subscribes to: it tells whether one changed.
        metadata_hash: i64 [0+] tag 0,
    }
}
