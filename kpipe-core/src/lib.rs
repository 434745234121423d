//! Consumes Apache Kafka in parallel: one task per record that has to wait, order per key, and an offset
//! committed only when every record below it is finished.
//!
//! For services whose handlers wait on something else: a database, an HTTP API, a model that answers in
//! seconds. [`Consumer`] says what to do with which topic and holds no connection; `kafka::Kafka` says
//! where the records come from; [`Running`] is the live one.
//!
//! ```no_run
//! # #[cfg(feature = "kafka")] {
//! use kpipe_core::{Consumer, HandlerResult, Ordering, Record, kafka::Kafka};
//!
//! async fn charge(payment: Record) -> HandlerResult {
//!     let amount: u64 = std::str::from_utf8(payment.value().unwrap_or_default())?.parse()?;
//!     println!("charging {amount} as {}", payment.id()); // here you await your payment service
//!     Ok(())
//! }
//!
//! # async fn run() -> Result<(), kpipe_core::Error> {
//! let billing = Consumer::new("billing") // the group id
//!     .topic("payments", charge)
//!     .ordering(Ordering::Key)
//!     .max_in_flight(1_000);
//! let running = billing.start(Kafka::brokers("localhost:9092")).await?;
//! let stop = async { std::future::pending().await }; // your signal
//! println!("{}", running.until(stop).await?); // drains, commits, leaves the group
//! # Ok(()) }
//! # }
//! ```
//!
//! # Where to look
//!
//! | for | see |
//! |---|---|
//! | every setting, with range and default | [`Consumer`] |
//! | settings from a file or the environment | `ConsumerConfig` |
//! | what can be a handler, and what it is told | [`IntoHandler`], [`Handler`], [`Context`] |
//! | what runs at the same time, and what stays in order | [`Ordering`] |
//! | what becomes of a record that fails | [`OnFailure`], [`Failure`] |
//! | what a consumer is doing | [`Running::stats`], [`Running::monitor`], [`Stats`] |
//! | how it ended | [`Running::shutdown`], [`Report`] |
//! | brokers, credentials, options of librdkafka | `kafka::Kafka` |
//! | a source of one's own | [`source`] |
//!
//! What goes wrong is logged through `tracing` with the target `kpipe` (librdkafka's own lines with
//! `kpipe::librdkafka`) and shows nowhere else unless [`Stats`] are looked at: install a subscriber.
//!
//! Tests of a consumer without a broker are what the crate `kpipe-test` is for; a handler alone is called
//! with [`Record::builder`] and [`Context::detached`].
//!
//! # Promises
//!
//! The documentation names what is promised by numbers such as (G3). `docs/contract.md` in the
//! repository has each in full, with the tests that show it and what is missing yet:
//!
//! | | |
//! |---|---|
//! | G1 | no loss: an offset is committed only when every record below it is finished |
//! | G2 | order: under [`Ordering::Key`] at most one attempt per key runs, in offset order |
//! | G3 | membership: how long handlers take never evicts the member; every attempt has a deadline |
//! | G4 | memory: records and bytes in hand stay within a budget |
//! | G5 | no refetch: backpressure stops draining and keeps what was prefetched |
//! | G6 | little redo: what is finished beyond the frontier is not run again (not yet) |
//! | G7 | fencing: work of a partition that was taken away can move nothing |
//! | G8 | accounting: every record received is counted exactly once |
//! | G9 | isolation: a panic or an error in user code is a failure of that record alone |
//! | G10 | shutdown: drains, commits and leaves within its deadline, and reports |
//! | G11 | no silent stall: what does not advance says why |
//!
//! (C34) and its like are cases from the field, listed in `docs/cases.md`.
//!
//! # Features
//!
//! | feature | |
//! |---|---|
//! | `kafka` (default) | consume Apache Kafka through rdkafka; without it no C code is built, which is enough to define consumers and to test them |
//! | `serde` (default) | `ConsumerConfig` |
//! | `tls`, `tls-vendored` | TLS, and SASL PLAIN and SCRAM; with the system's OpenSSL or one built from source |
//! | `gssapi` | SASL GSSAPI (Kerberos) |
//! | `zstd`, `lz4` | compression |
//! | `cmake-build`, `dynamic-linking` | how librdkafka is built or found |

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
