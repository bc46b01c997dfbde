//! Which error codes were answered, by API: a code that no run of a campaign ever sees is one whose
//! answer nobody has judged.

use std::collections::BTreeMap;
use std::fmt;

use odradek_core::wire::{ApiKey, ErrorCode, ResponseBody};

/// An API, and a code that it answered with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Answered {
    /// The API.
    pub api: ApiKey,
    /// The code.
    pub code: ErrorCode,
}

/// How often each code was answered.
pub type Codes = BTreeMap<Answered, u64>;

/// Counts the codes of an answer.
pub(super) fn count(codes: &mut Codes, api: ApiKey, response: &ResponseBody) {
    response.error_codes(&mut |code| {
        *codes.entry(Answered { api, code }).or_default() += 1;
    });
}

impl fmt::Display for Answered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let code = self.code.name().unwrap_or("UNKNOWN");
        write!(f, "{:?} {code}", self.api)
    }
}
