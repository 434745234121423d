//! Follows the group: starts epochs, drains and gives back what is revoked, and shuts down.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::again::Again;
use super::commit::Commit;
use super::epoch::Epoch;
use super::house::{Chore, House};
use super::report::Report;
use super::shared::Shared;
use crate::consumer::{Settings, Topic};
use crate::error::{Error, ErrorKind};
use crate::handler::Scope;
use crate::partition::Partition;
use crate::record::TopicPartition;
use crate::source::{Arrivals, Assignment, Clock, Event, Source, SourceError, Trace, TraceEvent};
use crate::wake::Signal;

/// How long attempts that were cancelled have to notice before their epoch closes.
const GRACE: Duration = Duration::from_millis(100);
/// The default drain deadline is the smaller of this and half of what the group waits.
const LONGEST_DEFAULT_DRAIN: Duration = Duration::from_secs(20);
/// The last commit of revoked partitions may take this long, and half of what the group still waits
/// after the drain.
const FINAL_COMMIT: Duration = Duration::from_secs(5);

/// The topics by name, each with its handler.
pub(super) type Topics = HashMap<Arc<str>, Topic>;

/// The control loop of a consumer.
pub(super) struct Control {
    source: Box<dyn Source>,
    topics: Arc<Topics>,
    settings: Arc<Settings>,
    group_id: Arc<str>,
    shared: Arc<Shared>,
    house: House,
    again: Again,
    clock: Clock,
    trace: Option<Arc<dyn Trace>>,
    /// Where handlers run.
    runtime: Handle,
    /// How many epochs have begun.
    begun: u64,
    /// Epochs that wait for the attempts of the one before.
    waiting: Vec<(Arc<Epoch>, Arc<Epoch>)>,
    /// Closed epochs with attempts still running.
    stragglers: HashMap<TopicPartition, Arc<Epoch>>,
    drain_deadline: Duration,
    /// Since a shutdown is known of: when to be gone, and until when attempts may go on.
    stopping: Option<(Instant, Instant)>,
    fatal: Option<SourceError>,
}

impl Control {
    pub(super) fn new(
        source: Box<dyn Source>,
        topics: Arc<Topics>,
        settings: Arc<Settings>,
        shared: Arc<Shared>,
        runtime: Handle,
    ) -> Self {
        let drain_deadline = settings
            .drain_deadline
            .unwrap_or_else(|| LONGEST_DEFAULT_DRAIN.min(source.rebalance_timeout() / 2));
        Self {
            house: House::new(shared.clone(), settings.commit_interval),
            again: Again::new(shared.clock.clone()),
            clock: shared.clock.clone(),
            trace: source.trace(),
            begun: 0,
            topics,
            group_id: settings.group_id.as_str().into(),
            source,
            settings,
            shared,
            runtime,
            waiting: Vec::new(),
            stragglers: HashMap::new(),
            drain_deadline,
            stopping: None,
            fatal: None,
        }
    }

    /// Runs until a shutdown is asked for or the membership is over, then shuts down.
    pub(super) async fn run(mut self) -> Result<Report, Error> {
        while self.shared.stop_by().is_none() && self.fatal.is_none() {
            tokio::select! {
                biased;
                chore = self.house.next() => self.does(chore),
                event = self.source.next_event() => self.follow(event).await,
                partitions = self.again.next() => self.try_again(partitions).await,
            }
        }
        self.shut_down().await
    }

    fn does(&mut self, chore: Chore) {
        match chore {
            Chore::Drained => self.start_waiting(),
            Chore::IntakeLost => self.look_for_lost_intakes(),
            Chore::Stop => self.begin_stop(),
            _ => {}
        }
        self.house.does(chore, &*self.source);
    }

    /// Stops intake everywhere once a shutdown is asked for, whatever else is under way (G10).
    fn begin_stop(&mut self) {
        let Some(stop_by) = self.shared.stop_by() else { return };
        if self.stopping.is_some_and(|stopping| stopping.0 == stop_by) {
            return;
        }
        self.stopping = Some((stop_by, drain_until(self.clock.now(), stop_by)));
        for epoch in self.shared.epochs.read().values() {
            epoch.begin_drain();
        }
    }

