//! Topics: making them, writing to them, and what happens to their logs.

use std::sync::Arc;

use kpipe_core::{Record, Timestamp, TopicPartition};

use super::history::What;
use super::log::Log;
use super::partitioner;
use super::producer::{ProduceError, ProduceErrorKind};
use super::state::State;
use super::{Broker, Settings};
use crate::record::TestRecord;

#[derive(Debug)]
pub(super) struct Topic {
    logs: Vec<Log>,
    /// How many records without a key were written.
    turn: u64,
}

impl Topic {
    fn new(partitions: i32) -> Self {
        Self { logs: (0..partitions).map(|_| Log::default()).collect(), turn: 0 }
    }

    pub(super) fn log(&self, partition: i32) -> Option<&Log> {
        self.logs.get(usize::try_from(partition).ok()?)
    }

    pub(super) fn partitions(&self) -> i32 {
        self.logs.len() as i32
    }

    fn partition_for(&mut self, record: &TestRecord) -> i32 {
        match (&record.partition, &record.key) {
            (Some(partition), _) => *partition,
            (None, Some(key)) => partitioner::of_key(key, self.partitions()),
            (None, None) => {
                self.turn += 1;
                ((self.turn - 1) % self.logs.len() as u64) as i32
            }
        }
    }
}

impl Broker {
    /// Makes a topic. Groups that subscribe to it rebalance.
    ///
    /// # Panics
    /// If it exists, or `partitions` is less than 1.
    #[track_caller]
    pub fn create_topic(&self, topic: &str, partitions: i32) {
        assert!(partitions >= 1, "partitions = {partitions}: must be at least 1");
        let mut state = self.lock();
        assert!(!state.topics.contains_key(topic), "topic `{topic}` exists");
        state.create_topic(topic.into(), partitions);
    }

    /// Adds partitions to a topic. Groups that subscribe to it rebalance.
    ///
    /// # Panics
    /// If it does not exist, or `more` is negative.
    #[track_caller]
    pub fn add_partitions(&self, topic: &str, more: i32) {
        assert!(more >= 0, "more = {more}: must not be negative");
        let mut state = self.lock();
        let Some(known) = state.topics.get_mut(topic) else {
            panic!("topic `{topic}` does not exist")
        };
        known.logs.extend((0..more).map(|_| Log::default()));
        state.rebalance_subscribers(topic);
    }

    /// Removes a topic with everything in it and what groups committed there; false if there is none.
    /// Groups that subscribe to it rebalance.
    pub fn delete_topic(&self, topic: &str) -> bool {
        let mut state = self.lock();
        let existed = state.topics.remove(topic).is_some();
        if existed {
            for group in &mut state.groups {
                group.committed.retain(|partition, _| &*partition.topic != topic);
            }
            state.rebalance_subscribers(topic);
        }
        existed
    }

    /// The names of all topics, sorted.
    pub fn topics(&self) -> Vec<String> {
        self.lock().topics.keys().map(|topic| topic.to_string()).collect()
    }

    /// How many partitions a topic has; `None` if it does not exist.
    pub fn partitions(&self, topic: &str) -> Option<i32> {
        self.lock().topics.get(topic).map(Topic::partitions)
    }

    /// Writes a record, whatever faults there are, and says where: partition and offset.
    ///
    /// It goes to the partition that it names, else to that of its key (murmur2, as the Java client's
    /// default), else to each in turn. Its time is what it says, else its offset in milliseconds since 1970.
    ///
    /// # Errors
    /// [`ProduceErrorKind::UnknownTopic`] if there is no such topic or partition and topics are not made
    /// [by themselves](super::BrokerBuilder::create_topics); [`ProduceErrorKind::TooLarge`].
    pub fn append(&self, topic: &str, record: TestRecord) -> Result<(i32, i64), ProduceError> {
        self.lock().append(topic, &record)
    }

    /// Every record of a topic, by partition and offset; none if it does not exist.
    pub fn records(&self, topic: &str) -> Vec<Record> {
        let state = self.lock();
        let logs = state.topics.get(topic).into_iter().flat_map(|topic| &topic.logs);
        logs.flat_map(Log::records).cloned().collect()
    }

    /// The first offset that a log has not given up and the offset of its next record; `None` if there is
    /// no such partition.
    pub fn log_range(&self, topic: &str, partition: i32) -> Option<(i64, i64)> {
        let state = self.lock();
        let log = state.topics.get(topic)?.log(partition)?;
        Some((log.start(), log.end()))
    }

    /// The offset of the last record in a partition; `None` if there is none.
    pub fn last_offset(&self, topic: &str, partition: i32) -> Option<i64> {
        self.lock().topics.get(topic)?.log(partition)?.last_offset()
    }

    /// Leaves so many offsets at the end of a log without records, as the markers of transactions and
    /// compaction do. However many, it costs nothing.
    ///
    /// # Panics
    /// If there is no such partition.
    #[track_caller]
    pub fn skip(&self, topic: &str, partition: i32, offsets: i64) {
        self.change(
            topic,
            partition,
            |log| log.skip(offsets),
            |partition, _| Some(What::Skipped { partition, offsets }),
        );
    }

