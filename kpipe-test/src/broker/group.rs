//! Consumer groups: members, generations, and rebalances.

use std::collections::BTreeMap;

use bytes::Bytes;
use kpipe_core::TopicPartition;
use tokio::time::Instant;

use super::assignor::{self, Assignor, Subscriber, Target};
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
    /// Only what moves is given back; once everybody who has to has, it is dealt out.
    Cooperative,
    /// Only what moves is given back, and each partition is handed on as soon as it is (KIP-848). A commit
    /// of an earlier generation is to be repeated, where the others refuse it for good.
    Incremental,
}

pub(super) struct Group {
    pub(super) id: String,
    pub(super) protocol: Protocol,
    assignor: Assignor,
    pub(super) generation: i64,
    slots: BTreeMap<MemberId, Slot>,
    /// Who has which partition, until it is given back.
    pub(super) owners: Target,
    /// Who is to have it.
    target: Target,
    /// Where a test wants a partition, whatever the assignor says.
    pub(super) pins: Target,
    pub(super) committed: BTreeMap<TopicPartition, Committed>,
    /// Eager: whether everybody was asked to join again.
    preparing: bool,
    /// To rebalance once the coordinator is back.
    wanted: bool,
    /// Until when the first member of an empty group waits for more.
    first_until: Option<Instant>,
}

/// What a group committed in a partition.
#[derive(Clone, Debug)]
pub(super) struct Committed {
    pub(super) next: i64,
    pub(super) metadata: Bytes,
}

/// A member as the group sees it.
#[derive(Debug, Default)]
struct Slot {
    /// Eager: whether it has joined again since everybody was asked to.
    joined: bool,
    /// What was asked back from it.
    asked: Partitions,
    /// When the group stops waiting for it.
    deadline: Option<TimerKey>,
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

/// Coming and going.
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

    fn set_deadline(&mut self, id: MemberId) {
        let member = &self.members[id];
        let (group, by) = (member.group, self.now + member.rebalance_timeout);
        let missing = self.groups[group].slots.get(&id).is_some_and(|slot| slot.deadline.is_none());
        if missing {
            let key = self.at(by, Timer::Deadline(id));
            self.groups[group].slots.entry(id).and_modify(|slot| slot.deadline = Some(key));
        }
    }
}

/// Rebalances.
impl State {
    pub(super) fn rebalance_subscribers(&mut self, topic: &str) {
        for at in 0..self.groups.len() {
            let mut members = self.groups[at].slots.keys();
            if members.any(|id| self.members[*id].topics.iter().any(|one| &**one == topic)) {
                self.rebalance(at);
            }
        }
    }

    pub(super) fn rebalance(&mut self, at: usize) {
        self.rebalance_for(at, None);
    }

    /// `joined` is the member that joins just now.
    fn rebalance_for(&mut self, at: usize, joined: Option<MemberId>) {
        let away = self.outages.coordinator_is_away(self.now);
        let group = &mut self.groups[at];
        group.wanted = away;
        if away {
            return;
        }
        if group.protocol != Protocol::Eager {
            self.ask_back(at);
        } else if group.preparing {
            self.complete_if_ready(at);
        } else {
            self.ask_all_back(at, joined);
        }
    }

    /// Goes on with what had to wait for the coordinator.
    pub(super) fn resume_group(&mut self, at: usize) {
        if self.groups[at].wanted {
            self.rebalance(at);
        }
        self.complete_if_ready(at);
        self.settle(at);
    }

    /// Eager: has everybody give back everything and join again.
    fn ask_all_back(&mut self, at: usize, joined: Option<MemberId>) {
        let group = &mut self.groups[at];
        group.preparing = true;
        for (id, slot) in &mut group.slots {
            slot.joined = joined == Some(*id);
        }
        let others: Vec<_> = group.members().filter(|id| joined != Some(*id)).collect();
        for id in others {
            self.set_deadline(id);
            self.post(id, Message::Rejoin, false);
        }
        self.complete_if_ready(at);
    }

    /// Eager: a member that was asked to and has nothing joins again.
    pub(super) fn rejoin_if_free(&mut self, id: MemberId) {
        let member = &self.members[id];
        let at = member.group;
        let free = member.owned.is_empty() && member.revoking.is_empty() && member.inbox.is_empty();
        let group = &mut self.groups[at];
        if !free || !group.preparing || !self.reaches_group(id) {
            return;
        }
        let Some(slot) = self.groups[at].slots.get_mut(&id).filter(|slot| !slot.joined) else {
            return;
        };
        slot.joined = true;
        if let Some(key) = slot.deadline.take() {
            self.timers.cancel(key);
        }
        self.complete_if_ready(at);
    }

