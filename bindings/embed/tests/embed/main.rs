//! The shared part of the bindings, through its public interface, against a whole server.
#![allow(clippy::unwrap_used)]

mod callbacks;
mod closing;
mod driving;
mod event_streams;
mod locks;
mod operations;
mod panics;
mod server;
mod waiting;
