//! Processes: how they start, and how they end.

use std::sync::Arc;

use odradek_core::broker::Broker;
use odradek_core::ids::ConnectionId;
use odradek_core::input::Input;

use super::node::{Crash, When};
use super::{Event, Phase, World};
use crate::choices::{Odds, Subsystem};
use crate::clock::MILLISECOND;
use crate::decisions::{Amid, kind_of};
use crate::fault::Fault;
use crate::oracle::{CLEAN, Check, Death, Mark};
use crate::trace::{Lane, Sign};

/// How a run says that a process was killed.
pub(crate) const KILLED: &str = "the process is killed";
/// How a run says that the power went.
pub(crate) const POWER_GOES: &str = "the power goes";

impl World {
    /// Starts a process on a node.
    pub(super) fn start(&mut self, number: usize) {
        if self.nodes[number].broker.is_some() {
            return;
        }
        let mut seed = [0; 32];
        let life = self.nodes[number].life + 1;
        self.choices
            .dice(Subsystem::BrokerSeed, life)
            .fill(&mut seed);
        let crash = self.draw_crash(life);
        let node = &mut self.nodes[number];
        node.life = life;
        node.doom(crash);
        node.deadline = None;
        let disk = &node.disk;
        let is_ill = disk.free_bytes().is_some() || disk.is_read_only() || disk.has_unreadable();
        node.faults_in_life = u64::from(is_ill);
        if is_ill {
            self.oracle.disk_is_ill();
        }
        node.stopped_cleanly = false;
        node.codecs = Arc::default();
        node.broker = Some(Broker::with_bugs(
            self.swarm.broker.clone(),
            seed,
            self.planted.core,
        ));
        self.counts.starts += 1;
        self.oracle.starting(&self.nodes[number].disk);
        self.step(number, Input::Start);
    }

    /// When and how this life ends, if it is not to last.
    fn draw_crash(&mut self, life: u64) -> Option<Crash> {
        if let Some(given) = self.given_end(life) {
            return given;
        }
        let rates = self.swarm.crashes;
        let so_far = self.counts.crashes + self.counts.power_losses + self.counts.stops;
        if self.phase != Phase::Faults || so_far >= u64::from(rates.limit) {
            return None;
        }
        let early = self.choices.chance(Subsystem::Crash, life, rates.early);
        let countdown = if early {
            self.choices.between(Subsystem::Crash, life, 1, 60)
        } else {
            1 + self
                .choices
                .exponential(Subsystem::Crash, life, rates.mean_events)
        };
        let graceful = !early
            && self
                .choices
                .chance(Subsystem::Restart, life, rates.graceful);
        let death = if graceful {
            None
        } else if self.choices.chance(Subsystem::Crash, life, rates.process) {
            Some(Death::Process)
        } else {
            Some(Death::Power)
        };
        Some(Crash {
            when: When::After(countdown),
            death,
        })
    }

    /// One more moment at which the process could die, amid something. Whether it does.
    pub(super) fn may_die(&mut self, number: usize, amid: impl Fn() -> String) -> bool {
        let now = self.clock.mono();
        let is_asked = self.script.is_given();
        let node = &mut self.nodes[number];
        let Some(crash) = &mut node.crash else {
            return false;
        };
        if node.moment.0 != now {
            node.moment = (now, 0);
        }
        node.moment.1 += 1;
        let amid = is_asked.then(|| {
            let kind = kind_of(&amid());
            let nth = node.kinds.entry(kind).or_default();
            *nth += 1;
            Amid { kind, nth: *nth }
        });
        if !crash.when.is_now(now, amid) {
            return false;
        }
        let death = crash.death;
        let (life, nth) = (node.life, node.moment.1);
        self.note_end((life, nth), amid, death);
        match death {
            Some(death) => {
                self.die(number, death);
                true
            }
            None => {
                self.nodes[number].crash = None;
                let life = self.nodes[number].life;
                // Not in the middle of a step: as the next event.
                self.clock.after(0, Event::Stop { node: number, life });
                false
            }
        }
    }

    /// Stops a process gracefully.
    pub(super) fn stop(&mut self, number: usize) {
        let node = &mut self.nodes[number];
        if node.broker.is_none() || node.is_stopping {
            return;
        }
        node.is_stopping = true;
        self.counts.stops += 1;
        self.oracle.stopping();
        if self.phase == Phase::Faults {
            // It may die while it stops.
            let life = node.life;
            let crash = match self.given_end(life) {
                Some(given) => given,
                None => self.draw_crash_in_stop(life),
            };
            self.nodes[number].doom(crash);
        }
        self.step(number, Input::Stop);
    }

