//! What only a real broker shows. Uses the one at `KPIPE_KAFKA`, else starts one through
//! `scripts/kafka`; without Java and Maven, or with `KPIPE_SKIP_KAFKA=1`, the tests say so and pass,
//! unless `KPIPE_REQUIRE_KAFKA=1`.
#![cfg(not(loom))]

mod backpressure;
mod closing;
mod cluster;
mod commits;
mod join;
mod member;
mod position;
mod rebalance;
mod records;
mod service;
mod start;
