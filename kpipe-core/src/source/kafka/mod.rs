//! Apache Kafka through librdkafka.
//!
//! [`Kafka`] says where the brokers are and how to reach them. Its connection is one member of the
//! consumer group with
//!
//! - a thread that polls the group whatever handlers do (G3), and says when it last did
//!   ([`Traffic::last_poll`]);
//! - a queue for each assigned partition, drained or left alone, never paused: pausing would throw
//!   away what was fetched (G5);
//! - limits on what is fetched ahead, derived from the byte budget (G4);
//! - rebalances that are written down as events and carried out later, so that a revoke can be
//!   drained while the group goes on being polled;
//! - commits that report what became of each partition;
//! - a close that takes place on a thread of its own (G10).
//!
//! librdkafka's log lines reach `tracing` with the target `kpipe::librdkafka`: warnings and errors
//! always, more if a subscriber wants more. What it does at each level is its option `debug`.

mod addresses;
mod assign;
mod client;
mod close;
mod commit;
mod errors;
mod ffi;
mod group;
mod limits;
mod offsets;
mod options;
mod poll;
mod sequence;
mod start;
mod starts;
mod stats;
mod wire;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc as blocking;
use std::thread;
use std::time::Duration;

use futures::future::BoxFuture;
use rdkafka::consumer::{BaseConsumer, Consumer};
use tokio::sync::mpsc::{self, UnboundedReceiver};
use tokio::sync::oneshot;

use self::assign::Assigner;
use self::client::{Hook, LOG_TARGET, Notice, Shared};
use self::close::Membership;
use self::errors::Trouble;
use self::ffi::Client;
#[cfg(feature = "rooms")]
#[doc(hidden)]
pub use self::ffi::Drain;
use self::options::{Options, config_error};
use super::{
    Arrivals, Assignment, Closed, CommitError, CommitErrorKind, CommitOffset, Connect, Event,
    Source, SourceError, Subscription, Traffic,
};
use crate::error::{Error, ErrorKind};
use crate::record::TopicPartition;

/// Where the brokers are and how to reach them.
///
/// ```
/// use std::time::Duration;
/// use kpipe_core::source::kafka::Kafka;
///
/// let kafka = Kafka::brokers("broker-1:9092,broker-2:9092")
///     .option("client.rack", "eu-1a")
///     .option("group.protocol", "consumer")
///     .connect_timeout(Duration::from_secs(5));
/// # let _ = kafka;
/// ```
///
/// # Options
///
/// Any option of librdkafka may be given; it names the ones that it does not know. KPipe has defaults
/// of its own for the limits on what is fetched ahead (`queued.max.messages.kbytes`,
/// `queued.min.messages`, `fetch.message.max.bytes`: shares of the byte budget, G4),
/// `fetch.queue.backoff.ms` (10), `fetch.wait.max.ms` (50 or 100), `statistics.interval.ms` (1000)
/// and `client.id` (`kpipe`). All of them can be overridden, the first two by lower values only.
///
/// Refused, with a reason, is what would undo a promise or has a place of its own: committing and
/// storing offsets (`enable.auto.commit`, `auto.commit.interval.ms`, `enable.auto.offset.store`),
/// `auto.offset.reset` (see [`StartAt`](super::StartAt)), `enable.partition.eof`, `group.id`,
/// `bootstrap.servers`, `allow.auto.create.topics`; and with `group.protocol=consumer` what the broker
/// decides there: `session.timeout.ms`, `heartbeat.interval.ms`, `partition.assignment.strategy`.
///
/// # Who commits
///
/// KPipe does, and nothing else: it commits, for each partition, the offset below which every record
/// is finished (G1), on [`commit_interval`](crate::Consumer::commit_interval), when a partition is
/// taken away and at a shutdown. A client that commits or stores offsets by itself commits what was
/// delivered, finished or not, which is why the options for that are refused.
///
/// Passwords, keys and secrets are shown neither by `Debug` nor in errors.
///
/// # Errors
///
/// A `session.timeout.ms` that the brokers do not accept (by default they want 6 s to 30 min) is known
/// only once the group answers: it ends the consumer shortly after its start, with
/// [`ErrorKind::Client`].
///
/// Starting fails with [`ErrorKind::Config`] for an option that is refused, unknown or out of range
/// and for a feature that this build lacks, [`ErrorKind::Unreachable`] if no broker answers within the
/// [`connect_timeout`](Self::connect_timeout), [`ErrorKind::Unauthorized`] as soon as one refuses the
/// credentials, and [`ErrorKind::UnknownTopic`] if a topic does not exist.
#[derive(Clone, Debug)]
pub struct Kafka {
    brokers: String,
    options: Options,
    connect_timeout: Duration,
}

