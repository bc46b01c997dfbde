//! What befalls a node from outside: pauses of its process, rot of its disk, a filesystem that has to
//! be mounted again.

use odradek_core::time::Mono;

use super::{Event, Phase, World};
use crate::choices::Subsystem;
use crate::clock::{MILLISECOND, SECOND};
use crate::disk::damage::{Damage, Moment};
use crate::disk::faults::DiskFault;
use crate::fault::{Fault, Stage};
use crate::network::Arrival;
use crate::oracle::{Death, Mark};
use crate::trace::{Lane, Sign};

impl World {
    /// Counts a fault that struck a node.
    pub(super) fn struck(&mut self, number: usize, fault: Fault) {
        let stage = self.nodes[number].stage();
        *self.counts.faults.entry((fault, stage)).or_default() += 1;
    }

    /// Counts what the network did in the last event, and says it.
    pub(super) fn count_network_faults(&mut self) {
        if self.network.struck.is_empty() {
            return;
        }
        for (client, fault) in std::mem::take(&mut self.network.struck) {
            let (now, lane) = (self.clock.mono(), Lane::Client(client));
            self.trace.note(now, Sign::Fault, lane, || fault);
            self.struck(0, Fault::Network(fault));
        }
    }

    /// After a step the process may pause, as on a machine that is suspended: no thread runs, nor one
    /// of a process that is started meanwhile; what the kernel was called for goes on; all that would
    /// reach the process waits and then comes at once, in its order.
    pub(super) fn may_pause(&mut self, number: usize) {
        if self.phase != Phase::Faults {
            return;
        }
        let life = self.nodes[number].life;
        let Some(mut dice) = self
            .choices
            .fault(Subsystem::Pause, life, self.swarm.pauses)
        else {
            return;
        };
        let pause = if dice.below(2) == 0 {
            dice.exponential(50 * MILLISECOND)
        } else {
            dice.between(200 * MILLISECOND, 3 * SECOND)
        };
        let until = Mono(self.clock.mono().0 + pause);
        let what = format_args!("the process pauses for {} ms", pause / MILLISECOND);
        self.say(Sign::Fault, Lane::Broker, what);
        self.struck(number, Fault::Paused);
        self.nodes[number].paused_until = until;
        self.oracle.paused(until);
    }

    /// Gives back an event that can happen now; one that has to wait for a paused process comes
    /// again when that goes on.
    pub(super) fn unless_paused(&mut self, event: Event) -> Option<Event> {
        let node = match &event {
            Event::Report { node, .. }
            | Event::Write { node, .. }
            | Event::Pull { node, .. }
            | Event::Gone { node, .. }
            | Event::Stop { node, .. }
            | Event::Deadline { node, .. } => *node,
            Event::Arrive {
                arrival: Arrival::Open | Arrival::AtBroker(_) | Arrival::BrokerSeesClose,
                ..
            } => 0,
            _ => return Some(event),
        };
        let node = &self.nodes[node];
        if self.clock.mono() > node.paused_until {
            return Some(event);
        }
        let until = Mono(node.paused_until.0 + 1);
        self.clock.at(until, event);
        None
    }

    /// Bytes on a disk are not what was written there.
    pub(super) fn damaged(&mut self, number: usize, damage: Damage) {
        self.say(
            Sign::Fault,
            Lane::Disk,
            format_args!(
                "{} bytes of {} at {} are changed",
                damage.bad.len(),
                damage.path,
                damage.at.start
            ),
        );
        self.oracle.damaged(&damage);
        self.nodes[number].damages.push(damage);
    }

    /// While no process runs, bits may flip.
    pub(super) fn may_rot(&mut self, number: usize) {
        let node = &mut self.nodes[number];
        let Some(mut dice) = node.disk_faults.rot_at_rest(&mut self.choices, node.life) else {
            return;
        };
        let moment = Moment::AtRest {
            clean: node.stopped_cleanly,
        };
        for _ in 0..dice.between(1, 3) {
            if let Some(damage) = self.nodes[number].disk.rot(moment, &mut dice) {
                self.oracle.fault(DiskFault::Rot, Some(&damage.path));
                let key = (Fault::Disk(DiskFault::Rot), Stage::Down);
                *self.counts.faults.entry(key).or_default() += 1;
                self.damaged(number, damage);
            }
        }
    }

    /// The process gave up with this message. Whether it names a file that was damaged: then the
    /// operator does what it asks for, and restores the file from a copy.
    pub(super) fn restore_named(&mut self, number: usize, message: &str) -> bool {
        let damages = std::mem::take(&mut self.nodes[number].damages);
        let (named, others): (Vec<_>, Vec<_>) = damages
            .into_iter()
            .partition(|damage| message.contains(damage.path.as_str().trim_end_matches(".tmp")));
        self.nodes[number].damages = others;
        // The newest first: what was hit twice was good before both.
        for damage in named.iter().rev() {
            self.oracle.mark(Mark::RestoredByOperator);
            self.say(
                Sign::Event,
                Lane::Broker,
                format_args!("the operator restores {}", damage.path),
            );
            self.nodes[number].disk.restore(damage);
        }
        !named.is_empty()
    }

    /// Faults are over: the operator mounts a filesystem again that turned read-only, for which
    /// the process has to end.
    pub(super) fn mount_again(&mut self, number: usize) {
        if !self.nodes[number].disk.is_read_only() {
            return;
        }
        self.say_all("the operator stops the broker and mounts its filesystem again");
        let was_running = self.nodes[number].broker.is_some();
        if was_running {
            self.end_life(number, Some(Death::Power));
        } else {
            self.oracle.lost_power_after_unclean_stop();
        }
        self.lose_power(number);
        if was_running {
            self.restart_later(number);
        }
    }
}
