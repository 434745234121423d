use std::fmt;
use std::sync::Arc;

/// A partition of a topic.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TopicPartition {
    /// The topic's name.
    pub topic: Arc<str>,
    /// The partition's number, from 0.
    pub partition: i32,
}

impl TopicPartition {
    /// Names a partition.
    pub fn new(topic: impl Into<Arc<str>>, partition: i32) -> Self {
        Self { topic: topic.into(), partition }
    }
}

/// Shown as `topic/partition`.
impl fmt::Display for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.topic, self.partition)
    }
}

/// Where a record lies; stable over redeliveries, within one cluster and one life of the topic.
///
/// ```
/// # use kpipe_core::Record;
/// let id = Record::builder("orders", 3, 17).build().id();
/// assert_eq!(id.to_string(), "orders-3-17");
/// assert_eq!((id.topic(), id.partition(), id.offset()), ("orders", 3, 17));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RecordId {
    topic: Arc<str>,
    partition: i32,
    offset: i64,
}

impl RecordId {
    pub(crate) fn new(topic: Arc<str>, partition: i32, offset: i64) -> Self {
        Self { topic, partition, offset }
    }

    /// The topic's name.
    pub fn topic(&self) -> &str {
        &self.topic
    }

    /// The partition's number, from 0.
    pub fn partition(&self) -> i32 {
        self.partition
    }

    /// The record's offset in its partition.
    pub fn offset(&self) -> i64 {
        self.offset
    }
}

/// Shown as `topic-partition-offset`.
impl fmt::Display for RecordId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{}", self.topic, self.partition, self.offset)
    }
}
