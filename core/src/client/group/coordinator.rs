//! Which broker the group's coordinator is.
//!
//! It is asked for once somebody needs it, and again when a broker says that it is not it (any
//! longer), or cannot be reached.

use crate::client::error::ClientError;
use crate::client::metadata::Metadata;
use crate::client::network::{GroupRequest, Network, Purpose, Target};
use crate::client::step::{Backoff, Step};
use crate::ids::NodeId;
use crate::time::Mono;
use crate::wire::messages::{FindCoordinatorRequest, FindCoordinatorResponse};
use crate::wire::{ErrorCode, RequestBody, ResponseBody, Str, Versions};

/// Which broker the coordinator is.
#[derive(Debug)]
pub(super) struct Coordinator {
    group_id: Str,
    backoff: Backoff,
    node: Option<NodeId>,
    asking: bool,
    failures: u32,
    not_before: Mono,
    /// The last error on the way.
    pub(super) last_error: Option<ErrorCode>,
}

impl Coordinator {
    pub(super) const fn new(group_id: Str, backoff: Backoff) -> Self {
        Self {
            group_id,
            backoff,
            node: None,
            asking: false,
            failures: 0,
            not_before: Mono(0),
            last_error: None,
        }
    }

    /// Whom to send what the coordinator is asked. If that is not known or not connected yet, it is
    /// seen to, and the caller asks again after the next input.
    pub(super) fn target(
        &mut self,
        step: &mut Step<'_>,
        metadata: &mut Metadata,
        network: &mut Network,
    ) -> Option<Target> {
        if let Some(node) = self.node {
            let target = Target::Coordinator(node);
            if network.ready(step, target) {
                return Some(target);
            }
            if !metadata.brokers().contains_key(&node) {
                metadata.request_update();
            } else if network.has_failed(target) {
                self.lost(step);
            }
            return None;
        }
        if self.asking || step.now.mono < self.not_before {
            return None;
        }
        let any = network.any_ready(step)?;
        let body = RequestBody::from(FindCoordinatorRequest {
            key: self.group_id.clone(),
            coordinator_keys: alloc::vec![self.group_id.clone()],
            ..Default::default()
        });
        let purpose = Some(Purpose::Group(GroupRequest::FindCoordinator, 0));
        let within = Versions::new(0, i16::MAX);
        match network.send(step, any, purpose, &body, within, 0) {
            Ok(()) => self.asking = true,
            Err(_) => self.failed(step),
        }
        None
    }

    /// Where it is connected to, whether or not it answers: for what need not wait for answers.
    pub(super) const fn node(&self) -> Option<NodeId> {
        self.node
    }

    /// The answer came, or none will. An error is one that no time heals.
    pub(super) fn answered(
        &mut self,
        step: &mut Step<'_>,
        metadata: &mut Metadata,
        result: Result<ResponseBody, ClientError>,
    ) -> Result<(), ClientError> {
        self.asking = false;
        let Ok(ResponseBody::FindCoordinator(response)) = result else {
            self.failed(step);
            return Ok(());
        };
        match found(&response, &self.group_id) {
            Ok(node) => {
                self.node = Some(node);
                self.failures = 0;
                self.last_error = None;
                if !metadata.brokers().contains_key(&node) {
                    metadata.request_update();
                }
                Ok(())
            }
            Err(code) if code.is_retriable() => {
                self.last_error = Some(code);
                self.failed(step);
                Ok(())
            }
            Err(code) => {
                self.failed(step);
                Err(ClientError::broker(code))
            }
        }
    }

    /// It is not the coordinator any longer, or not to be reached.
    pub(super) fn lost(&mut self, step: &mut Step<'_>) {
        if self.node.take().is_some() {
            self.failed(step);
        }
    }

    fn failed(&mut self, step: &mut Step<'_>) {
        self.failures = self.failures.saturating_add(1);
        self.not_before = self.backoff.after(self.failures, step);
    }

    /// When [`Self::target`] has something to do after `now`.
    pub(super) fn deadline(&self, now: Mono) -> Option<Mono> {
        let waits = self.node.is_none() && !self.asking && self.not_before > now;
        waits.then_some(self.not_before)
    }
}

fn found(response: &FindCoordinatorResponse, group_id: &Str) -> Result<NodeId, ErrorCode> {
    let (code, node) = match &*response.coordinators {
        [] => (response.error_code, response.node_id),
        list => {
            let of_it = list.iter().find(|one| one.key == *group_id);
            let one = of_it.ok_or(ErrorCode::UNKNOWN_SERVER_ERROR)?;
            (one.error_code, one.node_id)
        }
    };
    match code {
        ErrorCode::NONE if node >= 0 => Ok(NodeId(node)),
        ErrorCode::NONE => Err(ErrorCode::COORDINATOR_NOT_AVAILABLE),
        code => Err(code),
    }
}
