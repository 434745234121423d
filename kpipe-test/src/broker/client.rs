//! What a consumer connects through.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, ready};
use kpipe_core::source::{Connect, Source, Subscription, Trace};
use kpipe_core::{Error, ErrorKind};

use super::Broker;
use super::member::{Member, MemberId};
use super::queue::Limits;
use super::source::Membership;
use super::state::State;

/// Connects a consumer to a [`Broker`]: it takes the place of `Kafka`.
///
/// The start does not wait: a broker that is away is joined once it is back. A consumer of a topic that
/// does not exist does not start ([`ErrorKind::UnknownTopic`]).
///
/// ```
/// # use kpipe_test::Broker;
/// let broker = Broker::new();
/// let client = broker.client().named("left").rebalance_timeout(std::time::Duration::from_secs(10));
/// # let _ = client;
/// ```
#[must_use = "a client does nothing until a consumer starts on it"]
pub struct Client {
    broker: Broker,
    name: Option<String>,
    rebalance_timeout: Option<Duration>,
    trace: Option<Arc<dyn Trace>>,
}

impl Broker {
    /// What a consumer connects through; one for each member.
    pub fn client(&self) -> Client {
        Client { broker: self.clone(), name: None, rebalance_timeout: None, trace: None }
    }
}

impl Client {
    /// How scripts and the history call the member. Default: `member-1` for the first, and so on. A name
    /// may come again, for instance after a crash; scripts then mean the last one.
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// How long the group waits for this member; default: the broker's
    /// [setting](super::BrokerBuilder::rebalance_timeout).
    pub fn rebalance_timeout(mut self, timeout: Duration) -> Self {
        self.rebalance_timeout = Some(timeout);
        self
    }

    /// Who is told what the runtime does with each record.
    pub fn traced(mut self, trace: Arc<dyn Trace>) -> Self {
        self.trace = Some(trace);
        self
    }
}

impl Connect for Client {
    fn connect(
        self: Box<Self>,
        subscription: Subscription,
    ) -> BoxFuture<'static, Result<Box<dyn Source>, Error>> {
        let Self { broker, name, rebalance_timeout, trace } = *self;
        let mut state = broker.lock();
        let rebalance_timeout = rebalance_timeout.unwrap_or(state.settings.rebalance_timeout);
        let entered = state.enter(name, rebalance_timeout, &subscription);
        drop(state);
        let id = match entered {
            Ok(id) => id,
            Err(error) => return ready(Err(error)).boxed(),
        };
        let source = Membership::new(broker, id, trace, rebalance_timeout);
        ready(Ok(Box::new(source) as Box<dyn Source>)).boxed()
    }
}

impl State {
    /// A client that joins the group as soon as it can.
    fn enter(
        &mut self,
        name: Option<String>,
        rebalance_timeout: Duration,
        subscription: &Subscription,
    ) -> Result<MemberId, Error> {
        if let Some(topic) = subscription.topics.iter().find(|topic| !self.make_topic(topic)) {
            let message = format!("topic `{topic}` does not exist");
            return Err(Error::new(ErrorKind::UnknownTopic, message));
        }
        let topics = subscription.topics.iter().filter_map(|topic| self.topics.get(topic));
        let partitions: u64 = topics.map(|topic| topic.partitions() as u64).sum();
        let id = self.members.len();
        let name = name.unwrap_or_else(|| format!("member-{}", id + 1));
        let group = self.group(&subscription.group_id);
        let limits = Limits {
            records: self.settings.prefetch_records,
            bytes: (subscription.prefetch_bytes / partitions.max(1)).max(1),
        };
        self.members.push(Member::new(name.into(), group, subscription, rebalance_timeout, limits));
        self.join(id);
        Ok(id)
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("name", &self.name).finish_non_exhaustive()
    }
}
