//! The runtime's end of a membership.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::{BoxFuture, ready};
use kpipe_core::TopicPartition;
use kpipe_core::source::{
    Arrivals, Assignment, Closed, CommitError, CommitOffset, Event, Source, SourceError, Time,
    Trace, Traffic,
};
use tokio::time::Instant;

use super::Broker;
use super::commit::Wish;
use super::fault::AssignFault;
use super::member::{MemberId, Phase};
use super::queue::Queue;
use super::start;
use super::state::State;
use super::timers::Timer;

/// How long an assignment waits for the group's offsets and for the ends of logs.
const START_WITHIN: Duration = Duration::from_secs(5);

pub(super) struct Membership {
    broker: Broker,
    id: MemberId,
    trace: Option<Arc<dyn Trace>>,
    rebalance_timeout: Duration,
    /// Wakes whoever waits for an event when something comes due.
    alarm: Option<(Instant, BoxFuture<'static, ()>)>,
    closed: bool,
}

impl Membership {
    pub(super) fn new(
        broker: Broker,
        id: MemberId,
        trace: Option<Arc<dyn Trace>>,
        rebalance_timeout: Duration,
    ) -> Self {
        Self { broker, id, trace, rebalance_timeout, alarm: None, closed: false }
    }

    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Event> {
        loop {
            let due = {
                let mut state = self.broker.lock();
                let member = &mut state.members[self.id];
                if let Some(event) = member.events.pop_front() {
                    return Poll::Ready(event);
                }
                member.waker = Some(cx.waker().clone());
                state.timers.first()
            };
            let Some(due) = due else {
                self.alarm = None;
                return Poll::Pending;
            };
            let alarm = match &mut self.alarm {
                Some((at, alarm)) if *at == due => alarm,
                alarm => &mut alarm.insert((due, self.broker.sleep_until(due))).1,
            };
            match Pin::new(alarm).poll(cx) {
                Poll::Ready(()) => self.alarm = None,
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// Returns once the group and the logs can be asked, or when that takes too long.
    async fn wait_until_known(broker: &Broker, id: MemberId) {
        let until = broker.now() + START_WITHIN;
        loop {
            let back = broker.lock().back_at(id);
            match back {
                Some(back) if broker.now() < until => broker.sleep_until(back.min(until)).await,
                _ => return,
            }
        }
    }
}

impl Source for Membership {
    fn next_event(&mut self) -> BoxFuture<'_, Event> {
        poll_fn(|cx| self.poll_event(cx)).boxed()
    }

    /// Not cancel safe: without its answer nobody has the partitions' queues.
    fn assign(
        &mut self,
        partitions: Vec<(TopicPartition, Arrivals)>,
    ) -> BoxFuture<'static, Vec<Assignment>> {
        let (broker, id) = (self.broker.clone(), self.id);
        let mut state = broker.lock();
        let name = state.members[id].name.clone();
        let fault = state.faults.on_assign(&name);
        if fault == AssignFault::None && state.back_at(id).is_none() {
            let assignments = state.assign(&broker, id, partitions, false);
            return ready(assignments).boxed();
        }
        drop(state);
        async move {
            if let AssignFault::Slow(takes) = fault {
                broker.sleep_until(broker.now() + takes).await;
            }
            Self::wait_until_known(&broker, id).await;
            broker.lock().assign(&broker, id, partitions, fault == AssignFault::Fail)
        }
        .boxed()
    }

    /// A call that is dropped half-way is carried out at once.
    fn unassign(&mut self, partitions: Vec<TopicPartition>) -> BoxFuture<'_, ()> {
        let mut state = self.broker.lock();
        let name = state.members[self.id].name.clone();
        let takes = state.faults.on_release(&name);
        if takes.is_zero() {
            state.unassign(self.id, &partitions);
            return ready(()).boxed();
        }
        for partition in &partitions {
            state.members[self.id].splits.remove(partition);
        }
        let done = self.broker.sleep_until(state.now + takes);
        drop(state);
        let given_back = GiveBack { broker: self.broker.clone(), id: self.id, partitions };
        async move {
            done.await;
            drop(given_back);
        }
        .boxed()
    }

    fn commit(
        &self,
        offsets: Vec<CommitOffset>,
    ) -> BoxFuture<'static, Vec<Result<(), CommitError>>> {
        let wish =
            |CommitOffset { partition, next, .. }| Wish { partition, next, metadata: Bytes::new() };
        self.broker.commit(self.id, offsets.into_iter().map(wish).collect())
    }

