//! The messages and services of Dapr's components, generated from its own files.
#![allow(
    missing_docs,
    missing_debug_implementations,
    unreachable_pub,
    clippy::all,
    clippy::pedantic
)]

tonic::include_proto!("dapr.proto.components.v1");

/// Descriptors of the services, for clients that use reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/components.bin"));
