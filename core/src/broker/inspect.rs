//! What the simulator's oracle, and metrics, may look at. Nothing here changes anything.

use super::Broker;
use super::state::Stage;
use crate::metadata::image::Image;
use crate::partition::{Partition, PartitionKey};

/// Counts of what is held on behalf of clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Open connections.
    pub connections: usize,
    /// Requests that were started and not answered.
    pub requests: usize,
    /// Produces that wait for their flush.
    pub produces: usize,
    /// Fetches that wait for records.
    pub fetches: usize,
    /// Entries that requests have with partitions.
    pub parked: usize,
    /// Requests that wait in groups, or for their records.
    pub groups: usize,
}

impl Broker {
    /// Whether the broker serves: started, and not stopping.
    #[must_use]
    pub const fn is_serving(&self) -> bool {
        matches!(self.state.stage, Stage::Running)
    }

    /// The cluster's state, with everything already appended.
    #[must_use]
    pub const fn image(&self) -> &Image {
        self.state.metadata.image()
    }

    /// All partitions in service.
    pub fn partitions(&self) -> impl Iterator<Item = (PartitionKey, &Partition)> {
        self.state
            .partitions
            .iter()
            .map(|(key, partition)| (*key, partition))
    }

    /// What is held on behalf of clients: all zero once they are gone.
    #[must_use]
    pub fn held(&self) -> Held {
        Held {
            connections: self.state.connections.open(),
            requests: self.state.connections.running(),
            produces: self.state.produces.len(),
            fetches: self.state.fetches.len(),
            parked: self.state.partitions.values().map(Partition::waiting).sum(),
            groups: self.state.groups.waiting(),
        }
    }
}
