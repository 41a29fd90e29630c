//! The HTTP port, from outside.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::float_cmp, reason = "counts are whole")]
mod api;
mod attacks;
mod events;
mod health;
mod http;
mod metrics;
mod places;
mod prometheus;
mod stopping;
