//! ConsumerGroupPartitionMetadata (4): the topics a consumer group knew. Kafka only deletes it since
//! 4.1.

use alloc::vec::Vec;

use crate::ids::TopicId;
use crate::wire::text::Str;

data! {
    /// The group.
    pub data ConsumerGroupPartitionMetadataKey (versions [0]) {
        group_id: Str [0],
    }
}

data! {
    /// The topics.
    pub data ConsumerGroupPartitionMetadataValue (versions [0], flexible [0+]) {
        topics: Vec<TopicMetadata> [0+],
    }

    /// A topic.
    pub struct TopicMetadata {
        topic_id:           TopicId                [0+],
        topic_name:         Str                    [0+],
        num_partitions:     i32                    [0+],
        partition_metadata: Vec<PartitionMetadata> [0+],
    }

    /// A partition and the racks it is in.
    pub struct PartitionMetadata {
        partition: i32      [0+],
        racks:     Vec<Str> [0+],
    }
}
