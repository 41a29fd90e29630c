//! The hub without sockets: scripted bytes in, bytes out, under a simulated clock.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod attached;
mod backpressure;
mod connect;
mod drain;
mod durability;
mod fairness;
mod flow;
mod keep_alive;
mod limits;
mod matching;
mod misuse;
mod patterns;
mod policy;
mod probes;
mod random_sequences;
mod requests;
mod routing;
mod sessions;
mod slices;
mod store;
mod traces;
mod transactions;
mod users;
mod wills;
mod world;
