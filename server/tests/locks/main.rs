//! Leases, locks, elections, updates and transactions through intents of whole clients against a whole hub, on simulated time.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod election;
mod exclusion;
mod intents;
mod lease;
mod machine;
mod model;
mod model_config;
mod network;
mod network_simulation;
mod release;
mod renewal;
mod run_under_lock;
mod update;
mod waiting;
