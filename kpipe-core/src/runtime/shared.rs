//! What the control loop and the user's handle both see.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use tokio::sync::watch;
use tokio::time::Instant;

use super::epoch::Epoch;
use crate::budget::Budget;
use crate::observe::{FailedRecord, Stats};
use crate::partition::{Closing, Counts};
use crate::record::TopicPartition;
use crate::source::{Clock, Traffic};
use crate::wake::{Reasons, Signal};

/// The state of a running consumer that outlives its assignments.
pub(super) struct Shared {
    pub(super) clock: Clock,
    pub(super) budget: Arc<Budget>,
    /// Wakes the control loop.
    pub(super) control: Arc<Signal>,
    pub(super) epochs: RwLock<BTreeMap<TopicPartition, Arc<Epoch>>>,
    /// What epochs that ended leave in the books.
    closed: Mutex<Past>,
    /// What was last acknowledged for each partition that this member ever had.
    committed: Mutex<BTreeMap<TopicPartition, i64>>,
    /// What a shutdown wants to be committed for the epochs that it closed.
    last_wanted: Mutex<BTreeMap<TopicPartition, i64>>,
    /// Partitions that are this member's and cannot be consumed for now, and why.
    pub(super) failed: Mutex<BTreeMap<TopicPartition, String>>,
    pub(super) log_ends: Mutex<HashMap<TopicPartition, i64>>,
    pub(super) traffic: Mutex<Traffic>,
    pub(super) commits: AtomicU64,
    pub(super) commit_failures: AtomicU64,
    pub(super) client_errors: AtomicU64,
    /// When to be gone, once a shutdown was asked for.
    stop_by: watch::Sender<Option<Instant>>,
    /// When that was.
    stop_asked: OnceLock<Instant>,
}

/// What epochs that ended leave in the books.
#[derive(Default)]
struct Past {
    counts: Counts,
    /// Records that had failed and stayed until their epoch ended.
    failed: u64,
    /// The lowest of them in each partition; of the last epoch, if it had one.
    first_failed: BTreeMap<TopicPartition, FailedRecord>,
}

impl Shared {
    pub(super) fn new(budget: Arc<Budget>, clock: Clock) -> Self {
        Self {
            clock,
            budget,
            control: Arc::default(),
            epochs: RwLock::default(),
            closed: Mutex::default(),
            committed: Mutex::default(),
            last_wanted: Mutex::default(),
            failed: Mutex::default(),
            log_ends: Mutex::default(),
            traffic: Mutex::default(),
            commits: AtomicU64::new(0),
            commit_failures: AtomicU64::new(0),
            client_errors: AtomicU64::new(0),
            stop_by: watch::Sender::new(None),
            stop_asked: OnceLock::new(),
        }
    }

    /// Asks for a shutdown by then; of several wishes the earliest counts (R11: only the first one
    /// begins it).
    pub(super) fn stop(&self, by: Instant) {
        self.stop_asked.get_or_init(|| self.clock.now());
        self.stop_by.send_modify(|stop_by| {
            *stop_by = Some(stop_by.map_or(by, |earlier| earlier.min(by)));
        });
        self.control.raise(Reasons::STOP);
    }

    /// When to be gone, if a shutdown was asked for.
    pub(super) fn stop_by(&self) -> Option<Instant> {
        *self.stop_by.borrow()
    }

    /// How long ago a shutdown was first asked for.
    pub(super) fn stopping_for(&self) -> Duration {
        let now = self.clock.now();
        self.stop_asked.get().map_or(Duration::ZERO, |asked| now.saturating_duration_since(*asked))
    }

    /// Waits until the time to be gone has come.
    pub(super) async fn late(&self) {
        self.wait_until(|stop_by| stop_by).await;
    }

    /// Waits until `by`, or if a shutdown is asked for until half of its time is over: the other
    /// half is for what comes after this.
    pub(super) async fn late_for(&self, by: Instant) {
        self.wait_until(|stop_by| {
            let now = self.clock.now();
            let half = stop_by.map(|stop_by| stop_by - stop_by.saturating_duration_since(now) / 2);
            Some(half.map_or(by, |half| half.min(by)))
        })
        .await;
    }

