//! A run as a text file: a case that `replay` does again and `seeds/` keeps.
//!
//! One line says one thing, in this order:
//!
//! ```text
//! odradek-case 1
//! # what it found
//! seed 17
//! workload mixed
//! bug ack-before-flush                        only where one was planted
//! expect AckedDurable                         the check that failed
//! faults-end 1.400000000
//! mix 1=0 2=1 3=0                             the knobs of the mix, any number of lines
//! absent 2 4                                  clients that are left out
//! steady DiskLatency                          durations that are all at their mean
//! again Image 3                               draws from another seed
//! act 1.012000000 client 1 turn 4             what happens: see `decisions.rs`
//! end 1.013000000 life 1 moment 3 PowerLoss
//! full 1.020000000 bytes 300 for 0.010000000
//! wall 1.020000000 by -50
//! strike FlushFault 5 3
//! end of case
//! ```
//!
//! The decisions stand in the file, so the case keeps its meaning when the code draws others for the
//! same seed. What does not stand in it (what a client sends in its turn, how long things take) is
//! drawn from the seed. Times are seconds of the run's monotonic clock, which begins at 1.

use std::fmt::{self, Write};
use std::str::{FromStr, SplitWhitespace};

use odradek_core::time::Mono;

use crate::choices::Subsystem;
use crate::clock::SECOND;
use crate::decisions::{Decided, Decisions, End, Ending, FullDisk, Strike, WallStep};
use crate::swarm::Workload;

/// A run with its decisions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Case {
    /// What is said about it, line by line.
    pub remarks: Vec<String>,
    /// Where what the decisions leave open is drawn from.
    pub seed: u64,
    /// What it looks at.
    pub workload: Workload,
    /// The planted bug.
    pub bug: Option<String>,
    /// The check that failed when the case was written.
    pub expect: Option<String>,
    /// What happens.
    pub decisions: Decisions,
}

/// Why a text is not a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CaseError {
    /// It does not begin like one.
    NotACase,
    /// It is of a version that this program does not know.
    UnknownVersion(String),
    /// A line, counted from 1, does not say what it should.
    Line(usize, String),
    /// Its last line is missing.
    CutShort,
}

/// How every case begins, before its version.
pub const MAGIC: &str = "odradek-case";
/// The version that is written, and the only one that is read.
const VERSION: &str = "1";
const LAST_LINE: &str = "end of case";
/// Knobs on a line.
const KNOBS_PER_LINE: usize = 12;

impl Case {
    /// Reads a case.
    ///
    /// # Errors
    /// If the text is none, is of an unknown version, or is damaged.
    pub fn parse(text: &str) -> Result<Self, CaseError> {
        let mut lines = text.lines().zip(1..);
        let first = lines.next().map_or("", |(line, _)| line);
        let mut words = first.split_whitespace();
        if words.next() != Some(MAGIC) {
            return Err(CaseError::NotACase);
        }
        match (words.next(), words.next()) {
            (Some(VERSION), None) => {}
            (version, _) => {
                let version = version.unwrap_or_default().to_owned();
                return Err(CaseError::UnknownVersion(version));
            }
        }
        let mut case = Self::default();
        let mut has_seed = false;
        for (line, number) in lines {
            if line == LAST_LINE {
                return match has_seed {
                    true => Ok(case),
                    false => Err(CaseError::Line(number, "no line gives the seed".to_owned())),
                };
            }
            if let Some(remark) = line.strip_prefix('#') {
                case.remarks.push(remark.trim().to_owned());
                continue;
            }
            let mut words = Words(line.split_whitespace());
            let Some(kind) = words.0.next() else { continue };
            has_seed |= kind == "seed";
            case.line(kind, &mut words)
                .and_then(|()| words.nothing_more())
                .map_err(|what| CaseError::Line(number, what))?;
        }
        Err(CaseError::CutShort)
    }

