//! What librdkafka tells us on the poll thread: rebalances, errors, log lines, statistics.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rdkafka::TopicPartitionList;
use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext, RebalanceProtocol};
use rdkafka::error::KafkaError;
use rdkafka::types::{RDKafkaErrorCode as Code, RDKafkaRespErr};
use tokio::sync::mpsc::UnboundedSender;

use super::errors::{self, Trouble};
use super::group::{Group, Kind};
use super::stats::Fetched;
use crate::record::TopicPartition;
use crate::source::{Event, SourceError, Traffic};
use crate::sync::Mutex;

/// Under which librdkafka's own lines reach `tracing`.
pub(super) const LOG_TARGET: &str = "kpipe::librdkafka";

/// What the poll thread, the partition queues and the source share.
pub(super) struct Shared {
    topics: Vec<Arc<str>>,
    notices: UnboundedSender<Notice>,
    pub(super) group: Mutex<Group>,
    last_error: Mutex<Option<String>>,
    refusal: Mutex<Option<String>>,
    fetched: Mutex<Fetched>,
    records_delivered: AtomicU64,
    bytes_delivered: AtomicU64,
    started: Instant,
    /// Milliseconds since `started`, plus one; 0 is never.
    last_poll: AtomicU64,
}

/// What happened, before it is known whether it still matters.
#[derive(Debug)]
pub(super) enum Notice {
    Event(Event),
    /// Something is wrong with a partition's queue, or was with one that it no longer has.
    Trouble {
        place: TopicPartition,
        split: u64,
        trouble: Trouble,
        text: String,
    },
}

impl Shared {
    pub(super) fn new(topics: Vec<Arc<str>>, notices: UnboundedSender<Notice>) -> Arc<Self> {
        Arc::new(Self {
            topics,
            notices,
            group: Mutex::default(),
            last_error: Mutex::default(),
            refusal: Mutex::default(),
            fetched: Mutex::default(),
            records_delivered: AtomicU64::new(0),
            bytes_delivered: AtomicU64::new(0),
            started: Instant::now(),
            last_poll: AtomicU64::new(0),
        })
    }

    /// Unbounded, because the group must be polled whoever listens: events are few, one for each
    /// rebalance or error.
    pub(super) fn notify(&self, notice: Notice) {
        // Nobody listens once the source is closing, and then nothing matters.
        let _ = self.notices.send(notice);
    }

    /// An error of the client that concerns no partition, or many.
    pub(super) fn report(&self, message: &str, fatal: bool) {
        let message = message.to_owned();
        self.notify(Notice::Event(Event::Error(SourceError { message, fatal })));
    }

    pub(super) fn delivered(&self, records: u64, bytes: u64) {
        self.records_delivered.fetch_add(records, Ordering::Relaxed);
        self.bytes_delivered.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn polled(&self) {
        let now = self.started.elapsed().as_millis() as u64;
        self.last_poll.store(now + 1, Ordering::Relaxed);
    }

    pub(super) fn traffic(&self) -> Traffic {
        let fetched = self.fetched.lock();
        let last_poll = self.last_poll.load(Ordering::Relaxed).checked_sub(1);
        Traffic {
            records_fetched: fetched.records,
            bytes_fetched: fetched.bytes,
            records_delivered: self.records_delivered.load(Ordering::Relaxed),
            bytes_delivered: self.bytes_delivered.load(Ordering::Relaxed),
            last_poll: last_poll.map(|millis| self.started + Duration::from_millis(millis)),
        }
    }

    /// The last error that the client met, in its own words.
    pub(super) fn last_error(&self) -> Option<String> {
        self.last_error.lock().clone()
    }

    /// Why the brokers refused this client, if they did.
    pub(super) fn refusal(&self) -> Option<String> {
        self.refusal.lock().clone()
    }

    /// The subscription's own string where it is one of its topics: shared, not copied.
    pub(super) fn place(&self, topic: &str, partition: i32) -> TopicPartition {
        let known = self.topics.iter().find(|known| &***known == topic);
        TopicPartition::new(known.cloned().unwrap_or_else(|| topic.into()), partition)
    }
}

/// The context that rdkafka calls.
pub(super) struct Hook {
    shared: Arc<Shared>,
}

impl Hook {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }
}