    /// Waits until what `limit` makes of the time to be gone.
    async fn wait_until(&self, limit: impl Fn(Option<Instant>) -> Option<Instant>) {
        let mut wishes = self.stop_by.subscribe();
        loop {
            let stop_by = *wishes.borrow_and_update();
            let by = limit(stop_by);
            let over = async {
                match by {
                    Some(by) => self.clock.sleep_until(by).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = over => return,
                // The sender lives as long as this does.
                _ = wishes.changed() => {}
            }
        }
    }

    /// Takes an ended epoch off the books; its counts stay in the totals.
    pub(super) fn retire(&self, epoch: &Epoch, closing: Closing) {
        // Under the same lock as a reader of both, so that no count is seen twice or not at all.
        let mut epochs = self.epochs.write();
        epochs.remove(&epoch.id);
        let view = epoch.partition.view();
        let mut closed = self.closed.lock();
        closed.counts += view.counts;
        closed.failed += closing.held;
        match view.first_held {
            Some(first) => closed.first_failed.insert(epoch.id.clone(), first.into()),
            None => closed.first_failed.remove(&epoch.id),
        };
    }

    /// Notes what a shutdown wants to be committed.
    pub(super) fn want(&self, last: &[(Arc<Epoch>, i64)]) {
        let mut wanted = self.last_wanted.lock();
        wanted.extend(last.iter().map(|(epoch, next)| (epoch.id.clone(), *next)));
    }

    /// What was, or still is, to be committed and the broker has not acknowledged.
    pub(super) fn uncommitted(&self) -> BTreeMap<TopicPartition, i64> {
        let mut wanted = self.last_wanted.lock().clone();
        for (id, epoch) in &*self.epochs.read() {
            wanted.extend(epoch.partition.to_commit().map(|next| (id.clone(), next)));
        }
        let committed = self.committed.lock();
        wanted.retain(|id, next| committed.get(id) != Some(next));
        wanted
    }

    /// The lowest failed record of each partition that ended with one, or has one now.
    pub(super) fn first_failed(&self) -> BTreeMap<TopicPartition, FailedRecord> {
        let epochs = self.epochs.read();
        let mut failed = self.closed.lock().first_failed.clone();
        for (id, epoch) in &*epochs {
            failed.extend(epoch.partition.view().first_held.map(|held| (id.clone(), held.into())));
        }
        failed
    }

    pub(super) fn acknowledged(&self, epoch: &Epoch, next: i64) {
        epoch.partition.acknowledged(next);
        self.committed.lock().insert(epoch.id.clone(), next);
    }

    pub(super) fn committed(&self) -> BTreeMap<TopicPartition, i64> {
        self.committed.lock().clone()
    }

    pub(super) fn stats(&self) -> Stats {
        let now = self.clock.now();
        let mut stats = Stats::default();
        let epochs = self.epochs.read();
        {
            let closed = self.closed.lock();
            stats.count(closed.counts);
            stats.abandoned_failed = closed.failed;
        }
        let log_ends = self.log_ends.lock();
        for (id, epoch) in &*epochs {
            let end = log_ends.get(id).copied();
            stats.add(id.clone(), epoch.partition.view(), epoch.age_of(now), end);
        }
        drop((epochs, log_ends));
        let usage = self.budget.usage();
        stats.in_flight = usage.slots;
        stats.held = usage.held;
        stats.bytes_held = usage.bytes;
        let limits = self.budget.limits();
        stats.max_in_flight = limits.in_flight;
        stats.max_held = limits.held;
        stats.full = self.budget.is_full();
        let failed = self.failed.lock();
        stats.failed_partitions =
            failed.iter().map(|(partition, why)| (partition.clone(), why.clone())).collect();
        drop(failed);
        stats.commits = self.commits.load(Relaxed);
        stats.commit_failures = self.commit_failures.load(Relaxed);
        stats.client_errors = self.client_errors.load(Relaxed);
        let traffic = *self.traffic.lock();
        stats.records_fetched = traffic.records_fetched;
        stats.bytes_fetched = traffic.bytes_fetched;
        stats.records_delivered = traffic.records_delivered;
        stats.bytes_delivered = traffic.bytes_delivered;
        stats.poll_age = traffic.last_poll.map(|at| at.elapsed());
        stats
    }
}
