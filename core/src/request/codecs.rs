//! Which topics keep a codec of their own (`compression.type`): what the work on a frame outside the
//! step must know to pack batches anew there, and not under the step's lock.
//!
//! The host hands the last table that the core told it to [`prepare`](super::prepare). One that is out
//! of date costs time and nothing else: the step packs what is not as its topic keeps it by then.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;

use crate::broker::State;
use crate::context::Context;
use crate::effect::Effect;
use crate::ids::TopicId;
use crate::partition::PartitionKey;
use crate::record::Kept;
use crate::wire::Str;

/// How topics keep their batches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Codecs {
    /// Where nothing else is said; `None` is as they come.
    default: Option<Kept>,
    /// The topics that differ from it.
    topics: BTreeMap<TopicId, Option<Kept>>,
    ids: BTreeMap<Str, TopicId>,
}

impl Codecs {
    /// How a topic keeps its batches, by its id if the request has ids, or by its name.
    pub(super) fn kept(&self, has_ids: bool, name: &Str, id: TopicId) -> Option<&Kept> {
        let id = if has_ids {
            Some(&id)
        } else {
            self.ids.get(name)
        };
        id.and_then(|id| self.topics.get(id))
            .unwrap_or(&self.default)
            .as_ref()
    }

    /// How many topics differ from the default.
    #[must_use]
    pub fn len(&self) -> usize {
        self.topics.len()
    }

    /// Whether every batch is kept as it comes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.default.is_none() && self.topics.is_empty()
    }

    fn of(state: &State) -> Self {
        let of_no_topic = TopicId::default();
        let default = state.metadata.log_config(&state.config, of_no_topic).kept();
        let mut codecs = Self {
            default,
            ..Self::default()
        };
        for topic in state.metadata.image().topics() {
            codecs.learn(state, topic.id, &topic.name);
        }
        codecs
    }

    /// Takes a topic in, if it differs. Whether it does.
    fn learn(&mut self, state: &State, topic: TopicId, name: &str) -> bool {
        let key = PartitionKey { topic, index: 0 };
        let Some(partition) = state.partitions.get(&key) else {
            return false;
        };
        let kept = partition.log().config().kept();
        if partition.holds_groups || kept == self.default {
            return false;
        }
        self.topics.insert(topic, kept);
        self.ids.insert(name.into(), topic);
        true
    }
}

impl State {
    /// Configs changed: the host must know the codecs.
    pub(crate) fn tell_codecs(&mut self, cx: &mut Context<'_>) {
        let codecs = Codecs::of(self);
        if codecs != *self.codecs {
            self.set_codecs(cx, codecs);
        }
    }

    /// A topic was made.
    pub(crate) fn tell_codec_of(&mut self, cx: &mut Context<'_>, topic: TopicId, name: &str) {
        let mut codecs = (*self.codecs).clone();
        if codecs.learn(self, topic, name) {
            self.set_codecs(cx, codecs);
        }
    }

    /// A topic is gone.
    pub(crate) fn forget_codec_of(&mut self, cx: &mut Context<'_>, topic: TopicId) {
        if self.codecs.topics.contains_key(&topic) {
            let mut codecs = (*self.codecs).clone();
            codecs.topics.remove(&topic);
            codecs.ids.retain(|_, id| *id != topic);
            self.set_codecs(cx, codecs);
        }
    }

    fn set_codecs(&mut self, cx: &mut Context<'_>, codecs: Codecs) {
        self.codecs = Arc::new(codecs);
        cx.out.push(Effect::Codecs(self.codecs.clone()));
    }
}
