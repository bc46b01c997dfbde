//! One step of a run, in words.

use std::fmt;

use odradek_core::effect::Effect;
use odradek_core::ids::ConnectionId;
use odradek_core::input::Input;
use odradek_core::time::Mono;

use super::ChainedHash;

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Counts the steps of a run from 1.
    pub number: u64,
    /// When.
    pub at: Mono,
    /// What kind of step it is.
    pub sign: Sign,
    /// Where it happened.
    pub lane: Lane,
    /// What happened.
    pub words: String,
    /// The hash after it, where it is wanted.
    pub hash: Option<ChainedHash>,
}

/// What kind of step it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sign {
    /// An input of the broker.
    Input,
    /// An effect of the broker.
    Effect,
    /// A client sends a request.
    Sent,
    /// A fault strikes.
    Fault,
    /// Anything else.
    Event,
}

/// Where a step happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lane {
    /// A client.
    Client(usize),
    /// The client of a connection, before anybody asked which one that is.
    Connection(ConnectionId),
    /// The broker.
    Broker,
    /// The disk.
    Disk,
}

impl Lane {
    pub(super) const fn of_input(input: &Input) -> Self {
        match input {
            Input::Opened { connection, .. }
            | Input::Request { connection, .. }
            | Input::Closed { connection } => Self::Connection(*connection),
            Input::Disk(_) => Self::Disk,
            Input::Start | Input::Deadline | Input::Stop => Self::Broker,
        }
    }

    pub(super) const fn of_effect(effect: &Effect) -> Self {
        match effect {
            Effect::Respond { connection, .. } | Effect::Close { connection } => {
                Self::Connection(*connection)
            }
            Effect::Open { .. }
            | Effect::Write { .. }
            | Effect::Flush { .. }
            | Effect::Manage { .. }
            | Effect::Read { .. } => Self::Disk,
            Effect::Codecs(_)
            | Effect::Started
            | Effect::Stopped
            | Effect::Report(_)
            | Effect::Fatal { .. } => Self::Broker,
        }
    }
}

impl Sign {
    /// Its name in the output for programs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Input => "input",
            Self::Effect => "effect",
            Self::Sent => "sent",
            Self::Fault => "fault",
            Self::Event => "event",
        }
    }

    const fn mark(self) -> char {
        match self {
            Self::Input => '>',
            Self::Effect => '<',
            Self::Sent => '~',
            Self::Fault => '!',
            Self::Event => '*',
        }
    }
}

impl Step {
    /// The step as one JSON object in one line.
    #[must_use]
    pub fn json(&self) -> String {
        let hash = self
            .hash
            .map_or_else(String::new, |hash| format!(r#","hash":"{hash}""#));
        format!(
            r#"{{"step":{},"at_ns":{},"kind":"{}","lane":"{}","words":{}{hash}}}"#,
            self.number,
            self.at.0,
            self.sign.name(),
            self.lane,
            json_string(&self.words),
        )
    }
}

/// A text as a JSON string that may stand inside a page's script too.
#[must_use]
pub fn json_string(text: &str) -> String {
    use fmt::Write;
    let mut json = String::with_capacity(text.len() + 2);
    json.push('"');
    for c in text.chars() {
        match c {
            '"' => json.push_str("\\\""),
            '\\' => json.push_str("\\\\"),
            // `</script>` must not end a page's script.
            '<' | '\u{2028}' | '\u{2029}' | '\0'..='\x1f' => {
                // A string does not fail to be written to.
                let _ = write!(json, "\\u{:04x}", u32::from(c));
            }
            c => json.push(c),
        }
    }
    json.push('"');
    json
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.at, self.sign.mark(), self.words)?;
        if let Some(hash) = self.hash {
            write!(f, " #{hash}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client(number) => write!(f, "client {number}"),
            Self::Connection(connection) => write!(f, "{connection}"),
            Self::Broker => f.write_str("broker"),
            Self::Disk => f.write_str("disk"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_one_line_of_json() {
        let step = Step {
            number: 7,
            at: Mono(1_500),
            sign: Sign::Fault,
            lane: Lane::Client(3),
            words: "says \"\\\n</script>\"".to_owned(),
            hash: None,
        };
        assert_eq!(
            step.json(),
            r#"{"step":7,"at_ns":1500,"kind":"fault","lane":"client 3","words":"says \"\\\u000a\u003c/script>\""}"#
        );
    }
}
