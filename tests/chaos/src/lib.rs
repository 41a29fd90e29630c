//! The server and clients in four languages, all of them real processes. They run while everything around them breaks
//! (`scripts/chaos`), or for hours without faults (`scripts/soak`). The crate has the commands to the clients, their answers, and
//! the invariants.
//!
//! docs/testing.md describes the procedure and the checks.
#![forbid(unsafe_code)]
// The whole crate is a test: a panic fails it.
#![allow(clippy::unwrap_used)]

pub mod calls;
pub mod census;
pub mod clock;
pub mod counts;
pub mod disk;
pub mod engine;
pub mod findings;
pub mod interrupted;
pub mod line;
pub mod locks;
pub mod observers;
pub mod peer;
pub mod programs;
pub mod seat;
pub mod server;
pub mod slope;
pub mod storm;
pub mod troubles;
pub mod world;
