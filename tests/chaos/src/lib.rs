//! The server and clients in four languages, all of them real processes. They run while everything around them breaks
//! (`scripts/chaos`), or for hours without faults (`scripts/soak`). The crate has the commands to the clients, their answers, and
//! the invariants.
//!
//! docs/testing.md describes the procedure and the checks.
#![forbid(unsafe_code)]
// The whole crate is a test: a panic fails it.
#![allow(clippy::unwrap_used)]

pub mod client_slot;
pub mod clock;
pub mod counter_clients;
pub mod counter_observers;
pub mod disk;
pub mod engine;
pub mod failure_log;
pub mod fault_injector;
pub mod faults;
pub mod interruption;
pub mod key_clients;
pub mod linear_fit;
pub mod lock_clients;
pub mod peer;
pub mod peer_line;
pub mod programs;
pub mod resource_monitor;
pub mod run_state;
pub mod server;
