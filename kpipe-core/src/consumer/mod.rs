//! What to do with which topic: a consumer's definition, apart from any connection.

#[cfg(feature = "serde")]
mod config;
mod ordering;
mod settings;
mod topic;

use std::fmt;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

#[cfg(feature = "serde")]
pub use self::config::{AttemptDeadline, ConsumerConfig};
pub use self::ordering::{NullKeys, Ordering};
pub(crate) use self::settings::{LaneBy, Settings};
pub(crate) use self::topic::Topic;
use crate::error::Error;
use crate::failure::OnFailure;
use crate::handler::IntoHandler;
use crate::record::Record;
use crate::runtime::{self, Running};
use crate::source::{Connect, StartAt};

/// A consumer's definition: which topics, what happens to their records, and within which limits.
///
/// It holds no connection. The function that builds it serves `main` and tests alike; only
/// [`start`](Self::start) says where the records come from. Nothing is checked before that, so that
/// a wrong value is reported once, with its name.
///
/// ```no_run
/// use kpipe_core::{Consumer, Ordering, Record, kafka::Kafka};
///
/// fn billing() -> Consumer {
///     Consumer::new("billing")
///         .topic("payments", |record: Record| async move {
///             println!("{:?}", record.value());
///             Ok(())
///         })
///         .ordering(Ordering::Key)
///         .max_in_flight(1_000)
/// }
///
/// # async fn run() -> Result<(), kpipe_core::Error> {
/// let running = billing().start(Kafka::brokers("localhost:9092")).await?;
/// let report = running.until(std::future::pending()).await?;
/// # Ok(())
/// # }
/// ```
pub struct Consumer {
    pub(crate) settings: Settings,
    pub(crate) topics: Vec<Topic>,
}

impl Consumer {
    /// Starts the definition of a consumer of that group.
    pub fn new(group_id: impl Into<String>) -> Self {
        Self { settings: Settings::new(group_id.into()), topics: Vec::new() }
    }

    /// Consumes a topic with a handler. May be called for several topics, once each.
    ///
    /// ```
    /// # use kpipe_core::{Consumer, Record};
    /// Consumer::new("billing").topic("payments", |record: Record| async move { Ok(()) });
    /// ```
    pub fn topic<Args>(
        mut self,
        name: impl Into<Arc<str>>,
        handler: impl IntoHandler<Args>,
    ) -> Self {
        self.topics.push(Topic::new(name.into(), handler.into_handler()));
        self
    }

    /// Which records may run at the same time (G2). Default [`Ordering::Key`].
    ///
    /// ```
    /// # use kpipe_core::{Consumer, Ordering};
    /// Consumer::new("billing").ordering(Ordering::Partition);
    /// ```
    pub fn ordering(mut self, ordering: Ordering) -> Self {
        self.settings.ordering = ordering;
        self
    }

    /// What [`Ordering::Key`] orders by, instead of the record's key: any value that can be hashed;
    /// `None` is treated as a null key. Two values with the same 64-bit hash are merely run one
    /// after the other. A panic in it is a failed attempt of that record (G9). Other orderings do not
    /// use it.
    ///
    /// The value is owned, it cannot borrow from the record: copy what is small, and where the key
    /// itself is wanted take [`Record::key_bytes`], which shares the record's buffer.
    ///
    /// ```
    /// # use kpipe_core::{Consumer, Record};
    /// Consumer::new("billing").key_by(|record: &Record| {
    ///     let tenant = record.headers().get("tenant")?.value()?;
    ///     Some(tenant.to_vec())
    /// });
    /// // The key's first eight bytes, without a copy.
    /// Consumer::new("billing").key_by(|record: &Record| {
    ///     let key = record.key_bytes()?;
    ///     Some(key.slice(..key.len().min(8)))
    /// });
    /// ```
    pub fn key_by<K: Hash>(
        mut self,
        key: impl Fn(&Record) -> Option<K> + Send + Sync + 'static,
    ) -> Self {
        self.settings.key_by = Some(LaneBy::new(key));
        self
    }

