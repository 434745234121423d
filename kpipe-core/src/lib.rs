//! Parallel consumption of Kafka: one task per record, order per key, and an offset committed only
//! when every record below it is finished.

mod budget;
#[cfg(not(loom))]
mod error;
mod record;
#[cfg(not(loom))]
pub mod source;
mod sync;
mod wake;

#[cfg(not(loom))]
pub use crate::error::{Error, ErrorKind};
pub use crate::record::{
    Header, Headers, HeadersIter, Record, RecordBuilder, RecordId, Timestamp, TopicPartition,
};
