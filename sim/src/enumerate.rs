//! Crashes without dice: small workloads, crashed at *every* moment, with *every* image that the
//! [model of the disk](crate::disk) allows, within a bound that is told.
//!
//! A moment is before each effect of the broker, after each operation of the disk (done, and the broker
//! does not know), and before each completion. There the process is killed, or the power goes:
//!
//! - What is under way is, each by itself, not begun, done, or done in part: all combinations.
//! - If the process was killed, the cache stays, as one image. If the power went, the images are those
//!   of [`Images`]: all of them if there are no more than the bound, else the first so many in an order
//!   that begins with the extremes.
//! - From each image the real core starts. The oracle judges it as after any other crash; then every
//!   topic that was acknowledged must be there, each partition is read, appended to and read again, the
//!   broker stops, and nothing may lie about that does not belong there.
//! - Of some of the images, chosen by their hash, the start itself is crashed at every moment, with a
//!   bound of its own.
//!
//! An image that was met before, with the same things promised, is not judged again: what is counted as
//! a *state* is a distinct one. Everything is done in three orders ([`Order`]): completions at once;
//! as late as possible and the newest first; and what follows from one before what was under way.
//!
//! Not gone through: faults, other orders of completions, tears inside sectors, names out of order. For
//! those there are seeds.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, mpsc};

use crate::bugs::Planted;
use crate::disk::Disk;
use crate::disk::images::Images;
use crate::disk::power_loss::Tearing;
use crate::oracle::{Check, Death, Violation};
use crate::panics;
use crate::trace::ChainedHash;

use self::machine::{Flow, Machine, Setting};
pub use self::machine::{Halted, Order};
pub use self::scenes::{SCENES, Scene};
use self::under_way::UnderWay;

mod machine;
mod requests;
mod scenes;
mod under_way;

#[cfg(test)]
mod tests;

/// What is gone through.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What is planted.
    pub planted: Planted,
    /// Which workloads, by their place in [`SCENES`].
    pub scenes: Vec<usize>,
    /// How many threads.
    pub jobs: usize,
    /// How much of each moment.
    pub bounds: Bounds,
}

/// How much of each moment is gone through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Images of one way in which what was under way may have ended.
    pub images: usize,
    /// One of so many states is crashed again while it is recovered; 0 is none.
    pub second_every: u64,
    /// Images of one such second crash.
    pub second_images: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            images: 16,
            second_every: 400,
            second_images: 6,
        }
    }
}

/// Which crash: what reproduces it. As text, `SCENE/ORDER/POINT/IMAGE`, with a second crash
/// `/POINT/IMAGE` behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Address {
    scene: usize,
    order: Order,
    crash: Option<Crash>,
    second: Option<Crash>,
}

/// A crash at a moment, and what it left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Crash {
    point: u64,
    image: u64,
}

/// What was gone through, and what was found.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// By workload.
    pub scenes: BTreeMap<usize, Sums>,
    /// By check: how often, and the first.
    pub found: BTreeMap<Check, (u64, Address, Violation)>,
}

/// What was gone through, in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// Moments.
    pub points: u64,
    /// Moments at which the bound cut something.
    pub cut: u64,
    /// Images.
    pub images: u64,
    /// Images that were no repetition of another.
    pub states: u64,
    /// Moments of second crashes.
    pub second_points: u64,
    /// Images of second crashes.
    pub second_images: u64,
}

/// A crash again, in words.
#[derive(Clone, Debug)]
pub struct Replayed {
    /// What happened, what was left, what came of it.
    pub story: Vec<String>,
    /// What did not hold.
    pub violation: Option<Violation>,
}

/// How far it is.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Moments that are done.
    pub done: usize,
    /// All of them.
    pub of: usize,
    /// States so far.
    pub states: u64,
}

/// Sectors of 512 bytes, and garbage where a file grew.
const TEARING: Tearing = Tearing {
    sector_bytes: 512,
    harsh: false,
    garbage: true,
};

