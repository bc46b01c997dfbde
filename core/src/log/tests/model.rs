//! The log against a model: whatever is done to it, what was visible stays, and the rest is
//! something that was appended at that offset.

use std::collections::BTreeMap;
use std::vec;
use std::vec::Vec;

use bytes::Bytes;
use proptest::prelude::*;

use crate::ids::Offset;
use crate::log::harness::{Harness, batch, tiny};
use crate::log::{Durability, LogConfig, LogState};
use crate::record::batch::BatchHeader;

#[derive(Clone, Debug)]
enum Step {
    Append {
        records: usize,
        value_bytes: usize,
        timestamp: i64,
    },
    /// The disk does this many things.
    Disk(usize),
    Wait(u64),
    Persist,
    Kill,
    CutPower,
    CutPowerHarshly(u64),
    /// A crash in the middle of the recovery that follows a crash.
    CrashWhileOpening {
        power: bool,
        after: usize,
    },
    CloseAndOpen,
    FailFlushes(u32),
    FillDisk(u64),
    FailOp(&'static str),
    DeleteRecords(i64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (1_usize..4, 1_usize..1_200, 0_i64..1_000).prop_map(
            |(records, value_bytes, timestamp)| Step::Append { records, value_bytes, timestamp }),
        6 => (1_usize..12).prop_map(Step::Disk),
        1 => Just(Step::Disk(usize::MAX)),
        2 => (1_u64..8_000).prop_map(Step::Wait),
        2 => Just(Step::Persist),
        1 => Just(Step::Kill),
        1 => Just(Step::CutPower),
        2 => any::<u64>().prop_map(Step::CutPowerHarshly),
        1 => (any::<bool>(), 0_usize..40).prop_map(
            |(power, after)| Step::CrashWhileOpening { power, after }),
        1 => Just(Step::CloseAndOpen),
        1 => (1_u32..3).prop_map(Step::FailFlushes),
        1 => (0_u64..3_000).prop_map(Step::FillDisk),
        1 => prop_oneof![
            Just("write-file"), Just("write-at"), Just("sync-dir"), Just("sync-file"),
            Just("truncate"),
        ].prop_map(Step::FailOp),
        1 => (0_i64..30).prop_map(Step::DeleteRecords),
    ]
}

struct Model {
    h: Harness,
    durability: Durability,
    /// Every batch ever appended at an offset, as its records: header fields differ by epoch only.
    appended: BTreeMap<i64, Vec<Bytes>>,
    /// What a reader may have seen.
    visible: BTreeMap<i64, Bytes>,
    visible_end: i64,
    log_start: i64,
}

impl Model {
    fn run(&mut self, step: &Step) {
        match step {
            Step::Append {
                records,
                value_bytes,
                timestamp,
            } => {
                let timestamps: Vec<_> = (0..*records as i64).map(|i| timestamp + i).collect();
                let batch = batch(&timestamps, *value_bytes);
                let end = self.h.log.log_end_offset();
                if let Ok(info) = self.h.append(&batch) {
                    assert_eq!(info.base_offset, end, "offsets are dense");
                    assert!(
                        info.base_offset.0 >= self.visible_end,
                        "visible offsets are not reused"
                    );
                    let records = batch.bytes.slice(17..);
                    self.appended.entry(end.0).or_default().push(records);
                }
            }
            Step::Disk(usize::MAX) => self.h.complete_disk(),
            Step::Disk(count) => {
                for _ in 0..*count {
                    self.h.complete_one();
                    self.look();
                }
            }
            Step::Wait(ms) => self.h.advance_ms(*ms),
            Step::Persist => self.h.persist(),
            Step::Kill => {
                self.h.kill();
                self.reopen(false);
            }
            Step::CutPower => {
                self.h.cut_power();
                self.reopen(self.durability == Durability::Os);
            }
            Step::CutPowerHarshly(seed) => {
                self.h.cut_power_harshly(*seed);
                self.reopen(self.durability == Durability::Os);
            }
            Step::CrashWhileOpening { power, after } => {
                self.heal();
                self.h.begin_open(false);
                for _ in 0..*after {
                    self.h.complete_one();
                }
                if *power {
                    self.h.cut_power();
                } else {
                    self.h.kill();
                }
                self.reopen(*power && self.durability == Durability::Os);
            }
            Step::CloseAndOpen => {
                self.heal();
                self.h.complete_disk();
                self.h.advance_ms(60_000);
                self.look();
                self.h.close();
                self.h.open(true);
                assert_eq!(*self.h.log.state(), LogState::Ready);
            }
            Step::FailFlushes(count) => self.h.faults.flushes = *count,
            Step::FillDisk(space) => self.h.faults.space = Some(*space),
            Step::FailOp(pattern) => self.h.faults.op = Some(pattern),
            Step::DeleteRecords(offset) => {
                let limit = self.h.log.high_watermark_limit();
                if let Ok(start) = self.h.log.delete_records(Some(Offset(*offset)), limit) {
                    self.h.set_log_start(start);
                    self.log_start = self.log_start.max(start.0);
                }
            }
        }
        self.look();
    }

