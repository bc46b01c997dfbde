//! A member of a classic group.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use bytes::Bytes;

use crate::connection::RequestId;
use crate::wire::Str;

/// A protocol that a member offers (an assignor, for consumers), and what the leader needs to know
/// of the member under it.
pub(crate) type Protocol = (Str, Bytes);

/// Bytes that a protocol holds, roughly: where many have short names, it is their number that counts.
pub(crate) const fn protocol_bytes(name: usize, metadata: usize) -> usize {
    64 + name + metadata
}

/// What protocols hold.
pub(crate) fn weight_of(protocols: &[Protocol]) -> usize {
    let protocols = protocols.iter();
    protocols
        .map(|(name, metadata)| protocol_bytes(name.len(), metadata.len()))
        .sum()
}

/// The names of protocols, each once: a member that offers one twice still is one member.
pub(crate) fn names_of(protocols: &[Protocol]) -> BTreeSet<&Str> {
    protocols.iter().map(|(name, _)| name).collect()
}

/// A member.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    /// `group.instance.id` of a static member (KIP-345).
    pub(crate) instance_id: Option<Str>,
    pub(crate) client_id: Str,
    pub(crate) client_host: Str,
    pub(crate) rebalance_timeout_ms: u64,
    pub(crate) session_timeout_ms: u64,
    /// In the order of its preference.
    pub(crate) protocols: Vec<Protocol>,
    /// What the leader gave it; empty before it did.
    pub(crate) assignment: Bytes,
    /// Whether it has not been through a rebalance yet.
    pub(super) is_new: bool,
    /// Whether it has joined the rebalance that is under way.
    pub(super) join: Joining,
    /// Its SyncGroup that waits for the leader's.
    pub(super) sync: Option<RequestId>,
}

/// Whether a member has joined a rebalance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Joining {
    No,
    /// Its JoinGroup waits.
    Waits(RequestId),
    /// Its JoinGroup waited until its connection closed. It counts as joined until its session ends,
    /// and may join again with its id.
    Gone,
}

impl Member {
    /// What it offers under a protocol.
    pub(crate) fn metadata(&self, protocol: &str) -> Option<&Bytes> {
        let mut offered = self.protocols.iter();
        offered
            .find(|(name, _)| *name == protocol)
            .map(|(_, metadata)| metadata)
    }

    /// Bytes that it holds, roughly.
    pub(super) fn bytes(&self) -> usize {
        let instance_id = self.instance_id.as_ref().map_or(0, |id| id.len());
        // The member id is made of the client's or the instance's, and stands in several places.
        192 + 4 * (self.client_id.len() + instance_id)
            + self.client_host.len()
            + self.assignment.len()
            + weight_of(&self.protocols)
    }

    pub(super) fn has_joined(&self) -> bool {
        self.join != Joining::No
    }
}