    /// Without an intake a partition would be held and not consumed; leaving the group gives it to
    /// somebody who does (G11).
    fn look_for_lost_intakes(&mut self) {
        let epochs = self.shared.epochs.read();
        let Some(lost) = epochs.values().find(|epoch| epoch.intake_lost.load(Relaxed)) else {
            return;
        };
        let message = format!(
            "{}: its intake is gone, because the runtime that handlers run on has ended or the \
             source panicked",
            lost.id
        );
        tracing::error!(target: "kpipe", error = message, "the consumer cannot go on");
        self.fatal = Some(SourceError { message, fatal: true });
    }

    async fn follow(&mut self, event: Event) {
        match event {
            Event::Assigned(partitions) => {
                self.forget_failures(&partitions);
                self.assign(partitions).await;
            }
            Event::Revoked(partitions) => {
                self.forget_failures(&partitions);
                tracing::info!(target: "kpipe", ?partitions, "partitions revoked");
                let by = self.clock.now() + self.drain_deadline;
                self.drain_and_release(partitions, by).await;
            }
            Event::Lost(partitions) => {
                tracing::warn!(target: "kpipe", ?partitions, "partitions lost");
                self.forget_failures(&partitions);
                self.discard(&partitions);
                self.source.unassign(partitions).await;
            }
            Event::PositionLost(partition) => {
                tracing::warn!(
                    target: "kpipe", %partition,
                    "the log no longer holds the position; starting over by policy"
                );
                self.discard(std::slice::from_ref(&partition));
                self.source.unassign(vec![partition.clone()]).await;
                self.assign(vec![partition]).await;
            }
            Event::Failed(partition, error) => {
                self.shared.client_errors.fetch_add(1, Relaxed);
                tracing::error!(
                    target: "kpipe", %partition, %error,
                    "partition not consumed, to be tried again"
                );
                self.shared.failed.lock().insert(partition.clone(), error.message);
                self.again.failed(partition);
            }
            Event::Error(error) => {
                self.shared.client_errors.fetch_add(1, Relaxed);
                if error.fatal {
                    tracing::error!(target: "kpipe", %error, "the membership is over");
                    self.fatal = Some(error);
                } else {
                    tracing::warn!(target: "kpipe", %error, "the client reports an error");
                }
            }
        }
    }

    /// The group has other plans with these.
    fn forget_failures(&mut self, partitions: &[TopicPartition]) {
        self.again.forget(partitions);
        self.shared.failed.lock().retain(|partition, _| !partitions.contains(partition));
    }

    /// Starts over with partitions that failed. What is finished in one that ran is committed first.
    async fn try_again(&mut self, partitions: Vec<TopicPartition>) {
        let running: Vec<_> = self.epochs(&partitions);
        if !running.is_empty() {
            let running = running.iter().map(|epoch| epoch.id.clone()).collect();
            let by = self.clock.now() + self.drain_deadline;
            self.drain_and_release(running, by).await;
        }
        self.assign(partitions).await;
    }

    async fn assign(&mut self, partitions: Vec<TopicPartition>) {
        let signals: BTreeMap<TopicPartition, Arc<Signal>> =
            partitions.into_iter().map(|partition| (partition, Arc::default())).collect();
        let wanted = signals
            .iter()
            .map(|(partition, signal)| (partition.clone(), Arrivals(signal.clone())))
            .collect();
        let assigning = self.source.assign(wanted);
        let Some(assignments) = self.meanwhile(assigning).await else { return };
        tracing::info!(target: "kpipe", ?assignments, "partitions assigned");
        for assignment in assignments {
            let partition = &assignment.partition;
            if !self.topics.contains_key(&partition.topic) {
                tracing::error!(
                    target: "kpipe", %partition,
                    "assigned a partition of a topic that was not asked for"
                );
            } else if let Some(signal) = signals.get(partition) {
                self.begin(assignment, signal.clone());
            }
        }
    }

    /// Goes on with the chores until the future ends: what is finished elsewhere is committed on time.
    /// `None` once a shutdown is asked for, which has no time for it.
    async fn meanwhile<F: Future>(&mut self, future: F) -> Option<F::Output> {
        let mut future = pin!(future);
        while self.stopping.is_none() {
            tokio::select! {
                biased;
                output = &mut future => return Some(output),
                chore = self.house.next() => self.does(chore),
            }
        }
        None
    }

