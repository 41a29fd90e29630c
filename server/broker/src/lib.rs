//! The MQTT 5 broker in front of the state store, without sockets, threads and clocks.
//!
//! ```text
//!   driver ──bytes──▶ statestored-connection ──packets──▶ hub ──requests──▶ statestored-store
//!     ▲                codec, output, keep-alive          │ sessions, subscriptions, wills, logins, limits
//!     └─────bytes──────────────◀──packets────────────────┤
//!                                                         └─ broker: requests that come through another broker
//! ```
//!
//! The driver gives the [`Hub`](hub::Hub) the bytes of each connection and the time, and takes the bytes to send. What happened to
//! clients is logged by [`audit`].
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

pub mod audit;
pub mod hub;
mod large_allocations;

pub use large_allocations::{LargeAllocations, ProcessMemory};
pub use statestored_connection::ConnectionId;
