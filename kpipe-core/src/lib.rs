//! Parallel consumption of Kafka: one task per record, order per key, and an offset committed only
//! when every record below it is finished.

mod budget;
#[cfg(not(loom))]
mod consumer;
#[cfg(not(loom))]
mod error;
mod failure;
mod frontier;
#[cfg(not(loom))]
mod handler;
mod lanes;
#[cfg(all(test, loom))]
mod loom_support;
#[cfg(not(loom))]
mod observe;
mod partition;
#[cfg(all(test, not(loom)))]
mod property;
#[cfg(any(feature = "kafka", loom, test))]
mod reclaim;
mod record;
#[cfg(feature = "rooms")]
#[doc(hidden)]
pub mod rooms;
#[cfg(not(loom))]
mod runtime;
mod shrink;
#[cfg(not(loom))]
pub mod source;
mod sync;
mod wake;

#[cfg(all(feature = "serde", not(loom)))]
pub use crate::consumer::{AttemptDeadline, ConsumerConfig};
pub use crate::failure::FailureKind;
pub use crate::record::{
    Header, Headers, HeadersIter, Record, RecordBuilder, RecordId, Timestamp, TopicPartition,
};
#[cfg(all(feature = "kafka", not(loom)))]
pub use crate::source::kafka;
#[cfg(not(loom))]
pub use crate::{
    consumer::{Consumer, NullKeys, Ordering},
    error::{Error, ErrorKind},
    failure::{Failure, OnFailure},
    handler::{BoxHandler, Context, FnHandler, Handler, HandlerResult, IntoHandler},
    observe::{FailedRecord, PartitionStats, Stats},
    runtime::{Monitor, Report, Running},
    source::StartAt,
};