    /// Begins an epoch; its intake starts once no attempt of an earlier epoch of the same partition
    /// runs (G2).
    fn begin(&mut self, assignment: Assignment, signal: Arc<Signal>) {
        let Assignment { partition, start, uncommitted_start, queue } = assignment;
        // Work belongs to one epoch (G7), whatever a source says twice.
        self.discard(std::slice::from_ref(&partition));
        self.shared.failed.lock().remove(&partition);
        let committed = (!uncommitted_start).then_some(start);
        let epoch = Arc::new(Epoch {
            settings: self.settings.clone(),
            partition: Partition::new(
                start,
                committed,
                self.settings.max_finished_beyond,
                signal.clone(),
                self.shared.control.clone(),
            ),
            queue,
            share: self.shared.budget.join(signal.clone()),
            signal,
            budget: self.shared.budget.clone(),
            scope: Arc::new(Scope {
                group_id: self.group_id.clone(),
                cancelled: CancellationToken::new(),
            }),
            number: self.begun,
            intake_lost: AtomicBool::new(false),
            control: self.shared.control.clone(),
            clock: self.clock.clone(),
            trace: self.trace.clone(),
            started: self.clock.now(),
            id: partition,
        });
        self.begun += 1;
        epoch.tell(TraceEvent::Assigned { start });
        self.shared.epochs.write().insert(epoch.id.clone(), epoch.clone());
        match self.stragglers.remove(&epoch.id) {
            Some(before) if !before.partition.is_idle() => self.waiting.push((epoch, before)),
            _ => self.start(epoch),
        }
    }

    fn start(&self, epoch: Arc<Epoch>) {
        if let Some(topic) = self.topics.get(&epoch.id.topic) {
            topic.start(epoch, &self.runtime);
        }
    }

    fn start_waiting(&mut self) {
        let (ready, waiting) =
            self.waiting.drain(..).partition(|(_, before)| before.partition.is_idle());
        self.waiting = waiting;
        let ready: Vec<(Arc<Epoch>, Arc<Epoch>)> = ready;
        for (epoch, _) in ready {
            self.start(epoch);
        }
        self.stragglers.retain(|_, epoch| !epoch.partition.is_idle());
    }

    /// Lets what runs in these partitions end, up to the deadline, commits, and gives them back.
    async fn drain_and_release(&mut self, partitions: Vec<TopicPartition>, by: Instant) {
        let epochs = self.epochs(&partitions);
        self.drain(&epochs, by).await;
        let last = self.close(&epochs);
        let left = self.source.rebalance_timeout().saturating_sub(self.drain_deadline);
        self.commit_finally(last, self.clock.now() + FINAL_COMMIT.min(left / 2)).await;
        self.source.unassign(partitions).await;
    }

    /// Stops intake and waits for what runs; what does not end in time, or in a shutdown's, is
    /// cancelled.
    async fn drain(&mut self, epochs: &[Arc<Epoch>], by: Instant) {
        for epoch in epochs {
            epoch.begin_drain();
        }
        self.wait_for(epochs, |stopping| stopping.map_or(by, |(_, drain_by)| drain_by.min(by)))
            .await;
        if epochs.iter().any(|epoch| !epoch.partition.is_idle()) {
            for epoch in epochs {
                epoch.scope.cancelled.cancel();
            }
            let now = self.clock.now();
            let grace = now + GRACE;
            self.wait_for(epochs, |stopping| {
                stopping.map_or(grace, |(stop_by, _)| drain_until(now, stop_by).min(grace))
            })
            .await;
        }
    }

    /// Goes on with the chores until these epochs are idle or the time is up, which a shutdown may
    /// shorten.
    async fn wait_for(
        &mut self,
        epochs: &[Arc<Epoch>],
        until: impl Fn(Option<(Instant, Instant)>) -> Instant,
    ) {
        while epochs.iter().any(|epoch| !epoch.partition.is_idle()) {
            tokio::select! {
                biased;
                chore = self.house.next() => self.does(chore),
                () = self.clock.sleep_until(until(self.stopping)) => return,
            }
        }
    }

