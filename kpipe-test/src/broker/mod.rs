//! A broker in memory that behaves as Kafka does where it matters to a consumer.

mod assignor;
mod client;
mod commit;
mod fault;
mod group;
mod history;
mod log;
mod member;
mod outage;
mod partitioner;
mod producer;
mod queue;
mod rebalance;
mod script;
mod settings;
mod source;
mod start;
mod state;
mod timers;
mod topic;

use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;
use kpipe_core::source::Time;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::oneshot;
use tokio::time::Instant;

pub use self::assignor::Assignor;
pub use self::client::Client;
pub use self::commit::Refused;
pub use self::fault::{AssignFault, Chances, CommitFault, SendFault};
pub use self::group::Protocol;
pub use self::history::{Seen, What};
pub use self::producer::{Delivery, ProduceError, ProduceErrorKind, Producer};
pub use self::settings::BrokerBuilder;
use self::settings::Settings;
use self::state::State;

/// A broker in memory: topics, consumer groups, committed offsets, producers, and faults on demand.
///
/// Consumers join through [`client`](Self::client), which takes the place of `Kafka`. Cloning gives
/// another handle to the same broker.
///
/// It has no threads and no time of its own: whatever takes time happens, at its time on the broker's
/// clock, when somebody next calls the broker or waits for it. The same calls in the same order give the
/// same result.
///
/// ```
/// use kpipe_core::{Consumer, Record};
/// use kpipe_test::{Broker, TestRecord};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let broker = Broker::new();
/// broker.create_topic("orders", 3);
/// for order in 0..10 {
///     broker.append("orders", TestRecord::key(format!("customer-{order}")))?;
/// }
/// let consumer =
///     Consumer::new("billing").topic("orders", async |_: Record| Ok(())).start(broker.client()).await?;
/// tokio::time::sleep(std::time::Duration::from_secs(10)).await;
/// consumer.shutdown(std::time::Duration::from_secs(20)).await?;
/// let committed: i64 = (0..3).filter_map(|p| broker.committed("billing", "orders", p)).sum();
/// assert_eq!(committed, 10);
/// # Ok(())
/// # }
/// ```
///
/// # What it is like
///
/// - A group rebalances by one of three [protocols](Protocol); a member that does not give back in time
///   is expelled, loses what it had, and joins again by itself. It is told so once it has answered the
///   revoke.
/// - Commits are judged by member and generation, not by who owns the partition; metadata may have up to
///   4,096 bytes.
/// - A queue holds what was prefetched. While a member still has partitions to give back, none of its
///   queues yields anything, and afterwards what they had prefetched is fetched again: as librdkafka does.
/// - A position outside of its log shows once the queue is empty.
///
/// # What it is not like
///
/// Records are there as soon as they are written; there are no transactions (their markers can be had by
/// [`skip`](Self::skip)), no replicas, no access control, and no static members.
#[derive(Clone)]
pub struct Broker {
    inner: Arc<Inner>,
}

struct Inner {
    time: Option<Arc<dyn Time>>,
    state: Mutex<State>,
}

impl Broker {
    /// One without topics, with the default settings.
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// One with other settings.
    pub fn builder() -> BrokerBuilder {
        BrokerBuilder::default()
    }

    /// One that goes by this clock, as its consumers will.
    pub fn with_time(time: Arc<dyn Time>) -> Self {
        Self::builder().time(time).build()
    }

    fn from_parts(settings: Settings, time: Option<Arc<dyn Time>>) -> Self {
        let now = now(time.as_deref());
        Self { inner: Arc::new(Inner { time, state: Mutex::new(State::new(settings, now)) }) }
    }

    /// What the broker saw since it was made, or since it was last [taken](Self::take_history).
    pub fn history(&self) -> Vec<Seen> {
        self.lock().history.seen().to_vec()
    }

    /// Takes what the broker saw.
    pub fn take_history(&self) -> Vec<Seen> {
        self.lock().history.take()
    }

    /// How many things the broker saw, whether it keeps them or not.
    pub fn steps(&self) -> usize {
        self.lock().history.steps()
    }

    /// Everything that was due has happened when it returns.
    fn lock(&self) -> MutexGuard<'_, State> {
        let now = self.now();
        let mut state = self.inner.state.lock();
        state.tick(now);
        state
    }

    fn now(&self) -> Instant {
        now(self.inner.time.as_deref())
    }

    /// Waits for an answer, and lets happen meanwhile what comes due: perhaps nobody else calls the broker.
    /// `None` if nobody is going to answer.
    async fn answered<T>(&self, mut answer: oneshot::Receiver<T>) -> Option<T> {
        loop {
            let due = self.lock().timers.first();
            let Some(due) = due else { return answer.await.ok() };
            tokio::select! {
                biased;
                answer = &mut answer => return answer.ok(),
                () = self.sleep_until(due) => {}
            }
        }
    }

    fn sleep_until(&self, at: Instant) -> BoxFuture<'static, ()> {
        match &self.inner.time {
            Some(time) => time.sleep_until(at),
            None => Box::pin(tokio::time::sleep_until(at)),
        }
    }
}

fn now(time: Option<&dyn Time>) -> Instant {
    time.map_or_else(Instant::now, Time::now)
}

impl Default for Broker {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Broker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.inner.state.lock();
        f.debug_struct("Broker")
            .field("topics", &state.topics.keys().collect::<Vec<_>>())
            .field("members", &state.members.iter().map(|member| &member.name).collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}
