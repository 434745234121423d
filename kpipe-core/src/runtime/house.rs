//! What the control loop does besides following the group: commits, looks at the log's ends, and
//! notices drains that end and the wish to stop.

use std::future::Future;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;

use super::commit::{Answer, Commit};
use super::full::FullWatch;
use super::shared::Shared;
use crate::record::TopicPartition;
use crate::source::{Every, Source, Traffic};
use crate::wake::Reasons;

/// How often the control loop looks at what the client has done.
const LOOK: Duration = Duration::from_secs(1);
/// Every so many looks the broker is asked for the log's ends.
const LOOKS_PER_ENDS: u32 = 5;
/// A group that was not polled for this long is about to be left: the client's shortest limit is 6 s.
const POLL_OVERDUE: Duration = Duration::from_secs(3);

/// Everything but the group's events that can wake the control loop.
pub(super) struct House {
    shared: Arc<Shared>,
    commits_due: Every,
    commit: Option<Commit>,
    look_due: Every,
    looks: u32,
    poll_overdue: bool,
    full: FullWatch,
    ends: Option<EndsAsked>,
}

/// Whose ends were asked for, and the answer to come.
type EndsAsked = (Vec<TopicPartition>, BoxFuture<'static, Vec<Option<i64>>>);

/// What woke it.
pub(super) enum Chore {
    CommitDue,
    CommitAnswered(Answer),
    LookDue,
    EndsFound(Vec<(TopicPartition, Option<i64>)>),
    /// An attempt of a partition that drains, the last one, has ended.
    Drained,
    /// An intake ended that nobody had told to.
    IntakeLost,
    /// Shut down.
    Stop,
}

impl House {
    pub(super) fn new(shared: Arc<Shared>, commit_interval: Duration) -> Self {
        let every = |period| Every::new(shared.clock.clone(), period);
        Self {
            commits_due: every(commit_interval),
            commit: None,
            look_due: every(LOOK),
            shared,
            looks: 0,
            poll_overdue: false,
            full: FullWatch::default(),
            ends: None,
        }
    }

    /// The next chore. Cancel safe.
    pub(super) async fn next(&mut self) -> Chore {
        poll_fn(|cx| self.poll(cx)).await
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Chore> {
        if let Poll::Ready(reasons) = self.shared.control.poll_take(cx) {
            return Poll::Ready(if reasons.contains(Reasons::STOP) {
                Chore::Stop
            } else if reasons.contains(Reasons::INTAKE_LOST) {
                Chore::IntakeLost
            } else {
                Chore::Drained
            });
        }
        if let Some(commit) = &mut self.commit {
            if let Poll::Ready(answer) = Pin::new(commit).poll(cx) {
                self.commit = None;
                return Poll::Ready(Chore::CommitAnswered(answer));
            }
        } else if self.commits_due.poll_due(cx).is_ready() {
            // One at a time: an older commit that is repeated must not overtake a newer one.
            return Poll::Ready(Chore::CommitDue);
        }
        if let Some((partitions, ends)) = &mut self.ends
            && let Poll::Ready(found) = ends.as_mut().poll(cx)
        {
            let found = std::mem::take(partitions).into_iter().zip(found).collect();
            self.ends = None;
            return Poll::Ready(Chore::EndsFound(found));
        }
        self.look_due.poll_due(cx).map(|()| Chore::LookDue)
    }

    /// Does a chore that needs no decision; [`Chore::Drained`], [`Chore::IntakeLost`] and
    /// [`Chore::Stop`] are the caller's.
    pub(super) fn does(&mut self, chore: Chore, source: &dyn Source) {
        match chore {
            Chore::CommitDue => {
                self.commit = Commit::send_due(source, self.shared.epochs.read().values());
            }
            Chore::CommitAnswered(answer) => answer.book(&self.shared),
            Chore::LookDue => {
                self.watch_polls(source.traffic());
                self.full.look(&self.shared.stats());
                if self.looks.is_multiple_of(LOOKS_PER_ENDS) && self.ends.is_none() {
                    self.ask_for_ends(source);
                }
                self.looks = self.looks.wrapping_add(1);
            }
            Chore::EndsFound(found) => {
                let mut log_ends = self.shared.log_ends.lock();
                for (partition, end) in found {
                    if let Some(end) = end {
                        log_ends.insert(partition, end);
                    }
                }
            }
            Chore::Drained | Chore::IntakeLost | Chore::Stop => {}
        }
    }

    /// The watchdog over the thread that polls the group (G3): intakes reset the client's own timer,
    /// so nobody else would notice that it stopped.
    fn watch_polls(&mut self, traffic: Traffic) {
        let age = traffic.last_poll.map_or(Duration::ZERO, |at| at.elapsed());
        let overdue = age > POLL_OVERDUE;
        if overdue && !self.poll_overdue {
            tracing::error!(
                target: "kpipe", ?age,
                "the group is not polled; this member will lose its partitions"
            );
        }
        self.poll_overdue = overdue;
        *self.shared.traffic.lock() = traffic;
    }

    fn ask_for_ends(&mut self, source: &dyn Source) {
        let partitions: Vec<_> = self.shared.epochs.read().keys().cloned().collect();
        if !partitions.is_empty() {
            self.ends = Some((partitions.clone(), source.log_ends(partitions)));
        }
    }

    /// Waits until no periodic commit is on its way.
    pub(super) async fn commit_answered(&mut self) {
        if let Some(commit) = self.commit.as_mut() {
            let answer = commit.await;
            self.commit = None;
            answer.book(&self.shared);
        }
    }
}
