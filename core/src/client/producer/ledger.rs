//! Who has no outcome yet: `buffer.memory`, and the flushes that wait.
//!
//! Every record that was accepted leaves by exactly one outcome. A flush closes an epoch: it waits
//! until no record of its epoch or an earlier one is left.

use alloc::collections::{BTreeMap, VecDeque};

use super::batch::Send;
use crate::client::effect::{ClientEvent, Outcome};
use crate::client::input::CommandId;
use crate::client::step::Step;

/// Who has no outcome yet.
#[derive(Debug)]
pub(super) struct Ledger {
    limit: usize,
    used: usize,
    epoch: u64,
    /// Records without an outcome, by epoch; none is 0.
    open: BTreeMap<u64, usize>,
    flushes: VecDeque<(CommandId, u64)>,
}

impl Ledger {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            limit,
            used: 0,
            epoch: 0,
            open: BTreeMap::new(),
            flushes: VecDeque::new(),
        }
    }

    /// The epoch of what is accepted now.
    pub(super) const fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Whether so many bytes more fit into `buffer.memory`.
    pub(super) const fn has_room(&self, bytes: usize) -> bool {
        bytes <= self.limit.saturating_sub(self.used)
    }

    /// Whether memory is getting short, so that batches should not linger.
    pub(super) const fn is_pressed(&self) -> bool {
        self.used > self.limit / 4 * 3
    }

    /// Whether every record has its outcome.
    pub(super) fn is_settled(&self) -> bool {
        self.open.is_empty()
    }

    /// A record is accepted into the current epoch.
    pub(super) fn accept(&mut self, bytes: usize) {
        self.used += bytes;
        *self.open.entry(self.epoch).or_default() += 1;
    }

    /// A flush: what is accepted from now on does not concern it.
    pub(super) fn flush(&mut self, step: &mut Step<'_>, id: CommandId) {
        self.flushes.push_back((id, self.epoch));
        self.epoch += 1;
        self.report_flushes(step);
    }

    /// A record of `epoch` has its outcome.
    pub(super) fn settle(&mut self, step: &mut Step<'_>, epoch: u64, send: Send, outcome: Outcome) {
        self.used = self
            .used
            .checked_sub(send.memory)
            .expect("what is released was accepted");
        let open = self
            .open
            .get_mut(&epoch)
            .expect("a record without an outcome is counted in its epoch");
        *open -= 1;
        let over = *open == 0;
        step.out.event(ClientEvent::Delivery {
            id: send.id,
            outcome,
        });
        if over {
            self.open.remove(&epoch);
            self.report_flushes(step);
        }
    }

    fn report_flushes(&mut self, step: &mut Step<'_>) {
        let oldest = self.open.first_key_value().map(|(epoch, _)| *epoch);
        while let Some(&(id, epoch)) = self.flushes.front() {
            if oldest.is_some_and(|oldest| oldest <= epoch) {
                break;
            }
            self.flushes.pop_front();
            step.out.event(ClientEvent::Flushed { id });
        }
    }
}
