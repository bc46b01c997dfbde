//! The oracle is told of clients that were done wrong, and must say so.

use std::collections::BTreeMap;

use odradek_core::client::{
    ClientError, OffsetReset, OffsetSpec, Outcome, StartAt, TopicPartition,
};
use odradek_core::ids::Offset;
use odradek_core::log::config::{Durability, LogConfig};

use crate::oracle::{Check, Oracle};
use crate::workload::seen::{Id, ReadRecord, Seen};
use crate::workload::verifier;

const PRODUCER: u64 = 1 << 16 | 3;
const READER: u64 = 1 << 16 | 4;

/// Partition 0 of topic `t`, as its clients tell of it.
struct Scene(Oracle);

impl Scene {
    fn new() -> Self {
        let mut oracle = Oracle::new(Durability::Fsync, LogConfig::default());
        let log = oracle.models.entry("t-0");
        (log.end, log.visible_end) = (100, 100);
        let mut scene = Self(oracle);
        scene.tell(Seen::Producer {
            producer: PRODUCER,
            ordered: true,
            idempotent: false,
        });
        for reader in [READER, verifier::READER] {
            let reset = OffsetReset::Earliest;
            scene.tell(Seen::Reader { reader, reset });
        }
        scene.goes(READER, StartAt::Offset(Offset(0)));
        scene.goes(verifier::READER, StartAt::Offset(Offset(0)));
        for number in 1..=9 {
            scene.tell(Seen::Sent {
                id: id(number),
                topic: "t".into(),
                partition: Some(0),
                content: number as u32,
            });
        }
        scene
    }

    fn tell(&mut self, seen: Seen) {
        self.0.client_saw(seen);
    }

    fn goes(&mut self, reader: u64, to: StartAt) {
        let partition = TopicPartition::new("t", 0);
        self.tell(Seen::Goes {
            reader,
            partition,
            to,
        });
    }

    fn acked(&mut self, number: u64, offset: i64) {
        let outcome = Outcome::Ok {
            partition: 0,
            offset: Some(Offset(offset)),
            timestamp: 0,
        };
        let id = id(number);
        self.tell(Seen::Outcome { id, outcome });
    }

    fn failed(&mut self, number: u64) {
        let outcome = Outcome::Failed(ClientError::BufferFull);
        let id = id(number);
        self.tell(Seen::Outcome { id, outcome });
    }

    /// `reader` is handed these records, from an offset on.
    fn reads(&mut self, reader: u64, from: i64, numbers: &[u64]) {
        let records = (from..)
            .zip(numbers)
            .map(|(offset, number)| ReadRecord {
                offset,
                id: Some(id(*number)),
                content: *number as u32,
            })
            .collect();
        self.tell(Seen::Read {
            reader,
            partition: TopicPartition::new("t", 0),
            records,
        });
    }

    fn all_was_read(&mut self, up_to: i64) {
        let read = BTreeMap::from([(("t".to_owned(), 0), (0, up_to))]);
        self.0.judge_sends(&read);
    }

    #[track_caller]
    fn assert_fine(&self) {
        assert_eq!(self.0.violation(), None);
    }

    #[track_caller]
    fn assert_violates(&self, check: Check) {
        assert_eq!(self.0.violation().map(|v| v.check), Some(check));
    }
}

const fn id(number: u64) -> Id {
    Id {
        producer: PRODUCER,
        number,
    }
}

#[test]
fn a_record_of_an_idempotent_producer_is_there_once() {
    let mut scene = Scene::new();
    scene.tell(Seen::Producer {
        producer: PRODUCER,
        ordered: true,
        idempotent: true,
    });
    scene.reads(verifier::READER, 0, &[1, 2]);
    scene.assert_fine();
    scene.reads(verifier::READER, 2, &[1]);
    scene.assert_violates(Check::IdempotentSendOnce);
}

#[test]
fn what_is_delivered_and_read_is_fine_and_a_record_may_be_there_twice() {
    let mut scene = Scene::new();
    scene.acked(1, 0);
    scene.acked(2, 2);
    scene.reads(READER, 0, &[1, 1, 2]);
    scene.reads(verifier::READER, 0, &[1, 1, 2]);
    scene.all_was_read(3);
    scene.assert_fine();
}