impl Kafka {
    /// Names the brokers to begin with: `host:port`, separated by commas, the port 9092 if there is
    /// none. One that is up is enough; it tells of the others. No scheme: encryption and
    /// authentication are options (`security.protocol`).
    pub fn brokers(addresses: impl Into<String>) -> Self {
        Self {
            brokers: addresses.into(),
            options: Options::default(),
            connect_timeout: Duration::from_secs(10),
        }
    }

    /// Sets an option of librdkafka; the last value given for a name counts. See [`Kafka`] for those
    /// that are refused.
    ///
    /// ```
    /// # use kpipe_core::source::kafka::Kafka;
    /// let kafka = Kafka::brokers("localhost:9092").option("isolation.level", "read_uncommitted");
    /// # let _ = kafka;
    /// ```
    pub fn option(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.options.set(name.into(), value.into());
        self
    }

    /// Sets several options at once, for instance from a file.
    ///
    /// ```
    /// # use kpipe_core::source::kafka::Kafka;
    /// let kafka = Kafka::brokers("localhost:9092")
    ///     .options([("session.timeout.ms", "6000"), ("client.id", "billing-1")]);
    /// # let _ = kafka;
    /// ```
    pub fn options<N: Into<String>, V: Into<String>>(
        mut self,
        options: impl IntoIterator<Item = (N, V)>,
    ) -> Self {
        for (name, value) in options {
            self.options.set(name.into(), value.into());
        }
        self
    }

    /// Sets how long the start waits for a broker to answer. Default: 10 s.
    ///
    /// ```
    /// # use kpipe_core::source::kafka::Kafka;
    /// let kafka = Kafka::brokers("localhost:9092").connect_timeout(std::time::Duration::from_secs(2));
    /// # let _ = kafka;
    /// ```
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }
}

impl Connect for Kafka {
    /// Cancel safe: a connection that nobody waits for any more is closed again.
    fn connect(
        self: Box<Self>,
        subscription: Subscription,
    ) -> BoxFuture<'static, Result<Box<dyn Source>, Error>> {
        let connected = on_thread("kpipe-connect", move || join(*self, &subscription));
        Box::pin(async move {
            match connected.await {
                Ok(connected) => Ok(Box::new(connected?) as Box<dyn Source>),
                Err(_) => Err(Error::new(ErrorKind::Client, "the connecting thread ended")),
            }
        })
    }
}

