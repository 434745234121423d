//! The test kit for services that consume with KPipe: an in-memory broker behind the same `Source`
//! trait that Kafka implements, `TestStream` for unit tests, sinks that capture, fail or stall, a
//! crash and restart harness, and the seeded simulation that checks the contract (G1 to G11).
//!
//! This crate is empty until the runtime of `kpipe-core` has settled.
#![forbid(unsafe_code)]