/// Goes through everything that is planned.
pub fn run(plan: &Plan, mut progress: impl FnMut(Progress)) -> Summary {
    let mut summary = Summary::default();
    let mut moments = Vec::new();
    for scene in &plan.scenes {
        for order in Order::ALL {
            let here = Moments {
                scene: *scene,
                order,
                plan,
            };
            match here.count() {
                Ok(points) => moments.extend((1..=points + 1).map(|point| (here, point))),
                Err(violation) => summary.add(here.address(), &violation),
            }
        }
    }
    let seen = Seen::default();
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let (send, receive) = mpsc::channel();
        for _ in 0..plan.jobs.max(1) {
            let (send, next, seen, moments) = (send.clone(), &next, &seen, &moments);
            scope.spawn(move || {
                while let Some((here, point)) = moments.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if send.send((here.scene, here.explore(*point, seen))).is_err() {
                        break;
                    }
                }
            });
        }
        drop(send);
        let mut states = 0;
        for (done, (scene, (sums, found))) in receive.iter().enumerate() {
            states += sums.states;
            summary.scenes.entry(scene).or_default().add(&sums);
            for (address, violation) in found {
                summary.add(address, &violation);
            }
            progress(Progress {
                done: done + 1,
                of: moments.len(),
                states,
            });
        }
    });
    summary
}

/// Does one crash again, in words. `None` if there is none of that address within these bounds.
#[must_use]
pub fn replay(address: Address, plan: &Plan) -> Option<Replayed> {
    let here = Moments {
        scene: address.scene,
        order: address.order,
        plan,
    };
    let mut story = Vec::new();
    let Some(crash) = address.crash else {
        let mut machine = here.machine();
        machine.tell();
        let scene = here.scene();
        let _ = machine.drive(|machine| {
            (scene.before)(machine)?;
            machine.settle()?;
            (scene.act)(machine)
        });
        return Some(Replayed {
            story: machine.take_story(),
            violation: machine.oracle.violation().cloned(),
        });
    };
    let mut machine = here.begin().ok()?;
    machine.tell();
    machine.count_from_here(Some(crash.point));
    // It is halted, and that is what is wanted.
    let _ = machine.drive(|machine| (here.scene().act)(machine));
    story.append(&mut machine.take_story());
    let mut left = machine.left(plan.bounds.images, crash.image, &mut story)?;
    left.tell();
    if let Some(second) = address.second {
        left.count_from_here(Some(second.point));
        let _ = left.drive(Machine::start);
        story.append(&mut left.take_story());
        left = left.left(plan.bounds.second_images, second.image, &mut story)?;
        left.tell();
    }
    left.survive();
    story.append(&mut left.take_story());
    Some(Replayed {
        story,
        violation: left.oracle.violation().cloned(),
    })
}

/// The moments of a workload in an order.
#[derive(Clone, Copy)]
struct Moments<'a> {
    scene: usize,
    order: Order,
    plan: &'a Plan,
}

/// The states that were judged.
#[derive(Debug, Default)]
struct Seen {
    keys: Mutex<BTreeSet<u128>>,
}

impl Seen {
    /// Whether a state is a new one.
    fn insert(&self, key: u128) -> bool {
        let mut keys = self
            .keys
            .lock()
            .expect("no thread panics while it holds it");
        keys.insert(key)
    }
}

/// What a moment came to.
type Explored = (Sums, Vec<(Address, Violation)>);

