//! Transactions through intents: every request at any time, any answer lost, any of them at an end at any moment, against the
//! rules of the real store.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod actors;
mod cost;
mod faults;
mod history;
mod model;
mod store;
