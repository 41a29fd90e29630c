//! The engine through its public interface, under a simulated clock.
#![allow(clippy::unwrap_used)]

mod clock;
mod conditions;
mod expiry;
mod get_many;
mod limits;
mod model;
mod patterns;
mod replay;
mod restore;
mod rules;
mod scan;
mod simulation;
mod store;
mod terms;
mod transactions;
mod vectors;
mod watch;
