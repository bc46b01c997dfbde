//! ConsumerGroupHeartbeat: joining, staying, leaving.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::replay::{current_record, each, epoch_record, member_record, target_record};
use super::{
    ClassicMember, ConsumerGroup, ConsumerMember, LEAVE_STATIC, MemberState, Records, Topics,
};
use crate::bugs::Bug;
use crate::group::assignor::Partitions;
use crate::group::config::GroupConfig;
use crate::time::Now;
use crate::topic_pattern::TopicPattern;
use crate::wire::{ErrorCode, Str};

/// What a member says. `None` is unchanged.
#[derive(Clone, Debug, Default)]
pub(crate) struct Beat {
    pub(crate) member_id: Str,
    pub(crate) epoch: i32,
    pub(crate) instance_id: Option<Str>,
    pub(crate) rack_id: Option<Str>,
    pub(crate) rebalance_timeout_ms: Option<i32>,
    pub(crate) names: Option<Vec<Str>>,
    /// Empty for none any more.
    pub(crate) regex: Option<Str>,
    pub(crate) server_assignor: Option<Str>,
    pub(crate) owned: Option<Partitions>,
    /// Of a member that joined by JoinGroup.
    pub(crate) classic: Option<ClassicMember>,
    pub(crate) client_id: Str,
    pub(crate) client_host: Str,
}

/// What a member is told.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct BeatReply {
    pub(crate) epoch: i32,
    /// What it shall own now, if that has changed or it cannot know.
    pub(crate) assignment: Option<Partitions>,
}

/// An error code with words for the client's log.
pub(crate) type Refusal = (ErrorCode, String);

impl ConsumerGroup {
    /// A heartbeat of one who joins or stays.
    pub(crate) fn heartbeat(
        &mut self,
        now: Now,
        config: &GroupConfig,
        id: &Str,
        topics: &Topics<'_>,
        beat: &Beat,
        records: &mut Records,
    ) -> Result<BeatReply, Refusal> {
        beat.check_regex()?;
        let replaced = self.place(config, beat)?;
        if let Some(old) = replaced {
            self.replace(id, &old, &beat.member_id, records);
        } else if beat.epoch == 0 {
            // It owns nothing, whatever was known of it.
            self.forget_assignment(id, &beat.member_id, records);
        }
        let before = self.members.get(&beat.member_id);
        // Most heartbeats say nothing, and nothing has changed.
        let adds_nothing = before.is_some_and(|member| beat.adds_nothing(member));
        if adds_nothing
            && let Some(member) = before.filter(|member| self.rests(member, topics))
            && beat.epoch == member.epoch
        {
            let epoch = member.epoch;
            self.stays(now, config, &beat.member_id);
            self.revocations.cancel(&beat.member_id);
            return Ok(BeatReply {
                epoch,
                assignment: None,
            });
        }
        let before = before.cloned();
        let changed = !adds_nothing && self.update(id, beat, before.as_ref(), records);
        let before = before.unwrap_or_default();
        self.refresh(now, id, topics, changed, records);
        self.reconcile(id, &beat.member_id, beat.owned.as_ref(), records);
        self.stays(now, config, &beat.member_id);
        self.time_revocation(now, &beat.member_id, Some(&before));
        let member = self.members.get(&beat.member_id);
        let member = member.ok_or_else(|| unknown(&beat.member_id))?;
        let says_everything = beat.rebalance_timeout_ms.is_some()
            && (beat.names.is_some() || beat.regex.is_some())
            && beat.owned.is_some();
        let tell = beat.epoch == 0 || says_everything || member.assigned != before.assigned;
        Ok(BeatReply {
            epoch: member.epoch,
            assignment: tell.then(|| member.assigned.clone()),
        })
    }

    /// Whether there is nothing to do for a member that says nothing: it is at its target, and what the
    /// target depends on is as it was.
    fn rests(&self, member: &ConsumerMember, topics: &Topics<'_>) -> bool {
        member.state == MemberState::Stable
            && member.epoch == self.assignment_epoch
            && self.epoch == self.assignment_epoch
            && self.seen_topics == Some(topics.version)
    }

    /// A member is heard of.
    fn stays(&mut self, now: Now, config: &GroupConfig, member_id: &Str) {
        self.touch(now, config, member_id);
        self.joins.cancel(member_id);
        self.syncs.cancel(member_id);
    }

