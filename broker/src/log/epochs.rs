//! Kafka's `leader-epoch-checkpoint` against the epochs in the batches (KIP-101).

use std::path::{Path, PathBuf};

use odradek_core::log::epoch_checkpoint::EpochCheckpoint;
use odradek_core::record::BatchHeader;

use super::finding::{EPOCHS, Finding, Severity};
use crate::files;

/// An entry takes two numbers; nobody has a million epochs.
const LIMIT_BYTES: u64 = 16 << 20;

/// Compares a log's batches, in their order, with its checkpoint.
#[derive(Debug)]
pub(super) struct EpochCheck {
    path: PathBuf,
    /// Epoch and first offset, rising.
    entries: Vec<(i32, i64)>,
    found: Vec<Finding>,
}

impl EpochCheck {
    /// Reads the checkpoint.
    pub(super) fn open(path: &Path) -> Self {
        let mut this = Self {
            path: path.to_owned(),
            entries: Vec::new(),
            found: Vec::new(),
        };
        match read(path) {
            Ok(entries) => this.entries = entries,
            Err(problem) => this.damage(None, problem),
        }
        this
    }

    /// Takes the next batch of the log.
    pub(super) fn batch(&mut self, header: &BatchHeader) {
        let (epoch, offset) = (header.leader_epoch.0, header.base_offset.0);
        let at = self.entries.partition_point(|(_, start)| *start <= offset);
        // Entries of what was deleted from the log's start are gone, batches may be there still.
        let Some((known, start)) = at.checked_sub(1).and_then(|at| self.entries.get(at)) else {
            return;
        };
        if epoch >= 0 && *known != epoch && self.found.is_empty() {
            let problem = format!(
                "says that epoch {known} begins at {start}, but the batch at {offset} has epoch \
                 {epoch}"
            );
            self.damage(Some(offset), problem);
        }
    }

    /// What was found; the first contradiction only, since others follow from it.
    pub(super) fn finish(self) -> Vec<Finding> {
        self.found
    }

    fn damage(&mut self, offset: Option<i64>, problem: String) {
        self.found.push(Finding {
            severity: Severity::Damage,
            file: self.path.clone(),
            position: 0,
            offset,
            problem,
            remedy: EPOCHS,
        });
    }
}

/// The entries of a checkpoint: epoch and first offset.
///
/// # Errors
/// Why it is none, in words.
pub(super) fn read(path: &Path) -> Result<Vec<(i32, i64)>, String> {
    let bytes = files::read_small(path, LIMIT_BYTES).map_err(|error| error.to_string())?;
    let text = String::from_utf8(bytes).map_err(|_| "it is not text".to_owned())?;
    let entries = EpochCheckpoint::parse(&text)
        .ok_or_else(|| "it is no checkpoint of version 0 with rising epochs".to_owned())?;
    Ok(entries
        .into_iter()
        .map(|(epoch, start)| (epoch.0, start.0))
        .collect())
}
