//! Once faults stop: everything acknowledged is read, every topic is there, nothing hangs.

use std::collections::BTreeMap;

use super::long_poll::directory;
use super::{Check, Oracle};

impl Oracle {
    /// The last client has read every partition that was there from the beginning.
    /// `refused`: what it was refused because of damage, directories and offsets.
    pub fn everything_was_read(
        &mut self,
        read: &BTreeMap<(String, i32), (i64, i64)>,
        refused: &[(String, i64)],
    ) {
        for (directory, offset) in refused {
            self.refused_reader(directory, *offset);
        }
        self.judge_sends(read);
        for ((topic, partition), (from, to)) in read {
            let directory = directory(topic, *partition);
            let Some(log) = self.models.get(&directory) else {
                continue;
            };
            if log.may_vanish {
                continue;
            }
            let (acked, visible) = (log.acked_end, log.visible_end);
            let start = log.log_start.max(log.log_start_asked);
            if *to < acked.max(visible) {
                self.violate(
                    Check::EverythingAcknowledgedIsRead,
                    format!(
                        "{directory} reads up to {to}; everything below {acked} was acknowledged, \
                         everything below {visible} was shown"
                    ),
                );
            }
            if *from > start {
                self.violate(
                    Check::EverythingAcknowledgedIsRead,
                    format!("{directory} reads from {from} on, and should from {start}"),
                );
            }
        }
        let missing: Vec<String> = self
            .created
            .iter()
            .flat_map(|(topic, partitions)| (0..*partitions).map(|p| directory(topic, p)))
            .filter(|directory| self.models.get(directory).is_none())
            .collect();
        for directory in missing {
            self.violate(
                Check::CreatedTopicDurable,
                format!("{directory} was created, and is not there any more"),
            );
        }
    }

    /// Something did not end within its bound.
    pub fn stuck(&mut self, what: &str) {
        self.violate(Check::Liveness, format!("faults are over, and {what}"));
    }

    /// How many requests wait for an answer.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.exchanges.waiting()
    }
}
