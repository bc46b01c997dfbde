//! Members of KIP-848's protocol. Their heartbeats are answered at once, or when a record is durable,
//! so all members of a group share a few connections.

use odradek_core::wire::messages::consumer_group_heartbeat::{
    ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse, TopicPartitions,
};
use odradek_core::wire::{ApiKey, ResponseBody, Str};

use super::{Members, Plan};
use crate::bench::frames::refused;
use crate::bench::link::{Link, nonsense};
use crate::bench::schedule::{Schedule, wait_until};
use crate::failure::Failure;

const HEARTBEAT: i16 = 1;
/// Connections of the members that are looked after together.
const LINKS: usize = 10;
/// So many rounds of heartbeats, and all members must have what is theirs.
const MAX_ROUNDS: usize = 100;

/// The members.
pub(super) struct ConsumerMembers {
    links: Vec<Link>,
    topic: Str,
    members: Vec<Member>,
    a_group: usize,
}

#[derive(Clone)]
struct Member {
    group: Str,
    id: Str,
    epoch: i32,
    owned: Vec<TopicPartitions>,
    /// Whether it is to say what it owns, since that has changed.
    says_owned: bool,
}

impl ConsumerMembers {
    /// Connects, and has all groups stable.
    pub(super) fn open(plan: &Plan) -> Result<Self, Failure> {
        let connect = |_| Link::connect(plan.target.address);
        let links: Result<Vec<Link>, Failure> = (0..LINKS).map(connect).collect();
        let member = |number: u32| Member {
            group: format!("{}-{}", plan.prefix, number / plan.members).into(),
            id: format!("member-{number}").into(),
            epoch: 0,
            owned: Vec::new(),
            says_owned: false,
        };
        let mut all = Self {
            links: links?,
            topic: plan.topic.as_str().into(),
            members: (0..plan.groups * plan.members).map(member).collect(),
            a_group: plan.members as usize,
        };
        all.settle()?;
        Ok(all)
    }

    /// Heartbeats until nobody is told anything new.
    fn settle(&mut self) -> Result<(), Failure> {
        for _ in 0..MAX_ROUNDS {
            if !self.beat_all()? && self.is_settled() {
                return Ok(());
            }
        }
        Err(Failure::failed("the group does not come to rest"))
    }

    /// Whether in each group everybody has the same epoch, and all partitions are given out.
    fn is_settled(&self) -> bool {
        self.members.chunks(self.a_group).all(|group| {
            let epoch = group.first().map(|member| member.epoch);
            let owned = group.iter().flat_map(|member| &member.owned);
            let count: usize = owned.map(|topic| topic.partitions.len()).sum();
            count == self.a_group && group.iter().all(|member| Some(member.epoch) == epoch)
        })
    }

    /// Everybody heartbeats. Whether one was told anything new.
    fn beat_all(&mut self) -> Result<bool, Failure> {
        let numbers: Vec<usize> = (0..self.members.len()).collect();
        let mut changed = false;
        for some in numbers.chunks(LINKS) {
            changed |= self.beat(some)?;
        }
        Ok(changed)
    }

    /// These members heartbeat, each on a connection of its own. Whether one was told anything new.
    fn beat(&mut self, numbers: &[usize]) -> Result<bool, Failure> {
        for (number, link) in numbers.iter().zip(&mut self.links) {
            let Some(member) = self.members.get_mut(*number) else {
                continue;
            };
            let joins = member.epoch == 0;
            let says = joins || std::mem::take(&mut member.says_owned);
            let request = ConsumerGroupHeartbeatRequest {
                group_id: member.group.clone(),
                member_id: member.id.clone(),
                member_epoch: member.epoch,
                rebalance_timeout_ms: if joins { 60_000 } else { -1 },
                subscribed_topic_names: joins.then(|| vec![self.topic.clone()]),
                topic_partitions: says.then(|| member.owned.clone()),
                ..Default::default()
            };
            link.request(HEARTBEAT, &request)?;
        }
        let mut changed = false;
        for (number, link) in numbers.iter().zip(&mut self.links) {
            let answer = link.answer(ApiKey::ConsumerGroupHeartbeat, HEARTBEAT)?;
            let ResponseBody::ConsumerGroupHeartbeat(response) = answer else {
                return Err(nonsense());
            };
            let ConsumerGroupHeartbeatResponse {
                error_code,
                member_epoch,
                assignment,
                ..
            } = response;
            if error_code.is_error() {
                return Err(refused("ConsumerGroupHeartbeat", error_code));
            }
            let Some(member) = self.members.get_mut(*number) else {
                continue;
            };
            changed |= member.epoch != member_epoch || assignment.is_some();
            member.epoch = member_epoch;
            if let Some(assignment) = assignment {
                let topics = assignment.topic_partitions.into_iter();
                member.owned = topics
                    .map(|topic| TopicPartitions {
                        topic_id: topic.topic_id,
                        partitions: topic.partitions,
                        ..Default::default()
                    })
                    .collect();
                member.says_owned = true;
            }
        }
        Ok(changed)
    }
}

impl Members for ConsumerMembers {
    fn heartbeat_all(&mut self, at: Option<Schedule>) -> Result<(), Failure> {
        let Some(schedule) = at else {
            return self.settle();
        };
        for member in 0..self.members.len() {
            wait_until(schedule.due(member as u64));
            self.beat(&[member])?;
        }
        Ok(())
    }

    /// A member leaves, and comes back when the others share what it had.
    fn rebalance(&mut self) -> Result<(), Failure> {
        let Some(last) = self.members.len().checked_sub(1) else {
            return Ok(());
        };
        if let Some(member) = self.members.get_mut(last) {
            member.epoch = -1;
            member.owned.clear();
        }
        self.beat(&[last])?;
        let left = self.members.pop();
        self.a_group -= 1;
        // What one member had is one partition more for another.
        for _ in 0..MAX_ROUNDS {
            if !self.beat_all()? {
                break;
            }
        }
        self.a_group += 1;
        if let Some(mut member) = left {
            member.epoch = 0;
            member.owned.clear();
            self.members.push(member);
        }
        self.settle()
    }
}