#[test]
fn a_delivered_record_that_nobody_reads() {
    let mut scene = Scene::new();
    scene.acked(1, 0);
    scene.acked(2, 1);
    scene.reads(verifier::READER, 0, &[1]);
    scene.all_was_read(1);
    scene.assert_violates(Check::LostWrite);
}

#[test]
fn a_failed_record_is_read_before_or_after_it_failed() {
    let mut scene = Scene::new();
    scene.failed(1);
    scene.reads(READER, 0, &[1]);
    scene.assert_violates(Check::FailedRead);
    let mut scene = Scene::new();
    scene.reads(READER, 0, &[1]);
    scene.assert_fine();
    scene.failed(1);
    scene.assert_violates(Check::FailedRead);
}

#[test]
fn a_record_that_was_never_sent_or_not_like_this() {
    let mut scene = Scene::new();
    scene.reads(READER, 0, &[77]);
    scene.assert_violates(Check::UnsentRead);
    let mut scene = Scene::new();
    scene.tell(Seen::Read {
        reader: READER,
        partition: TopicPartition::new("t", 0),
        records: vec![ReadRecord {
            offset: 0,
            id: Some(id(1)),
            content: 1_000,
        }],
    });
    scene.assert_violates(Check::UnsentRead);
}

#[test]
fn an_offset_that_holds_two_records() {
    let mut scene = Scene::new();
    scene.acked(1, 0);
    scene.reads(READER, 0, &[2]);
    scene.assert_violates(Check::InconsistentOffsets);
}

#[test]
fn a_reader_that_goes_back_or_passes_over_something() {
    let mut scene = Scene::new();
    scene.reads(READER, 0, &[1, 2]);
    scene.reads(READER, 1, &[2]);
    scene.assert_violates(Check::NonMonotonicPoll);
    let mut scene = Scene::new();
    scene.reads(READER, 0, &[1, 2]);
    scene.reads(READER, 3, &[4]);
    scene.assert_violates(Check::SkippedPoll);
    let mut scene = Scene::new();
    scene.goes(READER, StartAt::Spec(OffsetSpec::Earliest));
    scene.reads(READER, 3, &[4]);
    scene.assert_violates(Check::SkippedPoll);
    let mut scene = Scene::new();
    scene.goes(READER, StartAt::Spec(OffsetSpec::Latest));
    scene.reads(READER, 99, &[4]);
    scene.assert_violates(Check::NonMonotonicPoll);
}

#[test]
fn what_was_deleted_may_be_passed_over_but_no_more() {
    let deleted = |up_to| {
        let mut scene = Scene::new();
        scene.reads(READER, 0, &[1]);
        scene.0.models.entry("t-0").log_start_asked = up_to;
        scene.reads(READER, 5, &[6]);
        scene
    };
    deleted(5).assert_fine();
    deleted(7).assert_fine();
    deleted(4).assert_violates(Check::SkippedPoll);
}

#[test]
fn records_that_changed_places_unless_nobody_knows_of_one() {
    let mut scene = Scene::new();
    scene.acked(2, 0);
    scene.acked(1, 1);
    scene.reads(verifier::READER, 0, &[2, 1]);
    scene.assert_violates(Check::SendOrder);
    // An attempt of which nothing was heard may arrive at any time.
    let mut scene = Scene::new();
    scene.acked(2, 0);
    scene.reads(verifier::READER, 0, &[2, 1]);
    scene.assert_fine();
}

#[test]
fn a_power_loss_under_os_excuses_what_lay_beyond_what_it_left() {
    let mut scene = Scene::new();
    scene.acked(1, 0);
    scene.acked(2, 1);
    scene.0.may_have_lost("t-0", 1);
    scene.reads(verifier::READER, 0, &[1, 3]);
    scene.all_was_read(2);
    scene.assert_fine();
    let mut scene = Scene::new();
    scene.acked(1, 0);
    scene.0.may_have_lost("t-0", 1);
    scene.reads(verifier::READER, 0, &[3]);
    scene.assert_violates(Check::InconsistentOffsets);
}
