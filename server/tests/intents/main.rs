//! Transactions through intents, against the rules of the real store. Requests execute at any time, any response may be lost,
//! and any actor may end at any moment.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod actors;
mod cost;
mod faults;
mod history;
mod model;
mod store;
