//! InitProducerId (22): a producer id and its epoch (KIP-98, KIP-360).

use crate::wire::error_code::ErrorCode;
use crate::wire::text::Str;

message! {
    /// Asks for a producer id, or for the next epoch of one.
    pub message InitProducerIdRequest (InitProducerId, versions [0-5], flexible [2+]) {
        /// Null if the producer is not transactional.
        transactional_id:       Option<Str> [0+] nullable [0+],
        transaction_timeout_ms: i32         [0+],
        /// The id whose next epoch is wanted, -1 for a new one (KIP-360).
        producer_id:            i64         [3+]               = -1,
        /// The epoch the producer has, -1 for a new id.
        producer_epoch:         i16         [3+]               = -1,
    }
}

message! {
    /// The producer id and its epoch.
    pub message InitProducerIdResponse (InitProducerId, versions [0-5], flexible [2+]) {
        throttle_time_ms: i32       [0+],
        error_code:       ErrorCode [0+],
        /// -1 with an error.
        producer_id:      i64       [0+] = -1,
        producer_epoch:   i16       [0+],
    }
}
