//! A member as its own client sees it: what the group told it, and what it owes the group.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use kpipe_core::TopicPartition;
use kpipe_core::source::{Event, SourceError, StartAt, Subscription, Traffic};
use tokio::time::Instant;

use super::history::What;
use super::queue::{Limits, Split};
use super::state::State;
use super::timers::Timer;

/// A place in the list of everybody who ever was a member.
pub(super) type MemberId = usize;

pub(super) type Partitions = BTreeSet<TopicPartition>;

pub(super) struct Member {
    pub(super) name: Arc<str>,
    pub(super) group: usize,
    pub(super) topics: Vec<Arc<str>>,
    pub(super) start_at: StartAt,
    pub(super) rebalance_timeout: Duration,
    pub(super) limits: Limits,
    pub(super) phase: Phase,
    /// Which membership: the group knows a member that joins again under another id.
    pub(super) incarnation: u64,
    /// The generation that the member thinks is on.
    pub(super) generation: i64,
    /// What the group has to say and the member has not heard.
    pub(super) inbox: VecDeque<Message>,
    pub(super) listens: bool,
    /// What the runtime has not been told.
    pub(super) events: VecDeque<Event>,
    pub(super) waker: Option<Waker>,
    /// What the group gave to this member and has not asked back.
    pub(super) owned: Partitions,
    /// What the group asked back and has not got.
    pub(super) revoking: Partitions,
    /// What was lost and the runtime has not let go of.
    pub(super) lost: Partitions,
    /// Whether the membership is over and the runtime is not told: librdkafka tells one thing at a time,
    /// and a revoke is not answered yet.
    pub(super) over: bool,
    /// Given back while the group was out of reach.
    pub(super) unsent: Vec<TopicPartition>,
    /// Partitions whose log does not have their position.
    pub(super) reset: Partitions,
    /// What is fetched.
    pub(super) splits: BTreeMap<TopicPartition, Split>,
    pub(super) splits_made: u64,
    pub(super) traffic: Traffic,
    /// Until when this member alone is out of reach.
    pub(super) away_until: Option<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Known to the group, as far as it knows.
    In,
    /// Not a member; joins once it has let go of everything and the group is in reach.
    Out,
    Closed,
    /// Its process died.
    Dead,
}

/// What the group says to a member.
#[derive(Debug)]
pub(super) enum Message {
    /// Give everything back and join again (eager).
    Rejoin,
    /// Give these back, perhaps none; a new generation is on.
    Revoke(Vec<TopicPartition>, i64),
    /// These are yours, perhaps none; a new generation is on.
    Assign(Vec<TopicPartition>, i64),
    /// You are not a member any more.
    Expelled,
}

impl Member {
    /// One that has not joined.
    pub(super) fn new(
        name: Arc<str>,
        group: usize,
        subscription: &Subscription,
        rebalance_timeout: Duration,
        limits: Limits,
    ) -> Self {
        Self {
            name,
            group,
            topics: subscription.topics.clone(),
            start_at: subscription.start_at,
            rebalance_timeout,
            limits,
            phase: Phase::Out,
            incarnation: 0,
            generation: -1,
            inbox: VecDeque::new(),
            listens: false,
            events: VecDeque::new(),
            waker: None,
            owned: Partitions::new(),
            revoking: Partitions::new(),
            lost: Partitions::new(),
            over: false,
            unsent: Vec::new(),
            reset: Partitions::new(),
            splits: BTreeMap::new(),
            splits_made: 0,
            traffic: Traffic::default(),
            away_until: None,
        }
    }

    pub(super) fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    pub(super) fn tell(&mut self, event: Event) {
        self.events.push_back(event);
        self.wake();
    }

    /// Whether its process goes on and has not closed the client.
    pub(super) fn is_running(&self) -> bool {
        matches!(self.phase, Phase::In | Phase::Out)
    }

    /// While something is to be given back, librdkafka holds up every partition.
    pub(super) fn is_paused(&self) -> bool {
        !self.revoking.is_empty()
    }
}

