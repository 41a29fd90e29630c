//! `statestored --attach`: the store behind a broker that knows nothing of it, Mosquitto.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod away;
mod ending;
mod options;
mod requests;
mod watches;
mod world;
