//! A machine without dice: the real core, the simulated host and disk, the oracle, and one client that
//! is always heard at once. What is under way ends in one fixed order, and the process can be halted at
//! any moment.

use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use odradek_core::broker::Broker;
use odradek_core::effect::{Effect, Effects};
use odradek_core::ids::ConnectionId;
use odradek_core::input::{Endpoint, Input};
use odradek_core::metadata::config::BrokerConfig;
use odradek_core::request::{Codecs, prepare};
use odradek_core::time::{Mono, Now, Wall};
use odradek_core::wire::frame::{decode_response, encode_request};
use odradek_core::wire::messages::Body;
use odradek_core::wire::{ApiKey, RequestBody, RequestHeader, ResponseBody};

use crate::batch::with_tables;
use crate::bugs::Planted;
use crate::choices::Choices;
use crate::clock::{MILLISECOND, SECOND};
use crate::disk::Disk;
use crate::disk::faults::{DiskFaults, DiskRates};
use crate::host::connections::resolve;
use crate::host::files::{Files, Report, Started, Token};
use crate::oracle::{Check, Death, Oracle};
use crate::trace::ChainedHash;
use crate::workload::session::flat;

/// The machine was halted, or has nothing more to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Halted;

/// What something on the machine came to, unless it was halted.
pub(super) type Flow<T = ()> = Result<T, Halted>;

/// In which order what is under way ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Order {
    /// Completions are told at once, and the oldest operation ends first.
    Prompt,
    /// Completions are told when nothing is under way any more, and the newest operation ends first.
    Late,
    /// Completions are told at once, and what follows from one ends before all that was under way: of
    /// two things that the broker does beside each other, one is over before the other moves.
    Eager,
}

impl Order {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Prompt, Self::Late, Self::Eager];

    /// By which name it is known.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Prompt => "prompt",
            Self::Late => "late",
            Self::Eager => "eager",
        }
    }
}

/// What a client was told, and must find again.
#[derive(Clone, Debug, Default)]
pub(super) struct Told {
    /// Topics whose creation was acknowledged.
    pub(super) created: BTreeSet<String>,
    /// Topics whose deletion was acknowledged.
    pub(super) deleted: BTreeSet<String>,
}

/// The machine, in one life of its process.
#[derive(Debug)]
pub(super) struct Machine {
    broker: Option<Broker>,
    files: Files,
    disk: Disk,
    disk_faults: DiskFaults,
    /// Nothing is drawn from it: there are no faults.
    choices: Choices,
    /// Whether the process serves; whether it has stopped gracefully.
    pub(super) accepts: bool,
    is_stopped: bool,
    /// What outlives the process, apart from the disk.
    pub(super) oracle: Oracle,
    pub(super) told: Told,
    setting: Setting,
    now: Mono,
    life: u8,
    running: VecDeque<Token>,
    reports: VecDeque<Report>,
    codecs: Arc<Codecs>,
    connection: Option<ConnectionId>,
    waiting: VecDeque<(ApiKey, i16)>,
    answers: VecDeque<ResponseBody>,
    last_correlation_id: i32,
    halt: Halt,
    story: Option<Vec<String>>,
}

/// What is the same in all lives.
#[derive(Clone, Debug)]
pub(super) struct Setting {
    /// What the broker is started with.
    pub(super) config: BrokerConfig,
    /// What is planted.
    pub(super) planted: Planted,
    /// How things end.
    pub(super) order: Order,
}

/// When the process is halted.
#[derive(Clone, Copy, Debug, Default)]
struct Halt {
    /// Moments since counting began; none if it did not.
    counted: Option<u64>,
    /// It is halted in this one.
    at: Option<u64>,
}

/// Nothing takes longer, in virtual time.
const PATIENCE_MS: u64 = 60_000;
/// Nothing takes more turns; what would is a loop.
const MAX_TURNS: u64 = 100_000;
/// Where the wall clock stands at the beginning.
const WALL_START_MS: i64 = 1_750_000_000_000;

impl Machine {
    /// A machine with an empty disk.
    pub(super) fn new(setting: &Setting) -> Self {
        let mut oracle = Oracle::new(setting.config.durability, setting.config.log.clone());
        oracle.groups_have(&setting.config.groups);
        Self::after(
            setting,
            Disk::new(),
            oracle,
            Told::default(),
            Mono(SECOND),
            0,
        )
    }

