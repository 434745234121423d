//! Protobuf payloads, bare and in the framing of the Confluent Schema Registry, for prost-generated
//! and dynamic types, with a registry client that survives an outage.
//!
//! This crate is empty until the typed pipelines of `kpipe-core` exist.
#![forbid(unsafe_code)]