    /// Whether the one who beats may. Returns the member whose place it takes, if it does.
    fn place(&self, config: &GroupConfig, beat: &Beat) -> Result<Option<Str>, Refusal> {
        let known = self.members.get(&beat.member_id);
        if let Some(instance_id) = &beat.instance_id {
            let holder = self.static_members.get(instance_id);
            match holder {
                Some(holder) if *holder == beat.member_id => {}
                Some(holder) if beat.epoch == 0 => {
                    let away = self.members.get(holder);
                    // A classic member that moves to this protocol does not say that it is away.
                    let stays = |member: &ConsumerMember| {
                        member.epoch != LEAVE_STATIC && member.classic.is_none()
                    };
                    if away.is_some_and(stays) {
                        let words = alloc::format!(
                            "Static member {} with instance id {instance_id} cannot join the group \
                             because the instance id is owned by {holder} member.",
                            beat.member_id
                        );
                        return Err((ErrorCode::UNRELEASED_INSTANCE_ID, words));
                    }
                    return Ok(Some(holder.clone()));
                }
                Some(holder) => {
                    let words = alloc::format!(
                        "Static member {} with instance id {instance_id} was fenced by member \
                         {holder}.",
                        beat.member_id
                    );
                    return Err((ErrorCode::FENCED_INSTANCE_ID, words));
                }
                None if beat.epoch == 0 => {}
                None => {
                    let words = alloc::format!("Instance id {instance_id} is unknown.");
                    return Err((ErrorCode::UNKNOWN_MEMBER_ID, words));
                }
            }
        }
        let Some(member) = known else {
            if beat.epoch != 0 {
                return Err(unknown(&beat.member_id));
            }
            if self.members.len() >= config.consumer_max_size {
                let words = "The consumer group has reached its maximum capacity.".to_string();
                return Err((ErrorCode::GROUP_MAX_SIZE_REACHED, words));
            }
            return Ok(None);
        };
        // A new start is always possible, and so is the epoch before, if the answer with the new
        // one was lost: then it cannot own what is not its any more. One that is away has no later
        // epoch, and only comes back by joining.
        let behind = beat.epoch < member.epoch
            && beat.epoch == member.previous_epoch
            && beat.owned.as_ref().is_some_and(|owned| {
                each(owned).all(|(topic, partition)| {
                    let assigned = member.assigned.get(&topic);
                    assigned.is_some_and(|indexes| indexes.contains(&partition))
                })
            });
        let any = self.bugs.has(Bug::IgnoreMemberEpoch);
        if beat.epoch == 0 || beat.epoch == member.epoch || behind || any {
            return Ok(None);
        }
        let words = alloc::format!(
            "The consumer group member has epoch {} and was sent {}; it must abandon all its \
             partitions and rejoin.",
            member.epoch,
            beat.epoch
        );
        Err((ErrorCode::FENCED_MEMBER_EPOCH, words))
    }

    /// A static member comes back under another id: it takes what its old self left.
    pub(super) fn replace(&mut self, id: &Str, old: &Str, new: &Str, records: &mut Records) {
        let target = self.target.get(old).cloned();
        let Some(mut member) = self.members.get(old).cloned() else {
            return;
        };
        self.cancel_timers(old);
        self.say(current_record(id, old, None), records);
        self.say(target_record(id, old, None), records);
        self.say(member_record(id, old, None), records);
        member.epoch = 0;
        member.previous_epoch = 0;
        member.state = MemberState::Stable;
        member.revoking = Partitions::new();
        self.say(member_record(id, new, Some(&member)), records);
        if let Some(target) = target {
            self.say(target_record(id, new, Some(&target)), records);
        }
        self.say(current_record(id, new, Some(&member)), records);
    }

    fn forget_assignment(&mut self, id: &Str, member_id: &Str, records: &mut Records) {
        let Some(member) = self.members.get(member_id) else {
            return;
        };
        let mut fresh = member.clone();
        fresh.epoch = 0;
        fresh.previous_epoch = 0;
        fresh.state = MemberState::Stable;
        fresh.assigned = Partitions::new();
        fresh.revoking = Partitions::new();
        if fresh != *member {
            self.say(current_record(id, member_id, Some(&fresh)), records);
        }
    }

