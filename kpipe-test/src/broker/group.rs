//! Consumer groups: who is a member, and who not any more.

use std::collections::BTreeMap;

use bytes::Bytes;
use kpipe_core::TopicPartition;
use tokio::time::Instant;

use super::assignor::{Assignor, Target};
use super::history::What;
use super::member::{MemberId, Message, Partitions, Phase};
use super::state::State;
use super::timers::{Timer, TimerKey};

/// How a group changes hands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Protocol {
    /// Everybody gives back everything; once all have, all is dealt out anew.
    #[default]
    Eager,
    /// Only what moves is given back; once everybody who has to has, it is dealt out. How long a member
    /// takes to give back counts from the next rebalance on.
    Cooperative,
    /// Only what moves is given back, and each partition is handed on as soon as it is (KIP-848). A commit
    /// of an earlier generation is to be repeated, where the others refuse it for good.
    Incremental,
}

pub(super) struct Group {
    pub(super) id: String,
    pub(super) protocol: Protocol,
    pub(super) assignor: Assignor,
    pub(super) generation: i64,
    pub(super) slots: BTreeMap<MemberId, Slot>,
    /// Who has which partition, until it is given back.
    pub(super) owners: Target,
    /// Who is to have it.
    pub(super) target: Target,
    /// Where a test wants a partition, whatever the assignor says.
    pub(super) pins: Target,
    pub(super) committed: BTreeMap<TopicPartition, Committed>,
    /// Eager: whether everybody was asked to join again.
    pub(super) preparing: bool,
    /// To rebalance once the coordinator is back.
    pub(super) wanted: bool,
    /// Until when the first member of an empty group waits for more.
    pub(super) first_until: Option<Instant>,
}

/// What a group committed in a partition.
#[derive(Clone, Debug)]
pub(super) struct Committed {
    pub(super) next: i64,
    pub(super) metadata: Bytes,
}

/// A member as the group sees it.
#[derive(Debug, Default)]
pub(super) struct Slot {
    /// Eager: whether it has joined again since everybody was asked to.
    pub(super) joined: bool,
    /// What was asked back from it.
    pub(super) asked: Partitions,
    /// When the group stops waiting for it.
    pub(super) deadline: Option<TimerKey>,
}

impl Group {
    pub(super) fn new(id: &str, protocol: Protocol, assignor: Assignor) -> Self {
        Self {
            id: id.to_owned(),
            protocol,
            assignor: if protocol == Protocol::Eager { assignor } else { Assignor::Sticky },
            generation: 0,
            slots: BTreeMap::new(),
            owners: Target::new(),
            target: Target::new(),
            pins: Target::new(),
            committed: BTreeMap::new(),
            preparing: false,
            wanted: false,
            first_until: None,
        }
    }

    pub(super) fn members(&self) -> impl Iterator<Item = MemberId> {
        self.slots.keys().copied()
    }

    pub(super) fn has(&self, id: MemberId) -> bool {
        self.slots.contains_key(&id)
    }

    /// Whether a member still owes the group a partition, or its joining again.
    pub(super) fn is_rebalancing(&self) -> bool {
        self.preparing || self.slots.values().any(|slot| !slot.asked.is_empty())
    }
}

impl State {
    /// A member that has nothing joins, if the group is in reach; else when it is again.
    pub(super) fn join(&mut self, id: MemberId) {
        if self.members[id].phase != Phase::Out || !self.reaches_group(id) {
            return;
        }
        let member = &mut self.members[id];
        member.phase = Phase::In;
        member.incarnation += 1;
        let (at, name) = (member.group, member.name.clone());
        self.saw(|| What::Joined { member: name });
        let delay = self.settings.first_rebalance_delay;
        if self.groups[at].slots.is_empty() && !delay.is_zero() {
            let until = self.now + delay;
            self.groups[at].first_until = Some(until);
            self.at(until, Timer::FirstRebalance(at));
        }
        self.groups[at].slots.insert(id, Slot { joined: true, ..Slot::default() });
        self.rebalance_for(at, Some(id));
    }

    pub(super) fn first_rebalance(&mut self, at: usize) {
        self.groups[at].first_until = None;
        self.complete_if_ready(at);
        self.settle(at);
    }

    /// A member that is closed goes; if it cannot say so, when its session is over.
    pub(super) fn leave(&mut self, id: MemberId) {
        if !self.groups[self.members[id].group].has(id) {
            return;
        }
        if !self.reaches_group(id) {
            let at = self.now + self.settings.session_timeout;
            self.at(at, Timer::Session(id));
            return;
        }
        let (at, name) = (self.members[id].group, self.members[id].name.clone());
        self.saw(|| What::Left { member: name });
        self.remove(id);
        self.rebalance(at);
    }

    /// The group goes on without a member, which hears of it.
    pub(super) fn expel(&mut self, id: MemberId) {
        if !self.groups[self.members[id].group].has(id) {
            return;
        }
        let member = &mut self.members[id];
        // What it has not heard is void.
        member.inbox.clear();
        let (at, name) = (member.group, member.name.clone());
        self.saw(|| What::Expelled { member: name });
        self.remove(id);
        self.post(id, Message::Expelled, false);
        self.rebalance(at);
    }

    /// A member's session is over: it was out of reach, or its process is gone.
    pub(super) fn session_over(&mut self, id: MemberId) {
        let member = &self.members[id];
        let (at, phase, name) = (member.group, member.phase, member.name.clone());
        if phase == Phase::Out || phase == Phase::In && self.reaches_group(id) {
            return;
        }
        if self.groups[at].has(id) {
            self.saw(|| What::Expelled { member: name });
            self.remove(id);
        }
        if phase == Phase::In {
            // The client notices by itself.
            self.lose(id);
        }
        self.rebalance(at);
    }

    pub(super) fn deadline_passed(&mut self, id: MemberId) {
        let at = self.members[id].group;
        if let Some(slot) = self.groups[at].slots.get_mut(&id) {
            slot.deadline = None;
            if self.outages.coordinator_is_away(self.now) {
                self.set_deadline(id);
            } else {
                self.expel(id);
            }
        }
    }

    fn remove(&mut self, id: MemberId) {
        let group = &mut self.groups[self.members[id].group];
        if let Some(key) = group.slots.remove(&id).and_then(|slot| slot.deadline) {
            self.timers.cancel(key);
        }
        group.owners.retain(|_, owner| *owner != id);
        group.target.retain(|_, owner| *owner != id);
        group.pins.retain(|_, owner| *owner != id);
        if group.slots.is_empty() {
            group.preparing = false;
        }
    }

    pub(super) fn set_deadline(&mut self, id: MemberId) {
        let member = &self.members[id];
        let (group, by) = (member.group, self.now + member.rebalance_timeout);
        let missing = self.groups[group].slots.get(&id).is_some_and(|slot| slot.deadline.is_none());
        if missing {
            let key = self.at(by, Timer::Deadline(id));
            self.groups[group].slots.entry(id).and_modify(|slot| slot.deadline = Some(key));
        }
    }
}
