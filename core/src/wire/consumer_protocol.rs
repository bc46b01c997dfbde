//! The protocol `consumer` inside the classic group protocol: what members tell each other through
//! the bytes that JoinGroup and SyncGroup carry (KIP-62, KIP-429, KIP-792, KIP-881).
//!
//! The bytes begin with the version. A reader takes a newer version for the newest that it knows and
//! ignores what follows, as Kafka's own does; see [`Versioned::read_lenient`].
//!
//! [`Versioned::read_lenient`]: super::versioned::Versioned::read_lenient

use alloc::vec::Vec;
use bytes::Bytes;

use crate::wire::text::Str;

data! {
    /// What a member wants: the metadata of its JoinGroup.
    pub data ConsumerProtocolSubscription (versions [0-3]) {
        topics:           Vec<Str>            [0+],
        user_data:        Option<Bytes>       [0+] nullable [0+] = None,
        /// What the member owns at the moment (KIP-429).
        owned_partitions: Vec<TopicPartition> [1+],
        /// The generation in which it came to own them, -1 if unknown.
        generation_id:    i32                 [2+]               = -1,
        rack_id:          Option<Str>         [3+] nullable [3+] = None,
    }

    /// Partitions of one topic.
    pub struct TopicPartition {
        topic:      Str      [0+],
        partitions: Vec<i32> [0+],
    }
}

data! {
    /// What a member gets: the assignment of its SyncGroup.
    pub data ConsumerProtocolAssignment (versions [0-3]) {
        assigned_partitions: Vec<TopicPartition> [0+],
        user_data:           Option<Bytes>       [0+] nullable [0+] = None,
    }
}