    /// A machine on which a process ended before.
    pub(super) fn after(
        setting: &Setting,
        disk: Disk,
        oracle: Oracle,
        told: Told,
        now: Mono,
        lives: u8,
    ) -> Self {
        let mut disk_faults = DiskFaults::new(DiskRates::default());
        disk_faults.active = false;
        disk_faults.lies = setting.planted.disk_lies();
        Self {
            broker: None,
            files: Files::default(),
            disk,
            disk_faults,
            choices: Choices::new(0),
            accepts: false,
            is_stopped: false,
            oracle,
            told,
            setting: setting.clone(),
            now,
            life: lives,
            running: VecDeque::new(),
            reports: VecDeque::new(),
            codecs: Arc::default(),
            connection: None,
            waiting: VecDeque::new(),
            answers: VecDeque::new(),
            last_correlation_id: 0,
            halt: Halt::default(),
            story: None,
        }
    }

    /// Keeps what happens, in words.
    pub(super) fn tell(&mut self) {
        self.story = Some(Vec::new());
    }

    /// What happened since [`tell`](Self::tell).
    pub(super) fn take_story(&mut self) -> Vec<String> {
        self.story.take().unwrap_or_default()
    }

    /// Counts moments from here on, and halts at this one; `None` only counts.
    pub(super) const fn count_from_here(&mut self, halt_at: Option<u64>) {
        self.halt = Halt {
            counted: Some(0),
            at: halt_at,
        };
    }

    /// How many moments there were, and no more are counted.
    pub(super) const fn end_of_count(&mut self) -> u64 {
        let counted = self.halt.counted;
        self.halt = Halt {
            counted: None,
            at: None,
        };
        match counted {
            Some(counted) => counted,
            None => 0,
        }
    }

    /// The disk.
    pub(super) const fn disk(&self) -> &Disk {
        &self.disk
    }

    /// What is under way.
    pub(super) const fn files(&self) -> &Files {
        &self.files
    }

    /// The time.
    pub(super) const fn now(&self) -> Mono {
        self.now
    }

    /// How many processes there were, this one included.
    pub(super) const fn lives(&self) -> u8 {
        self.life
    }

    /// What was set.
    pub(super) const fn setting(&self) -> &Setting {
        &self.setting
    }

    /// Notes that something must not have happened; nothing more does.
    pub(super) fn fail<T>(&mut self, check: Check, detail: String) -> Flow<T> {
        self.oracle.violate(check, detail);
        Err(Halted)
    }

    fn say(&mut self, what: fmt::Arguments<'_>) {
        if let Some(story) = &mut self.story {
            story.push(format!("{} {what}", self.now));
        }
    }

    /// A moment at which the process could die, or the power go.
    fn moment(&mut self) -> Flow {
        if self.oracle.violation().is_some() {
            return Err(Halted);
        }
        if let Some(counted) = &mut self.halt.counted {
            *counted += 1;
            if self.halt.at == Some(*counted) {
                return Err(Halted);
            }
        }
        Ok(())
    }

    /// Starts a process, and waits until it serves.
    pub(super) fn start(&mut self) -> Flow {
        self.life += 1;
        self.is_stopped = false;
        // Other random numbers in each life, the same in each run.
        let seed = [self.life; 32];
        let config = self.setting.config.clone();
        self.broker = Some(Broker::with_bugs(config, seed, self.setting.planted.core));
        self.oracle.starting(&self.disk);
        self.step(Input::Start)?;
        if !self.wait(|machine| machine.accepts)? {
            return self.fail(Check::Liveness, "the broker does not start".to_owned());
        }
        self.settle()
    }

    /// Stops the process gracefully.
    pub(super) fn stop(&mut self) -> Flow {
        self.oracle.stopping();
        self.step(Input::Stop)?;
        if !self.wait(|machine| machine.is_stopped)? {
            return self.fail(Check::Liveness, "the broker does not stop".to_owned());
        }
        Ok(())
    }

