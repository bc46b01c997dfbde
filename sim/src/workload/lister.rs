//! A client that asks for offsets: ends, and by timestamp.

use bytes::Bytes;
use odradek_core::ids::ConnectionId;
use odradek_core::wire::ApiKey;
use odradek_core::wire::messages::list_offsets::{
    ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic,
};

use super::session::Session;
use super::{Client, ClientContext};
use crate::clock::MILLISECOND;

/// Asks, one request after another.
#[derive(Debug, Default)]
pub struct Lister {
    session: Session,
    finishing: bool,
}

impl Lister {
    fn ask(&mut self, cx: &mut ClientContext<'_>) {
        let (topic, partition_index) = cx.pick_partition();
        let version = Session::version(cx, ApiKey::ListOffsets);
        // Special timestamps come with versions of their own.
        let special = cx.pick(&[-1, -2, if version >= 7 { -3 } else { -1 }]);
        let timestamp = if cx.chance(700_000) {
            special
        } else {
            cx.now.wall.0 - cx.between(0, 3_000) as i64
        };
        let body = ListOffsetsRequest {
            replica_id: -1,
            topics: vec![ListOffsetsTopic {
                name: topic.as_str().into(),
                partitions: vec![ListOffsetsPartition {
                    partition_index,
                    timestamp,
                    ..Default::default()
                }],
                ..Default::default()
            }],
            ..Default::default()
        };
        self.session.request(cx, version, body.into(), 0, true);
    }
}

impl Client for Lister {
    fn start(&mut self, cx: &mut ClientContext<'_>) {
        cx.after(20 * MILLISECOND, 0);
    }

    fn timer(&mut self, _: u64, cx: &mut ClientContext<'_>) {
        if !self.finishing && self.session.in_flight() == 0 {
            self.ask(cx);
        }
    }

    fn bytes(&mut self, connection: ConnectionId, bytes: Bytes, cx: &mut ClientContext<'_>) {
        for _ in self.session.receive(cx, connection, &bytes) {
            let pause = cx.pause(40 * MILLISECOND);
            cx.after(pause, 0);
        }
    }

    fn closed(&mut self, connection: ConnectionId, cx: &mut ClientContext<'_>) {
        self.session.lost(connection);
        cx.after(10 * MILLISECOND, 0);
    }

    fn finish(&mut self, _: &mut ClientContext<'_>) {
        self.finishing = true;
    }

    fn is_idle(&self) -> bool {
        self.session.in_flight() == 0
    }
}