/// Checks everything, then joins the group.
fn join(kafka: Kafka, subscription: &Subscription) -> Result<Member, Error> {
    let Kafka { brokers, options, connect_timeout } = kafka;
    addresses::check(&brokers)?;
    let options = options.check(subscription)?;
    // Whatever librdkafka can find wrong without a broker is reported without one.
    let unlimited = options.to_join(&brokers, subscription, 1)?;
    unlimited.create_native_config().map_err(config_error)?;
    let topics = &subscription.topics;
    let partitions = start::look(&options.to_look(&brokers), &brokers, topics, connect_timeout)?;
    let config = options.to_join(&brokers, subscription, partitions)?;

    let (sender, notices) = mpsc::unbounded_channel();
    let shared = Shared::new(topics.clone(), sender);
    let consumer: BaseConsumer<Hook> =
        config.create_with_context(Hook::new(shared.clone())).map_err(config_error)?;
    let (gone_sender, gone) = blocking::channel();
    let client = Client::new(consumer, gone_sender)
        .ok_or_else(|| Error::new(ErrorKind::Client, "librdkafka made no queue for commits"))?;
    let client = Arc::new(client);
    let membership = Membership {
        assigner: Arc::new(Assigner::new(client.clone(), shared.clone(), subscription.start_at)),
        client,
        shared,
        commits: Arc::default(),
        stop_polling: Arc::new(AtomicBool::new(false)),
        keeps_its_place: options.keeps_its_place,
        threads: Vec::new(),
    };
    let mut member = Member {
        membership: Some(membership),
        notices,
        held_back: Vec::new(),
        gone: Some(gone),
        max_poll_interval: options.max_poll_interval,
    };
    member.start_threads()?;
    let names: Vec<&str> = topics.iter().map(|topic| &**topic).collect();
    member.client().consumer().subscribe(&names).map_err(|error| {
        Error::new(ErrorKind::Client, format!("subscribing to {names:?}: {error}"))
    })?;
    Ok(member)
}

/// A member of the group.
struct Member {
    /// Taken by the close.
    membership: Option<Membership>,
    notices: UnboundedReceiver<Notice>,
    /// Positions that were lost while a revoke was open.
    held_back: Vec<Notice>,
    gone: Option<blocking::Receiver<()>>,
    max_poll_interval: Duration,
}

impl Member {
    fn start_threads(&mut self) -> Result<(), Error> {
        let membership = self.membership_mut();
        let (client, shared) = (membership.client.clone(), membership.shared.clone());
        let stop = membership.stop_polling.clone();
        let poll = move || poll::run(&client, &shared, &stop);
        let (client, commits) = (membership.client.clone(), membership.commits.clone());
        let commit = move || commits.run(&client);
        for thread in [named("kpipe-poll", poll), named("kpipe-commit", commit)] {
            let thread = thread
                .map_err(|error| Error::new(ErrorKind::Client, "no thread").caused_by(error))?;
            self.membership_mut().threads.push(thread);
        }
        Ok(())
    }

    fn membership(&self) -> &Membership {
        self.membership.as_ref().expect("only close and drop take it, and both end the source")
    }

    fn membership_mut(&mut self) -> &mut Membership {
        self.membership.as_mut().expect("only close and drop take it, and both end the source")
    }

    fn client(&self) -> &Arc<Client> {
        &self.membership().client
    }

    /// What a notice means now.
    fn judge(&mut self, notice: Notice) -> Option<Event> {
        let (place, split, trouble, text) = match notice {
            Notice::Event(event) => return Some(event),
            Notice::Trouble { place, split, trouble, text } => (place, split, trouble, text),
        };
        // Of a queue that the partition no longer has: whatever was wrong is over.
        if !self.client().is_current(&place, split) {
            return None;
        }
        let message = errors::explain(&text);
        match trouble {
            Trouble::None => None,
            Trouble::Passing => Some(Event::Error(SourceError {
                message: format!("{place}: {message}"),
                fatal: false,
            })),
            Trouble::Hole => Some(Event::Failed(place, SourceError { message, fatal: false })),
            Trouble::Position { reset } => {
                {
                    let mut group = self.membership().shared.group.lock();
                    if !group.is_revoking() {
                        tracing::warn!(target: LOG_TARGET, partition = %place, "position lost: {message}");
                        if reset {
                            group.reset.insert(place.clone());
                        }
                        return Some(Event::PositionLost(place));
                    }
                }
                // Giving it a new position would be taken for the answer to the revoke.
                self.held_back.push(Notice::Trouble { place, split, trouble, text });
                None
            }
        }
    }
}