    /// How records without a key are ordered under [`Ordering::Key`]; other orderings do not use it.
    /// Default [`NullKeys::Unordered`].
    ///
    /// ```
    /// # use kpipe_core::{Consumer, NullKeys};
    /// Consumer::new("billing").null_keys(NullKeys::Serial);
    /// ```
    pub fn null_keys(mut self, null_keys: NullKeys) -> Self {
        self.settings.null_keys = null_keys;
        self
    }

    /// How many attempts may run at once: 1 to 1,000,000, default 1,000. Records that wait behind
    /// their key do not count; see [`max_held`](Self::max_held). [`Ordering::Sequential`] runs one,
    /// and [`Ordering::Partition`] one a partition, whatever this says.
    ///
    /// ```
    /// # use kpipe_core::Consumer;
    /// Consumer::new("billing").max_in_flight(200);
    /// ```
    pub fn max_in_flight(mut self, attempts: u64) -> Self {
        self.settings.max_in_flight = attempts;
        self
    }

    /// How many records may be held: running, waiting behind their key, or failed and kept. From
    /// `max_in_flight` to 10,000,000; default 10,000, or `max_in_flight` if that is more.
    ///
    /// Once so many are held, no partition hands out more, so other keys wait as well: behind one key
    /// that is slow and has a long backlog until that is worked off, and behind records that failed
    /// and stay until a restart. A warning is logged when it comes to that, and
    /// [`Stats::full`](crate::Stats::full) says so.
    ///
    /// ```
    /// # use kpipe_core::Consumer;
    /// Consumer::new("billing").max_held(50_000);
    /// ```
    pub fn max_held(mut self, records: u64) -> Self {
        self.settings.max_held = Some(records);
        self
    }

    /// How many payload bytes may be in hand (G4), prefetched by the client or held: 1 MiB to
    /// 1 TiB, default 256 MiB. One half is the client's, the other the records'; the client may
    /// overshoot its half by one fetch a partition.
    ///
    /// ```
    /// # use kpipe_core::Consumer;
    /// Consumer::new("billing").bytes_in_hand(64 * 1024 * 1024);
    /// ```
    pub fn bytes_in_hand(mut self, bytes: u64) -> Self {
        self.settings.bytes_in_hand = bytes;
        self
    }

    /// How many finished records may lie beyond a partition's frontier before its draining stops:
    /// 1 to 100,000,000, default 1,000,000. All of them are handled again after a crash.
    ///
    /// ```
    /// # use kpipe_core::Consumer;
    /// Consumer::new("billing").max_finished_beyond(10_000);
    /// ```
    pub fn max_finished_beyond(mut self, records: u64) -> Self {
        self.settings.max_finished_beyond = records;
        self
    }

    /// How often finished work is committed: 10 ms to 1 h, default 5 s. Nothing is sent when
    /// nothing moved.
    ///
    /// ```
    /// # use kpipe_core::Consumer;
    /// # use std::time::Duration;
    /// Consumer::new("billing").commit_interval(Duration::from_secs(1));
    /// ```
    pub fn commit_interval(mut self, interval: Duration) -> Self {
        self.settings.commit_interval = interval;
        self
    }

    /// How long an attempt may take before it fails (G3): 1 ms to 24 h, default 5 minutes. It
    /// ends an attempt at an await; one that blocks its thread it cannot end, so run what blocks with
    /// `tokio::task::spawn_blocking`.
    ///
    /// ```
    /// # use kpipe_core::Consumer;
    /// # use std::time::Duration;
    /// Consumer::new("billing").attempt_deadline(Duration::from_secs(30));
    /// ```
    pub fn attempt_deadline(mut self, deadline: Duration) -> Self {
        self.settings.attempt_deadline = Some(deadline);
        self
    }

    /// Lets attempts take for ever.
    ///
    /// **Warning:** Kafka itself no longer notices a handler that never ends, because the group is
    /// polled whatever handlers do (G3). Without a deadline such a record keeps its slot, its key
    /// and its partition's frontier until the process ends; only its age in the statistics tells.
    ///
    /// ```
    /// # use kpipe_core::Consumer;
    /// Consumer::new("billing").no_attempt_deadline();
    /// ```
    pub fn no_attempt_deadline(mut self) -> Self {
        self.settings.attempt_deadline = None;
        self
    }