    fn line(&mut self, kind: &str, words: &mut Words<'_>) -> Result<(), String> {
        let decisions = &mut self.decisions;
        match kind {
            "seed" => self.seed = words.number("a seed")?,
            "workload" => {
                let name = words.next("a workload")?;
                self.workload = Workload::by_name(name)?;
            }
            "bug" => self.bug = Some(words.next("a bug")?.to_owned()),
            "expect" => self.expect = Some(words.next("a check")?.to_owned()),
            "faults-end" => decisions.faults_end = words.time()?,
            "mix" => {
                for knob in words.0.by_ref() {
                    let (knob, option) = knob
                        .split_once('=')
                        .and_then(|(knob, option)| Some((knob.parse().ok()?, option.parse().ok()?)))
                        .ok_or_else(|| format!("{knob} is no knob and its option"))?;
                    decisions.mix.insert(knob, option);
                }
            }
            "absent" => {
                for client in words.0.by_ref() {
                    decisions.absent.insert(parsed(client, "a client")?);
                }
            }
            "steady" => {
                decisions.steady.insert(words.subsystem()?);
            }
            "again" => {
                let subsystem = words.subsystem()?;
                decisions.again.insert(subsystem, words.number("a count")?);
            }
            kind => decisions.events.push(words.event(kind)?),
        }
        Ok(())
    }
}

/// The words of a line.
struct Words<'a>(SplitWhitespace<'a>);

impl<'a> Words<'a> {
    fn next(&mut self, what: &str) -> Result<&'a str, String> {
        self.0.next().ok_or_else(|| format!("{what} is missing"))
    }

    fn expect(&mut self, word: &str) -> Result<(), String> {
        match self.next(word)? {
            found if found == word => Ok(()),
            found => Err(format!("{found} stands where {word} should")),
        }
    }

    fn number<T: FromStr>(&mut self, what: &str) -> Result<T, String> {
        parsed(self.next(what)?, what)
    }

    /// Seconds with nine digits behind the point, in nanoseconds.
    fn duration(&mut self) -> Result<u64, String> {
        let word = self.next("a time")?;
        let parts = word
            .split_once('.')
            .filter(|(_, nanoseconds)| nanoseconds.len() == 9)
            .and_then(|(seconds, nanoseconds)| {
                let seconds = seconds.parse::<u64>().ok()?.checked_mul(SECOND)?;
                seconds.checked_add(nanoseconds.parse().ok()?)
            });
        parts.ok_or_else(|| format!("{word} is no time in seconds with nine decimals"))
    }

    fn time(&mut self) -> Result<Mono, String> {
        self.duration().map(Mono)
    }

    fn subsystem(&mut self) -> Result<Subsystem, String> {
        let name = self.next("a subsystem")?;
        Subsystem::by_name(name).ok_or_else(|| format!("no subsystem is called {name}"))
    }

    fn event(&mut self, kind: &str) -> Result<Decided, String> {
        Ok(match kind {
            "act" => {
                let at = self.time()?;
                self.expect("client")?;
                let client = self.number("a client")?;
                self.expect("turn")?;
                let turn = self.number::<u32>("a turn")?.into();
                Decided::Act { client, at, turn }
            }
            "end" => {
                let at = self.time()?;
                self.expect("life")?;
                let life = self.number("a life")?;
                self.expect("moment")?;
                let nth = self.number("a moment")?;
                let how = match self.next("an ending")? {
                    "Killed" => Ending::Killed,
                    "PowerLoss" => Ending::PowerLoss,
                    "Stop" => Ending::Stop,
                    other => return Err(format!("{other} is no ending")),
                };
                Decided::End(End {
                    life,
                    at,
                    nth,
                    how,
                    amid: None,
                    by_kind: false,
                })
            }
            "full" => {
                let at = self.time()?;
                self.expect("bytes")?;
                let free_bytes = self.number("a number of bytes")?;
                self.expect("for")?;
                let lasts_ns = self.duration()?;
                Decided::FullDisk(FullDisk {
                    at,
                    free_bytes,
                    lasts_ns,
                })
            }
            "wall" => {
                let at = self.time()?;
                self.expect("by")?;
                let by_ms = self.number("milliseconds")?;
                Decided::WallStep(WallStep { at, by_ms })
            }
            "strike" => Decided::Strike(Strike {
                subsystem: self.subsystem()?,
                entity: self.number("an entity")?,
                ordinal: self.number("an ordinal")?,
            }),
            other => return Err(format!("{other} is nothing that a case says")),
        })
    }

    fn nothing_more(&mut self) -> Result<(), String> {
        match self.0.next() {
            None => Ok(()),
            Some(word) => Err(format!("{word} is one word too many")),
        }
    }
}