impl Source for Member {
    fn next_event(&mut self) -> BoxFuture<'_, Event> {
        Box::pin(async move {
            loop {
                match self.notices.recv().await {
                    Some(notice) => {
                        if let Some(event) = self.judge(notice) {
                            return event;
                        }
                    }
                    // The membership holds a sender.
                    None => std::future::pending().await,
                }
            }
        })
    }

    /// Not cancel safe: without its answer nobody has the partitions' queues.
    fn assign(
        &mut self,
        partitions: Vec<(TopicPartition, Arrivals)>,
    ) -> BoxFuture<'static, Vec<Assignment>> {
        let assigner = self.membership().assigner.clone();
        let shared = self.membership().shared.clone();
        let assigned = on_thread("kpipe-assign", move || assigner.assign(partitions));
        Box::pin(async move {
            match assigned.await {
                Ok(assigned) => assigned,
                Err(_) => {
                    report_missing_thread(&shared);
                    Vec::new()
                }
            }
        })
    }

    /// A call that is dropped half-way is still carried out.
    fn unassign(&mut self, partitions: Vec<TopicPartition>) -> BoxFuture<'_, ()> {
        let assigner = self.membership().assigner.clone();
        let unassigned = on_thread("kpipe-assign", move || assigner.unassign(partitions));
        Box::pin(async move {
            if unassigned.await.is_err() {
                report_missing_thread(&self.membership().shared);
            }
            for notice in self.held_back.drain(..) {
                self.membership.as_ref().inspect(|membership| membership.shared.notify(notice));
            }
        })
    }

    fn commit(
        &self,
        offsets: Vec<CommitOffset>,
    ) -> BoxFuture<'static, Vec<Result<(), CommitError>>> {
        let partitions = offsets.len();
        if partitions == 0 {
            return Box::pin(std::future::ready(Vec::new()));
        }
        let answers = self.membership().commits.send(self.client(), offsets);
        Box::pin(async move {
            answers.await.unwrap_or_else(|_| {
                let message = "the client closed before the broker answered".to_owned();
                vec![Err(CommitError { kind: CommitErrorKind::Retry, message }); partitions]
            })
        })
    }

    fn log_ends(&self, partitions: Vec<TopicPartition>) -> BoxFuture<'static, Vec<Option<i64>>> {
        let unknown = vec![None; partitions.len()];
        if partitions.is_empty() {
            return Box::pin(std::future::ready(unknown));
        }
        let client = self.client().clone();
        let ends = on_thread("kpipe-ends", move || offsets::ends(&client, partitions));
        Box::pin(async move { ends.await.unwrap_or(unknown) })
    }

    fn rebalance_timeout(&self) -> Duration {
        self.max_poll_interval
    }

    fn traffic(&self) -> Traffic {
        self.membership().shared.traffic()
    }

    fn close(mut self: Box<Self>, within: Duration) -> BoxFuture<'static, Closed> {
        let (Some(membership), Some(gone)) = (self.membership.take(), self.gone.take()) else {
            return Box::pin(std::future::ready(Closed::Completely));
        };
        membership.leave_detached();
        // On a thread, so that it works in any runtime and in none.
        let closed = on_thread("kpipe-closed", move || close::wait(&gone, within));
        Box::pin(async move { closed.await.unwrap_or(Closed::InBackground) })
    }
}

/// The group waits for something that did not happen: the membership cannot be kept.
fn report_missing_thread(shared: &Shared) {
    let message = "a rebalance was not carried out: there was no thread for it, or it panicked";
    shared.report(message, true);
}

/// Leaves the group like [`Source::close`], without waiting for it (C36).
impl Drop for Member {
    fn drop(&mut self) {
        if let Some(membership) = self.membership.take() {
            membership.leave_detached();
        }
    }
}

/// Runs something that blocks. The answer is an error only if there is no thread for it.
fn on_thread<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> oneshot::Receiver<T> {
    let (reply, answer) = oneshot::channel();
    // A failure drops the sender, which is the answer.
    let _ = named(name, move || {
        let _ = reply.send(work());
    });
    answer
}

fn named(
    name: &str,
    body: impl FnOnce() + Send + 'static,
) -> std::io::Result<thread::JoinHandle<()>> {
    thread::Builder::new().name(name.into()).spawn(body)
}
