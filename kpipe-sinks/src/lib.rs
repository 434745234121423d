//! Where results leave a KPipe pipeline: Kafka, batch and fan-out sinks first, then console, HTTP and
//! Postgres, each behind a feature of its own.
//!
//! A sink confirms what it has made durable; a record is finished when its last sink has confirmed
//! it (promise G1). This crate is empty until the failure path of `kpipe-core` exists.
#![forbid(unsafe_code)]