impl ClientContext for Hook {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        use RDKafkaLogLevel as Level;
        match level {
            Level::Emerg | Level::Alert | Level::Critical | Level::Error => {
                *self.shared.last_error.lock() = Some(message.to_owned());
                tracing::error!(target: LOG_TARGET, facility, "{message}");
                // An error that the batch call finds in a partition's queue, such as that the topic
                // was deleted, comes out as a line and as nothing else.
                if facility == "ERROR" {
                    let message = message.trim_start_matches("[thrd:app]: ");
                    self.shared.report(message, false);
                }
            }
            Level::Warning => tracing::warn!(target: LOG_TARGET, facility, "{message}"),
            Level::Notice | Level::Info => {
                tracing::info!(target: LOG_TARGET, facility, "{message}")
            }
            Level::Debug => tracing::debug!(target: LOG_TARGET, facility, "{message}"),
        }
    }

    fn stats_raw(&self, json: &[u8]) {
        if let Err(error) = self.shared.fetched.lock().add(json) {
            tracing::debug!(target: LOG_TARGET, "statistics not understood: {error}");
        }
    }

    fn error(&self, error: KafkaError, reason: &str) {
        let code = error.rdkafka_error_code();
        // "All brokers are down" says less than the error of each that came before it.
        if code != Some(Code::AllBrokersDown) {
            *self.shared.last_error.lock() = Some(reason.to_owned());
        }
        if code.is_some_and(errors::is_refusal) {
            *self.shared.refusal.lock() = Some(reason.to_owned());
        }
        let refused = code.and_then(errors::refused_settings);
        let fatal = code == Some(Code::Fatal) || refused.is_some();
        let message = match refused {
            Some(hint) => format!("{reason}: {hint}"),
            None => reason.to_owned(),
        };
        self.shared.notify(Notice::Event(Event::Error(SourceError { message, fatal })));
    }
}

impl ConsumerContext for Hook {
    /// Writes the rebalance down and returns; it is answered when the runtime has done its part. Only
    /// a client that is closing is answered here.
    fn rebalance(
        &self,
        consumer: &BaseConsumer<Self>,
        err: RDKafkaRespErr,
        list: &mut TopicPartitionList,
    ) {
        let kind = match err {
            RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS => Kind::Assign,
            _ => Kind::Revoke,
        };
        let protocol = consumer.rebalance_protocol();
        let cooperative = matches!(protocol, RebalanceProtocol::Cooperative);
        let lost = kind == Kind::Revoke && consumer.assignment_lost();
        let partitions: Vec<_> = list
            .elements()
            .iter()
            .map(|elem| self.shared.place(elem.topic(), elem.partition()))
            .collect();
        let mut group = self.shared.group.lock();
        if group.closing {
            let fetched = partitions.into_iter().filter(|place| group.fetched.contains(place));
            let fetched = fetched.collect();
            drop(group);
            give_back(consumer, kind, cooperative, fetched);
            return;
        }
        group.asked(kind, partitions.iter().cloned().collect(), cooperative, lost);
        // Under the lock, so that nobody sees the rebalance open before its event is queued.
        self.shared.notify(Notice::Event(match kind {
            Kind::Assign => Event::Assigned(partitions),
            Kind::Revoke if lost => Event::Lost(partitions),
            Kind::Revoke => Event::Revoked(partitions),
        }));
    }
}

/// Answers a rebalance of a client that is closing: takes nothing, gives back everything.
pub(super) fn give_back(
    consumer: &BaseConsumer<Hook>,
    kind: Kind,
    cooperative: bool,
    fetched: Vec<TopicPartition>,
) {
    let answered = match (kind, cooperative) {
        (Kind::Assign, true) => consumer.incremental_assign(&TopicPartitionList::new()),
        (Kind::Assign, false) => consumer.assign(&TopicPartitionList::new()),
        (Kind::Revoke, true) => consumer.incremental_unassign(&list_of(&fetched)),
        (Kind::Revoke, false) => consumer.unassign(),
    };
    if let Err(error) = answered {
        tracing::debug!(target: LOG_TARGET, "answering a rebalance while closing: {error}");
    }
}

/// The partitions as librdkafka wants them.
pub(super) fn list_of<'a>(
    places: impl IntoIterator<Item = &'a TopicPartition>,
) -> TopicPartitionList {
    let mut list = TopicPartitionList::new();
    for place in places {
        list.add_partition(&place.topic, place.partition);
    }
    list
}
