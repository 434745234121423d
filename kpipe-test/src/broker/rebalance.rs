//! Rebalances: asking partitions back and dealing them out.

use std::sync::Arc;

use kpipe_core::TopicPartition;

use super::assignor::{self, Subscriber, Target};
use super::group::Protocol;
use super::history::What;
use super::member::{MemberId, Message};
use super::state::State;

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
    pub(super) fn rebalance_for(&mut self, at: usize, joined: Option<MemberId>) {
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
    pub(super) fn complete_if_ready(&mut self, at: usize) {
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
        self.wait_for_debtors(at);
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

    /// Cooperative: who has not given back what an earlier rebalance asked for cannot join this one.
    fn wait_for_debtors(&mut self, at: usize) {
        let group = &self.groups[at];
        if group.protocol != Protocol::Cooperative {
            return;
        }
        let debtors = group.slots.iter().filter(|(_, slot)| !slot.asked.is_empty());
        for id in debtors.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.set_deadline(id);
        }
    }

    /// Asks a member to give these back, as far as it was not asked before. An incremental group counts
    /// the time from now on; a cooperative one's rebalance is over already, and it counts from the next.
    pub(super) fn ask_for(&mut self, at: usize, id: MemberId, mut moving: Vec<TopicPartition>) {
        let group = &mut self.groups[at];
        let generation = group.generation;
        let Some(slot) = group.slots.get_mut(&id) else { return };
        moving.retain(|partition| slot.asked.insert(partition.clone()));
        if !moving.is_empty() && group.protocol == Protocol::Incremental {
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
    pub(super) fn settle(&mut self, at: usize) {
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
        let wanted =
            |topic: &&Arc<str>| subscribers.iter().any(|(_, topics)| topics.contains(*topic));
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