fn parsed<T: FromStr>(word: &str, what: &str) -> Result<T, String> {
    word.parse().map_err(|_| format!("{word} is not {what}"))
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{MAGIC} {VERSION}")?;
        for remark in &self.remarks {
            writeln!(f, "# {remark}")?;
        }
        writeln!(f, "seed {}", self.seed)?;
        writeln!(f, "workload {}", self.workload.name())?;
        if let Some(bug) = &self.bug {
            writeln!(f, "bug {bug}")?;
        }
        if let Some(expect) = &self.expect {
            writeln!(f, "expect {expect}")?;
        }
        let decisions = &self.decisions;
        writeln!(f, "faults-end {}", Seconds(decisions.faults_end.0))?;
        let knobs: Vec<_> = decisions.mix.iter().collect();
        for line in knobs.chunks(KNOBS_PER_LINE) {
            f.write_str("mix")?;
            for (knob, option) in line {
                write!(f, " {knob}={option}")?;
            }
            f.write_char('\n')?;
        }
        if !decisions.absent.is_empty() {
            f.write_str("absent")?;
            for client in &decisions.absent {
                write!(f, " {client}")?;
            }
            f.write_char('\n')?;
        }
        for subsystem in &decisions.steady {
            writeln!(f, "steady {subsystem}")?;
        }
        for (subsystem, times) in &decisions.again {
            writeln!(f, "again {subsystem} {times}")?;
        }
        for event in &decisions.events {
            writeln!(f, "{event}")?;
        }
        writeln!(f, "{LAST_LINE}")
    }
}

/// Nanoseconds, written as seconds.
struct Seconds(u64);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:09}", self.0 / SECOND, self.0 % SECOND)
    }
}

impl fmt::Display for Decided {
    /// As a line of a case.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Act { client, at, turn } => {
                write!(f, "act {} client {client} turn {turn}", Seconds(at.0))
            }
            Self::End(End {
                life, at, nth, how, ..
            }) => {
                let at = Seconds(at.0);
                write!(f, "end {at} life {life} moment {nth} {how:?}")
            }
            Self::FullDisk(full) => write!(
                f,
                "full {} bytes {} for {}",
                Seconds(full.at.0),
                full.free_bytes,
                Seconds(full.lasts_ns)
            ),
            Self::WallStep(step) => write!(f, "wall {} by {}", Seconds(step.at.0), step.by_ms),
            Self::Strike(strike) => write!(
                f,
                "strike {} {} {}",
                strike.subsystem, strike.entity, strike.ordinal
            ),
        }
    }
}

impl fmt::Display for CaseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotACase => write!(
                f,
                "this is no case: its first line is not \"{MAGIC} {VERSION}\""
            ),
            Self::UnknownVersion(version) => write!(
                f,
                "this case is of version \"{version}\", and this program reads version {VERSION}"
            ),
            Self::Line(number, what) => write!(f, "line {number}: {what}"),
            Self::CutShort => write!(f, "the case is cut short: \"{LAST_LINE}\" is missing"),
        }
    }
}

impl std::error::Error for CaseError {}

#[cfg(test)]
mod tests;
