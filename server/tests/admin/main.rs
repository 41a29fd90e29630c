//! The HTTP port, from outside.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::float_cmp, reason = "counts are whole")]
mod activity;
mod api;
mod attacks;
mod audit_trail;
mod certificates;
mod changes;
mod clients;
mod connection_limiter;
mod dashboard;
mod events;
mod exposure;
mod health;
mod http;
mod keys;
mod metrics;
mod prometheus;
mod roles;
mod stopping;

#[path = "../doors/authority.rs"]
#[allow(dead_code, reason = "the tests of the doors use more of it")]
mod authority;
