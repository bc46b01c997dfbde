//! A client that deletes records from the beginning of partitions.

use bytes::Bytes;
use odradek_core::ids::ConnectionId;
use odradek_core::wire::ApiKey;
use odradek_core::wire::messages::delete_records::{
    DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic,
};

use super::session::Session;
use super::{Client, ClientContext};
use crate::clock::MILLISECOND;

/// Trims, one request after another.
#[derive(Debug, Default)]
pub struct Trimmer {
    session: Session,
    finishing: bool,
}

impl Trimmer {
    fn trim(&mut self, cx: &mut ClientContext<'_>) {
        let (topic, partition_index) = cx.pick_partition();
        let known = cx
            .catalog
            .high_watermarks
            .get(&(topic.clone(), partition_index))
            .copied()
            .unwrap_or(0);
        let offset = if cx.chance(100_000) {
            -1
        } else {
            // A little beyond the end now and then.
            cx.between(0, known as u64 + 1) as i64
        };
        let version = Session::version(cx, ApiKey::DeleteRecords);
        let body = DeleteRecordsRequest {
            topics: vec![DeleteRecordsTopic {
                name: topic.as_str().into(),
                partitions: vec![DeleteRecordsPartition {
                    partition_index,
                    offset,
                    ..Default::default()
                }],
                ..Default::default()
            }],
            timeout_ms: 10_000,
            ..Default::default()
        };
        self.session.request(cx, version, body.into(), 0, true);
    }
}

impl Client for Trimmer {
    fn start(&mut self, cx: &mut ClientContext<'_>) {
        cx.after(60 * MILLISECOND, 0);
    }

    fn timer(&mut self, _: u64, cx: &mut ClientContext<'_>) {
        if !self.finishing && self.session.in_flight() == 0 {
            self.trim(cx);
        }
    }

    fn bytes(&mut self, connection: ConnectionId, bytes: Bytes, cx: &mut ClientContext<'_>) {
        for _ in self.session.receive(cx, connection, &bytes) {
            let pause = cx.pause(60 * MILLISECOND);
            cx.after(pause, 0);
        }
    }

    fn closed(&mut self, connection: ConnectionId, cx: &mut ClientContext<'_>) {
        self.session.lost(connection);
        cx.after(20 * MILLISECOND, 0);
    }

    fn finish(&mut self, _: &mut ClientContext<'_>) {
        self.finishing = true;
    }

    fn is_idle(&self) -> bool {
        self.session.in_flight() == 0
    }
}