    /// Eager: deals out once everybody has joined.
    fn complete_if_ready(&mut self, at: usize) {
        let away = self.outages.coordinator_is_away(self.now);
        let group = &self.groups[at];
        let ready = group.preparing
            && !away
            && group.first_until.is_none()
            && group.slots.values().all(|slot| slot.joined);
        if !ready {
            return;
        }
        let target = self.target(at);
        let group = &mut self.groups[at];
        group.preparing = false;
        group.generation += 1;
        group.owners.clone_from(&target);
        group.target = target;
        let generation = group.generation;
        for id in group.members().collect::<Vec<_>>() {
            let partitions = owned_by(&self.groups[at].target, id);
            self.post(id, Message::Assign(partitions, generation), true);
        }
    }

    /// Cooperative and incremental: asks back what is to move.
    fn ask_back(&mut self, at: usize) {
        let target = self.target(at);
        let group = &mut self.groups[at];
        group.target = target;
        group.generation += 1;
        for id in group.members().collect::<Vec<_>>() {
            let group = &self.groups[at];
            let moves = |(partition, owner): &(&TopicPartition, &MemberId)| {
                **owner == id && group.target.get(*partition) != Some(&id)
            };
            let moving = group.owners.iter().filter(moves);
            let moving = moving.map(|(partition, _)| partition.clone()).collect();
            self.ask_for(at, id, moving);
        }
        self.settle(at);
    }

    /// Asks a member to give these back, as far as it was not asked before.
    pub(super) fn ask_for(&mut self, at: usize, id: MemberId, mut moving: Vec<TopicPartition>) {
        let group = &mut self.groups[at];
        let generation = group.generation;
        let Some(slot) = group.slots.get_mut(&id) else { return };
        moving.retain(|partition| slot.asked.insert(partition.clone()));
        if !moving.is_empty() {
            self.set_deadline(id);
        }
        self.post(id, Message::Revoke(moving, generation), false);
    }

    /// A member gives these back, if it can say so; else when it can.
    pub(super) fn give_back(&mut self, id: MemberId, partitions: Vec<TopicPartition>) {
        if !self.reaches_group(id) {
            self.members[id].unsent.extend(partitions);
            return;
        }
        let at = self.members[id].group;
        for partition in partitions {
            let group = &mut self.groups[at];
            if group.owners.get(&partition) == Some(&id) {
                group.owners.remove(&partition);
            }
            if let Some(slot) = group.slots.get_mut(&id) {
                slot.asked.remove(&partition);
            }
            let member = self.members[id].name.clone();
            self.saw(|| What::Released { member, partition });
        }
        let group = &mut self.groups[at];
        if group.protocol == Protocol::Eager {
            return;
        }
        let slot = group.slots.get_mut(&id).filter(|slot| slot.asked.is_empty());
        if let Some(key) = slot.and_then(|slot| slot.deadline.take()) {
            self.timers.cancel(key);
        }
        self.settle(at);
    }

    /// Cooperative and incremental: deals out what is free.
    fn settle(&mut self, at: usize) {
        let away = self.outages.coordinator_is_away(self.now);
        let group = &mut self.groups[at];
        let waits = match group.protocol {
            Protocol::Eager => true,
            Protocol::Cooperative => group.slots.values().any(|slot| !slot.asked.is_empty()),
            Protocol::Incremental => false,
        };
        if waits || away || group.first_until.is_some() {
            return;
        }
        let free =
            |(partition, _): &(&TopicPartition, &MemberId)| !group.owners.contains_key(*partition);
        let free: Target = group
            .target
            .iter()
            .filter(free)
            .map(|(partition, id)| (partition.clone(), *id))
            .collect();
        if free.is_empty() {
            return;
        }
        group.generation += 1;
        let generation = group.generation;
        group.owners.extend(free.iter().map(|(partition, id)| (partition.clone(), *id)));
        for id in group.members().collect::<Vec<_>>() {
            self.post(id, Message::Assign(owned_by(&free, id), generation), false);
        }
    }

    /// Who is to have what.
    fn target(&self, at: usize) -> Target {
        let group = &self.groups[at];
        let subscribers: Vec<Subscriber<'_>> =
            group.members().map(|id| (id, &self.members[id].topics[..])).collect();
        let wanted = |topic: &&std::sync::Arc<str>| {
            subscribers.iter().any(|(_, topics)| topics.contains(*topic))
        };
        let mut partitions = Vec::new();
        for (topic, known) in &self.topics {
            if wanted(&topic) {
                let all = 0..known.partitions();
                partitions.extend(all.map(|number| TopicPartition::new(topic.clone(), number)));
            }
        }
        let mut target = assignor::assign(group.assignor, &partitions, &subscribers, &group.owners);
        for (partition, id) in &group.pins {
            target.entry(partition.clone()).and_modify(|owner| *owner = *id);
        }
        target
    }
}

fn owned_by(target: &Target, id: MemberId) -> Vec<TopicPartition> {
    let owned = target.iter().filter(|(_, owner)| **owner == id);
    owned.map(|(partition, _)| partition.clone()).collect()
}
