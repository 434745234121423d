//! What a handler receives: one Kafka record, owned.

mod build;
mod headers;
mod id;
mod key_head;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

pub use self::build::RecordBuilder;
#[cfg(all(feature = "kafka", not(loom)))]
pub(crate) use self::build::RecordMeta;
pub use self::headers::{Header, Headers, HeadersIter};
pub use self::id::{RecordId, TopicPartition};
pub(crate) use self::key_head::KeyHead;

/// One record of a partition, owned: it borrows nothing from the client, so it may be kept for as
/// long as the handler likes without pinning a fetch buffer.
///
/// Key, value and headers lie in one buffer with one allocation. [`key`](Self::key) and
/// [`value`](Self::value) lend slices of it; [`key_bytes`](Self::key_bytes) and
/// [`value_bytes`](Self::value_bytes) share it without copying. A null key or value is `None`, an
/// empty one is `Some` of an empty slice.
///
/// Cloning shares the buffer.
#[derive(Clone)]
pub struct Record {
    topic: Arc<str>,
    partition: i32,
    leader_epoch: i32,
    offset: i64,
    timestamp: Timestamp,
    payload: Bytes,
    key: Span,
    value: Span,
    header_count: u32,
}

/// When a record was written, and by whose clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Timestamp {
    /// The record carries no timestamp (message format 0).
    NotAvailable,
    /// Set by the producer: milliseconds since the Unix epoch.
    CreateTime(i64),
    /// Set by the broker on append: milliseconds since the Unix epoch.
    LogAppendTime(i64),
}

impl Timestamp {
    /// Milliseconds since the Unix epoch, if the record carries a timestamp.
    pub fn millis(self) -> Option<i64> {
        match self {
            Self::NotAvailable => None,
            Self::CreateTime(ms) | Self::LogAppendTime(ms) => Some(ms),
        }
    }
}

impl Record {
    /// Starts a record by hand, for a test or a source of one's own.
    ///
    /// ```
    /// use kpipe_core::Record;
    ///
    /// let record = Record::builder("payments", 0, 42).key("card-1").value("{}").build();
    /// assert_eq!(record.key(), Some(&b"card-1"[..]));
    /// assert_eq!(record.id().to_string(), "payments-0-42");
    /// ```
    pub fn builder(topic: impl Into<Arc<str>>, partition: i32, offset: i64) -> RecordBuilder {
        RecordBuilder::new(topic.into(), partition, offset)
    }

    /// The topic that the record was read from.
    pub fn topic(&self) -> &str {
        &self.topic
    }

    /// The partition that the record was read from.
    pub fn partition(&self) -> i32 {
        self.partition
    }

    /// The record's offset in its partition.
    pub fn offset(&self) -> i64 {
        self.offset
    }

    /// When the record was written, and by whose clock.
    pub fn timestamp(&self) -> Timestamp {
        self.timestamp
    }

    /// The epoch of the partition leader that appended the record, where the broker told.
    pub fn leader_epoch(&self) -> Option<i32> {
        (self.leader_epoch >= 0).then_some(self.leader_epoch)
    }

    /// The key, or `None` if it is null.
    pub fn key(&self) -> Option<&[u8]> {
        self.key.of(&self.payload)
    }

    /// The value, or `None` if it is null (a tombstone).
    pub fn value(&self) -> Option<&[u8]> {
        self.value.of(&self.payload)
    }

    /// The key, sharing the record's buffer.
    pub fn key_bytes(&self) -> Option<Bytes> {
        self.key.range().map(|range| self.payload.slice(range))
    }

    /// The value, sharing the record's buffer.
    pub fn value_bytes(&self) -> Option<Bytes> {
        self.value.range().map(|range| self.payload.slice(range))
    }

    /// All headers in the order in which they were written, duplicates included.
    pub fn headers(&self) -> Headers<'_> {
        let start = self.key.len() + self.value.len();
        Headers::new(&self.payload[start..], self.header_count)
    }

    /// Where the record lies: the same on every delivery, so that it serves as the idempotency key
    /// of calls that a redelivery would repeat. Its text is `topic-partition-offset`.
    ///
    /// It is unique within one life of a topic: a topic that is deleted and created again counts its
    /// offsets from 0, and another cluster has the same ids. Where either can happen, add what tells
    /// them apart (the cluster's name, or an id that the producer wrote) to the key.
    pub fn id(&self) -> RecordId {
        RecordId::new(self.topic.clone(), self.partition, self.offset)
    }

    /// Bytes of key, value and headers, as the byte budget (G4) counts them.
    pub fn payload_len(&self) -> usize {
        self.payload.len()
    }
}

impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Record")
            .field("id", &format_args!("{}-{}-{}", self.topic, self.partition, self.offset))
            .field("timestamp", &self.timestamp)
            .field("key", &self.key_bytes())
            .field("value_len", &self.value().map(<[u8]>::len))
            .field("headers", &self.header_count)
            .finish()
    }
}

/// A stretch of the payload buffer; null is told apart from empty.
#[derive(Clone, Copy)]
struct Span {
    start: u32,
    end: u32,
}

impl Span {
    const NULL: Self = Self { start: u32::MAX, end: u32::MAX };

    fn range(self) -> Option<Range<usize>> {
        (self.start != u32::MAX).then_some(self.start as usize..self.end as usize)
    }

    fn of(self, payload: &[u8]) -> Option<&[u8]> {
        self.range().map(|range| &payload[range])
    }

    fn len(self) -> usize {
        (self.end - self.start) as usize
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
