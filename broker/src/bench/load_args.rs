//! What the command of every load takes.

use super::figures::Figures;
use super::load::{Load, RoundArgs, TargetArgs};
use super::report::ReportArgs;
use crate::failure::Failure;

/// A load's own options, and those that are the same for all.
#[derive(Debug, clap::Args)]
pub(super) struct LoadArgs<L: clap::Args> {
    #[command(flatten)]
    load: L,
    #[command(flatten)]
    target: TargetArgs,
    #[command(flatten)]
    rounds: RoundArgs,
    #[command(flatten)]
    report: ReportArgs,
}

impl<L: Load + clap::Args> LoadArgs<L> {
    /// Runs the load, reports it, and returns what was found.
    pub(super) fn run(&self) -> Result<Figures, Failure> {
        self.report
            .run(&self.load, &self.target.target()?, self.rounds)
    }
}
