//! The test kit for services that consume with KPipe.
//!
//! | to | use |
//! |---|---|
//! | test a handler or a whole consumer in milliseconds, without a broker | [`TestStream`] and [`TestRecord`] |
//! | see what left the service, and have that fail or be slow | [`CapturingSink`] |
//! | have the group rebalance, the broker go away, records come twice | [`TestStream::chaos_after`] |
//! | kill the process in the middle and start it again | [`CrashRestartHarness`] |
//! | script a cluster with several members, call by call | [`Broker`] |
//!
//! All of it is the production runtime of `kpipe-core` over a broker in memory. The definition under test is
//! the one that `main` starts: nothing in it knows of the test.
//!
//! ```toml
//! [dependencies]
//! kpipe-core = { version = "0.1", default-features = false } # where the handlers are
//!
//! [dev-dependencies]
//! kpipe-test = "0.1"
//! tokio = { version = "1", features = ["macros", "rt"] }
//! ```
//!
//! Without its feature `kafka`, `kpipe-core` builds no C code; the binary that starts the handlers asks for
//! the feature. A crate of handlers and its tests (`examples/tests/parcels`) is 51 crates and 21 s from nothing,
//! on two cores. A test of 100 records then takes about 2 ms in a debug build, 9 ms on a runtime of several
//! threads.
//!
//! # A unit test
//!
//! ```
//! use kpipe_core::{Consumer, Record};
//! use kpipe_test::{TestRecord, TestStream};
//! use serde_json::json;
//!
//! fn orders() -> Consumer {
//!     Consumer::new("orders").topic("orders", |record: Record| async move {
//!         let order: serde_json::Value = serde_json::from_slice(record.value().unwrap_or_default())?;
//!         println!("{order}");
//!         Ok(())
//!     })
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let mut stream = TestStream::new(orders());
//! stream.send("orders", TestRecord::key("order-1").json(&json!({"total": 3})));
//! stream.send("orders", TestRecord::key("order-2").value("not JSON"));
//! let run = stream.flush().await;
//! assert_eq!(run.committed("orders", 0), Some(1)); // the second one is held: nothing is lost
//! assert!(run.record("orders", 0, 1).unwrap().errors[0].contains("expected ident"));
//! # }
//! ```
#![forbid(unsafe_code)]

mod broker;
mod clock;
mod crash;
mod record;
mod run;
mod seed;
#[doc(hidden)]
pub mod sim;
mod sink;
mod stream;
mod witness;

pub use crate::broker::{
    AssignFault, Assignor, Broker, BrokerBuilder, Chances, Client, CommitFault, Delivery,
    ProduceError, ProduceErrorKind, Producer, Protocol, Refused, Seen, SendFault, What,
};
pub use crate::crash::{Crash, CrashRestartHarness, CrashRun};
pub use crate::record::TestRecord;
pub use crate::run::{RecordRun, RecordState, Run};
pub use crate::sink::CapturingSink;
pub use crate::stream::{Chaos, TestStream};
