//! DeleteTopics (20).

use alloc::vec::Vec;

use crate::ids::TopicId;
use crate::wire::error_code::ErrorCode;
use crate::wire::text::Str;

message! {
    /// Deletes topics, by name or, from version 6 on, by id.
    pub message DeleteTopicsRequest (DeleteTopics, versions [1-6], flexible [4+]) {
        topics:      Vec<DeleteTopicState> [6+],
        topic_names: Vec<Str>              [0-5],
        timeout_ms:  i32                   [0+],
    }

    /// A topic to delete: its name or its id, not both.
    pub struct DeleteTopicState {
        name:     Option<Str> [6+] nullable [6+] = None,
        topic_id: TopicId     [6+],
    }
}

message! {
    /// What became of each topic.
    pub message DeleteTopicsResponse (DeleteTopics, versions [1-6], flexible [4+]) {
        throttle_time_ms: i32                       [1+],
        responses:        Vec<DeletableTopicResult> [0+],
    }

    /// The outcome for one topic.
    pub struct DeletableTopicResult {
        name:          Option<Str> [0+] nullable [6+],
        topic_id:      TopicId     [6+],
        error_code:    ErrorCode   [0+],
        error_message: Option<Str> [5+] nullable [5+] = None,
    }
}
