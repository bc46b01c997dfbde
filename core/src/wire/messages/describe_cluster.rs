//! DescribeCluster (60): the brokers and the controller (KIP-700).

use alloc::vec::Vec;

use crate::wire::error_code::ErrorCode;
use crate::wire::text::Str;

message! {
    /// Asks for the brokers.
    pub message DescribeClusterRequest (DescribeCluster, versions [0-2], flexible [0+]) {
        include_cluster_authorized_operations: bool [0+],
        /// 1 brokers, 2 controllers.
        endpoint_type:                         i8   [1+] = 1,
        include_fenced_brokers:                bool [2+],
    }
}

message! {
    /// The brokers and the controller.
    pub message DescribeClusterResponse (DescribeCluster, versions [0-2], flexible [0+]) {
        throttle_time_ms:              i32                        [0+],
        error_code:                    ErrorCode                  [0+],
        error_message:                 Option<Str>                [0+] nullable [0+] = None,
        /// 1 brokers, 2 controllers.
        endpoint_type:                 i8                         [1+]               = 1,
        cluster_id:                    Str                        [0+],
        controller_id:                 i32                        [0+]               = -1,
        brokers:                       Vec<DescribeClusterBroker> [0+],
        /// A bit field, `i32::MIN` unless asked for.
        cluster_authorized_operations: i32                        [0+]               = i32::MIN,
    }

    /// A broker and where it is.
    pub struct DescribeClusterBroker {
        broker_id: i32         [0+],
        host:      Str         [0+],
        port:      i32         [0+],
        rack:      Option<Str> [0+] nullable [0+] = None,
        is_fenced: bool        [2+],
    }
}