    /// What becomes of a record whose attempt failed. Default [`OnFailure::Hold`], whose limits see.
    /// Either way a failure is logged as an error through `tracing`, which shows nothing until the
    /// service has a subscriber, and counts in the [`Stats`](crate::Stats).
    ///
    /// ```
    /// # use kpipe_core::{Consumer, OnFailure};
    /// Consumer::new("billing").on_failure(OnFailure::Drop);
    /// ```
    pub fn on_failure(mut self, policy: OnFailure) -> Self {
        self.settings.on_failure = policy;
        self
    }

    /// Where to start in a partition for which the group has committed nothing, or whose position
    /// the log no longer holds. Default [`StartAt::Earliest`]. Replaces `auto.offset.reset`.
    ///
    /// ```
    /// # use kpipe_core::{Consumer, StartAt};
    /// Consumer::new("billing").start_at(StartAt::Latest);
    /// ```
    pub fn start_at(mut self, start_at: StartAt) -> Self {
        self.settings.start_at = start_at;
        self
    }

    /// How long the attempts of a revoked partition may go on before they are cancelled: 1 ms up
    /// to, but not including, `max.poll.interval.ms`; default the smaller of 20 s and half of
    /// that. The member delivers nothing meanwhile, so short is good.
    ///
    /// ```
    /// # use kpipe_core::Consumer;
    /// # use std::time::Duration;
    /// Consumer::new("billing").drain_deadline(Duration::from_secs(5));
    /// ```
    pub fn drain_deadline(mut self, deadline: Duration) -> Self {
        self.settings.drain_deadline = Some(deadline);
        self
    }

    /// How long a shutdown takes at most where no deadline is given (G10): 100 ms to 1 h, default
    /// 25 s, which is under the 30 s that orchestrators give.
    ///
    /// ```
    /// # use kpipe_core::Consumer;
    /// # use std::time::Duration;
    /// Consumer::new("billing").shutdown_deadline(Duration::from_secs(10));
    /// ```
    pub fn shutdown_deadline(mut self, deadline: Duration) -> Self {
        self.settings.shutdown_deadline = deadline;
        self
    }

    /// Whether a handler is first polled by the task that took its record, and becomes a task of
    /// its own only if it is not ready then. Default true: it makes handlers that are ready at once
    /// several times cheaper. Handlers found to compute or block before their first await are
    /// made tasks at once in any case; off does so for all.
    ///
    /// ```
    /// # use kpipe_core::Consumer;
    /// Consumer::new("billing").first_poll_inline(false);
    /// ```
    pub fn first_poll_inline(mut self, inline: bool) -> Self {
        self.settings.first_poll_inline = inline;
        self
    }

    /// The group's id.
    ///
    /// ```
    /// # use kpipe_core::Consumer;
    /// assert_eq!(Consumer::new("billing").group_id(), "billing");
    /// ```
    pub fn group_id(&self) -> &str {
        &self.settings.group_id
    }

    /// The topics, in the order in which they were given.
    ///
    /// ```
    /// # use kpipe_core::{Consumer, Record};
    /// let consumer = Consumer::new("billing").topic("payments", |_: Record| async { Ok(()) });
    /// assert!(consumer.topics().eq(["payments"]));
    /// ```
    pub fn topics(&self) -> impl Iterator<Item = &str> {
        self.topics.iter().map(|topic| &*topic.name)
    }

    /// Connects, joins the group and starts to consume. Handlers run on the tokio runtime that
    /// this is awaited in.
    ///
    /// Returns once the brokers answered and the topics exist; the group hands out partitions
    /// shortly after.
    ///
    /// # Errors
    /// [`ErrorKind::Config`](crate::ErrorKind::Config) for a setting that is refused, naming the
    /// field, the value and what is accepted; `Unreachable`, `Unauthorized` and `UnknownTopic` for
    /// what keeps the source from starting (C34); `NoRuntime` outside a tokio runtime and in one
    /// without timers, which tokio itself announces with the text of a panic on standard error.
    ///
    /// # Cancel safety
    /// A start that is dropped half way closes what it opened.
    pub async fn start(self, source: impl Connect) -> Result<Running, Error> {
        runtime::start(self, Box::new(source)).await
    }
}

impl fmt::Debug for Consumer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Consumer")
            .field("settings", &self.settings)
            .field("topics", &self.topics)
            .finish()
    }
}
