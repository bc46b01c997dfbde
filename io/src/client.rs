//! A Kafka client on tokio: the core's client state machine, driven over TCP.
//!
//! A [`Client`] hands out a [`Producer`], a [`Consumer`] and an [`Admin`], which share its
//! connections. Whoever brings an input, a task of the application or the one that reads a socket,
//! runs the step itself and carries out what it asks for; there is no thread in between.
//!
//! Nothing is decided here: retries, batches, time-outs and order are the core's.

mod answer;
mod link;
mod shared;
#[cfg(test)]
mod tests;

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use odradek_core::client::{
    AdminRequest, AdminTarget, Command, FoundOffset, OffsetSpec, OffsetToCommit, StartAt,
    TopicName, TopicPartition,
};
use odradek_core::ids::Offset;
use odradek_core::wire::messages::MetadataRequest;
use odradek_core::wire::messages::metadata::MetadataRequestTopic;
use odradek_core::wire::{ErrorCode, RequestBody, ResponseBody, Str};
use tokio::sync::oneshot;

pub use odradek_core::client::{
    Acks, Assignor, ClientConfig, ClientError, ConsumerConfig, ConsumerRecord, GroupConfig,
    GroupProtocol, OffsetReset, Outcome, Polled, ProducerConfig, ProducerRecord,
};

use self::answer::{PollAnswer, Waiter};
use self::shared::Shared;
use crate::server::random_seed;

/// A client of a cluster. Cheap to clone; the connections end when the last clone, and the last
/// handle that came from one, are dropped. What was not sent by then is lost, and whoever waits for
/// it is told [`Outcome::Unknown`]: [`Client::close`] is the way to end well.
#[derive(Clone, Debug)]
pub struct Client {
    handle: Arc<Handle>,
}

/// Ends everything when the last handle is gone.
#[derive(Debug)]
struct Handle {
    shared: Arc<Shared>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.abandon();
    }
}

impl Client {
    /// A client that connects once it is asked for something. Must be called on a tokio runtime,
    /// whose tasks then do its work.
    ///
    /// # Errors
    /// If the system gives no random bytes.
    ///
    /// # Panics
    /// Outside of a runtime.
    pub fn start(config: &ClientConfig) -> io::Result<Self> {
        let seed = random_seed().map_err(|error| io::Error::other(error.to_string()))?;
        let shared = Shared::start(config, seed);
        Ok(Self {
            handle: Arc::new(Handle { shared }),
        })
    }

    /// Sends records.
    #[must_use]
    pub fn producer(&self) -> Producer {
        Producer {
            handle: self.handle.clone(),
        }
    }

    /// Reads records. A client has one set of assigned partitions, which all its consumers share.
    #[must_use]
    pub fn consumer(&self) -> Consumer {
        Consumer {
            handle: self.handle.clone(),
            max_poll_records: 500,
            max_poll_bytes: 50 << 20,
        }
    }

    /// Sends requests of the application's own.
    #[must_use]
    pub fn admin(&self) -> Admin {
        Admin {
            handle: self.handle.clone(),
        }
    }

    /// Sends what was accepted, waits for the outcomes up to `timeout`, commits what was polled and
    /// leaves the group if it is in one, and closes all connections.
    /// Whatever is asked of the client afterwards fails with [`ClientError::Closed`].
    pub async fn close(&self, timeout: Duration) {
        let (done, closed) = oneshot::channel();
        let timeout_ms = milliseconds(timeout);
        self.handle
            .shared
            .ask(Command::Close { timeout_ms }, Waiter::Done(done));
        // An error means that the client is gone already.
        drop(closed.await);
    }
}

/// Sends records.
#[derive(Clone, Debug)]
pub struct Producer {
    handle: Arc<Handle>,
}

impl Producer {
    /// Accepts a record once there is room for it in `buffer.memory`, and returns what will tell
    /// what became of it. Records are sent in the order in which calls return; the record is sent
    /// whether or not the [`Delivery`] is awaited.
    pub async fn send(&self, record: ProducerRecord) -> Delivery {
        let shared = &self.handle.shared;
        let mut record = match shared.try_produce(record) {
            Ok(outcome) => return Delivery { outcome },
            Err(refused) => refused,
        };
        loop {
            // From here on no room that becomes free is missed.
            let room = shared.room();
            tokio::pin!(room);
            room.as_mut().enable();
            match shared.try_produce(record) {
                Ok(outcome) => return Delivery { outcome },
                Err(refused) => record = refused,
            }
            room.await;
        }
    }

