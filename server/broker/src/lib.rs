//! The MQTT 5 broker in front of the state store, without sockets, threads and clocks.
//!
//! ```text
//!   driver ──bytes──▶ connection ──packets──▶ hub ──requests──▶ statestored-store
//!     ▲                codec, output,          │ sessions, subscriptions, wills, logins, limits
//!     └─────bytes───── keep-alive ◀──packets───┤
//!                                              └─ broker: requests that come through another broker
//! ```
//!
//! The driver gives the [`Hub`](hub::Hub) the bytes of each connection and the time, and takes the bytes to send. What happened to
//! clients is logged by [`audit`].
#![forbid(unsafe_code)]

pub mod audit;
mod connection;
pub mod hub;
mod large_allocations;
mod memory_budget;
pub mod proxy_header;
mod timer_queue;

pub use connection::ConnectionId;
pub use large_allocations::{LargeAllocations, ProcessMemory};
