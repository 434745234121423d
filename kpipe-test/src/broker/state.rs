//! Everything the broker knows, behind one lock, and what comes due.

use std::collections::BTreeMap;
use std::sync::Arc;

use kpipe_core::TopicPartition;
use tokio::time::Instant;

use super::commit::Requests;
use super::fault::Faults;
use super::group::Group;
use super::history::{History, What};
use super::log::Log;
use super::member::{Member, MemberId};
use super::outage::Outages;
use super::producer::Writes;
use super::settings::Settings;
use super::timers::{Timer, TimerKey, Timers};
use super::topic::Topic;

pub(super) struct State {
    /// The time of the call that is being served.
    pub(super) now: Instant,
    pub(super) settings: Settings,
    pub(super) topics: BTreeMap<Arc<str>, Topic>,
    /// Few, and never removed.
    pub(super) groups: Vec<Group>,
    /// Everybody who ever was a member; those who are not any more stay, so that an id is a place.
    pub(super) members: Vec<Member>,
    pub(super) outages: Outages,
    pub(super) faults: Faults,
    pub(super) requests: Requests,
    pub(super) writes: Writes,
    pub(super) history: History,
    pub(super) timers: Timers,
}

impl State {
    pub(super) fn new(settings: Settings, now: Instant) -> Self {
        Self {
            now,
            history: History::new(settings.keeps_history),
            settings,
            topics: BTreeMap::new(),
            groups: Vec::new(),
            members: Vec::new(),
            outages: Outages::default(),
            faults: Faults::default(),
            requests: Requests::default(),
            writes: Writes::default(),
            timers: Timers::default(),
        }
    }

    /// Lets everything happen that is due, each at its own time.
    pub(super) fn tick(&mut self, now: Instant) {
        let now = now.max(self.now);
        while let Some((at, timer)) = self.timers.pop(now) {
            self.now = self.now.max(at);
            self.fire(timer);
        }
        self.now = now;
    }

    fn fire(&mut self, timer: Timer) {
        match timer {
            Timer::Heartbeat(member) => self.heartbeat(member),
            Timer::Deadline(member) => self.deadline_passed(member),
            Timer::Session(member) => self.session_over(member),
            Timer::Leave(member) => self.leave(member),
            Timer::Back => self.back(),
            Timer::FirstRebalance(group) => self.first_rebalance(group),
            Timer::Commit(request) => self.commit_arrives(request),
            Timer::Write(write) => self.write_arrives(write),
        }
    }

    /// Has something happen at a time.
    pub(super) fn at(&mut self, at: Instant, timer: Timer) -> TimerKey {
        let (key, first) = self.timers.add(at, timer);
        if first {
            // Whoever waits waits for a later time.
            self.members.iter_mut().for_each(Member::wake);
        }
        key
    }

    pub(super) fn saw(&mut self, what: impl FnOnce() -> What) {
        self.history.saw(self.now, what);
    }

    pub(super) fn log(&self, partition: &TopicPartition) -> Option<&Log> {
        self.topics.get(&partition.topic)?.log(partition.partition)
    }

    /// The member of that name who came last.
    pub(super) fn named(&self, name: &str) -> Option<MemberId> {
        self.members.iter().rposition(|member| &*member.name == name)
    }

    /// The group of that name, made if it is new.
    pub(super) fn group(&mut self, id: &str) -> usize {
        if let Some(at) = self.find_group(id) {
            return at;
        }
        self.groups.push(Group::new(id, self.settings.protocol, self.settings.assignor));
        self.groups.len() - 1
    }

    pub(super) fn find_group(&self, id: &str) -> Option<usize> {
        self.groups.iter().position(|group| group.id == id)
    }
}
