//! The state store as a service over a keyspace, without sockets, threads and clocks.
//!
//! ```text
//!   hub ──RequestEnvelope──▶ service ──operate, page, follow──▶ Keyspace (a trait) ──▶ rules: a pure function of one entry
//!    ▲                          │ ▲                                  ├─ EmbeddedKeyspace: entries in this process
//!    └──Outcome, notifications──┘ └──── completions, changes ────────┴─ statestored-shared: entries in an engine
//!                               └──batches of writes──▶ statestored-storage
//! ```
//!
//! - [`service`]: requests and their outcomes, deadlines, repeated requests, watches, and the commit that each response waits for.
//! - [`keyspace`]: the trait [`Keyspace`](keyspace::Keyspace), the [rules](keyspace::rules) of the protocol, and the entries in memory.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

pub mod keyspace;
pub mod service;
