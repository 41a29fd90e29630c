//! `statestored --attach`: the store behind a broker that knows nothing of it, Mosquitto.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#[path = "../doors/authority.rs"]
#[allow(dead_code, reason = "other tests need more of it")]
mod authority;
mod bridge;
mod bridged;
mod broker_probes;
mod identity;
mod options;
mod plugin;
mod reconnect;
mod requests;
mod secure;
mod shutdown;
mod watches;
mod world;
