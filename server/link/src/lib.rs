//! Connections to an engine that several servers share: a thread with the sockets, and what is the same for every engine.
//!
//! ```text
//!   SharedKeyspace ──requests──▶ ThreadLink ══channel══▶ thread ──▶ statestored-etcd, statestored-redis ──▶ engine
//!        ▲                           │
//!        └────────events─────────────┘
//! ```
#![forbid(unsafe_code)]

pub mod adaptive_batch_size;
mod engine_config;
pub mod log_deduplicator;
pub mod restoring;
mod runtime;
pub mod snapshots;
pub mod thread_link;
pub mod tls;

pub use engine_config::{EtcdConfig, RedisConfig};
pub use runtime::single_threaded_runtime;
pub use thread_link::{EngineThread, ThreadLink};
pub use tls::EngineTls;
