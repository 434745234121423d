//! What the control loop and the user's handle both see.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use parking_lot::{Mutex, RwLock};
use tokio::sync::watch;
use tokio::time::Instant;

use super::epoch::Epoch;
use crate::budget::Budget;
use crate::observe::Stats;
use crate::partition::Counts;
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
    /// The counts of epochs that ended.
    closed: Mutex<Counts>,
    /// What was last acknowledged for each partition that this member ever had.
    committed: Mutex<BTreeMap<TopicPartition, i64>>,
    pub(super) log_ends: Mutex<HashMap<TopicPartition, i64>>,
    pub(super) traffic: Mutex<Traffic>,
    pub(super) commits: AtomicU64,
    pub(super) commit_failures: AtomicU64,
    pub(super) client_errors: AtomicU64,
    /// When to be gone, once a shutdown was asked for.
    stop_by: watch::Sender<Option<Instant>>,
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
            log_ends: Mutex::default(),
            traffic: Mutex::default(),
            commits: AtomicU64::new(0),
            commit_failures: AtomicU64::new(0),
            client_errors: AtomicU64::new(0),
            stop_by: watch::Sender::new(None),
        }
    }

    /// Asks for a shutdown by then; of several wishes the earliest counts (R11: only the first one
    /// begins it).
    pub(super) fn stop(&self, by: Instant) {
        self.stop_by.send_modify(|stop_by| {
            *stop_by = Some(stop_by.map_or(by, |earlier| earlier.min(by)));
        });
        self.control.raise(Reasons::STOP);
    }

    /// When to be gone, if a shutdown was asked for.
    pub(super) fn stop_by(&self) -> Option<Instant> {
        *self.stop_by.borrow()
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
    pub(super) fn retire(&self, epoch: &Epoch) {
        // Under the same lock as a reader of both, so that no count is seen twice or not at all.
        let mut epochs = self.epochs.write();
        epochs.remove(&epoch.id);
        *self.closed.lock() += epoch.partition.view().counts;
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
        stats.count(*self.closed.lock());
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
