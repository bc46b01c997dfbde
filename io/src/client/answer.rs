//! Who waits for which event.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use odradek_core::client::{
    ClientError, ClientEvent, FoundOffset, Outcome, Polled, TopicPartition,
};
use odradek_core::wire::ResponseBody;
use tokio::sync::oneshot;

use super::shared::Shared;

/// Who waits for the event that answers a command.
#[derive(Debug)]
pub(super) enum Waiter {
    Delivery(oneshot::Sender<Outcome>),
    /// A flush or a close.
    Done(oneshot::Sender<()>),
    Polled(oneshot::Sender<Vec<Polled>>),
    Offsets(oneshot::Sender<Vec<(TopicPartition, Result<FoundOffset, ClientError>)>>),
    Answered(oneshot::Sender<Result<Box<ResponseBody>, ClientError>>),
    Committed(oneshot::Sender<Result<(), ClientError>>),
}

impl Waiter {
    /// Tells it. What was polled comes back if nobody waits any more: it must not be lost.
    pub(super) fn tell(self, event: ClientEvent) -> Option<Vec<Polled>> {
        match (self, event) {
            // Whoever asked may have stopped waiting, and then it is nobody's.
            (Self::Delivery(waiter), ClientEvent::Delivery { outcome, .. }) => {
                drop(waiter.send(outcome));
            }
            (Self::Done(waiter), ClientEvent::Flushed { .. } | ClientEvent::Closed { .. }) => {
                let _ = waiter.send(());
            }
            (Self::Offsets(waiter), ClientEvent::Offsets { offsets, .. }) => {
                drop(waiter.send(offsets));
            }
            (Self::Committed(waiter), ClientEvent::Committed { result, .. }) => {
                drop(waiter.send(result));
            }
            (Self::Answered(waiter), ClientEvent::Answered { result, .. }) => {
                drop(waiter.send(result));
            }
            (Self::Polled(waiter), ClientEvent::Polled { items, .. }) => {
                return waiter.send(items).err();
            }
            (waiter, event) => unreachable!("{waiter:?} is told {event}"),
        }
        None
    }
}

/// The answer to a poll. If it is dropped before it was taken, it is there for the next poll.
#[derive(Debug)]
pub(super) struct PollAnswer {
    shared: Arc<Shared>,
    items: oneshot::Receiver<Vec<Polled>>,
}

impl PollAnswer {
    /// An answer, and whom to tell it.
    pub(super) fn new(shared: &Arc<Shared>) -> (Waiter, Self) {
        let (tell, items) = oneshot::channel();
        let answer = Self {
            shared: shared.clone(),
            items,
        };
        (Waiter::Polled(tell), answer)
    }
}

impl Future for PollAnswer {
    type Output = Vec<Polled>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Vec<Polled>> {
        let items = Pin::new(&mut self.items).poll(cx);
        // A client that is gone has nothing to read.
        items.map(Result::unwrap_or_default)
    }
}

impl Drop for PollAnswer {
    fn drop(&mut self) {
        self.items.close();
        if let Ok(items) = self.items.try_recv() {
            self.shared.give_back(items);
        }
    }
}