    /// Takes what the member says of itself. True if that may change who owns what.
    pub(super) fn update(
        &mut self,
        id: &Str,
        beat: &Beat,
        before: Option<&ConsumerMember>,
        records: &mut Records,
    ) -> bool {
        let mut member = before.cloned().unwrap_or_default();
        let keep = |new: &Option<Str>, old: &mut Option<Str>| {
            if new.is_some() {
                old.clone_from(new);
            }
        };
        keep(&beat.instance_id, &mut member.instance_id);
        keep(&beat.rack_id, &mut member.rack_id);
        keep(&beat.server_assignor, &mut member.server_assignor);
        if let Some(timeout_ms) = beat.rebalance_timeout_ms {
            member.rebalance_timeout_ms = timeout_ms;
        }
        if let Some(names) = &beat.names {
            member.names = names.iter().cloned().collect();
        }
        if let Some(regex) = &beat.regex {
            member.regex = Some(regex.clone()).filter(|regex| !regex.is_empty());
        }
        member.client_id = beat.client_id.clone();
        member.client_host = beat.client_host.clone();
        member.classic.clone_from(&beat.classic);
        if before != Some(&member) {
            self.say(member_record(id, &beat.member_id, Some(&member)), records);
        }
        before.is_none_or(|before| {
            member.names != before.names
                || member.regex != before.regex
                || member.server_assignor != before.server_assignor
        })
    }

    /// One leaves: for good, or a static member for a while.
    pub(crate) fn leave(
        &mut self,
        id: &Str,
        member_id: &Str,
        instance_id: Option<&Str>,
        epoch: i32,
        records: &mut Records,
    ) -> Result<(), Refusal> {
        let member_id = match instance_id {
            None => member_id.clone(),
            Some(instance_id) => {
                let holder = self.static_members.get(instance_id);
                let holder = holder.ok_or_else(|| unknown(member_id))?;
                if holder != member_id {
                    let words = alloc::format!(
                        "Static member {member_id} with instance id {instance_id} was fenced by \
                         member {holder}."
                    );
                    return Err((ErrorCode::FENCED_INSTANCE_ID, words));
                }
                holder.clone()
            }
        };
        let Some(member) = self.members.get(&member_id) else {
            return Err(unknown(&member_id));
        };
        if epoch != LEAVE_STATIC {
            self.fence(id, &member_id, records);
            return Ok(());
        }
        // What it has stays its own until its session ends.
        let mut away = member.clone();
        away.epoch = LEAVE_STATIC;
        away.previous_epoch = member.epoch;
        away.state = MemberState::Stable;
        away.revoking = Partitions::new();
        self.revocations.cancel(&member_id);
        self.say(current_record(id, &member_id, Some(&away)), records);
        Ok(())
    }

    /// A member goes, and what it had is free.
    pub(super) fn fence(&mut self, id: &Str, member_id: &Str, records: &mut Records) {
        self.cancel_timers(member_id);
        self.say(current_record(id, member_id, None), records);
        self.say(target_record(id, member_id, None), records);
        self.say(member_record(id, member_id, None), records);
        if self.is_to_downgrade() {
            // The classic group goes on from this epoch, so that its members need not be fenced.
            return;
        }
        self.say(
            epoch_record(id, self.epoch + 1, self.metadata_hash),
            records,
        );
    }

    fn cancel_timers(&mut self, member_id: &Str) {
        for timers in [
            &mut self.sessions,
            &mut self.revocations,
            &mut self.joins,
            &mut self.syncs,
        ] {
            timers.cancel(member_id);
        }
    }
}

impl Beat {
    /// Whether the member has said all of it before.
    fn adds_nothing(&self, member: &ConsumerMember) -> bool {
        // Each by its name, so that what a heartbeat says one day is not passed over here.
        let Self {
            member_id: _,
            epoch: _,
            instance_id,
            rack_id,
            rebalance_timeout_ms,
            names,
            regex,
            server_assignor,
            owned: _,
            classic,
            client_id,
            client_host,
        } = self;
        let same = |new: &Option<Str>, old: &Option<Str>| new.is_none() || new == old;
        same(instance_id, &member.instance_id)
            && same(rack_id, &member.rack_id)
            && same(server_assignor, &member.server_assignor)
            && rebalance_timeout_ms.is_none_or(|ms| ms == member.rebalance_timeout_ms)
            && names.is_none()
            && regex.is_none()
            && *client_id == member.client_id
            && *client_host == member.client_host
            && *classic == member.classic
    }

    /// Whether the expression that it subscribes with is one.
    pub(crate) fn check_regex(&self) -> Result<(), Refusal> {
        let Some(regex) = self.regex.as_ref().filter(|regex| !regex.is_empty()) else {
            return Ok(());
        };
        TopicPattern::new(regex).map(|_| ()).map_err(|_| {
            let words =
                alloc::format!("SubscribedTopicRegex `{regex}` is not a valid regular expression.");
            (ErrorCode::INVALID_REGULAR_EXPRESSION, words)
        })
    }
}

pub(super) fn unknown(member_id: &Str) -> Refusal {
    let words = alloc::format!("Member {member_id} is not a member of the group.");
    (ErrorCode::UNKNOWN_MEMBER_ID, words)
}
