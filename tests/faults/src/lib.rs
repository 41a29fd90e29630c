//! Real faults on real sockets: a [`Proxy`] between the client and `statestored`, or between the client and [`Mosquitto`] with an
//! [`AttachedStore`] behind it.
//!
//! Results that depend on the machine, such as the order in which sockets become ready, differ from run to run. The checks hold
//! for every order. Reproducible runs are in the simulation.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used)]

pub mod attached_store;
pub mod change_recorder;
pub mod set_load;

pub use attached_store::AttachedStore;
pub use change_recorder::{ChangeRecorder, KeyHistory};
pub use harness::{
    AcceptMode, CutKind, Direction, Mosquitto, Proxy, WAIT_LIMIT, direct, free_port, reconnecting,
    until, within,
};
pub use set_load::{SetAttempt, SetLoad};

use statestored::RunningServer;
use statestored::config::Config;
use std::net::SocketAddr;

/// A store in memory, and its address.
pub fn store() -> (RunningServer, SocketAddr) {
    let server = RunningServer::start(Config::in_memory()).unwrap();
    let address = server.addresses()[0];
    (server, address)
}
