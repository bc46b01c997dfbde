//! What `verify` found.

use std::fmt;
use std::path::PathBuf;

use serde::Serialize;

/// Something that is not as it should be.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Finding {
    /// Damage or a remark.
    #[serde(rename = "type")]
    pub(super) severity: Severity,
    /// The file.
    pub(super) file: PathBuf,
    /// Where in it, in bytes.
    pub(super) position: u64,
    /// The offset concerned, as far as known.
    pub(super) offset: Option<i64>,
    /// What is wrong.
    pub(super) problem: String,
    /// What to do about it.
    pub(super) remedy: &'static str,
}

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Severity {
    /// The files contradict themselves or each other.
    Damage,
    /// Worth knowing; nothing is lost.
    Remark,
}

/// In the last segment, where a crash may have torn it.
pub(super) const TAIL: &str = "if the broker was not stopped cleanly this is a torn tail: start \
    it, and it cuts the log here; if it was, the disk changed what was flushed: check the disk and \
    restore the file from a copy";

/// Where every byte was flushed long ago.
pub(super) const FLUSHED: &str = "this was flushed once, so the disk lost or changed it: check the \
    disk, then restore the file from a copy, or delete the topic";

/// A gap between offsets.
pub(super) const GAP: &str = "if the topic is compacted this is the cleaner's work: say \
    --compacted; if not, records are missing: restore the file from a copy, or delete the topic";

/// In a file that is derived from the log.
pub(super) const DERIVED: &str = "indexes are derived from the log: delete the file while the broker is stopped, and it is \
     rebuilt when it starts";

/// In the checkpoint of leader epochs.
pub(super) const EPOCHS: &str = "the epochs are derived from the log: delete the file while the broker is stopped, and it is \
     rebuilt when it starts";

/// For a remark.
pub(super) const NOTHING: &str = "nothing to do";

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            severity,
            file,
            position,
            offset,
            problem,
            remedy,
        } = self;
        let word = match severity {
            Severity::Damage => "DAMAGE",
            Severity::Remark => "remark",
        };
        write!(f, "{word} {} at byte {position}", file.display())?;
        if let Some(offset) = offset {
            write!(f, ", offset {offset}")?;
        }
        write!(f, ": {problem}")?;
        if *severity == Severity::Damage {
            write!(f, "\n    what to do: {remedy}")?;
        }
        Ok(())
    }
}
