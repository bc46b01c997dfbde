//! What a classic group is asked, and what it answers.

use alloc::vec::Vec;

use bytes::Bytes;

use super::Protocol;
use crate::connection::RequestId;
use crate::wire::{ErrorCode, Str};

/// What a JoinGroup asks.
#[derive(Clone, Debug)]
pub(crate) struct Join {
    pub(crate) request: RequestId,
    /// Empty for a new member.
    pub(crate) member_id: Str,
    pub(crate) instance_id: Option<Str>,
    pub(crate) client_id: Str,
    pub(crate) client_host: Str,
    pub(crate) session_timeout_ms: u64,
    pub(crate) rebalance_timeout_ms: u64,
    pub(crate) protocol_type: Str,
    pub(crate) protocols: Vec<Protocol>,
    /// The id that a new member gets.
    pub(crate) new_member_id: Str,
    /// Whether the version asks a new member to come back with its id (KIP-394).
    pub(crate) requires_known_member_id: bool,
    /// Whether the version lets a leader skip its assignment (KIP-814).
    pub(crate) may_skip_assignment: bool,
}

/// What a SyncGroup asks.
#[derive(Clone, Debug)]
pub(crate) struct Sync {
    pub(crate) request: RequestId,
    pub(crate) member: MemberRef,
    pub(crate) protocol_type: Option<Str>,
    pub(crate) protocol_name: Option<Str>,
    /// What each member gets; only the leader says.
    pub(crate) assignments: Vec<(Str, Bytes)>,
}

/// How a member names itself and the generation it lives in.
#[derive(Clone, Debug)]
pub(crate) struct MemberRef {
    pub(crate) member_id: Str,
    pub(crate) instance_id: Option<Str>,
    pub(crate) generation_id: i32,
}

/// What an operation decided.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// Answers that depend on no record.
    pub(crate) answers: Vec<(RequestId, Reply)>,
    /// Answers that wait until the group's record is durable.
    pub(crate) durable: Vec<(RequestId, Reply)>,
    /// Whether the group's record is to be appended now.
    pub(crate) changed: bool,
    /// Why the last rebalance began, for the log.
    pub(crate) reason: Option<&'static str>,
}

/// An answer to a request that may have waited.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Reply {
    Join(JoinReply),
    Sync(SyncReply),
}

/// The answer to a JoinGroup.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct JoinReply {
    pub(crate) error: ErrorCode,
    pub(crate) generation_id: i32,
    pub(crate) protocol_type: Option<Str>,
    pub(crate) protocol_name: Option<Str>,
    pub(crate) leader: Str,
    pub(crate) member_id: Str,
    pub(crate) skip_assignment: bool,
    /// Everybody, for the leader: member id, instance id, metadata.
    pub(crate) members: Vec<(Str, Option<Str>, Bytes)>,
}

/// The answer to a SyncGroup.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct SyncReply {
    pub(crate) error: ErrorCode,
    pub(crate) protocol_type: Option<Str>,
    pub(crate) protocol_name: Option<Str>,
    pub(crate) assignment: Bytes,
}

impl Reply {
    /// The same request, refused.
    pub(crate) fn refused(&self, error: ErrorCode) -> Self {
        match self {
            Self::Join(reply) => Self::Join(JoinReply::refusal(error, reply.member_id.clone())),
            Self::Sync(_) => Self::Sync(SyncReply::refusal(error)),
        }
    }
}

impl JoinReply {
    /// An answer that lets nobody in.
    pub(crate) fn refusal(error: ErrorCode, member_id: Str) -> Self {
        Self {
            error,
            generation_id: -1,
            member_id,
            ..Self::default()
        }
    }
}

impl SyncReply {
    /// An answer without an assignment.
    pub(crate) fn refusal(error: ErrorCode) -> Self {
        Self {
            error,
            ..Self::default()
        }
    }
}
