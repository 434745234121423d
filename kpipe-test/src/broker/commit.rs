//! Committed offsets, and how commits are judged.

use std::collections::BTreeMap;
use std::fmt;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::{BoxFuture, pending, ready};
use kpipe_core::TopicPartition;
use kpipe_core::source::{CommitError, CommitErrorKind};
use tokio::sync::oneshot;

use super::Broker;
use super::fault::CommitFault;
use super::group::{Committed, Protocol};
use super::history::What;
use super::member::{MemberId, Phase};
use super::state::State;
use super::timers::Timer;

/// How long the metadata of a commit may be (`offset.metadata.max.bytes`).
const MAX_METADATA: usize = 4_096;

pub(super) type Answers = Vec<Result<(), CommitError>>;

/// What is to be committed in one partition.
#[derive(Clone, Debug)]
pub(super) struct Wish {
    pub(super) partition: TopicPartition,
    pub(super) next: i64,
    pub(super) metadata: Bytes,
}

/// Commits that have not arrived.
#[derive(Debug, Default)]
pub(super) struct Requests {
    made: u64,
    under_way: BTreeMap<u64, Request>,
}

#[derive(Debug)]
struct Request {
    from: Sender,
    wishes: Vec<Wish>,
    reply: oneshot::Sender<Answers>,
}

/// Who commits, and as what.
#[derive(Clone, Copy, Debug)]
struct Sender {
    member: MemberId,
    incarnation: u64,
    generation: i64,
}

/// Why an offset was not changed by hand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused(String);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refused {}

impl Broker {
    /// What a group committed in a partition: the offset of the first record that is not finished.
    pub fn committed(&self, group: &str, topic: &str, partition: i32) -> Option<i64> {
        self.committed_with(group, topic, partition).map(|committed| committed.next)
    }

    /// The metadata of what a group committed in a partition; empty if there was none.
    pub fn committed_metadata(&self, group: &str, topic: &str, partition: i32) -> Option<Bytes> {
        self.committed_with(group, topic, partition).map(|committed| committed.metadata)
    }

    fn committed_with(&self, group: &str, topic: &str, partition: i32) -> Option<Committed> {
        let state = self.lock();
        let place = state.place(topic, partition)?;
        state.groups[state.find_group(group)?].committed.get(&place).cloned()
    }

    /// Sets what a group without members has committed, as an administrator does.
    ///
    /// # Errors
    /// If there is no such partition, if the group has members, and for metadata of more than 4,096 bytes.
    pub fn alter_committed(
        &self,
        group: &str,
        topic: &str,
        partition: i32,
        next: i64,
        metadata: impl Into<Bytes>,
    ) -> Result<(), Refused> {
        let metadata = metadata.into();
        check_metadata(&metadata).map_err(Refused)?;
        let mut state = self.lock();
        let Some(place) = state.place(topic, partition) else {
            return Err(Refused(format!("there is no partition {topic}/{partition}")));
        };
        let at = state.group(group);
        if state.groups[at].members().next().is_some() {
            let text = format!("group `{group}` has members, and only they commit for it");
            return Err(Refused(text));
        }
        state.groups[at].committed.insert(place, Committed { next, metadata });
        Ok(())
    }

    /// Forgets what a group has committed in a partition, as the broker does when it expires.
    pub fn forget_committed(&self, group: &str, topic: &str, partition: i32) {
        let mut state = self.lock();
        if let (Some(at), Some(place)) = (state.find_group(group), state.place(topic, partition)) {
            state.groups[at].committed.remove(&place);
        }
    }

    pub(super) fn commit(&self, id: MemberId, wishes: Vec<Wish>) -> BoxFuture<'static, Answers> {
        let mut state = self.lock();
        if state.members[id].phase == Phase::Dead {
            return pending().boxed();
        }
        let member = &state.members[id];
        let from =
            Sender { member: id, incarnation: member.incarnation, generation: member.generation };
        let name = member.name.clone();
        for wish in &wishes {
            state.saw(|| What::CommitAsked {
                member: name.clone(),
                generation: from.generation,
                partition: wish.partition.clone(),
                next: wish.next,
            });
        }
        let answers = match state.faults.on_commit(&name) {
            CommitFault::None => return ready(state.judge(from, &wishes)).boxed(),
            CommitFault::Fail(kind) => {
                return ready(state.refuse_all(id, &wishes, kind, "scripted")).boxed();
            }
            CommitFault::AnswerLost => {
                state.judge(from, &wishes);
                return ready(timed_out(&wishes)).boxed();
            }
            CommitFault::Late(by) => {
                let (reply, answer) = oneshot::channel();
                state.requests.made += 1;
                let number = state.requests.made;
                state.requests.under_way.insert(number, Request { from, wishes, reply });
                let at = state.now + by;
                state.at(at, Timer::Commit(number));
                let broker = self.clone();
                async move {
                    match broker.answered(answer).await {
                        Some(answers) => answers,
                        None => pending().await,
                    }
                }
                .boxed()
            }
            CommitFault::AnswerLate(by) => {
                let answers = state.judge(from, &wishes);
                let arrival = self.sleep_until(state.now + by);
                arrival.map(|()| answers).boxed()
            }
            CommitFault::AnswerHeld => {
                let answers = state.judge(from, &wishes);
                held(&mut state, answers)
            }
            CommitFault::Unanswered => {
                state.judge(from, &wishes);
                held(&mut state, timed_out(&wishes))
            }
            CommitFault::Lost => held(&mut state, timed_out(&wishes)),
        };
        let broker = self.clone();
        async move {
            let answers = answers.await;
            if broker.lock().members[id].phase == Phase::Dead {
                // Nobody is there to take them.
                return pending().await;
            }
            answers
        }
        .boxed()
    }
}