impl Moments<'_> {
    fn scene(&self) -> &'static Scene {
        &SCENES[self.scene]
    }

    fn address(&self) -> Address {
        Address {
            scene: self.scene,
            order: self.order,
            crash: None,
            second: None,
        }
    }

    /// The machine, before anything.
    fn machine(&self) -> Machine {
        Machine::new(&Setting {
            config: scenes::config(self.scene()),
            planted: self.plan.planted,
            order: self.order,
        })
    }

    /// The machine when crashes begin; what did not hold, if it does not get there.
    fn begin(&self) -> Result<Machine, Violation> {
        let mut machine = self.machine();
        let before = self.scene().before;
        let settled = machine.drive(|machine| {
            before(machine)?;
            machine.settle()
        });
        match settled {
            Ok(()) => Ok(machine),
            Err(Halted) => Err(machine.violation()),
        }
    }

    /// How many there are; what did not hold, if something does not without a crash.
    fn count(&self) -> Result<u64, Violation> {
        let mut machine = self.begin()?;
        machine.count_from_here(None);
        match machine.drive(|machine| (self.scene().act)(machine)) {
            Ok(()) => Ok(machine.end_of_count()),
            Err(Halted) => Err(machine.violation()),
        }
    }

    /// Goes through all images of a moment, and judges those that are new.
    fn explore(&self, point: u64, seen: &Seen) -> Explored {
        let bounds = self.plan.bounds;
        let mut sums = Sums {
            points: 1,
            ..Sums::default()
        };
        let mut found = Vec::new();
        let Ok(mut machine) = self.begin() else {
            return (sums, found);
        };
        machine.count_from_here(Some(point));
        // The last moment is after the end.
        let _ = machine.drive(|machine| (self.scene().act)(machine));
        let is_complete = machine.each_image(bounds.images, &mut |image, state| {
            sums.images += 1;
            if !seen.insert(state.key) {
                return true;
            }
            sums.states += 1;
            let address = Address {
                crash: Some(Crash { point, image }),
                ..self.address()
            };
            let mut left = state.machine(&machine);
            let is_crashed_again =
                bounds.second_every > 0 && state.key % u128::from(bounds.second_every) == 0;
            if is_crashed_again {
                self.explore_start(state, &machine, address, seen, &mut sums, &mut found);
            }
            left.survive();
            if let Some(violation) = left.oracle.violation() {
                found.push((address, violation.clone()));
            }
            true
        });
        sums.cut += u64::from(!is_complete);
        (sums, found)
    }

    /// Crashes the start from a state at every moment.
    fn explore_start(
        &self,
        state: &State<'_>,
        machine: &Machine,
        address: Address,
        seen: &Seen,
        sums: &mut Sums,
        found: &mut Vec<(Address, Violation)>,
    ) {
        for point in 1.. {
            let mut left = state.machine(machine);
            left.count_from_here(Some(point));
            let started = left.drive(Machine::start);
            if left.oracle.violation().is_some() {
                // It is found without a second crash as well.
                return;
            }
            sums.second_points += 1;
            left.each_image(self.plan.bounds.second_images, &mut |image, second| {
                sums.second_images += 1;
                if !seen.insert(second.key) {
                    return true;
                }
                sums.states += 1;
                let mut again = second.machine(&left);
                again.survive();
                if let Some(violation) = again.oracle.violation() {
                    let second = Some(Crash { point, image });
                    found.push((Address { second, ..address }, violation.clone()));
                }
                true
            });
            if started.is_ok() {
                return;
            }
        }
    }
}

/// What a crash left.
struct State<'a> {
    death: Death,
    disk: &'a dyn Fn() -> Disk,
    key: u128,
    words: &'a dyn Fn() -> Vec<String>,
}

impl State<'_> {
    /// The machine with it, before the next start.
    fn machine(&self, machine: &Machine) -> Machine {
        let mut oracle = machine.oracle.clone();
        oracle.ended(Some(self.death));
        Machine::after(
            machine.setting(),
            (self.disk)(),
            oracle,
            machine.told.clone(),
            machine.now(),
            machine.lives(),
        )
    }
}

impl Machine {
    /// Does something; a panic of the core is a violation like any other.
    fn drive(&mut self, act: impl FnOnce(&mut Self) -> Flow) -> Flow {
        match panics::catch(|| act(self)) {
            Ok(flow) => flow,
            Err(message) => self.fail(Check::Panic, message),
        }
    }

    /// Starts, and does all that a machine must do after a crash.
    fn survive(&mut self) {
        // What did not hold is in the oracle.
        let _ = self.drive(|machine| {
            machine.start()?;
            scenes::go_on(machine)
        });
    }

    fn violation(&self) -> Violation {
        self.oracle.violation().cloned().unwrap_or(Violation {
            check: Check::Liveness,
            at: self.now(),
            detail: "it does not come to its end".to_owned(),
        })
    }

