//! The id and the epoch of an idempotent producer (KIP-98, KIP-360).
//!
//! They are asked for with the first batch. Where numbers must begin anew, the next epoch of the same
//! id will do, which takes no question: what is still on its way under the older one is then fenced.

use crate::client::error::ClientError;
use crate::client::network::{Network, Purpose};
use crate::client::step::{Backoff, Step};
use crate::time::Mono;
use crate::wire::messages::InitProducerIdRequest;
use crate::wire::{ErrorCode, RequestBody, ResponseBody, Versions};

/// The id and the epoch of an idempotent producer.
#[derive(Debug)]
pub(super) struct Identity {
    backoff: Backoff,
    known: Option<ProducerIdAndEpoch>,
    is_asking: bool,
    failures: u32,
    not_before: Mono,
    looked_at: Mono,
}

/// An id with an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ProducerIdAndEpoch {
    pub(super) producer_id: i64,
    pub(super) epoch: i16,
}

impl Identity {
    pub(super) const fn new(backoff: Backoff) -> Self {
        Self {
            backoff,
            known: None,
            is_asking: false,
            failures: 0,
            not_before: Mono(0),
            looked_at: Mono(0),
        }
    }

    pub(super) const fn known(&self) -> Option<ProducerIdAndEpoch> {
        self.known
    }

    /// The id, asked for if it is not known.
    pub(super) fn current(
        &mut self,
        step: &mut Step<'_>,
        network: &mut Network,
    ) -> Option<ProducerIdAndEpoch> {
        self.looked_at = step.now.mono;
        if self.known.is_some() || self.is_asking || step.now.mono < self.not_before {
            return self.known;
        }
        let target = network.any_ready(step)?;
        let body = RequestBody::from(InitProducerIdRequest {
            transactional_id: None,
            transaction_timeout_ms: i32::MAX,
            ..Default::default()
        });
        let purpose = Some(Purpose::ProducerId);
        let any = Versions::new(0, i16::MAX);
        match network.send(step, target, purpose, &body, any, 0) {
            Ok(()) => self.is_asking = true,
            Err(_) => self.failed(step),
        }
        None
    }

    /// The answer came, or none will. The error is one that no time heals.
    pub(super) fn answered(
        &mut self,
        step: &mut Step<'_>,
        result: Result<ResponseBody, ClientError>,
    ) -> Result<(), ClientError> {
        self.is_asking = false;
        let Ok(ResponseBody::InitProducerId(response)) = result else {
            self.failed(step);
            return Ok(());
        };
        match response.error_code {
            ErrorCode::NONE => {
                self.failures = 0;
                self.known = Some(ProducerIdAndEpoch {
                    producer_id: response.producer_id,
                    epoch: response.producer_epoch,
                });
                Ok(())
            }
            code => {
                self.failed(step);
                if code.is_retriable() {
                    Ok(())
                } else {
                    Err(ClientError::broker(code))
                }
            }
        }
    }

    fn failed(&mut self, step: &mut Step<'_>) {
        self.failures = self.failures.saturating_add(1);
        self.not_before = self.backoff.after(self.failures, step);
    }

    /// An epoch above `used`, if that is one of the id of now. If there is none, another id is asked
    /// for.
    pub(super) fn above(&mut self, used: ProducerIdAndEpoch) -> Option<ProducerIdAndEpoch> {
        let known = self.known.as_mut()?;
        if known.producer_id == used.producer_id && known.epoch <= used.epoch {
            match used.epoch.checked_add(1) {
                Some(epoch) => known.epoch = epoch,
                None => self.known = None,
            }
        }
        self.known
    }

    /// Another id is needed.
    pub(super) const fn forget(&mut self) {
        self.known = None;
    }

    /// When [`Self::current`] has something to do.
    pub(super) fn deadline(&self) -> Option<Mono> {
        let waits = self.known.is_none() && !self.is_asking && self.not_before > self.looked_at;
        waits.then_some(self.not_before)
    }
}
