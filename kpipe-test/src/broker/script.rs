//! What a test has happen to a group.

use kpipe_core::TopicPartition;
use kpipe_core::source::{Event, SourceError};

use super::Broker;
use super::group::Protocol;
use super::member::{MemberId, Phase};
use super::state::State;

impl Broker {
    /// How one group rebalances, where it is to be otherwise than the broker's default. Before its first
    /// member joins.
    ///
    /// # Panics
    /// If the group has members.
    #[track_caller]
    pub fn set_protocol(&self, group: &str, protocol: Protocol) {
        let mut state = self.lock();
        let at = state.group(group);
        let none = state.groups[at].members().next().is_none();
        assert!(none, "group `{group}` has members: its protocol is set before the first joins");
        let fresh = super::group::Group::new(group, protocol, state.settings.assignor);
        let committed = std::mem::replace(&mut state.groups[at], fresh).committed;
        state.groups[at].committed = committed;
    }

    /// The members of a group by name, in the order in which their clients connected.
    pub fn members(&self, group: &str) -> Vec<String> {
        let state = self.lock();
        let Some(at) = state.find_group(group) else { return Vec::new() };
        let name = |id: MemberId| state.members[id].name.to_string();
        state.groups[at].members().map(name).collect()
    }

    /// Which member has a partition, as its group sees it: until it gives it back or is expelled.
    pub fn owner(&self, group: &str, topic: &str, partition: i32) -> Option<String> {
        let state = self.lock();
        let place = state.place(topic, partition)?;
        let owner = *state.groups[state.find_group(group)?].owners.get(&place)?;
        Some(state.members[owner].name.to_string())
    }

    /// The partitions of a member, as its group sees it.
    pub fn assignment(&self, member: &str) -> Vec<TopicPartition> {
        let state = self.lock();
        let Some(id) = state.named(member) else { return Vec::new() };
        let owners = state.groups[state.members[id].group].owners.iter();
        let owned = owners.filter(|(_, owner)| **owner == id);
        owned.map(|(partition, _)| partition.clone()).collect()
    }

    /// The generation of a group; it counts its rebalances.
    pub fn generation(&self, group: &str) -> i64 {
        let state = self.lock();
        state.find_group(group).map_or(0, |at| state.groups[at].generation)
    }

    /// Whether the group waits for a member to give something back, or for one that was to join again.
    pub fn is_rebalancing(&self, group: &str) -> bool {
        let state = self.lock();
        state.find_group(group).is_some_and(|at| state.groups[at].is_rebalancing())
    }

    /// Has a group rebalance now. In an eager one everybody gives everything back; in the others nothing
    /// moves that need not.
    pub fn rebalance_now(&self, group: &str) {
        let mut state = self.lock();
        if let Some(at) = state.find_group(group) {
            state.rebalance(at);
        }
    }

    /// Gives a partition to a member from now on, through a rebalance; false if one or the other does not
    /// exist or the member is not in the group.
    pub fn move_partition(&self, topic: &str, partition: i32, to: &str) -> bool {
        let mut state = self.lock();
        let (Some(id), Some(place)) = (state.named(to), state.place(topic, partition)) else {
            return false;
        };
        let at = state.members[id].group;
        let wants = state.members[id].topics.contains(&place.topic);
        if !wants || !state.groups[at].has(id) {
            return false;
        }
        state.groups[at].pins.insert(place, id);
        state.rebalance(at);
        true
    }

    /// Ends what [`move_partition`](Self::move_partition) began: the assignor decides about everything
    /// again.
    pub fn let_assignor_decide(&self, group: &str) {
        let mut state = self.lock();
        if let Some(at) = state.find_group(group) {
            state.groups[at].pins.clear();
            state.rebalance(at);
        }
    }

    /// Asks the owner to give a partition back and gives it to it again; in an eager group that goes for
    /// everything. False if nobody has it.
    pub fn hand_back(&self, group: &str, topic: &str, partition: i32) -> bool {
        let mut state = self.lock();
        let (Some(at), Some(place)) = (state.find_group(group), state.place(topic, partition))
        else {
            return false;
        };
        let Some(owner) = state.groups[at].owners.get(&place).copied() else { return false };
        match state.groups[at].protocol {
            Protocol::Eager => state.rebalance(at),
            _ => state.ask_for(at, owner, vec![place]),
        }
        true
    }

    /// Throws a member out of its group. It hears of it, loses everything it had, and joins again by
    /// itself. False if it is not in the group.
    pub fn expel(&self, member: &str) -> bool {
        let mut state = self.lock();
        let Some(id) = state.in_group(member) else { return false };
        state.expel(id);
        true
    }

    /// Tells a member of an error that its client goes on from, or after which its membership is over.
    /// False if there is no such member.
    pub fn report_error(&self, member: &str, message: &str, fatal: bool) -> bool {
        let mut state = self.lock();
        let Some(id) = state.named(member) else { return false };
        state.tell(id, Event::Error(SourceError { message: message.to_owned(), fatal }));
        true
    }

    /// A partition stops for its owner, as for a batch that cannot be read: what is prefetched is not
    /// delivered any more, and the runtime has to start it over. False if nobody fetches it.
    pub fn fail_partition(&self, topic: &str, partition: i32) -> bool {
        let mut state = self.lock();
        let Some((id, place)) = state.fetcher(topic, partition) else { return false };
        state.stop(id, &place);
        state.fail(id, place, "a batch that cannot be read".to_owned());
        true
    }

    /// Delivers the last records that were taken from a partition's queue again; returns how many.
    pub fn deliver_again(&self, topic: &str, partition: i32, records: usize) -> usize {
        let mut state = self.lock();
        let Some((id, place)) = state.fetcher(topic, partition) else { return 0 };
        state.deliver_again(id, &place, records)
    }

    /// How many answers wait for [`release_answers`](Self::release_answers).
    pub fn answers_held(&self) -> usize {
        self.lock().answers_held()
    }
}

impl State {
    fn in_group(&self, member: &str) -> Option<MemberId> {
        let id = self.named(member)?;
        let member = &self.members[id];
        let there = member.phase != Phase::Closed && self.groups[member.group].has(id);
        there.then_some(id)
    }

    /// Who fetches a partition; the last to begin, if groups share a topic.
    fn fetcher(&self, topic: &str, partition: i32) -> Option<(MemberId, TopicPartition)> {
        let place = self.place(topic, partition)?;
        let id = self.members.iter().rposition(|member| member.splits.contains_key(&place))?;
        Some((id, place))
    }
}