    /// Hands over what may be left if the machine crashes now, numbered from 0, until it has enough.
    /// Whether that is all of it.
    fn each_image(&self, bound: usize, visit: &mut dyn FnMut(u64, &State<'_>) -> bool) -> bool {
        let mut number = 0;
        let mut is_complete = true;
        let keys = [Death::Process, Death::Power].map(|death| {
            let mut oracle = self.oracle.clone();
            oracle.ended(Some(death));
            let mut hash = ChainedHash::new();
            oracle.add_expectations(&mut hash);
            self.told.add_to(&mut hash);
            let setting = self.setting();
            hash.text(format_args!(
                "{:?} {:?} {}",
                setting.order,
                setting.config,
                self.lives()
            ));
            hash
        });
        let [killed, unpowered] = keys;
        let mut under_way = UnderWay::new();
        loop {
            let mut disk = self.disk().clone();
            let ways = under_way.next_way(|done| self.files().leave(&mut disk, done));
            let mut key = killed;
            disk.add_to(&mut key);
            let words = || vec![format!("the process is killed; under way: {ways}")];
            let state = State {
                death: Death::Process,
                disk: &|| disk.clone(),
                key: key.value(),
                words: &words,
            };
            if !visit(number, &state) {
                return false;
            }
            number += 1;
            let images = Images::of(&disk, TEARING);
            let selection = images.select(bound);
            is_complete &= selection.is_complete;
            for picks in &selection.picks {
                let image = images.image(picks);
                let mut key = unpowered;
                image.add_to(&mut key);
                let words = || {
                    let mut lines = vec![format!("the power goes; under way: {ways}; left:")];
                    lines.extend(images.words(picks).iter().map(|line| format!("  {line}")));
                    lines
                };
                let state = State {
                    death: Death::Power,
                    disk: &|| image.clone(),
                    key: key.value(),
                    words: &words,
                };
                if !visit(number, &state) {
                    return false;
                }
                number += 1;
            }
            match under_way.more() {
                under_way::More::Yes => {}
                under_way::More::No => return is_complete,
                under_way::More::TooMany => return false,
            }
        }
    }

    /// The machine with one of the images; `None` if there is none of that number.
    fn left(&self, bound: usize, wanted: u64, story: &mut Vec<String>) -> Option<Self> {
        let mut left = None;
        self.each_image(bound, &mut |number, state| {
            if number == wanted {
                story.append(&mut (state.words)());
                left = Some(state.machine(self));
            }
            number < wanted
        });
        left
    }
}

impl Summary {
    fn add(&mut self, address: Address, violation: &Violation) {
        let first = || (0, address, violation.clone());
        let found = self.found.entry(violation.check).or_insert_with(first);
        found.0 += 1;
        if address < found.1 {
            found.1 = address;
            found.2.clone_from(violation);
        }
    }

    /// Of all workloads.
    #[must_use]
    pub fn total(&self) -> Sums {
        let mut total = Sums::default();
        for sums in self.scenes.values() {
            total.add(sums);
        }
        total
    }

    /// How many violations there are.
    #[must_use]
    pub fn violations(&self) -> u64 {
        self.found.values().map(|(count, ..)| count).sum()
    }
}

impl Sums {
    const fn add(&mut self, other: &Self) {
        self.points += other.points;
        self.cut += other.cut;
        self.images += other.images;
        self.states += other.states;
        self.second_points += other.second_points;
        self.second_images += other.second_images;
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = SCENES.get(self.scene).map_or("?", |scene| scene.name);
        write!(f, "{name}/{}", self.order.name())?;
        for crash in self.crash.iter().chain(&self.second) {
            write!(f, "/{}/{}", crash.point, crash.image)?;
        }
        Ok(())
    }
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("{text}: write it as WORKLOAD/prompt/POINT/IMAGE");
        let mut parts = text.split('/');
        let name = parts.next().unwrap_or_default();
        let scene = scene_by_name(name)?;
        let order = parts.next().unwrap_or_default();
        let order = Order::ALL.into_iter().find(|known| known.name() == order);
        let order = order.ok_or_else(bad)?;
        let numbers: Vec<u64> = parts
            .map(|part| part.parse().map_err(|_| bad()))
            .collect::<Result<_, _>>()?;
        let crash = |point, image| Some(Crash { point, image });
        let (first, second) = match *numbers.as_slice() {
            [] => (None, None),
            [point, image] => (crash(point, image), None),
            [p, i, point, image] => (crash(p, i), crash(point, image)),
            _ => return Err(bad()),
        };
        Ok(Self {
            scene,
            order,
            crash: first,
            second,
        })
    }
}

/// The workload of a name, by its place in [`SCENES`]. The error names those that there are.
pub fn scene_by_name(name: &str) -> Result<usize, String> {
    SCENES
        .iter()
        .position(|scene| scene.name == name)
        .ok_or_else(|| {
            let names: Vec<&str> = SCENES.iter().map(|scene| scene.name).collect();
            format!(
                "no workload is called {name}; there are: {}",
                names.join(", ")
            )
        })
}
