//! Where records come from: the seam between the runtime and a client of Kafka (or an in-memory
//! broker that behaves like one).
//!
//! A [`Source`] is one membership in a group. It reports assignment changes as [`Event`]s and leaves
//! it to the runtime to carry them out, so that a revoke can be drained while the group goes on
//! being polled. Each assigned partition has a [`PartitionQueue`] of its own, which is drained or
//! left alone: that, and never a pause, is how pressure reaches the broker (G5).

#[cfg(feature = "kafka")]
pub mod kafka;
mod time;
mod trace;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::BoxFuture;

pub use self::time::Time;
pub(crate) use self::time::{Clock, Every};
pub use self::trace::{Outcome, Trace, TraceEvent};
use crate::error::Error;
use crate::record::{Record, TopicPartition};
use crate::wake::{Reasons, Signal};

/// Connects a consumer's definition to a cluster. `Kafka` (feature `kafka`) is the one for
/// production.
pub trait Connect: Send + 'static {
    /// Joins the group and returns once the brokers have answered and every topic exists.
    ///
    /// # Errors
    /// Whatever keeps the consumer from starting (C34): an unreachable broker, refused credentials, a topic
    /// that does not exist, an option that would undo a promise.
    fn connect(
        self: Box<Self>,
        subscription: Subscription,
    ) -> BoxFuture<'static, Result<Box<dyn Source>, Error>>;
}

/// What the runtime asks of a source.
#[derive(Clone, Debug)]
pub struct Subscription {
    /// The consumer group's id.
    pub group_id: String,
    /// The topics, by name.
    pub topics: Vec<Arc<str>>,
    /// Where to start in a partition for which the group has committed nothing, or whose position
    /// the log no longer holds.
    pub start_at: StartAt,
    /// The share of the byte budget that may lie prefetched over all partitions, in bytes; the
    /// source derives its per-partition limits from it (G4).
    pub prefetch_bytes: u64,
    /// How long a drain on revoke may take. The source refuses one that is not below the time after
    /// which the group ends the rebalance without this member.
    pub drain_deadline: Option<Duration>,
}

/// Where to start in a partition for which the group has committed nothing, or whose committed
/// position the log no longer holds (`auto.offset.reset`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum StartAt {
    /// At the first record that the log still holds. The default: nothing is skipped.
    #[default]
    Earliest,
    /// At the log's end; what was written before is skipped. The position found is committed at
    /// once, so that a rebalance before the first commit does not skip what came between.
    Latest,
    /// Not at all: the partition is reported and not consumed.
    Fail,
}

/// One membership in a consumer group.
///
/// The runtime drives it from its control thread. Methods that return a `'static` future do their
/// work elsewhere and may run at the same time as others.
pub trait Source: Send + 'static {
    /// The next event. Cancel safe: an event not returned is returned by the next call.
    fn next_event(&mut self) -> BoxFuture<'_, Event>;

    /// Carries out an [`Event::Assigned`] or gives a partition a fresh position after
    /// [`Event::PositionLost`]: looks up where to start, splits the queue, starts the fetch.
    /// Partitions for which that fails are reported as [`Event::Failed`] and left out. Commits of other
    /// partitions go on meanwhile; no other assignment or release does. Dropped half-way by a shutdown.
    fn assign(
        &mut self,
        partitions: Vec<(TopicPartition, Arrivals)>,
    ) -> BoxFuture<'static, Vec<Assignment>>;

    /// Carries out an [`Event::Revoked`] or [`Event::Lost`]: stops the fetch and gives the
    /// partitions back to the group. Their queues yield nothing from then on.
    fn unassign(&mut self, partitions: Vec<TopicPartition>) -> BoxFuture<'_, ()>;

    /// Commits; the future ends once the broker has answered, however long that takes. One answer
    /// per partition, in the order asked.
    fn commit(
        &self,
        offsets: Vec<CommitOffset>,
    ) -> BoxFuture<'static, Vec<Result<(), CommitError>>>;

    /// The log's end in each partition, the broker's answer where it can be had in time; `None`
    /// where unknown.
    fn log_ends(&self, partitions: Vec<TopicPartition>) -> BoxFuture<'static, Vec<Option<i64>>>;

    /// How long the group waits for this member in a rebalance (Kafka: `max.poll.interval.ms`); the
    /// default drain deadline is half of it, at most 20 s.
    fn rebalance_timeout(&self) -> Duration {
        Duration::from_secs(300)
    }

    /// Whether the control loop runs on a thread of its own, so that membership and shutdown do not
    /// depend on what handlers do to their runtime (G3). A source on virtual time answers no.
    fn wants_control_thread(&self) -> bool {
        true
    }

    /// The clock that the runtime goes by; `None` is tokio's.
    fn time(&self) -> Option<Arc<dyn Time>> {
        None
    }

    /// Who is told what happens to each record; `None` is nobody.
    fn trace(&self) -> Option<Arc<dyn Trace>> {
        None
    }

    /// What the client has done so far.
    fn traffic(&self) -> Traffic;

    /// Gives every partition back, leaves the group and closes, within the time given. What the
    /// client itself does not finish in time goes on in a detached thread.
    fn close(self: Box<Self>, within: Duration) -> BoxFuture<'static, Closed>;
}