    /// Accepts a record if there is room for it in `buffer.memory` now.
    ///
    /// # Errors
    /// The record itself, if there is not.
    #[expect(
        clippy::result_large_err,
        reason = "the record goes back to the caller"
    )]
    pub fn try_send(&self, record: ProducerRecord) -> Result<Delivery, ProducerRecord> {
        let outcome = self.handle.shared.try_produce(record)?;
        Ok(Delivery { outcome })
    }

    /// Sends everything accepted so far without lingering, and waits until all of it has its
    /// outcome.
    pub async fn flush(&self) {
        let (done, flushed) = oneshot::channel();
        self.handle.shared.ask(Command::Flush, Waiter::Done(done));
        // An error means that the client is gone, and every record has its outcome.
        drop(flushed.await);
    }
}

/// What will become of a record.
#[derive(Debug)]
pub struct Delivery {
    outcome: oneshot::Receiver<Outcome>,
}

impl Future for Delivery {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Outcome> {
        let outcome = ready!(Pin::new(&mut self.outcome).poll(cx));
        // A client that is dropped says nothing of what was still on its way.
        Poll::Ready(outcome.unwrap_or(Outcome::Unknown(ClientError::Closed)))
    }
}

/// Reads records: of partitions that it is told, or that its group assigns to it.
#[derive(Clone, Debug)]
pub struct Consumer {
    handle: Arc<Handle>,
    /// `max.poll.records`: most records that a poll returns; 500 unless set.
    pub max_poll_records: usize,
    /// Most bytes of keys and values that a poll returns, give or take a record.
    pub max_poll_bytes: usize,
}

impl Consumer {
    /// Reads exactly these partitions from now on, from these positions.
    pub fn assign(&self, partitions: Vec<(TopicPartition, StartAt)>) {
        self.handle.shared.tell(Command::Assign(partitions));
    }

    /// Is a member of the configured group from now on and reads what it assigns of these topics.
    /// What is assigned, revoked and lost is among what [`Self::poll`] returns; without polls nothing
    /// of that happens. Each poll says that the application is done with all that came before.
    pub fn subscribe(&self, topics: &[TopicName]) {
        self.handle.shared.tell(Command::Subscribe(topics.to_vec()));
    }

    /// The same for all topics whose whole name this regular expression matches, now or later.
    pub fn subscribe_pattern(&self, expression: &str) {
        let command = Command::SubscribePattern(expression.to_owned());
        self.handle.shared.tell(command);
    }

    /// Commits what was polled, leaves the group and reads nothing any more.
    pub fn unsubscribe(&self) {
        self.handle.shared.tell(Command::Unsubscribe);
    }

    /// Stores how far the group has read: these offsets, or for `None` the positions behind all that
    /// was polled.
    ///
    /// # Errors
    /// If it is not known within `timeout` that all of it is stored. Some of it may be.
    pub async fn commit(
        &self,
        offsets: Option<Vec<(TopicPartition, OffsetToCommit)>>,
        timeout: Duration,
    ) -> Result<(), ClientError> {
        let (tell, answer) = oneshot::channel();
        let command = Command::Commit {
            offsets,
            timeout_ms: milliseconds(timeout),
        };
        self.handle.shared.ask(command, Waiter::Committed(tell));
        answer.await.unwrap_or(Err(ClientError::Closed))
    }

    /// What the group assigned and did not take back yet.
    #[must_use]
    pub fn assignment(&self) -> Vec<TopicPartition> {
        self.handle
            .shared
            .read(|machine| machine.assignment().cloned().collect())
    }

    /// Goes on reading an assigned partition elsewhere.
    pub fn seek(&self, partition: TopicPartition, to: StartAt) {
        self.handle.shared.tell(Command::Seek { partition, to });
    }

    /// Returns nothing of these partitions until they are resumed.
    pub fn pause(&self, partitions: Vec<TopicPartition>) {
        self.handle.shared.tell(Command::Pause(partitions));
    }

    /// Ends a pause.
    pub fn resume(&self, partitions: Vec<TopicPartition>) {
        self.handle.shared.tell(Command::Resume(partitions));
    }

