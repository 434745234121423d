//! What is out of reach, until when, and what follows.

use std::time::Duration;

use kpipe_core::source::Event;
use tokio::time::Instant;

use super::Broker;
use super::history::What;
use super::member::{MemberId, Phase};
use super::state::State;
use super::timers::Timer;

#[derive(Debug, Default)]
pub(super) struct Outages {
    broker: Option<Instant>,
    coordinator: Option<Instant>,
}

impl Outages {
    pub(super) fn coordinator_is_away(&self, now: Instant) -> bool {
        is_ahead(self.coordinator, now) || is_ahead(self.broker, now)
    }

    pub(super) fn broker_until(&self, now: Instant) -> Option<Instant> {
        self.broker.filter(|until| *until > now)
    }
}

fn is_ahead(until: Option<Instant>, now: Instant) -> bool {
    until.is_some_and(|until| until > now)
}

impl Broker {
    /// The broker is away for so long: nothing is fetched or written, commits are to be repeated, log ends
    /// are unknown. If that is longer than the session timeout, every member loses its partitions and
    /// joins again once the broker is back.
    pub fn go_away(&self, during: Duration) {
        let mut state = self.lock();
        let until = state.now + during;
        state.outages.broker = state.outages.broker.max(Some(until));
        state.out_of_reach(until, None);
    }

    /// The group coordinator is away for so long: records are fetched, but commits are to be repeated,
    /// nobody joins or leaves, and no rebalance goes on. If that is longer than the session timeout, every
    /// member loses its partitions.
    pub fn coordinator_away(&self, during: Duration) {
        let mut state = self.lock();
        let until = state.now + during;
        state.outages.coordinator = state.outages.coordinator.max(Some(until));
        state.out_of_reach(until, None);
    }

    /// One member is cut off for so long, and the others go on: it hears nothing, fetches nothing, and its
    /// commits are to be repeated. After the session timeout the group goes on without it and it loses its
    /// partitions. False if there is no such member.
    pub fn cut_off(&self, member: &str, during: Duration) -> bool {
        let mut state = self.lock();
        let Some(id) = state.named(member) else { return false };
        let until = state.now + during;
        let away_until = &mut state.members[id].away_until;
        *away_until = (*away_until).max(Some(until));
        state.out_of_reach(until, Some(id));
        true
    }

    /// Everything is in reach again, at once.
    pub fn come_back(&self) {
        let mut state = self.lock();
        state.outages = Outages::default();
        for member in &mut state.members {
            member.away_until = None;
        }
        state.back();
    }

    /// A member's process dies: it commits nothing more, does not leave, and is told nothing. Calls of its
    /// source that are on their way never end; those made later do nothing. Its session is over after
    /// `session`, at once if that is zero. False if there is no such member.
    pub fn kill(&self, member: &str, session: Duration) -> bool {
        let mut state = self.lock();
        let Some(id) = state.named(member).filter(|id| state.members[*id].is_running()) else {
            return false;
        };
        let name = state.members[id].name.clone();
        state.saw(|| What::Killed { member: name });
        state.end(id, Phase::Dead);
        if session.is_zero() {
            state.session_over(id);
        } else {
            let at = state.now + session;
            state.at(at, Timer::Session(id));
        }
        true
    }
}

impl State {
    /// Whether a member can fetch.
    pub(super) fn reaches_broker(&self, id: MemberId) -> bool {
        let member = &self.members[id];
        member.is_running()
            && !is_ahead(self.outages.broker, self.now)
            && !is_ahead(member.away_until, self.now)
    }

    /// Whether a member and its group hear each other.
    pub(super) fn reaches_group(&self, id: MemberId) -> bool {
        let member = &self.members[id];
        member.phase != Phase::Dead
            && !self.outages.coordinator_is_away(self.now)
            && !is_ahead(member.away_until, self.now)
    }

    /// When a member may be able to reach everything, if it cannot now.
    pub(super) fn back_at(&self, id: MemberId) -> Option<Instant> {
        let until =
            self.outages.broker.max(self.outages.coordinator).max(self.members[id].away_until);
        until.filter(|until| *until > self.now)
    }

    fn out_of_reach(&mut self, until: Instant, only: Option<MemberId>) {
        let session = self.now + self.settings.session_timeout;
        let all = (0..self.members.len()).filter(|id| only.is_none_or(|only| only == *id));
        if session < until {
            for id in all.collect::<Vec<_>>() {
                if self.members[id].phase == Phase::In {
                    self.at(session, Timer::Session(id));
                }
            }
        }
        self.at(until, Timer::Back);
    }

    /// Something may be in reach again: what could not be said is, and fetches go on.
    pub(super) fn back(&mut self) {
        for id in 0..self.members.len() {
            if !self.members[id].is_running() || !self.reaches_group(id) {
                continue;
            }
            let unsent = std::mem::take(&mut self.members[id].unsent);
            if !unsent.is_empty() {
                self.give_back(id, unsent);
            }
            self.hear(id);
            self.rejoin_if_free(id);
            if self.members[id].lost.is_empty() {
                self.join(id);
            }
        }
        for at in 0..self.groups.len() {
            self.resume_group(at);
        }
        for id in 0..self.members.len() {
            self.fill_all(id);
        }
        if self.outages.broker_until(self.now).is_none() {
            self.write_parked();
        }
    }

    /// A member's client ends.
    pub(super) fn end(&mut self, id: MemberId, phase: Phase) {
        let member = &mut self.members[id];
        member.phase = phase;
        member.splits.clear();
        member.events.clear();
        member.inbox.clear();
        member.owned.clear();
        member.revoking.clear();
        member.lost.clear();
    }

    pub(super) fn tell(&mut self, id: MemberId, event: Event) {
        if self.members[id].is_running() {
            self.members[id].tell(event);
        }
    }
}
