//! Faults, scripted call by call or drawn from a seed.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use kpipe_core::source::CommitErrorKind;
use tokio::sync::oneshot;

use super::Broker;
use super::producer::ProduceErrorKind;
use super::state::State;
use crate::seed::Seed;

/// What becomes of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CommitFault {
    /// Nothing happens to it.
    None,
    /// It is not stored, and answered with this.
    Fail(CommitErrorKind),
    /// It arrives so much later, and is judged then: perhaps it is fenced by what happened meanwhile.
    Late(Duration),
    /// It is judged at once, and the answer comes so much later.
    AnswerLate(Duration),
    /// It is judged at once, and the answer comes at [`Broker::release_answers`].
    AnswerHeld,
    /// It is judged at once, and the member is told to repeat it.
    AnswerLost,
    /// It is judged at once, and not answered; at [`Broker::release_answers`] the member is told to repeat
    /// it.
    Unanswered,
    /// It never arrives; at [`Broker::release_answers`] the member is told to repeat it.
    Lost,
}

/// What becomes of a record that is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SendFault {
    /// Nothing happens to it.
    None,
    /// It is not written, and the producer is told so.
    Refuse(ProduceErrorKind),
    /// It is written so much later, and acknowledged then.
    Late(Duration),
    /// It is written at once, and acknowledged so much later.
    AckLate(Duration),
    /// It is written at once, and acknowledged at [`Broker::release_answers`].
    AckHeld,
    /// It is written at once, and after this time the producer is told that it timed out.
    AckLost(Duration),
    /// It is not written, and after this time the producer is told that it timed out.
    Lost(Duration),
}

/// What becomes of an assignment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AssignFault {
    /// Nothing happens to it.
    None,
    /// It takes so long.
    Slow(Duration),
    /// None of its partitions can be started.
    Fail,
}

/// How often faults happen by themselves; each is a probability from 0 to 1, by default 0.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Chances {
    /// That a commit is to be repeated.
    pub commit_retry: f64,
    /// That a commit arrives late.
    pub commit_late: f64,
    /// That a commit is stored and answered late.
    pub commit_answer_late: f64,
    /// That a commit is stored and to be repeated.
    pub commit_answer_lost: f64,
    /// That an assignment is slow.
    pub assign_slow: f64,
    /// That an assignment fails.
    pub assign_fails: f64,
    /// That a record is acknowledged late.
    pub ack_late: f64,
    /// That a record is written and reported as timed out.
    pub ack_lost: f64,
    /// That a record is neither written nor acknowledged in time.
    pub send_lost: f64,
    /// That a partition which a member keeps over a rebalance delivers its last records again.
    pub redelivery: f64,
    /// How late what is late is at most. Default: 5 s.
    pub longest: Duration,
}

impl Default for Chances {
    fn default() -> Self {
        Self {
            commit_retry: 0.0,
            commit_late: 0.0,
            commit_answer_late: 0.0,
            commit_answer_lost: 0.0,
            assign_slow: 0.0,
            assign_fails: 0.0,
            ack_late: 0.0,
            ack_lost: 0.0,
            send_lost: 0.0,
            redelivery: 0.0,
            longest: Duration::from_secs(5),
        }
    }
}

/// How many records are delivered again at most by chance.
const REDELIVERED: u64 = 10;

/// What is scripted and what is drawn.
#[derive(Debug, Default)]
pub(super) struct Faults {
    commits: BTreeMap<String, VecDeque<CommitFault>>,
    sends: BTreeMap<String, VecDeque<SendFault>>,
    assigns: BTreeMap<String, VecDeque<AssignFault>>,
    releases: BTreeMap<String, VecDeque<Duration>>,
    closes: BTreeMap<String, Duration>,
    outages: BTreeMap<String, SendFault>,
    held: Vec<oneshot::Sender<()>>,
    drawn: Option<(Seed, Chances)>,
}

impl Broker {
    /// Scripts what becomes of a member's next commits, one for each call; what is scripted already comes
    /// first. The member need not have joined.
    pub fn on_commits(&self, member: &str, faults: impl IntoIterator<Item = CommitFault>) {
        add(&mut self.lock().faults.commits, member, faults);
    }

    /// Scripts what becomes of the next records sent to a topic.
    pub fn on_sends(&self, topic: &str, faults: impl IntoIterator<Item = SendFault>) {
        add(&mut self.lock().faults.sends, topic, faults);
    }

    /// Scripts what becomes of every further record sent to a topic, once what [`on_sends`](Self::on_sends)
    /// scripted is through; [`SendFault::None`] ends it.
    pub fn on_every_send(&self, topic: &str, fault: SendFault) {
        self.lock().faults.outages.insert(topic.to_owned(), fault);
    }

    /// Scripts what becomes of a member's next assignments.
    pub fn on_assigns(&self, member: &str, faults: impl IntoIterator<Item = AssignFault>) {
        add(&mut self.lock().faults.assigns, member, faults);
    }