/// The queue of one assigned partition: records that are already here.
pub trait PartitionQueue: Send + Sync {
    /// Moves up to `max` records to the end of `into` and returns how many; never waits. Fewer than
    /// asked means that the queue was empty for a moment, and that the next arrival will be
    /// signalled.
    fn take(&self, max: usize, into: &mut Vec<Record>) -> usize;
}

/// Raised by a source when records arrive in a queue that was empty. A hint: the runtime also looks
/// each second.
#[derive(Clone)]
pub struct Arrivals(pub(crate) Arc<Signal>);

impl Arrivals {
    /// For whoever drives a source without the runtime, such as the test of a source of one's own.
    #[allow(clippy::new_without_default)] // A signal that nobody waits for is a mistake to invite.
    pub fn new() -> Self {
        Self(Arc::default())
    }

    /// Returns once records arrived since the last call. For one waiter. Cancel safe.
    pub async fn arrived(&self) {
        std::future::poll_fn(|cx| self.0.poll_take(cx)).await;
    }

    /// Wakes the partition's intake. Never blocks for longer than a short critical section.
    pub fn notify(&self) {
        self.0.raise(Reasons::ARRIVAL);
    }
}

impl fmt::Debug for Arrivals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Arrivals")
    }
}

/// A partition whose fetch has started.
pub struct Assignment {
    /// Which partition.
    pub partition: TopicPartition,
    /// The offset of the first record wanted; nothing below it is delivered.
    pub start: i64,
    /// Whether `start` was found by [`StartAt`] and the group has not committed it yet.
    pub uncommitted_start: bool,
    /// Where its records arrive.
    pub queue: Box<dyn PartitionQueue>,
}

impl fmt::Debug for Assignment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} from {}", self.partition, self.start)
    }
}

/// What happens to a membership.
#[derive(Debug)]
pub enum Event {
    /// The group gave these partitions to this member; answered by [`Source::assign`].
    Assigned(Vec<TopicPartition>),
    /// The group wants these back; answered by [`Source::unassign`] once drained and committed.
    Revoked(Vec<TopicPartition>),
    /// The group has given these to others already; answered by [`Source::unassign`], without a
    /// commit.
    Lost(Vec<TopicPartition>),
    /// The position in this partition is outside its log. Answered by [`Source::unassign`] and
    /// [`Source::assign`], under a new epoch.
    PositionLost(TopicPartition),
    /// This partition cannot be consumed for now. Unless the group takes it away first, the runtime
    /// answers with another [`Source::assign`] (after [`Source::unassign`] if it had begun): after 5 s,
    /// then after twice as long each time, at most a minute.
    Failed(TopicPartition, SourceError),
    /// Something went wrong that the client goes on from by itself, or not
    /// ([`SourceError::fatal`]).
    Error(SourceError),
}

/// An error of the client or the cluster, after the start.
#[derive(Clone, Debug)]
pub struct SourceError {
    /// What the client said.
    pub message: String,
    /// Whether this membership is over; the runtime shuts down.
    pub fatal: bool,
}

impl fmt::Display for SourceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for SourceError {}

/// An offset to commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitOffset {
    /// Which partition.
    pub partition: TopicPartition,
    /// The offset of the first record that is not finished: what a restart reads next.
    pub next: i64,
}

/// Why a commit did not take.
#[derive(Clone, Debug)]
pub struct CommitError {
    /// What the caller can do about it.
    pub kind: CommitErrorKind,
    /// What the client said.
    pub message: String,
}

/// What can be done about a failed commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CommitErrorKind {
    /// The same commit may succeed later: a rebalance, a coordinator that moves or loads, a broker
    /// that is away.
    Retry,
    /// The partition is no longer this member's; nothing it commits counts.
    Fenced,
    /// The commit will never succeed as it is.
    Permanent,
}

impl fmt::Display for CommitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for CommitError {}

/// What a client has done since it started.
#[derive(Clone, Copy, Debug, Default)]
pub struct Traffic {
    /// Records that came over the network, as far as the client reports them (Kafka: librdkafka's
    /// statistics, once a second).
    pub records_fetched: u64,
    /// Payload bytes that came over the network, likewise.
    pub bytes_fetched: u64,
    /// Records handed to intakes.
    pub records_delivered: u64,
    /// Payload bytes handed to intakes.
    pub bytes_delivered: u64,
    /// When the group was last polled (G3).
    pub last_poll: Option<Instant>,
}

/// How a close went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closed {
    /// The group was left and the client is gone.
    Completely,
    /// Time ran out; a detached thread goes on closing the client.
    InBackground,
}

// Object safety, checked at compile time.
const _: Option<(&dyn Connect, &dyn Source, &dyn PartitionQueue)> = None;
