//! What a case asks of a cluster, whichever it is.

use std::time::Duration;

use kpipe_core::source::Connect;

/// How groups rebalance. Each case takes place on a cluster whose groups do it in one way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// Everybody gives back everything (range).
    Eager,
    /// Only what moves is given back (cooperative-sticky).
    Cooperative,
    /// KIP-848.
    Incremental,
}

/// A record to write.
#[derive(Clone, Debug, Default)]
pub(crate) struct NewRecord {
    pub(crate) partition: Option<i32>,
    pub(crate) key: Option<Vec<u8>>,
    pub(crate) value: Option<Vec<u8>>,
    pub(crate) headers: Vec<(&'static str, Option<Vec<u8>>)>,
    /// Milliseconds since 1970.
    pub(crate) timestamp: Option<i64>,
}

impl NewRecord {
    pub(crate) fn of(value: &str) -> Self {
        Self { value: Some(value.into()), ..Self::default() }
    }

    pub(crate) fn key(mut self, key: impl Into<Vec<u8>>) -> Self {
        self.key = Some(key.into());
        self
    }

    pub(crate) fn to(mut self, partition: i32) -> Self {
        self.partition = Some(partition);
        self
    }
}

/// Why something was not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    TooLarge,
    UnknownTopic,
}

/// How a transaction ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Commit,
    Abort,
}

/// A member in a process of its own, which takes 5 ms for each record. Its session ends after 6 s.
pub(crate) trait Process {
    /// Ends it as a power cut would.
    fn die(self);

    /// Stops it: nothing is heard of it.
    fn freeze(&self);

    /// Has it go on.
    fn thaw(&self);
}

/// A broker with its groups, and what an administrator and a producer do to it.
pub(crate) trait Cluster {
    type Client: Connect;
    type Process: Process;

    fn protocol(&self) -> Protocol;

    /// A member's way in. The group waits for this member to give back for so long; 5 minutes if
    /// not given. At least 6 s, which is Kafka's least.
    fn client(&self, waited_for: Option<Duration>) -> Self::Client;

    /// Starts a process that is a member of the group.
    async fn process(&self, group: &str, topic: &str) -> Self::Process;

    /// A new topic with a name of its own.
    async fn topic(&self, partitions: i32) -> String;

    /// Makes a topic of this name; one that was deleted before is gone by then.
    async fn create_topic(&self, topic: &str, partitions: i32);

    async fn delete_topic(&self, topic: &str);

    async fn add_partitions(&self, topic: &str, more: i32);

    /// Writes one record, and says where: partition and offset.
    async fn produce(&self, topic: &str, record: NewRecord) -> Result<(i32, i64), Refusal>;

    /// Writes so many records to a partition. Their value is their number in this call.
    async fn fill(&self, topic: &str, partition: i32, records: u32);

    /// Writes so many records to a partition in a transaction and ends it. Its marker takes an offset.
    async fn transaction(&self, topic: &str, partition: i32, records: u32, end: End);

    /// Deletes the records below this offset.
    async fn delete_records(&self, topic: &str, partition: i32, before: i64);

    /// The first offset of a log and the one that follows its last.
    async fn log_range(&self, topic: &str, partition: i32) -> (i64, i64);

    /// What a group has on record: the offset and the metadata.
    async fn committed_with(
        &self,
        group: &str,
        topic: &str,
        partition: i32,
    ) -> Option<(i64, String)>;

    async fn committed(&self, group: &str, topic: &str, partition: i32) -> Option<i64> {
        self.committed_with(group, topic, partition).await.map(|(next, _)| next)
    }

    /// Commits for a group without being in it. The error is for people.
    async fn alter_committed(
        &self,
        group: &str,
        topic: &str,
        partition: i32,
        next: i64,
        metadata: &str,
    ) -> Result<(), String>;
}