impl State {
    pub(super) fn commit_arrives(&mut self, number: u64) {
        let Some(Request { from, wishes, reply }) = self.requests.under_way.remove(&number) else {
            return;
        };
        let answers = self.judge(from, &wishes);
        // Whoever asked may have stopped waiting.
        let _ = reply.send(answers);
    }

    /// As Kafka does: by member and generation, whoever owns the partition.
    fn judge(&mut self, from: Sender, wishes: &[Wish]) -> Answers {
        use CommitErrorKind::{Fenced, Retry};
        let member = &self.members[from.member];
        let (id, at) = (from.member, member.group);
        let group = &self.groups[at];
        if !self.reaches_group(id) && member.phase != Phase::Dead {
            return self.refuse_all(id, wishes, Retry, "the coordinator does not answer");
        }
        if !group.has(id) || member.incarnation != from.incarnation {
            let answers = self.refuse_all(id, wishes, Fenced, "unknown member");
            // So it hears that it was expelled.
            self.hear(id);
            return answers;
        }
        // A member that has not heard of an eager group's next generation commits in the last one.
        let current = match group.protocol {
            Protocol::Eager => group.generation,
            _ => member.generation,
        };
        if from.generation != current {
            let kind = match group.protocol {
                Protocol::Incremental => Retry,
                _ => Fenced,
            };
            let text = format!("generation {} is over, {current} is on", from.generation);
            return self.refuse_all(id, wishes, kind, &text);
        }
        wishes.iter().map(|wish| self.store(from.member, wish)).collect()
    }

    fn store(&mut self, id: MemberId, wish: &Wish) -> Result<(), CommitError> {
        let Wish { partition, next, metadata } = wish;
        if let Err(text) = check_metadata(metadata) {
            return self.refuse(id, partition, CommitErrorKind::Permanent, &text);
        }
        if self.log(partition).is_none() {
            let text = format!("there is no partition {partition}");
            return self.refuse(id, partition, CommitErrorKind::Retry, &text);
        }
        let (at, name) = (self.members[id].group, self.members[id].name.clone());
        let committed = Committed { next: *next, metadata: metadata.clone() };
        self.groups[at].committed.insert(partition.clone(), committed);
        self.saw(|| What::Committed { member: name, partition: partition.clone(), next: *next });
        Ok(())
    }

    fn refuse_all(
        &mut self,
        id: MemberId,
        wishes: &[Wish],
        kind: CommitErrorKind,
        text: &str,
    ) -> Answers {
        wishes.iter().map(|wish| self.refuse(id, &wish.partition, kind, text)).collect()
    }

    fn refuse(
        &mut self,
        id: MemberId,
        partition: &TopicPartition,
        kind: CommitErrorKind,
        text: &str,
    ) -> Result<(), CommitError> {
        let member = self.members[id].name.clone();
        self.saw(|| What::CommitRefused { member, partition: partition.clone(), kind });
        failure(kind, text)
    }
}

/// Answers once answers are released.
fn held(state: &mut State, answers: Answers) -> BoxFuture<'static, Answers> {
    let released = state.faults.hold();
    async move {
        // A broker that is gone answers nobody.
        match released.await {
            Ok(()) => answers,
            Err(_) => pending().await,
        }
    }
    .boxed()
}

fn timed_out(wishes: &[Wish]) -> Answers {
    wishes.iter().map(|_| failure(CommitErrorKind::Retry, "no answer came in time")).collect()
}

fn failure(kind: CommitErrorKind, text: &str) -> Result<(), CommitError> {
    Err(CommitError { kind, message: text.to_owned() })
}

fn check_metadata(metadata: &Bytes) -> Result<(), String> {
    if metadata.len() > MAX_METADATA {
        let len = metadata.len();
        return Err(format!("metadata of {len} bytes: the broker takes at most {MAX_METADATA}"));
    }
    Ok(())
}
