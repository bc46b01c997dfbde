//! The cleaner's replacement of segments, on a filesystem that turns read-only in the middle of it
//! (promise 6): what could be read can be read, under whichever names the files have, and the next load
//! that may write completes it.

use std::vec::Vec;

use super::cleaner::{Seen, active_base, append, compacted, consume, fill, last_of_each_key};
use crate::ids::Offset;
use crate::log::harness::{Harness, keyed};
use crate::log::{Durability, LogConfig, LogState};

/// A log in which several segments are about to become one, and what is in it.
struct Case {
    h: Harness,
    all: Vec<Seen>,
    /// Below it everything is closed.
    end: i64,
    /// Whether operations that may run side by side end in the reverse order.
    newest_first: bool,
}

impl Case {
    fn new(config: LogConfig, newest_first: bool) -> Self {
        let mut h = Harness::new(config, Durability::Fsync);
        fill(&mut h, 2);
        assert!(h.clean());
        fill(&mut h, 2);
        let (all, end) = (consume(&mut h), active_base(&h));
        h.persist();
        Self {
            h,
            all,
            end,
            newest_first,
        }
    }

    /// Executes so many of the things that are asked for; `false` if there were fewer.
    fn steps(&mut self, count: usize) -> bool {
        (0..count).all(|_| {
            if self.newest_first {
                self.h.complete_newest()
            } else {
                self.h.complete_one()
            }
        })
    }

    /// The new segment's files have the names that a load completes, and the flush of the directory
    /// failed: the log is about to be opened again.
    fn fail_commit(&mut self) {
        self.h.begin_cleaning();
        self.h.faults.op = Some("sync-dir");
        self.h.complete_disk();
        self.h.faults.op = None;
        assert!(matches!(self.h.log.state(), LogState::Reopening(_)));
        assert!(self.has_swap());
    }

    fn has_swap(&self) -> bool {
        self.h.names().iter().any(|name| name.ends_with(".swap"))
    }

    /// Nothing is missing, nothing is there that was not, times lead to it.
    fn assert_readable(&mut self, what: &str) {
        assert!(self.h.log.is_readable(), "{what}");
        let mut seen = consume(&mut self.h);
        // Not those that a test has appended since.
        seen.retain(|(offset, ..)| *offset <= self.all.last().unwrap().0);
        let expected = last_of_each_key(&self.all, self.end);
        assert_eq!(last_of_each_key(&seen, self.end), expected, "{what}");
        for (offset, timestamp, ..) in seen.iter().step_by(5) {
            let found = self.h.find_time(Some(*timestamp)).unwrap().unwrap();
            let first = seen.iter().find(|(_, time, ..)| time >= timestamp).unwrap();
            assert_eq!(found.offset.0, first.0, "{what}, at {offset}");
        }
    }

    /// The filesystem turns read-only under the running process, which notices by a record that it
    /// cannot write; later it can be written again.
    fn turn_read_only(&mut self, what: &str) {
        self.h.faults.read_only = true;
        // What was under way may have needed no more than reads.
        for _ in 0..2 {
            if self.h.log.takes_records() {
                self.h.append(&keyed(9, &[("new", Some("1"))])).unwrap();
            }
            self.h.complete_disk();
        }
        assert!(
            matches!(self.h.log.state(), LogState::Reopening(_)),
            "{what}"
        );
        for _ in 0..4 {
            self.assert_readable(what);
            self.h.advance_ms(500);
        }
        self.h.faults.read_only = false;
        self.h.advance_ms(60_000);
        self.assert_complete(what);
    }

    fn assert_complete(&mut self, what: &str) {
        assert_eq!(*self.h.log.state(), LogState::Ready, "{what}");
        self.assert_readable(what);
        assert!(!self.has_swap(), "{what}: {:?}", self.h.names());
        append(&mut self.h, &keyed(9, &[("new", Some("1"))]));
        self.h.clean();
        self.h.persist();
        self.h.open(false);
        self.assert_readable(what);
    }
}

#[test]
fn a_log_stays_readable_at_every_point_of_a_replacement() {
    for newest_first in [false, true] {
        let mut swapping = 0;
        for cut in 0.. {
            let mut case = Case::new(compacted(), newest_first);
            case.h.begin_cleaning();
            let over = !case.steps(cut);
            swapping += usize::from(case.has_swap());
            case.turn_read_only(&std::format!("cut {cut}, newest first: {newest_first}"));
            if over {
                break;
            }
        }
        assert!(swapping > 5, "{swapping} points between the names");
    }
}

#[test]
fn a_log_that_is_opened_again_stays_readable_while_it_completes_a_replacement() {
    for newest_first in [false, true] {
        let mut swapping = 0;
        for cut in 0.. {
            let mut case = Case::new(compacted(), newest_first);
            case.fail_commit();
            case.assert_readable("before");
            let layout = case.h.log.layout();
            case.h.wait_ms(100);
            let over = !case.steps(cut);
            let what = std::format!("cut {cut}, newest first: {newest_first}");
            case.assert_readable(&what);
            swapping += usize::from(case.has_swap() && case.h.log.layout() > layout);
            if over {
                case.assert_complete(&what);
                break;
            }
            case.turn_read_only(&what);
        }
        assert!(swapping > 5, "{swapping} points between the names");
    }
}

#[test]
fn a_start_on_a_filesystem_that_turns_read_only_loses_nothing() {
    for newest_first in [false, true] {
        let mut unreadable = 0;
        for cut in 0.. {
            let mut case = Case::new(compacted(), newest_first);
            case.fail_commit();
            case.h.begin_open(false);
            let over = !case.steps(cut);
            let what = std::format!("cut {cut}, newest first: {newest_first}");
            if over {
                case.assert_complete(&what);
                break;
            }
            case.h.faults.read_only = true;
            case.h.complete_disk();
            // Nobody has read it in this process; towards the end it needs no more than reads.
            unreadable += usize::from(!case.h.log.is_readable());
            case.h.faults.read_only = false;
            case.h.advance_ms(60_000);
            case.assert_complete(&what);
        }
        assert!(unreadable > 5, "{unreadable} starts had to wait");
    }
}

#[test]
fn a_log_start_that_rises_between_a_failed_replacement_and_its_completion_deletes_no_more() {
    let config = LogConfig {
        delete: true,
        file_delete_delay_ms: 10_000,
        ..compacted()
    };
    let mut case = Case::new(config, false);
    case.fail_commit();
    // Inside the new segment, behind the old one whose name it gets.
    let names = case.h.names();
    let old = names.iter().filter_map(|name| name.strip_suffix(".log"));
    let second: i64 = old.map(|base| base.parse().unwrap()).nth(1).unwrap();
    let start = second + 1;
    case.h.set_log_start(Offset(start));
    case.h.advance_ms(1_000);
    assert_eq!(*case.h.log.state(), LogState::Ready);
    let merged = std::format!("{second:020}.log");
    assert!(!case.h.names().contains(&merged), "both became one");
    case.h.advance_ms(120_000);
    let from_start = |seen: &[Seen]| -> Vec<Seen> {
        let seen = last_of_each_key(seen, case.end);
        seen.into_iter().filter(|seen| seen.0 >= start).collect()
    };
    let expected = from_start(&case.all);
    assert_eq!(from_start(&consume(&mut case.h)), expected);
    case.h.open(false);
    assert_eq!(*case.h.log.state(), LogState::Ready);
    assert_eq!(from_start(&consume(&mut case.h)), expected);
}