    fn draw_crash_in_stop(&mut self, life: u64) -> Option<Crash> {
        let choices = &mut self.choices;
        if !choices.chance(Subsystem::Restart, life, Odds(300_000)) {
            return None;
        }
        let countdown = choices.between(Subsystem::Restart, life, 1, 80);
        let death = match choices.between(Subsystem::Restart, life, 0, 1) {
            0 => Death::Process,
            _ => Death::Power,
        };
        Some(Crash {
            when: When::After(countdown),
            death: Some(death),
        })
    }

    /// The process says that its graceful stop is over.
    pub(super) fn stopped(&mut self, number: usize) {
        self.oracle.mark(Mark::StoppedGracefully);
        self.end_life(number, None);
        self.oracle.stopped(&self.nodes[number].disk);
        self.nodes[number].stopped_cleanly =
            self.nodes[number].disk.durable(&CLEAN.into()).is_some();
        let life = self.nodes[number].life;
        let odds = Odds(300_000);
        if self
            .choices
            .fault(Subsystem::AfterStop, life, odds)
            .is_some()
        {
            // What was marked clean must survive this too.
            self.counts.power_losses += 1;
            if self.nodes[number].disk.durable(&CLEAN.into()).is_none() {
                self.oracle.lost_power_after_unclean_stop();
            }
            self.lose_power(number);
        }
        self.restart_later(number);
    }

    /// The process says that it cannot go on.
    pub(super) fn fatal(&mut self, number: usize, message: &str) {
        self.oracle.mark(Mark::Fatal);
        let restored = self.restore_named(number, message);
        if self.nodes[number].faults_in_life == 0 && !restored {
            self.oracle.violate(
                Check::FatalWithoutFault,
                format!("nothing was wrong with the disk, and the broker ends: {message}"),
            );
        }
        self.end_life(number, Some(Death::Process));
        self.restart_later(number);
    }

    /// The process dies where it stands.
    fn die(&mut self, number: usize, death: Death) {
        match death {
            Death::Process => {
                self.counts.crashes += 1;
                self.struck(number, Fault::Killed);
                self.say(Sign::Fault, Lane::Broker, format_args!("{KILLED}"));
            }
            Death::Power => {
                self.counts.power_losses += 1;
                self.struck(number, Fault::PowerLoss);
                self.say(Sign::Fault, Lane::Broker, format_args!("{POWER_GOES}"));
            }
        }
        self.end_life(number, Some(death));
        if death == Death::Power {
            self.lose_power(number);
        }
        self.restart_later(number);
    }

    pub(super) fn end_life(&mut self, number: usize, death: Option<Death>) {
        let node = &mut self.nodes[number];
        node.broker = None;
        node.accepts = false;
        node.is_stopping = false;
        node.died |= death.is_some();
        node.crash = None;
        let files = std::mem::take(&mut node.files);
        files.die(&mut node.disk, &mut self.choices);
        for damage in &node.damages {
            // Whatever keeps its pages in the cache may let them go now.
            node.disk.evict(damage.inode);
        }
        let connections: Vec<ConnectionId> = node.connections.ids().collect();
        for connection in connections {
            self.nodes[number].connections.close(connection);
            let now = self.clock.mono();
            let arrivals = self
                .network
                .close_by_broker(connection, now, &mut self.choices);
            self.travel(connection, arrivals);
        }
        self.oracle.ended(death);
    }

    pub(super) fn lose_power(&mut self, number: usize) {
        self.nodes[number].disk.set_read_only(false);
        let loss = self.nodes[number]
            .disk
            .lose_power(self.swarm.tearing, &mut self.choices);
        if loss.files_torn > 0 {
            self.oracle.mark(Mark::FileTorn);
        }
        if loss.names_lost > 0 {
            self.oracle.mark(Mark::NameLost);
        }
        self.say(
            Sign::Event,
            Lane::Disk,
            format_args!(
                "left of the disk: {} files changed, {} torn, {} names lost",
                loss.files_changed, loss.files_torn, loss.names_lost
            ),
        );
    }

    pub(super) fn restart_later(&mut self, number: usize) {
        self.may_rot(number);
        let life = self.nodes[number].life;
        let after = self
            .choices
            .exponential(Subsystem::RestartDelay, life, 30 * MILLISECOND);
        self.clock.after(after, Event::Start { node: number });
    }
}