    /// Removes one record and leaves its offset, as compaction does; false if there is none. What is
    /// prefetched already is still delivered.
    ///
    /// # Panics
    /// If there is no such partition.
    #[track_caller]
    pub fn compact(&self, topic: &str, partition: i32, offset: i64) -> bool {
        self.change(
            topic,
            partition,
            |log| log.remove(offset),
            |partition, removed| removed.then_some(What::Compacted { partition, offset }),
        )
    }

    /// Gives up every record below this offset, as retention does; at most the whole log. What is
    /// prefetched already is still delivered; a position below is lost.
    ///
    /// # Panics
    /// If there is no such partition.
    #[track_caller]
    pub fn truncate_before(&self, topic: &str, partition: i32, offset: i64) {
        let truncate = |log: &mut Log| {
            log.truncate_before(offset);
            log.start()
        };
        self.change(topic, partition, truncate, |partition, start| {
            Some(What::Truncated { partition, start })
        });
    }

    /// Loses every record from this offset on, as an unclean leader election does. A position beyond is
    /// lost, whatever is written there afterwards; its partition starts over from what is committed, and
    /// by policy if that is lost too.
    ///
    /// # Panics
    /// If there is no such partition.
    #[track_caller]
    pub fn cut(&self, topic: &str, partition: i32, offset: i64) {
        let cut = |log: &mut Log| {
            log.cut(offset);
            log.end()
        };
        self.change(topic, partition, cut, |partition, end| Some(What::Cut { partition, end }));
    }

    #[track_caller]
    fn change<T: Copy>(
        &self,
        topic: &str,
        partition: i32,
        change: impl FnOnce(&mut Log) -> T,
        what: impl FnOnce(TopicPartition, T) -> Option<What>,
    ) -> T {
        let mut state = self.lock();
        let Some(place) = state.place(topic, partition) else {
            panic!("there is no partition {topic}/{partition}");
        };
        let result = change(state.log_mut(&place).expect("its place was just found"));
        if let Some(what) = what(place.clone(), result) {
            state.saw(|| what);
        }
        state.log_changed(&place);
        result
    }
}

impl State {
    /// Names a partition that exists, with the topic's own string.
    pub(super) fn place(&self, topic: &str, partition: i32) -> Option<TopicPartition> {
        let (name, topic) = self.topics.get_key_value(topic)?;
        topic.log(partition)?;
        Some(TopicPartition::new(name.clone(), partition))
    }

    pub(super) fn create_topic(&mut self, topic: Arc<str>, partitions: i32) {
        self.topics.insert(topic.clone(), Topic::new(partitions));
        self.rebalance_subscribers(&topic);
    }

    /// Whether the topic exists now.
    pub(super) fn make_topic(&mut self, topic: &str) -> bool {
        if !self.topics.contains_key(topic) {
            let Some(partitions) = self.settings.create_topics else { return false };
            self.create_topic(topic.into(), partitions);
        }
        true
    }

    pub(super) fn append(
        &mut self,
        topic: &str,
        record: &TestRecord,
    ) -> Result<(i32, i64), ProduceError> {
        check_size(&self.settings, record)?;
        self.make_topic(topic);
        let unknown = |name: &str| {
            let text = format!("topic or partition `{name}` does not exist");
            ProduceError::new(ProduceErrorKind::UnknownTopic, text)
        };
        let Some(known) = self.topics.get_mut(topic) else { return Err(unknown(topic)) };
        let partition = known.partition_for(record);
        let Some(place) = self.place(topic, partition) else {
            return Err(unknown(&format!("{topic}/{partition}")));
        };
        let log = self.log_mut(&place).expect("its place was just found");
        let offset = log.end();
        log.append(build(&place, offset, log.epoch(), record));
        self.saw(|| What::Written { partition: place.clone(), offset });
        self.log_changed(&place);
        Ok((partition, offset))
    }

    fn log_mut(&mut self, place: &TopicPartition) -> Option<&mut Log> {
        let index = usize::try_from(place.partition).ok()?;
        self.topics.get_mut(&place.topic)?.logs.get_mut(index)
    }
}

fn check_size(settings: &Settings, record: &TestRecord) -> Result<(), ProduceError> {
    let len = |part: &Option<bytes::Bytes>| part.as_ref().map_or(0, bytes::Bytes::len);
    let headers: usize = record.headers.iter().map(|(name, value)| name.len() + len(value)).sum();
    let size = len(&record.key) + len(&record.value) + headers;
    let most = settings.max_message_bytes;
    if size > most {
        let text = format!("record of {size} bytes: the broker takes at most {most}");
        return Err(ProduceError::new(ProduceErrorKind::TooLarge, text));
    }
    Ok(())
}

fn build(place: &TopicPartition, offset: i64, epoch: usize, record: &TestRecord) -> Record {
    let mut builder = Record::builder(place.topic.clone(), place.partition, offset)
        .timestamp(Timestamp::CreateTime(record.timestamp.unwrap_or(offset)))
        .leader_epoch(epoch as i32);
    if let Some(key) = &record.key {
        builder = builder.key(key.clone());
    }
    if let Some(value) = &record.value {
        builder = builder.value(value.clone());
    }
    for (name, value) in &record.headers {
        builder = match value {
            Some(value) => builder.header(name.clone(), value.clone()),
            None => builder.header_null(name.clone()),
        };
    }
    builder.build()
}