    /// The process is killed, and of each operation under way half is done.
    pub(super) fn die_half_way(&mut self) {
        self.files.leave(&mut self.disk, &mut |_, most| most / 2);
        self.oracle.ended(Some(Death::Process));
        let (halt, mut story) = (self.halt, self.story.take());
        if let Some(story) = &mut story {
            story.push("the process is killed, half-way".to_owned());
        }
        *self = Self {
            halt,
            story,
            ..Self::after(
                &self.setting,
                self.disk.clone(),
                self.oracle.clone(),
                self.told.clone(),
                self.now,
                self.life,
            )
        };
    }

    /// Waits until nothing is under way; time stands still.
    pub(super) fn settle(&mut self) -> Flow {
        let mut turns = 0;
        while self.turn()? {
            turns += 1;
            if turns > MAX_TURNS {
                return self.fail(Check::Liveness, "the broker is never idle".to_owned());
            }
        }
        Ok(())
    }

    fn clock(&self) -> Now {
        Now {
            mono: self.now,
            wall: Wall(WALL_START_MS + (self.now.0 / MILLISECOND) as i64),
        }
    }

    /// Lets time pass.
    pub(super) fn pass(&mut self, ms: u64) -> Flow {
        let until = self.now.plus_ms(ms);
        self.wait_until(until, |_| false)?;
        self.now = until;
        self.oracle.tick(self.clock());
        Ok(())
    }

    fn wait(&mut self, is_over: impl Fn(&Self) -> bool) -> Flow<bool> {
        self.wait_until(self.now.plus_ms(PATIENCE_MS), is_over)
    }

    fn wait_until(&mut self, until: Mono, is_over: impl Fn(&Self) -> bool) -> Flow<bool> {
        for _ in 0..MAX_TURNS {
            if is_over(self) {
                return Ok(true);
            }
            if self.turn()? {
                continue;
            }
            let deadline = self.broker.as_ref().and_then(Broker::next_deadline);
            let Some(deadline) = deadline.filter(|deadline| *deadline <= until) else {
                return Ok(false);
            };
            self.now = self.now.max(deadline);
            self.oracle.tick(self.clock());
            self.step(Input::Deadline)?;
        }
        Ok(false)
    }

    /// One thing that was under way ends, or is told; whether there was one.
    fn turn(&mut self) -> Flow<bool> {
        let tells_first = self.setting.order != Order::Late || self.running.is_empty();
        if tells_first && let Some(report) = self.reports.pop_front() {
            self.moment()?;
            if let Some(completion) = self.files.settle(report) {
                self.step(Input::Disk(completion))?;
            }
            return Ok(true);
        }
        let token = match self.setting.order {
            Order::Prompt | Order::Eager => self.running.pop_front(),
            Order::Late => self.running.pop_back(),
        };
        let Some(token) = token else {
            return Ok(false);
        };
        let outcome =
            self.files
                .execute(token, &mut self.disk, &self.disk_faults, &mut self.choices);
        let before = self.running.len();
        self.begin(outcome.started);
        self.hurry(before);
        self.reports.extend(outcome.reports);
        // It is done, and nobody knows.
        self.moment()?;
        Ok(true)
    }

    fn begin(&mut self, started: Vec<Started>) {
        self.running.extend(started.iter().map(|s| s.token));
    }

    /// Puts what began since there were so many under way before them, if that is the order.
    fn hurry(&mut self, before: usize) {
        if self.setting.order == Order::Eager {
            let begun = self.running.len().saturating_sub(before);
            self.running.rotate_right(begun);
        }
    }

    fn step(&mut self, input: Input) -> Flow {
        self.say(format_args!("> {input}"));
        let now = self.clock();
        let Some(broker) = &mut self.broker else {
            return Ok(());
        };
        let mut out = Effects::new();
        broker.handle(now, input, &mut out);
        let effects: Vec<Effect> = out.drain().collect();
        let before = self.running.len();
        for effect in effects {
            self.moment()?;
            self.issue(effect)?;
            if self.broker.is_none() {
                return Ok(());
            }
        }
        self.hurry(before);
        if let Some(broker) = &self.broker {
            self.oracle
                .judge_recovery(broker, &self.disk, self.accepts, true);
        }
        self.oracle.step_over(self.files.is_reading());
        Ok(())
    }