    /// Scripts how long a member's next calls to give partitions back take.
    pub fn slow_releases(&self, member: &str, each: impl IntoIterator<Item = Duration>) {
        add(&mut self.lock().faults.releases, member, each);
    }

    /// Scripts how long a member's close takes.
    pub fn slow_close(&self, member: &str, takes: Duration) {
        self.lock().faults.closes.insert(member.to_owned(), takes);
    }

    /// Draws a fault for every call that has none scripted, the same ones for the same seed and calls.
    ///
    /// ```
    /// # use kpipe_test::{Broker, Chances};
    /// let broker = Broker::new();
    /// let mut chances = Chances::default();
    /// chances.commit_retry = 0.1;
    /// broker.draw_faults(42, chances);
    /// ```
    pub fn draw_faults(&self, seed: u64, chances: Chances) {
        self.lock().faults.drawn = Some((Seed::new(seed), chances));
    }

    /// Sends every answer that is held, and gives up on those that will not come.
    pub fn release_answers(&self) {
        let held = std::mem::take(&mut self.lock().faults.held);
        for answer in held {
            // Whoever asked may have stopped waiting.
            let _ = answer.send(());
        }
    }

    /// Ends all faults: nothing is scripted or drawn any more, answers that are held are sent, and whatever
    /// is away comes back.
    pub fn calm(&self) {
        self.release_answers();
        self.lock().faults = Faults::default();
        self.come_back();
    }
}

fn add<T>(
    scripts: &mut BTreeMap<String, VecDeque<T>>,
    name: &str,
    faults: impl IntoIterator<Item = T>,
) {
    scripts.entry(name.to_owned()).or_default().extend(faults);
}

fn next<T>(scripts: &mut BTreeMap<String, VecDeque<T>>, name: &str) -> Option<T> {
    scripts.get_mut(name)?.pop_front()
}

impl Faults {
    pub(super) fn on_commit(&mut self, member: &str) -> CommitFault {
        if let Some(fault) = next(&mut self.commits, member) {
            return fault;
        }
        let Some((seed, chances)) = &mut self.drawn else { return CommitFault::None };
        if seed.chance(chances.commit_retry) {
            CommitFault::Fail(CommitErrorKind::Retry)
        } else if seed.chance(chances.commit_late) {
            CommitFault::Late(up_to(seed, chances.longest))
        } else if seed.chance(chances.commit_answer_late) {
            CommitFault::AnswerLate(up_to(seed, chances.longest))
        } else if seed.chance(chances.commit_answer_lost) {
            CommitFault::AnswerLost
        } else {
            CommitFault::None
        }
    }

    pub(super) fn on_send(&mut self, topic: &str) -> SendFault {
        if let Some(fault) = next(&mut self.sends, topic) {
            return fault;
        }
        match self.outages.get(topic) {
            None | Some(SendFault::None) => {}
            Some(fault) => return *fault,
        }
        let Some((seed, chances)) = &mut self.drawn else { return SendFault::None };
        if seed.chance(chances.ack_late) {
            SendFault::AckLate(up_to(seed, chances.longest))
        } else if seed.chance(chances.ack_lost) {
            SendFault::AckLost(up_to(seed, chances.longest))
        } else if seed.chance(chances.send_lost) {
            SendFault::Lost(up_to(seed, chances.longest))
        } else {
            SendFault::None
        }
    }

    pub(super) fn on_assign(&mut self, member: &str) -> AssignFault {
        if let Some(fault) = next(&mut self.assigns, member) {
            return fault;
        }
        let Some((seed, chances)) = &mut self.drawn else { return AssignFault::None };
        if seed.chance(chances.assign_slow) {
            AssignFault::Slow(up_to(seed, chances.longest))
        } else if seed.chance(chances.assign_fails) {
            AssignFault::Fail
        } else {
            AssignFault::None
        }
    }

    pub(super) fn on_release(&mut self, member: &str) -> Duration {
        next(&mut self.releases, member).unwrap_or_default()
    }

    pub(super) fn on_close(&mut self, member: &str) -> Duration {
        self.closes.remove(member).unwrap_or_default()
    }

    /// How many records a partition that goes on delivers again.
    pub(super) fn redelivers(&mut self) -> usize {
        let Some((seed, chances)) = &mut self.drawn else { return 0 };
        if seed.chance(chances.redelivery) { 1 + seed.below(REDELIVERED) as usize } else { 0 }
    }

    /// Resolves once answers are released.
    pub(super) fn hold(&mut self) -> oneshot::Receiver<()> {
        let (sender, receiver) = oneshot::channel();
        self.held.push(sender);
        receiver
    }
}

fn up_to(seed: &mut Seed, longest: Duration) -> Duration {
    Duration::from_micros(seed.below(longest.as_micros() as u64 + 1))
}

impl State {
    /// How many answers are held.
    pub(super) fn answers_held(&self) -> usize {
        self.faults.held.len()
    }
}
