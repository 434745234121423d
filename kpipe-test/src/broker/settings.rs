//! What differs from broker to broker.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kpipe_core::source::Time;

use super::Broker;
use super::assignor::Assignor;
use super::group::Protocol;

#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) protocol: Protocol,
    pub(super) assignor: Assignor,
    pub(super) max_message_bytes: usize,
    pub(super) create_topics: Option<i32>,
    pub(super) session_timeout: Duration,
    pub(super) rebalance_timeout: Duration,
    pub(super) heartbeat: Duration,
    pub(super) first_rebalance_delay: Duration,
    pub(super) prefetch_records: usize,
    pub(super) delivery_timeout: Duration,
    pub(super) keeps_history: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            protocol: Protocol::default(),
            assignor: Assignor::default(),
            max_message_bytes: 1_048_588,
            create_topics: None,
            session_timeout: Duration::from_secs(45),
            rebalance_timeout: Duration::from_secs(300),
            heartbeat: Duration::ZERO,
            first_rebalance_delay: Duration::ZERO,
            prefetch_records: 1_000,
            delivery_timeout: Duration::from_secs(300),
            keeps_history: true,
        }
    }
}

/// Makes a [`Broker`]; see [`Broker::builder`].
#[derive(Clone, Default)]
#[must_use = "a builder does nothing until it builds"]
pub struct BrokerBuilder {
    settings: Settings,
    time: Option<Arc<dyn Time>>,
}

impl BrokerBuilder {
    /// The broker.
    pub fn build(self) -> Broker {
        Broker::from_parts(self.settings, self.time)
    }

    /// The clock that the broker and the consumers on it go by. Default: tokio's.
    pub fn time(mut self, time: Arc<dyn Time>) -> Self {
        self.time = Some(time);
        self
    }

    /// How groups rebalance. Default: [`Protocol::Eager`].
    ///
    /// ```
    /// # use kpipe_test::{Broker, Protocol};
    /// let broker = Broker::builder().protocol(Protocol::Cooperative).build();
    /// # let _ = broker;
    /// ```
    pub fn protocol(mut self, protocol: Protocol) -> Self {
        self.settings.protocol = protocol;
        self
    }

    /// How eager groups deal out partitions. Default: [`Assignor::Range`]. The others are sticky.
    ///
    /// ```
    /// # use kpipe_test::{Assignor, Broker};
    /// let broker = Broker::builder().assignor(Assignor::RoundRobin).build();
    /// # let _ = broker;
    /// ```
    pub fn assignor(mut self, assignor: Assignor) -> Self {
        self.settings.assignor = assignor;
        self
    }

    /// How many bytes a record may have: key, value and headers. Default: 1,048,588, as in Kafka.
    ///
    /// ```
    /// # use kpipe_test::Broker;
    /// let broker = Broker::builder().max_message_bytes(1_000).build();
    /// # let _ = broker;
    /// ```
    pub fn max_message_bytes(mut self, bytes: usize) -> Self {
        self.settings.max_message_bytes = bytes;
        self
    }

    /// Makes a topic that nobody made, with so many partitions (at least 1), when somebody sends to it
    /// or subscribes to it. Default: an unknown topic is refused.
    ///
    /// ```
    /// # use kpipe_test::Broker;
    /// let broker = Broker::builder().create_topics(3).build();
    /// # let _ = broker;
    /// ```
    pub fn create_topics(mut self, partitions: i32) -> Self {
        self.settings.create_topics = Some(partitions.max(1));
        self
    }

    /// After what time out of reach a member loses its partitions. Default: 45 s.
    ///
    /// ```
    /// # use kpipe_test::Broker;
    /// let broker = Broker::builder().session_timeout(std::time::Duration::from_secs(6)).build();
    /// # let _ = broker;
    /// ```
    pub fn session_timeout(mut self, timeout: Duration) -> Self {
        self.settings.session_timeout = timeout;
        self
    }

    /// How long the group waits for a member to give back what it asked for, before it goes on without
    /// it (`max.poll.interval.ms`). Default: 300 s.
    ///
    /// ```
    /// # use kpipe_test::Broker;
    /// let broker = Broker::builder().rebalance_timeout(std::time::Duration::from_secs(10)).build();
    /// # let _ = broker;
    /// ```
    pub fn rebalance_timeout(mut self, timeout: Duration) -> Self {
        self.settings.rebalance_timeout = timeout;
        self
    }

    /// How long it takes a member to hear that the group rebalances or has expelled it, unless the answer
    /// to a commit tells it. Default: none; Kafka's is up to 3 s.
    ///
    /// ```
    /// # use kpipe_test::Broker;
    /// let broker = Broker::builder().heartbeat(std::time::Duration::from_secs(3)).build();
    /// # let _ = broker;
    /// ```
    pub fn heartbeat(mut self, heartbeat: Duration) -> Self {
        self.settings.heartbeat = heartbeat;
        self
    }

    /// How long a group without members waits for more than the first, so that members that start
    /// together share from the beginning. Default: none; Kafka's is 3 s.
    ///
    /// ```
    /// # use kpipe_test::Broker;
    /// let broker =
    ///     Broker::builder().first_rebalance_delay(std::time::Duration::from_secs(3)).build();
    /// # let _ = broker;
    /// ```
    pub fn first_rebalance_delay(mut self, delay: Duration) -> Self {
        self.settings.first_rebalance_delay = delay;
        self
    }

    /// How many records of a partition lie prefetched at most, from 1. Default: 1,000. The byte budget
    /// of the consumer limits it too.
    ///
    /// ```
    /// # use kpipe_test::Broker;
    /// let broker = Broker::builder().prefetch_records(10).build();
    /// # let _ = broker;
    /// ```
    pub fn prefetch_records(mut self, records: usize) -> Self {
        self.settings.prefetch_records = records.max(1);
        self
    }

    /// How long a producer waits for a broker that is away before it gives a record up. Default: 300 s.
    ///
    /// ```
    /// # use kpipe_test::Broker;
    /// let broker = Broker::builder().delivery_timeout(std::time::Duration::from_secs(30)).build();
    /// # let _ = broker;
    /// ```
    pub fn delivery_timeout(mut self, timeout: Duration) -> Self {
        self.settings.delivery_timeout = timeout;
        self
    }

    /// Whether [`Broker::history`] is kept. Default: yes.
    ///
    /// ```
    /// # use kpipe_test::Broker;
    /// assert!(Broker::builder().keep_history(false).build().history().is_empty());
    /// ```
    pub fn keep_history(mut self, keep: bool) -> Self {
        self.settings.keeps_history = keep;
        self
    }
}

impl fmt::Debug for BrokerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BrokerBuilder").field("settings", &self.settings).finish_non_exhaustive()
    }
}
