//! Producers, and what they are told.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::FutureExt;
use futures::future::{BoxFuture, pending, ready};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::Broker;
use super::fault::SendFault;
use super::history::What;
use super::state::State;
use super::timers::Timer;
use crate::record::TestRecord;

/// Where a record was written, partition and offset, or why it is not known to be.
pub type Delivery = Result<(i32, i64), ProduceError>;

/// Why a record is not known to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProduceError {
    kind: ProduceErrorKind,
    message: String,
}

/// What a [`ProduceError`] is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ProduceErrorKind {
    /// The record has more bytes than the broker takes. Not written.
    TooLarge,
    /// There is no such topic or partition. Not written.
    UnknownTopic,
    /// Another producer took this one's place. Not written.
    Fenced,
    /// Too many records wait for their acknowledgement. Not written; may succeed later.
    QueueFull,
    /// No acknowledgement came in time: written or not.
    TimedOut,
}

impl ProduceError {
    pub(super) fn new(kind: ProduceErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    fn timed_out() -> Self {
        Self::new(ProduceErrorKind::TimedOut, "no acknowledgement came in time")
    }

    /// What the error is about.
    pub fn kind(&self) -> ProduceErrorKind {
        self.kind
    }
}

impl fmt::Display for ProduceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ProduceError {}

/// Writes to a [`Broker`] as a client does: what is written is acknowledged, or not.
#[derive(Clone, Debug)]
pub struct Producer {
    broker: Broker,
    /// Records sent and not answered.
    waiting: Arc<AtomicUsize>,
    queue: usize,
}

/// Records that have not arrived.
#[derive(Debug, Default)]
pub(super) struct Writes {
    made: u64,
    under_way: BTreeMap<u64, Write>,
}

#[derive(Debug)]
struct Write {
    topic: String,
    record: TestRecord,
    reply: oneshot::Sender<Delivery>,
    /// Whether it only waits for the broker to come back.
    parked: bool,
    /// When the producer gives it up.
    until: Instant,
}

impl Broker {
    /// A producer.
    pub fn producer(&self) -> Producer {
        Producer { broker: self.clone(), waiting: Arc::default(), queue: usize::MAX }
    }
}

impl Producer {
    /// How many records may wait for their acknowledgement; more are refused with
    /// [`ProduceErrorKind::QueueFull`]. Default: any number.
    ///
    /// ```
    /// # use kpipe_test::Broker;
    /// let producer = Broker::new().producer().queue(100);
    /// # let _ = producer;
    /// ```
    #[must_use]
    pub fn queue(mut self, records: usize) -> Self {
        self.queue = records;
        self
    }

    /// Sends a record. The future says where it was written once that is acknowledged.
    ///
    /// # Errors
    /// See [`ProduceErrorKind`].
    ///
    /// # Cancel safety
    /// The record is on its way when this returns; whoever drops the future only does not learn what
    /// became of it.
    pub fn send(&self, topic: &str, record: TestRecord) -> BoxFuture<'static, Delivery> {
        let waiting = Waiting::new(&self.waiting);
        let delivery = if waiting.before >= self.queue {
            let text = format!("{} records wait for their acknowledgement", waiting.before);
            ready(self.broker.lock().refuse_send(topic, ProduceErrorKind::QueueFull, text)).boxed()
        } else {
            self.broker.send(topic, record)
        };
        async move {
            let _waiting = waiting;
            delivery.await
        }
        .boxed()
    }
}

/// Counts one record as sent and not answered.
struct Waiting {
    all: Arc<AtomicUsize>,
    before: usize,
}

impl Waiting {
    fn new(all: &Arc<AtomicUsize>) -> Self {
        Self { before: all.fetch_add(1, Ordering::Relaxed), all: all.clone() }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.all.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Broker {
    fn send(&self, topic: &str, record: TestRecord) -> BoxFuture<'static, Delivery> {
        let mut state = self.lock();
        let now = state.now;
        let fault = state.faults.on_send(topic);
        let away = state.outages.broker_until(now);
        match fault {
            SendFault::None => match away {
                None => ready(state.write(topic, &record)).boxed(),
                Some(back) => self.send_later(&mut state, back, true, topic, record),
            },
            SendFault::Late(by) => self.send_later(&mut state, now + by, false, topic, record),
            SendFault::Refuse(kind) => {
                ready(state.refuse_send(topic, kind, "scripted".to_owned())).boxed()
            }
            SendFault::AckLate(by) => {
                let delivery = state.write(topic, &record);
                self.sleep_until(now + by).map(|()| delivery).boxed()
            }
            SendFault::AckHeld => {
                let delivery = state.write(topic, &record);
                let released = state.faults.hold();
                async move {
                    match released.await {
                        Ok(()) => delivery,
                        Err(_) => pending().await,
                    }
                }
                .boxed()
            }
            SendFault::AckLost(after) => {
                let delivery = state.write(topic, &record);
                // Only what was written can lose its acknowledgement.
                let told = delivery.and_then(|_| Err(ProduceError::timed_out()));
                self.sleep_until(now + after).map(|()| told).boxed()
            }
            SendFault::Lost(after) => {
                let kind = ProduceErrorKind::TimedOut;
                let told = state.refuse_send(topic, kind, ProduceError::timed_out().message);
                self.sleep_until(now + after).map(|()| told).boxed()
            }
        }
    }

    fn send_later(
        &self,
        state: &mut State,
        at: Instant,
        parked: bool,
        topic: &str,
        record: TestRecord,
    ) -> BoxFuture<'static, Delivery> {
        let (reply, answer) = oneshot::channel();
        let until = state.now + state.settings.delivery_timeout;
        state.writes.made += 1;
        let number = state.writes.made;
        let write = Write { topic: topic.to_owned(), record, reply, parked, until };
        state.writes.under_way.insert(number, write);
        state.at(at.min(until), Timer::Write(number));
        let broker = self.clone();
        async move {
            let delivery = broker.answered(answer).await;
            delivery.unwrap_or_else(|| Err(ProduceError::timed_out()))
        }
        .boxed()
    }
}

impl State {
    /// Writes what waited for the broker.
    pub(super) fn write_parked(&mut self) {
        let parked = self.writes.under_way.iter().filter(|(_, write)| write.parked);
        for number in parked.map(|(number, _)| *number).collect::<Vec<_>>() {
            self.write_arrives(number);
        }
    }

    pub(super) fn write_arrives(&mut self, number: u64) {
        let Some(mut write) = self.writes.under_way.remove(&number) else { return };
        let delivery = if self.now >= write.until {
            self.refuse_send(
                &write.topic,
                ProduceErrorKind::TimedOut,
                ProduceError::timed_out().message,
            )
        } else if let Some(back) = self.outages.broker_until(self.now) {
            let at = back.min(write.until);
            write.parked = true;
            self.writes.under_way.insert(number, write);
            self.at(at, Timer::Write(number));
            return;
        } else {
            self.write(&write.topic, &write.record)
        };
        // Whoever sent it may have stopped waiting.
        let _ = write.reply.send(delivery);
    }

    fn write(&mut self, topic: &str, record: &TestRecord) -> Delivery {
        let delivery = self.append(topic, record);
        if let Err(error) = &delivery {
            self.saw_refused(topic, error.kind);
        }
        delivery
    }

    fn refuse_send(&mut self, topic: &str, kind: ProduceErrorKind, text: String) -> Delivery {
        self.saw_refused(topic, kind);
        Err(ProduceError::new(kind, text))
    }

    fn saw_refused(&mut self, topic: &str, kind: ProduceErrorKind) {
        self.saw(|| What::Refused { topic: topic.into(), kind });
    }
}
