//! The member's place in its group: lost, given up, or left in order.

use alloc::format;

use super::{Cx, Group, Leaving, Phase};
use crate::client::config::GroupProtocol;
use crate::client::effect::Polled;
use crate::client::error::ClientError;
use crate::client::network::{GroupRequest, Purpose, Target};
use crate::report::Level;
use crate::wire::messages::leave_group::{LeaveGroupRequest, MemberIdentity};
use crate::wire::{ErrorCode, RequestBody, Str, Versions};

impl Group {
    /// The member is told off: what it owned is lost, and it joins again.
    pub(super) fn fenced(&mut self, cx: &mut Cx<'_, '_>, code: ErrorCode) {
        cx.step.report(
            Level::Warn,
            format!("group {}: the member is fenced: {code}", self.group_id),
        );
        self.drop_membership();
        if code == ErrorCode::UNKNOWN_MEMBER_ID && self.config.protocol == GroupProtocol::Classic {
            self.member_id = Str::default();
        }
        self.lose_all(cx);
    }

    /// It cannot be a member, and no time will heal that.
    pub(super) fn fail(&mut self, cx: &mut Cx<'_, '_>, error: ClientError) {
        self.drop_membership();
        self.member_id = Str::default();
        self.has_failed = true;
        self.lose_all(cx);
        cx.consumer.notify(Polled::GroupFailed(error));
    }

    pub(super) fn drop_membership(&mut self) {
        self.life += 1;
        self.phase = Phase::Out;
        self.epoch = -1;
        self.classic.reset();
        self.consumer_protocol.reset();
    }

    pub(super) fn leave_further(&mut self, cx: &mut Cx<'_, '_>) {
        let now = cx.step.now.mono;
        match self.leaving {
            Some(Leaving::Committing) => {
                // Nobody holds them any more, but the commits must still be what they were.
                if !self.commits.is_empty() {
                    return;
                }
                let said = self.say_goodbye(cx);
                self.drop_membership();
                self.owned.clear();
                self.member_id = Str::default();
                let until = now.plus_ms(self.request_timeout_ms.into());
                self.leaving = said.then_some(Leaving::Said { until });
            }
            Some(Leaving::Said { until }) if until <= now => self.leaving = None,
            _ => {}
        }
    }

    /// Tells the coordinator that the member leaves, if it can be told; whether an answer will come.
    ///
    /// A static member of a classic group says nothing: its place is kept until its session ends.
    pub(super) fn say_goodbye(&mut self, cx: &mut Cx<'_, '_>) -> bool {
        if self.member_id.is_empty() || matches!(self.phase, Phase::Out) {
            return false;
        }
        let body = match self.config.protocol {
            GroupProtocol::Classic if self.instance_id.is_some() => return false,
            GroupProtocol::Classic => RequestBody::from(LeaveGroupRequest {
                group_id: self.group_id.clone(),
                member_id: self.member_id.clone(),
                members: alloc::vec![MemberIdentity {
                    member_id: self.member_id.clone(),
                    ..Default::default()
                }],
                ..Default::default()
            }),
            GroupProtocol::Consumer => RequestBody::from(self.last_heartbeat()),
        };
        let Some(target) = self.bypass(cx) else {
            return false;
        };
        // Answers of the life that ends are void, and this one is of the next.
        let purpose = Some(Purpose::Group(GroupRequest::Leave, self.life + 1));
        let any = Versions::new(0, i16::MAX);
        let sent = cx.network.send(cx.step, target, purpose, &body, any, 0);
        sent.is_ok()
    }

    /// Where something can be sent that must not wait for what the coordinator was asked before.
    pub(super) fn bypass(&mut self, cx: &mut Cx<'_, '_>) -> Option<Target> {
        if matches!(self.phase, Phase::Joining | Phase::Syncing) {
            let target = Target::Node(self.coordinator.node()?);
            return cx.network.ready(cx.step, target).then_some(target);
        }
        self.coordinator.target(cx.step, cx.metadata, cx.network)
    }
}