    /// Waits for records up to `timeout`; empty if there are none. May be dropped at any time
    /// without losing a record.
    pub async fn poll(&self, timeout: Duration) -> Vec<Polled> {
        let shared = &self.handle.shared;
        if let Some(items) = shared.take_returned() {
            return items;
        }
        let (waiter, answer) = PollAnswer::new(shared);
        let command = Command::Poll {
            max_records: self.max_poll_records,
            max_bytes: self.max_poll_bytes,
            max_wait_ms: milliseconds(timeout),
        };
        shared.ask(command, waiter);
        answer.await
    }

    /// Looks offsets up, each at its partition's leader; the answers are in the order of the
    /// question.
    pub async fn offsets(
        &self,
        partitions: Vec<(TopicPartition, OffsetSpec)>,
        timeout: Duration,
    ) -> Vec<(TopicPartition, Result<FoundOffset, ClientError>)> {
        let asked: Vec<TopicPartition> = partitions.iter().map(|(p, _)| p.clone()).collect();
        let (tell, offsets) = oneshot::channel();
        let command = Command::ListOffsets {
            partitions,
            timeout_ms: milliseconds(timeout),
        };
        self.handle.shared.ask(command, Waiter::Offsets(tell));
        offsets.await.unwrap_or_else(|_| {
            asked
                .into_iter()
                .map(|partition| (partition, Err(ClientError::Closed)))
                .collect()
        })
    }

    /// The offset of the next record that a poll returns; `None` if the partition is not assigned
    /// or its position not known yet.
    #[must_use]
    pub fn position(&self, partition: &TopicPartition) -> Option<Offset> {
        self.handle
            .shared
            .read(|machine| machine.position(partition))
    }

    /// The high watermark as of the last fetch of an assigned partition.
    #[must_use]
    pub fn high_watermark(&self, partition: &TopicPartition) -> Option<Offset> {
        self.handle
            .shared
            .read(|machine| machine.high_watermark(partition))
    }
}

/// Sends requests of the application's own.
#[derive(Clone, Debug)]
pub struct Admin {
    handle: Arc<Handle>,
}

impl Admin {
    /// Sends a request in the highest version that both sides know, and returns the broker's
    /// answer, whatever errors are in it. It is sent at most once.
    ///
    /// # Errors
    /// If there is no answer within `timeout`. Whether the request was carried out is then not
    /// known.
    pub async fn request(
        &self,
        to: AdminTarget,
        body: impl Into<RequestBody>,
        timeout: Duration,
    ) -> Result<ResponseBody, ClientError> {
        let (tell, answer) = oneshot::channel();
        let request = AdminRequest {
            to,
            body: body.into(),
            timeout_ms: milliseconds(timeout),
        };
        self.handle
            .shared
            .ask(Command::Admin(Box::new(request)), Waiter::Answered(tell));
        match answer.await {
            Ok(result) => result.map(|body| *body),
            Err(_) => Err(ClientError::Closed),
        }
    }

    /// The numbers of a topic's partitions, in order. The topic is not created by asking.
    ///
    /// # Errors
    /// What the broker says of the topic, or why there is no answer.
    pub async fn partitions(
        &self,
        topic: &str,
        timeout: Duration,
    ) -> Result<Vec<i32>, ClientError> {
        let request = MetadataRequest {
            topics: Some(vec![MetadataRequestTopic {
                name: Some(Str::from(topic)),
                ..Default::default()
            }]),
            allow_auto_topic_creation: false,
            ..Default::default()
        };
        let answer = self.request(AdminTarget::Any, request, timeout).await?;
        let ResponseBody::Metadata(answer) = answer else {
            return Err(ClientError::broker(ErrorCode::UNKNOWN_SERVER_ERROR));
        };
        let Some(topic) = answer.topics.into_iter().next() else {
            return Err(ClientError::broker(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION));
        };
        if topic.error_code.is_error() {
            return Err(ClientError::broker(topic.error_code));
        }
        let mut partitions: Vec<i32> = topic
            .partitions
            .iter()
            .map(|partition| partition.partition_index)
            .collect();
        partitions.sort_unstable();
        Ok(partitions)
    }
}

fn milliseconds(duration: Duration) -> u32 {
    u32::try_from(duration.as_millis()).unwrap_or(u32::MAX)
}
