//! Servers over a real Redis: what one of them did, the others know.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod attached;
#[path = "../elsewhere/mod.rs"]
mod elsewhere;
mod replicas;
mod secure;
mod server;
mod unfit;

elsewhere::suite::suite!(crate::server::Redis);
