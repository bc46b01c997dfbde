//! What a member reads: topics by name, or those whose name an expression matches.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::{Group, Leaving, Owner};
use crate::client::config::GroupProtocol;
use crate::client::consumer::Consumer;
use crate::client::effect::Polled;
use crate::client::error::ClientError;
use crate::client::input::TopicName;
use crate::client::metadata::Metadata;
use crate::client::step::Step;
use crate::topic_pattern::TopicPattern;
use crate::wire::ErrorCode;

/// A subscription by expression.
#[derive(Debug)]
pub(super) struct Pattern {
    pub(super) pattern: TopicPattern,
    /// The answer with all topics that was last looked at.
    seen: Option<u64>,
}

impl Group {
    /// Is, or will be, a member that reads these topics.
    pub(crate) fn subscribe(
        &mut self,
        step: &mut Step<'_>,
        metadata: &mut Metadata,
        consumer: &mut Consumer,
        topics: Vec<TopicName>,
    ) {
        self.pattern = None;
        metadata.watch_all(false);
        self.begin_subscription(step, consumer);
        self.take_topics(metadata, topics.into_iter().collect());
    }

    /// Is, or will be, a member that reads the topics whose whole name the expression matches, those
    /// too that are made later.
    pub(crate) fn subscribe_pattern(
        &mut self,
        step: &mut Step<'_>,
        metadata: &mut Metadata,
        consumer: &mut Consumer,
        expression: &str,
    ) {
        let Ok(pattern) = TopicPattern::new(expression) else {
            let error = ClientError::broker(ErrorCode::INVALID_REGULAR_EXPRESSION);
            return consumer.notify(Polled::GroupFailed(error));
        };
        self.begin_subscription(step, consumer);
        metadata.watch_all(true);
        let is_new = self
            .pattern
            .as_ref()
            .is_none_or(|known| known.pattern.expression() != expression);
        if is_new {
            self.consumer_protocol.say_everything();
            self.pattern = Some(Pattern {
                pattern,
                seen: None,
            });
        }
        self.topics.get_or_insert_default();
        self.match_topics(metadata);
    }

    fn begin_subscription(&mut self, step: &mut Step<'_>, consumer: &mut Consumer) {
        if self.topics.is_none() {
            // What the application assigned itself is no part of the group's assignment.
            consumer.clear();
        }
        self.has_failed = false;
        consumer.expect_poll(step.now.mono);
        self.next_auto_commit = self.auto_commit_after(step.now.mono);
    }

    fn take_topics(&mut self, metadata: &mut Metadata, topics: BTreeSet<TopicName>) {
        for topic in &topics {
            metadata.want(topic);
        }
        if self.topics.as_ref() != Some(&topics) {
            self.classic.rejoin = true;
            if self.pattern.is_none() {
                // What an expression matches is the broker's to find out.
                self.consumer_protocol.say_everything();
            }
        }
        self.topics = Some(topics);
    }

    /// Looks again which topics its expression matches, if there may be others now. Whether what it
    /// subscribes to is known.
    pub(super) fn match_topics(&mut self, metadata: &mut Metadata) -> bool {
        let Some(known) = &mut self.pattern else {
            return true;
        };
        let Some((generation, names)) = metadata.all_topics() else {
            return false;
        };
        if known.seen != Some(generation) {
            known.seen = Some(generation);
            // As Kafka's client does; the broker matches its own topics as well.
            let with_own = self.config.protocol == GroupProtocol::Consumer;
            let matching = names
                .iter()
                .filter(|(name, is_own)| (with_own || !**is_own) && known.pattern.matches(name))
                .map(|(name, _)| name.clone())
                .collect();
            self.take_topics(metadata, matching);
        }
        true
    }

    /// Commits what was processed and leaves; reads nothing any more.
    pub(crate) fn unsubscribe(
        &mut self,
        step: &mut Step<'_>,
        metadata: &mut Metadata,
        consumer: &mut Consumer,
    ) {
        let now = step.now.mono;
        self.pattern = None;
        metadata.watch_all(false);
        consumer.processed_all();
        if self.config.enable_auto_commit {
            self.push_processed(now, consumer, Owner::GivingUp, |_| true);
        }
        if self.topics.take().is_some() && self.leaving.is_none() {
            self.leaving = Some(Leaving::Committing);
        }
        self.giving_up = None;
        consumer.forget_revocation();
        consumer.clear();
    }
}