    fn heal(&mut self) {
        self.h.faults = crate::log::harness::Faults::default();
    }

    /// A new process finds a healthy disk; `loses_visible` where only a process crash is survived.
    fn reopen(&mut self, loses_visible: bool) {
        self.heal();
        self.h.open(false);
        assert_eq!(*self.h.log.state(), LogState::Ready, "{:?}", self.h.reports);
        let end = self.h.log.log_end_offset().0;
        if loses_visible {
            self.visible_end = self.visible_end.min(end);
            self.visible.retain(|offset, _| *offset < end);
        }
        self.appended.retain(|offset, _| *offset < end);
        self.look();
    }

    /// Compares what can be seen with what was seen and what was appended.
    fn look(&mut self) {
        let limit = self.h.log.high_watermark_limit().0;
        assert!(limit >= self.visible_end, "{limit} < {}", self.visible_end);
        assert!(self.h.log.recovery_point().offset.0 <= limit.max(self.log_start));
        if !matches!(
            self.h.log.state(),
            LogState::Ready | LogState::StorageFailed(_) | LogState::Reopening(_)
        ) {
            return;
        }
        assert_eq!(self.h.log.log_start_offset().0, self.log_start);
        if limit == self.visible_end {
            return;
        }
        self.visible_end = limit;
        self.check_all();
    }

    fn check_all(&mut self) {
        let mut expected = None;
        for bytes in self.h.replay() {
            let header = BatchHeader::parse(&bytes).unwrap();
            let base = header.base_offset.0;
            assert_eq!(expected.unwrap_or(base), base, "dense");
            expected = Some(header.next_offset().0);
            let records = bytes.slice(17..);
            assert!(
                self.appended[&base].contains(&records),
                "never appended at {base}"
            );
            if let Some(seen) = self.visible.get(&base) {
                assert_eq!(*seen, records, "changed at {base}");
            }
            self.visible.insert(base, records);
        }
        if self.log_start < self.visible_end {
            assert_eq!(
                expected,
                Some(self.visible_end),
                "everything visible is there"
            );
        }
    }
}

fn config() -> impl Strategy<Value = LogConfig> {
    (
        prop_oneof![Just(2_000_u64), Just(6_000)],
        prop_oneof![Just(0_u64), Just(500)],
    )
        .prop_map(|(segment_bytes, index_interval_bytes)| LogConfig {
            segment_bytes: segment_bytes.max(4_200),
            index_interval_bytes,
            ..tiny()
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn what_was_visible_stays(
        steps in prop::collection::vec(step(), 1..80),
        config in config(),
        os in any::<bool>(),
    ) {
        let durability = if os { Durability::Os } else { Durability::Fsync };
        let mut model = Model {
            h: Harness::new(config, durability),
            durability,
            appended: BTreeMap::new(),
            visible: BTreeMap::new(),
            visible_end: 0,
            log_start: 0,
        };
        for step in &steps {
            model.run(step);
        }
        // Once the faults stop, it takes records again.
        model.heal();
        model.h.complete_disk();
        model.h.advance_ms(120_000);
        model.look();
        let end = model.h.log.log_end_offset();
        model.run(&Step::Append { records: 1, value_bytes: 10, timestamp: 5 });
        model.run(&Step::Disk(usize::MAX));
        prop_assert!(model.h.log.high_watermark_limit() > end);
        model.check_all();
        model.run(&Step::CloseAndOpen);
        model.check_all();
    }
}
