//! How a record comes to be: by hand through the builder, or from borrowed parts in one copy.

use std::sync::Arc;

use bytes::Bytes;

use super::{Record, Span, Timestamp, headers};

/// Builds a [`Record`] by hand; made by [`Record::builder`].
///
/// ```
/// use kpipe_core::{Record, Timestamp};
///
/// let record = Record::builder("orders", 3, 17)
///     .key("customer-9")
///     .value(r#"{"total": 5}"#)
///     .header("trace", "a1")
///     .header_null("flag")
///     .timestamp(Timestamp::CreateTime(1_700_000_000_000))
///     .leader_epoch(4)
///     .build();
/// assert_eq!(record.headers().len(), 2);
/// assert_eq!(record.leader_epoch(), Some(4));
/// ```
#[derive(Clone, Debug)]
pub struct RecordBuilder {
    meta: RecordMeta,
    key: Option<Bytes>,
    value: Option<Bytes>,
    headers: Vec<(Bytes, Option<Bytes>)>,
}

/// Everything of a record but its payload.
#[derive(Clone, Debug)]
pub(crate) struct RecordMeta {
    pub(crate) topic: Arc<str>,
    pub(crate) partition: i32,
    pub(crate) offset: i64,
    pub(crate) timestamp: Timestamp,
    /// Below zero where unknown.
    pub(crate) leader_epoch: i32,
}

impl RecordBuilder {
    pub(super) fn new(topic: Arc<str>, partition: i32, offset: i64) -> Self {
        let timestamp = Timestamp::NotAvailable;
        let meta = RecordMeta { topic, partition, offset, timestamp, leader_epoch: -1 };
        Self { meta, key: None, value: None, headers: Vec::new() }
    }

    /// Sets the key; null if never called.
    pub fn key(mut self, key: impl Into<Bytes>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Sets the value; null (a tombstone) if never called.
    pub fn value(mut self, value: impl Into<Bytes>) -> Self {
        self.value = Some(value.into());
        self
    }

    /// Adds a header.
    pub fn header(mut self, name: impl Into<Bytes>, value: impl Into<Bytes>) -> Self {
        self.headers.push((name.into(), Some(value.into())));
        self
    }

    /// Adds a header whose value is null.
    pub fn header_null(mut self, name: impl Into<Bytes>) -> Self {
        self.headers.push((name.into(), None));
        self
    }

    /// Sets the timestamp; not available if never called.
    pub fn timestamp(mut self, timestamp: Timestamp) -> Self {
        self.meta.timestamp = timestamp;
        self
    }

    /// Sets the leader's epoch; unknown if never called.
    pub fn leader_epoch(mut self, epoch: i32) -> Self {
        self.meta.leader_epoch = epoch;
        self
    }

    /// The record.
    pub fn build(self) -> Record {
        let headers = self.headers.iter().map(|(name, value)| (&name[..], value.as_deref()));
        Record::assemble(self.meta, self.key.as_deref(), self.value.as_deref(), headers)
    }
}

impl Record {
    /// Copies the parts into one buffer of exactly their size: one allocation for the record,
    /// none if it is empty.
    pub(crate) fn assemble<'a>(
        meta: RecordMeta,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)> + Clone,
    ) -> Self {
        let headers_len: usize =
            headers.clone().map(|(name, value)| headers::encoded_len(name, value)).sum();
        let len = key.map_or(0, <[u8]>::len) + value.map_or(0, <[u8]>::len) + headers_len;
        let mut payload = Vec::with_capacity(len);
        let key = append(&mut payload, key);
        let value = append(&mut payload, value);
        let mut header_count = 0;
        for (name, value) in headers {
            headers::encode(&mut payload, name, value);
            header_count += 1;
        }
        Self {
            topic: meta.topic,
            partition: meta.partition,
            leader_epoch: meta.leader_epoch,
            offset: meta.offset,
            timestamp: meta.timestamp,
            payload: Bytes::from(payload),
            key,
            value,
            header_count,
        }
    }
}

/// Kafka's own lengths are 32-bit, so a span always fits.
fn append(payload: &mut Vec<u8>, part: Option<&[u8]>) -> Span {
    let Some(part) = part else { return Span::NULL };
    let start = payload.len() as u32;
    payload.extend_from_slice(part);
    Span { start, end: payload.len() as u32 }
}
