//! Records that a test sends.

use bytes::Bytes;
use serde::Serialize;

/// A record to send to a topic: [`TestStream::send`](crate::TestStream::send).
///
/// ```
/// use kpipe_test::TestRecord;
/// use serde_json::json;
///
/// TestRecord::key("4000-0002").json(&json!({"amount": 10})).header("tenant", "acme");
/// TestRecord::new().value("no key").timestamp(1_700_000_000_000).partition(2);
/// TestRecord::key("gone").tombstone();
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use = "a record does nothing until it is sent"]
pub struct TestRecord {
    pub(crate) key: Option<Bytes>,
    pub(crate) value: Option<Bytes>,
    pub(crate) headers: Vec<(String, Option<Bytes>)>,
    pub(crate) timestamp: Option<i64>,
    pub(crate) partition: Option<i32>,
}

impl TestRecord {
    /// One without a key, and with an empty value.
    pub fn new() -> Self {
        Self { value: Some(Bytes::new()), ..Self::default() }
    }

    /// One with a key, and with an empty value.
    pub fn key(key: impl Into<Bytes>) -> Self {
        Self { key: Some(key.into()), ..Self::new() }
    }

    /// Sets the value.
    pub fn value(mut self, value: impl Into<Bytes>) -> Self {
        self.value = Some(value.into());
        self
    }

    /// Sets the value to this, written as JSON.
    ///
    /// # Panics
    /// If it cannot be written as JSON, which is for the test's author to know.
    #[track_caller]
    pub fn json<T: Serialize + ?Sized>(self, value: &T) -> Self {
        match serde_json::to_vec(value) {
            Ok(json) => self.value(json),
            Err(error) => panic!("the value of a test record cannot be written as JSON: {error}"),
        }
    }

    /// Sets the value to null, which says of a key that it is gone.
    pub fn tombstone(mut self) -> Self {
        self.value = None;
        self
    }

    /// Adds a header; one name may come several times.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<Bytes>) -> Self {
        self.headers.push((name.into(), Some(value.into())));
        self
    }

    /// Adds a header whose value is null.
    pub fn null_header(mut self, name: impl Into<String>) -> Self {
        self.headers.push((name.into(), None));
        self
    }

    /// Sets the time of its creation, in milliseconds since 1970. Default 0 plus its offset.
    pub fn timestamp(mut self, millis: i64) -> Self {
        self.timestamp = Some(millis);
        self
    }

    /// Sends it to this partition, from 0, and not to the one that its key says.
    pub fn partition(mut self, partition: i32) -> Self {
        self.partition = Some(partition);
        self
    }
}
