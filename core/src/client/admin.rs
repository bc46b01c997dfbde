//! Requests of the application's own, sent to the broker it names.
//!
//! Until a request is sent it waits for connections and metadata. Once it is sent it is never sent
//! again: whether it was carried out is then for the application to find out.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::mem;

use super::effect::ClientEvent;
use super::error::{ClientError, Timeout};
use super::input::{AdminRequest, AdminTarget, CommandId};
use super::metadata::Metadata;
use super::network::{Network, Purpose, Target};
use super::step::Step;
use crate::time::Mono;
use crate::wire::{ErrorCode, ResponseBody, Versions};

/// The requests of the application's own.
#[derive(Debug, Default)]
pub(crate) struct Admin {
    waiting: Vec<Waiting>,
    in_flight: BTreeMap<u64, (CommandId, Mono)>,
    next_request: u64,
}

#[derive(Debug)]
struct Waiting {
    id: CommandId,
    request: AdminRequest,
    until: Mono,
}

/// Where a request can go at present.
enum Way {
    To(Target),
    NotYet,
    Nowhere(ClientError),
}

impl Admin {
    /// Takes a request.
    pub(crate) fn request(
        &mut self,
        step: &Step<'_>,
        metadata: &mut Metadata,
        id: CommandId,
        request: AdminRequest,
    ) {
        match &request.to {
            AdminTarget::Any => {}
            AdminTarget::Leader(partition) => metadata.want(&partition.topic),
            AdminTarget::Controller => {
                if metadata.controller().is_none() {
                    metadata.request_update();
                }
            }
            AdminTarget::Broker(node) => {
                if !metadata.brokers().contains_key(node) {
                    metadata.request_update();
                }
            }
        }
        let until = step.now.mono.plus_ms(request.timeout_ms.into());
        self.waiting.push(Waiting { id, request, until });
    }

    /// Sends what can be sent, and gives up what is overdue.
    pub(crate) fn settle(
        &mut self,
        step: &mut Step<'_>,
        metadata: &Metadata,
        network: &mut Network,
    ) {
        let now = step.now.mono;
        let overdue: Vec<u64> = self
            .in_flight
            .iter()
            .filter(|(_, (_, until))| *until <= now)
            .map(|(request, _)| *request)
            .collect();
        for request in overdue {
            // Its answer, should it come, is for nobody.
            if let Some((id, _)) = self.in_flight.remove(&request) {
                answer(step, id, Err(timed_out(None)));
            }
        }
        for waiting in mem::take(&mut self.waiting) {
            let id = waiting.id;
            if waiting.until <= now {
                let last = last_error(metadata, &waiting.request.to);
                answer(step, id, Err(timed_out(last)));
                continue;
            }
            match way(step, metadata, network, &waiting.request.to) {
                Way::NotYet => self.waiting.push(waiting),
                Way::Nowhere(error) => answer(step, id, Err(error)),
                Way::To(target) => self.send(step, network, target, &waiting),
            }
        }
    }

    fn send(
        &mut self,
        step: &mut Step<'_>,
        network: &mut Network,
        target: Target,
        waiting: &Waiting,
    ) {
        self.next_request += 1;
        let purpose = Some(Purpose::Admin(self.next_request));
        let any = Versions::new(0, i16::MAX);
        let body = &waiting.request.body;
        // The request's own limit decides, not that of the connection.
        let extra_ms = waiting.request.timeout_ms;
        match network.send(step, target, purpose, body, any, extra_ms) {
            Ok(()) => {
                self.in_flight
                    .insert(self.next_request, (waiting.id, waiting.until));
            }
            Err(error) => answer(step, waiting.id, Err(error)),
        }
    }

    /// The answer to a request came, or none will.
    pub(crate) fn answered(
        &mut self,
        step: &mut Step<'_>,
        request: u64,
        result: Result<ResponseBody, ClientError>,
    ) {
        if let Some((id, _)) = self.in_flight.remove(&request) {
            answer(step, id, result);
        }
    }

    /// Ends what the application waits for.
    pub(crate) fn close(&mut self, step: &mut Step<'_>) {
        for waiting in mem::take(&mut self.waiting) {
            answer(step, waiting.id, Err(ClientError::Closed));
        }
        for (id, _) in mem::take(&mut self.in_flight).into_values() {
            answer(step, id, Err(ClientError::Closed));
        }
    }

    /// When [`Self::settle`] has something to do.
    pub(crate) fn deadline(&self) -> Option<Mono> {
        let in_flight = self.in_flight.values().map(|(_, until)| *until);
        self.waiting
            .iter()
            .map(|waiting| waiting.until)
            .chain(in_flight)
            .min()
    }
}

fn way(step: &mut Step<'_>, metadata: &Metadata, network: &mut Network, to: &AdminTarget) -> Way {
    let node = match to {
        AdminTarget::Any => {
            return network.any_ready(step).map_or(Way::NotYet, Way::To);
        }
        AdminTarget::Controller => metadata.controller(),
        AdminTarget::Broker(node) => {
            if metadata.generation() > 0 && !metadata.brokers().contains_key(node) {
                return Way::Nowhere(ClientError::UnknownBroker(*node));
            }
            Some(*node)
        }
        AdminTarget::Leader(partition) => match metadata.topic(&partition.topic) {
            Some(topic) => match topic.error {
                Some(code) if !code.is_retriable() => {
                    return Way::Nowhere(ClientError::broker(code));
                }
                _ => metadata.partition(partition).and_then(|info| info.leader),
            },
            None => None,
        },
    };
    match node.map(Target::Node) {
        Some(target) if network.ready(step, target) => Way::To(target),
        _ => Way::NotYet,
    }
}

fn last_error(metadata: &Metadata, to: &AdminTarget) -> Option<ErrorCode> {
    match to {
        AdminTarget::Leader(partition) => metadata.topic(&partition.topic)?.error,
        _ => None,
    }
}

const fn timed_out(last: Option<ErrorCode>) -> ClientError {
    ClientError::TimedOut {
        what: Timeout::Request,
        last,
    }
}

fn answer(step: &mut Step<'_>, id: CommandId, result: Result<ResponseBody, ClientError>) {
    let result = result.map(Box::new);
    step.out.event(ClientEvent::Answered { id, result });
}