    /// Closes epochs and takes them off the books; returns what is to be committed for them.
    fn close(&mut self, epochs: &[Arc<Epoch>]) -> Vec<(Arc<Epoch>, i64)> {
        let mut last = Vec::new();
        for epoch in epochs {
            let closing = epoch.close();
            last.extend(closing.to_commit.map(|next| (epoch.clone(), next)));
            self.shared.retire(epoch, closing);
            if !self.drop_unstarted(epoch) && !epoch.partition.is_idle() {
                self.stragglers.insert(epoch.id.clone(), epoch.clone());
            }
        }
        last
    }

    /// An epoch whose intake never started hands its place on to nobody: its predecessor's
    /// attempts are the stragglers that the next one waits for.
    fn drop_unstarted(&mut self, epoch: &Arc<Epoch>) -> bool {
        let Some(at) = self.waiting.iter().position(|(waiting, _)| Arc::ptr_eq(waiting, epoch))
        else {
            return false;
        };
        let (unstarted, before) = self.waiting.swap_remove(at);
        unstarted.budget.leave(unstarted.share);
        self.stragglers.insert(before.id.clone(), before);
        true
    }

    async fn commit_finally(&mut self, last: Vec<(Arc<Epoch>, i64)>, by: Instant) {
        // The periodic commit that may be on its way is older, and must not arrive later.
        let shared = self.shared.clone();
        let mut late = pin!(shared.late_for(by));
        tokio::select! {
            biased;
            () = self.house.commit_answered() => {}
            () = &mut late => {
                tracing::warn!(
                    target: "kpipe", "no answer to a commit before partitions were given back"
                );
                return;
            }
        }
        let Some(commit) = Commit::send(&*self.source, last) else { return };
        tokio::select! {
            biased;
            answer = commit => answer.book(&self.shared),
            () = &mut late => {
                tracing::warn!(target: "kpipe", "no answer to the last commit of partitions");
            }
        }
    }

    /// Ends epochs that are over already: nothing is drained and nothing committed.
    fn discard(&mut self, partitions: &[TopicPartition]) {
        let epochs = self.epochs(partitions);
        for epoch in &epochs {
            epoch.begin_drain();
        }
        self.close(&epochs);
    }

    /// Stops intake, drains, commits, leaves the group, in that order (G10).
    async fn shut_down(mut self) -> Result<Report, Error> {
        let deadline = self.clock.now() + self.settings.shutdown_deadline;
        let by = self.shared.stop_by().unwrap_or(deadline);
        self.shared.stop(by);
        self.begin_stop();
        let epochs: Vec<_> = self.shared.epochs.read().values().cloned().collect();
        self.drain(&epochs, by).await;
        let last = self.close(&epochs);
        self.shared.want(&last);
        let commit_by = by - by.saturating_duration_since(self.clock.now()) / 2;
        self.commit_finally(last, commit_by).await;
        self.wait_for_intakes(by).await;
        *self.shared.traffic.lock() = self.source.traffic();
        let left = by.saturating_duration_since(self.clock.now());
        let closed = self.source.close(left).await;
        if let Some(fatal) = self.fatal {
            return Err(Error::new(ErrorKind::Client, fatal.message.clone()).caused_by(fatal));
        }
        Ok(Report::of(&self.shared, closed))
    }

    /// Waits a moment for intakes that were told to end and have not had their turn: what they keep of the
    /// budget would show in the report (G8).
    async fn wait_for_intakes(&mut self, by: Instant) {
        let by = by.min(self.clock.now() + GRACE);
        while self.shared.budget.has_members() {
            tokio::select! {
                biased;
                chore = self.house.next() => self.does(chore),
                () = self.clock.sleep_until(by) => return,
            }
        }
    }

    fn epochs(&self, partitions: &[TopicPartition]) -> Vec<Arc<Epoch>> {
        let epochs = self.shared.epochs.read();
        let named: BTreeSet<_> = partitions.iter().collect();
        named.into_iter().filter_map(|partition| epochs.get(partition).cloned()).collect()
    }
}

/// Until when attempts may go on if all is to be over at `by`: a fifth of the time that is left, at
/// most 3 s, is kept for the commit and the close.
fn drain_until(now: Instant, by: Instant) -> Instant {
    let left = by.saturating_duration_since(now);
    by - (left / 5).min(Duration::from_secs(3))
}
