//! The topics that groups subscribe to, as the cluster has them.

use alloc::collections::BTreeSet;

use regex_lite::{Regex, RegexBuilder};

use crate::metadata::image::{Image, Topic};
use crate::wire::{ErrorCode, Str};

/// An expression may be this long, and take this much memory when it is compiled: together with the
/// length of names, this bounds the time that matching takes inside a step.
const MAX_EXPRESSION_BYTES: usize = 1_024;
const REGEX_BYTES: usize = 32 << 10;

/// The topics, and a number that changes when they do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Topics<'a> {
    pub(crate) image: &'a Image,
    pub(crate) version: u64,
}

impl Topics<'_> {
    pub(crate) fn by_name(&self, name: &str) -> Option<&Topic> {
        self.image.topic(name)
    }

    /// The topics whose whole name an expression matches: the broker's own too, as with Kafka.
    pub(super) fn matching(&self, expression: &str) -> BTreeSet<Str> {
        let Ok(regex) = compile(expression) else {
            return BTreeSet::new();
        };
        let names = self.image.topics().map(|topic| topic.name.as_str());
        names
            .filter(|name| regex.is_match(name))
            .map(Str::from)
            .collect()
    }
}

/// An expression that matches whole names. Matching takes time linear in the name, whatever the
/// expression.
pub(super) fn compile(expression: &str) -> Result<Regex, ErrorCode> {
    if expression.len() > MAX_EXPRESSION_BYTES {
        return Err(ErrorCode::INVALID_REGULAR_EXPRESSION);
    }
    // By itself first: "a)|(b" must not become valid by what is put around it.
    let build = |text: &str| {
        RegexBuilder::new(text)
            .size_limit(REGEX_BYTES)
            .build()
            .map_err(|_| ErrorCode::INVALID_REGULAR_EXPRESSION)
    };
    build(expression)?;
    build(&alloc::format!("^(?:{expression})$"))
}
