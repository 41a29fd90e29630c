//! `statestored --attach`: the store behind a broker that knows nothing of it, Mosquitto.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#[path = "../doors/authority.rs"]
#[allow(dead_code, reason = "other tests need more of it")]
mod authority;
mod away;
mod bridge;
mod bridged;
mod ending;
mod half_dead;
mod identity;
mod options;
mod plugin;
mod requests;
mod secure;
mod watches;
mod world;