impl State {
    /// Says something to a member; `at_once` in answer to a request of its own, else with its next
    /// heartbeat.
    pub(super) fn post(&mut self, id: MemberId, message: Message, at_once: bool) {
        let member = &mut self.members[id];
        if member.phase != Phase::In {
            return;
        }
        member.inbox.push_back(message);
        if at_once || self.settings.heartbeat.is_zero() {
            self.hear(id);
        } else if !member.listens {
            member.listens = true;
            let at = self.now + self.settings.heartbeat;
            self.at(at, Timer::Heartbeat(id));
        }
    }

    pub(super) fn heartbeat(&mut self, id: MemberId) {
        self.members[id].listens = false;
        self.hear(id);
    }

    /// Takes in what the group has said, if it can be heard.
    pub(super) fn hear(&mut self, id: MemberId) {
        while self.reaches_group(id) {
            let Some(message) = self.members[id].inbox.pop_front() else { return };
            match message {
                Message::Rejoin => {
                    let all = self.members[id].owned.iter().cloned().collect();
                    self.asked_back(id, all);
                    self.rejoin_if_free(id);
                }
                Message::Revoke(partitions, generation) => {
                    self.members[id].generation = generation;
                    self.asked_back(id, partitions);
                }
                Message::Assign(partitions, generation) => self.given(id, partitions, generation),
                Message::Expelled => self.lose(id),
            }
        }
    }

    fn given(&mut self, id: MemberId, partitions: Vec<TopicPartition>, generation: i64) {
        let member = &mut self.members[id];
        member.generation = generation;
        if partitions.is_empty() {
            return;
        }
        member.owned.extend(partitions.iter().cloned());
        let name = member.name.clone();
        member.tell(Event::Assigned(partitions.clone()));
        self.saw(|| What::Assigned { member: name, generation, partitions });
    }

    fn asked_back(&mut self, id: MemberId, mut partitions: Vec<TopicPartition>) {
        let member = &mut self.members[id];
        partitions.retain(|partition| member.owned.remove(partition));
        if partitions.is_empty() {
            return;
        }
        member.revoking.extend(partitions.iter().cloned());
        let name = member.name.clone();
        member.tell(Event::Revoked(partitions.clone()));
        self.saw(|| What::Revoked { member: name, partitions });
    }

    /// The membership is over, and with it everything that came of it.
    pub(super) fn lose(&mut self, id: MemberId) {
        let member = &mut self.members[id];
        member.inbox.clear();
        member.unsent.clear();
        member.over = !member.revoking.is_empty();
        if member.over {
            return;
        }
        member.phase = Phase::Out;
        member.generation = -1;
        let lost = std::mem::take(&mut member.owned);
        if lost.is_empty() {
            self.join(id);
            return;
        }
        let partitions: Vec<_> = lost.iter().cloned().collect();
        member.lost = lost;
        let name = member.name.clone();
        member.tell(Event::Lost(partitions.clone()));
        self.saw(|| What::Lost { member: name, partitions });
    }

    /// The runtime lets go of these: what is to be given back is, the others are only not fetched.
    pub(super) fn unassign(&mut self, id: MemberId, partitions: &[TopicPartition]) {
        let member = &mut self.members[id];
        let mut given_back = Vec::new();
        for partition in partitions {
            member.splits.remove(partition);
            if member.revoking.remove(partition) {
                member.reset.remove(partition);
                given_back.push(partition.clone());
            } else {
                member.lost.remove(partition);
            }
        }
        match member.phase {
            Phase::In if !given_back.is_empty() => {
                let goes_on = member.revoking.is_empty();
                if goes_on && member.over {
                    return self.lose(id);
                }
                self.give_back(id, given_back);
                if goes_on {
                    self.fetch_again(id);
                    self.rejoin_if_free(id);
                }
            }
            Phase::Out if member.lost.is_empty() => self.join(id),
            _ => {}
        }
    }

    /// Reports a partition that the member cannot consume.
    pub(super) fn fail(&mut self, id: MemberId, partition: TopicPartition, message: String) {
        let member = &mut self.members[id];
        let name = member.name.clone();
        let error = SourceError { message, fatal: false };
        member.tell(Event::Failed(partition.clone(), error));
        self.saw(|| What::Failed { member: name, partition });
    }
}