    fn issue(&mut self, effect: Effect) -> Flow {
        self.say(format_args!("< {effect}"));
        self.oracle.effect(&effect, &self.disk);
        let started = match effect {
            Effect::Open { file, path, length } => {
                self.files.open(file, &path, length, &self.disk);
                Vec::new()
            }
            Effect::Write {
                file,
                position,
                data,
            } => self.files.write(file, position, data),
            Effect::Flush { file } => self.files.flush(file),
            Effect::Manage { operation, op } => self.files.manage(operation, op),
            Effect::Read { operation, job } => self.files.read(operation, job),
            Effect::Respond {
                connection,
                response,
            } => {
                let bytes = resolve(&response, &self.files, &self.disk);
                self.oracle.answered(connection, bytes.as_ref(), &self.disk);
                self.hear(bytes);
                Vec::new()
            }
            Effect::Close { connection } => {
                self.oracle.closed(connection);
                self.connection = None;
                self.waiting.clear();
                Vec::new()
            }
            Effect::Report(report) => {
                self.oracle.reported(&report);
                Vec::new()
            }
            Effect::Codecs(codecs) => {
                self.codecs = codecs;
                Vec::new()
            }
            Effect::Started => {
                self.accepts = true;
                self.oracle.started(&self.disk);
                Vec::new()
            }
            Effect::Stopped => {
                self.is_stopped = true;
                self.broker = None;
                self.accepts = false;
                self.connection = None;
                self.files = Files::default();
                self.oracle.stopped(&self.disk);
                self.oracle.ended(None);
                Vec::new()
            }
            Effect::Fatal { message } => {
                let detail =
                    format!("nothing was wrong with the disk, and the broker ends: {message}");
                return self.fail(Check::FatalWithoutFault, detail);
            }
        };
        self.begin(started);
        Ok(())
    }

    /// Sends a request, and waits for its answer.
    pub(super) fn ask(&mut self, version: i16, body: impl Into<RequestBody>) -> Flow<ResponseBody> {
        self.send(version, body)?;
        self.answer()
    }

    /// Waits for the next answer.
    pub(super) fn answer(&mut self) -> Flow<ResponseBody> {
        self.wait(|machine| !machine.answers.is_empty())?;
        match self.answers.pop_front() {
            Some(answer) => Ok(answer),
            None => self.fail(Check::Liveness, "a request is never answered".to_owned()),
        }
    }

    /// Sends a request.
    pub(super) fn send(&mut self, version: i16, body: impl Into<RequestBody>) -> Flow {
        let body = body.into();
        let api = body.api();
        let connection = match self.connection {
            Some(connection) => connection,
            None => self.connect()?,
        };
        self.last_correlation_id += 1;
        let header = RequestHeader {
            api_key: api.key(),
            api_version: version,
            correlation_id: self.last_correlation_id,
            client_id: None,
        };
        // Without its length, as the host hands it over.
        let frame = flat(&encode_request(&header, &body)).slice(4..);
        self.waiting.push_back((api, version));
        self.oracle.request(connection, &frame);
        let request = Box::new(with_tables(|tables| prepare(frame, &self.codecs, tables)));
        self.step(Input::Request {
            connection,
            request,
        })
    }

    fn connect(&mut self) -> Flow<ConnectionId> {
        let connection = ConnectionId(u64::from(self.life));
        self.connection = Some(connection);
        let local = Endpoint {
            host: "sim".to_owned(),
            port: 9092,
        };
        let peer = "sim".to_owned();
        self.step(Input::Opened {
            connection,
            local,
            peer,
        })?;
        Ok(connection)
    }

    fn hear(&mut self, bytes: Option<Bytes>) {
        let Some((api, version)) = self.waiting.pop_front() else {
            return;
        };
        // What does not decode is the oracle's to say.
        if let Some(bytes) = bytes
            && let Ok((_, body)) = decode_response(api, version, bytes.slice(bytes.len().min(4)..))
        {
            self.answers.push_back(body);
        }
    }
}

impl Told {
    /// Adds it to a hash.
    pub(super) fn add_to(&self, hash: &mut ChainedHash) {
        hash.text(format_args!("{self:?}"));
    }
}