    fn log_ends(&self, partitions: Vec<TopicPartition>) -> BoxFuture<'static, Vec<Option<i64>>> {
        let state = self.broker.lock();
        let reached = state.reaches_broker(self.id);
        let end = |partition| Some(state.log(partition).filter(|_| reached)?.end());
        ready(partitions.iter().map(end).collect()).boxed()
    }

    fn rebalance_timeout(&self) -> Duration {
        self.rebalance_timeout
    }

    fn wants_control_thread(&self) -> bool {
        false
    }

    fn time(&self) -> Option<Arc<dyn Time>> {
        self.broker.inner.time.clone()
    }

    fn trace(&self) -> Option<Arc<dyn Trace>> {
        self.trace.clone()
    }

    fn traffic(&self) -> Traffic {
        self.broker.lock().members[self.id].traffic
    }

    fn close(mut self: Box<Self>, within: Duration) -> BoxFuture<'static, Closed> {
        self.closed = true;
        let (broker, id) = (self.broker.clone(), self.id);
        let mut state = broker.lock();
        if state.members[id].phase == Phase::Dead {
            return ready(Closed::Completely).boxed();
        }
        let name = state.members[id].name.clone();
        let takes = state.faults.on_close(&name);
        let reached = state.reaches_group(id);
        state.end(id, Phase::Closed);
        if takes.is_zero() {
            state.leave(id);
        } else {
            let at = state.now + takes;
            state.at(at, Timer::Leave(id));
        }
        if reached && takes.is_zero() {
            return ready(Closed::Completely).boxed();
        }
        let (waits, closed) = match reached && takes <= within {
            true => (takes, Closed::Completely),
            false => (within, Closed::InBackground),
        };
        let waited = broker.sleep_until(state.now + waits);
        drop(state);
        async move {
            waited.await;
            drop(broker.lock());
            closed
        }
        .boxed()
    }
}

/// A client that goes without a close leaves all the same.
impl Drop for Membership {
    fn drop(&mut self) {
        let mut state = self.broker.lock();
        if !self.closed && state.members[self.id].is_running() {
            state.end(self.id, Phase::Closed);
            state.leave(self.id);
        }
    }
}

/// Gives partitions back when dropped.
struct GiveBack {
    broker: Broker,
    id: MemberId,
    partitions: Vec<TopicPartition>,
}

impl Drop for GiveBack {
    fn drop(&mut self) {
        self.broker.lock().unassign(self.id, &self.partitions);
    }
}

impl State {
    /// Starts the fetch of those that are still this member's; `fails` by script.
    fn assign(
        &mut self,
        broker: &Broker,
        id: MemberId,
        wanted: Vec<(TopicPartition, Arrivals)>,
        fails: bool,
    ) -> Vec<Assignment> {
        let known = self.reaches_group(id);
        let mut assignments = Vec::new();
        for (partition, arrivals) in wanted {
            if !self.members[id].owned.contains(&partition) {
                continue;
            }
            self.members[id].splits.remove(&partition);
            let start = if fails {
                Err("scripted".to_owned())
            } else if known {
                self.start(id, &partition)
            } else {
                Err("what the group committed: no answer".to_owned())
            };
            let start = match start {
                Ok(start) => start,
                Err(message) => {
                    self.fail(id, partition, message);
                    continue;
                }
            };
            if let Some(reason) = start.instead {
                let message = format!("{partition}: {reason}; starts at {}", start.offset);
                self.tell(id, Event::Error(SourceError { message, fatal: false }));
            }
            self.members[id].reset.remove(&partition);
            let split = self.split(id, &partition, start.offset, arrivals);
            let queue =
                Queue { broker: broker.clone(), member: id, partition: partition.clone(), split };
            assignments.push(Assignment {
                partition,
                start: start.offset,
                uncommitted_start: !start.committed,
                queue: Box::new(queue),
            });
        }
        assignments
    }

    fn start(&self, id: MemberId, partition: &TopicPartition) -> Result<start::Start, String> {
        let member = &self.members[id];
        let committed = self.groups[member.group].committed.get(partition);
        let log = self.log(partition).filter(|_| self.reaches_broker(id));
        let reset = member.reset.contains(partition);
        start::choose(committed.map(|committed| committed.next), log, reset, member.start_at)
    }
}
