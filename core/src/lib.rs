//! Client for the Azure IoT Operations state store, over MQTT 5.
//!
//! ```no_run
//! # async fn example() -> Result<(), statestore::Error> {
//! use statestore::{Client, Settings};
//!
//! let client = Client::connect(Settings::from_url("mqtt://localhost:1883")?).await?;
//! client.set("greeting", "hello").await?;
//! let entry = client.get("greeting").await?;
//! assert_eq!(entry.map(|entry| entry.value), Some("hello".into()));
//! client.close().await;
//! # Ok(())
//! # }
//! ```
//!
//! Every call ends exactly once: with a result, or with an [`Error`] that says whether the operation certainly did not
//! happen ([`Outcome::NotDone`]) or may have happened ([`Outcome::Unknown`]). An absent key and a condition that is not met
//! are results.
//!
//! The names that this crate takes from the bytes of the protocol ([`Hlc`], [`Version`], [`Condition`], [`Capabilities`],
//! [`ServiceError`], [`ReasonCode`]) are those of [`statestore_protocol`], where whoever writes a server or a tool finds the rest.
//!
//! # Tracing
//! What happens to the connection is told to [`tracing`](https://docs.rs/tracing) as events, of level WARN where somebody should look.
//! Each request is a span of level DEBUG with the target `statestore::request`. Unless a subscriber wants it, that costs a comparison
//! when a request begins and one when it ends.
//! Neither has keys, values or credentials. A span has these fields, the last three of them when it ends:
//! - `verb`: `SET`, for instance, and `key_bytes`, the length of the key or pattern.
//! - `attempts`: how often it was sent as a new request: 0 if it never left, more than 1 if a session was lost.
//! - `latency_us`: microseconds from the first poll to the end, the time in the queue included.
//! - `outcome`: `ok`; the kind of error in words, as `timed out`; or `cancelled`.
//!
//! ```no_run
//! use tracing_subscriber::filter::{LevelFilter, Targets};
//! use tracing_subscriber::fmt::format::FmtSpan;
//! use tracing_subscriber::prelude::*;
//!
//! // Prints each request when it ends, and nothing else.
//! let requests = Targets::new().with_target("statestore::request", LevelFilter::DEBUG);
//! let printer = tracing_subscriber::fmt::layer().with_span_events(FmtSpan::CLOSE);
//! tracing_subscriber::registry().with(printer.with_filter(requests)).init();
//! ```
//!
//! # Tests
//! The crate `statestored` is the server as a library: each test can have an empty one of its own, in its process and in memory, which ends
//! when it is dropped.
//!
//! ```
//! use statestore::{Client, Settings};
//! use statestored::{RunningServer, config::Config};
//!
//! #[tokio::main(flavor = "current_thread")]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let server = RunningServer::start(Config::in_memory())?;
//!     let client = Client::connect(Settings::from_url(&server.url())?).await?;
//!     client.set("greeting", "hello").await?;
//!     assert!(client.get("greeting").await?.is_some());
//!     client.close().await;
//!     Ok(())
//! }
//! ```
//!
//! For a paused clock, see [`Platform`](platform::Platform#paused-time).
//!
//! # Features
//! - `ring` (on by default): `mqtts` connections with the cryptography of ring. It includes `tls`.
//! - `tls`: `mqtts` connections with the cryptography that the program installs or [configures](Settings::rustls_config); a
//!   program that must not contain ring takes this one alone. [`rustls`] is the version that fits.
//! - `ws`: MQTT over WebSocket, `ws` and `wss`.
//! - `serde`: [`Hlc`] (as text) and [`Entry`] are values of serde.
//!
//! # Compatibility
//! Until version 1.0, a change of the first or second number of the version may break programs. A later version may add kinds of errors,
//! observations, options, capabilities, counters, and fields of [`Entry`], [`Holding`] and [`Leader`], which are `#[non_exhaustive]`.
//! The outcomes of calls ([`SetOutcome`], [`DelOutcome`], [`VdelOutcome`], [`UpdateOutcome`], [`TransactionOutcome`], [`Acquisition`],
//! [`Release`]) are not: a program that matches all of them stays complete, and another outcome needs a version that may break programs.
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod as_bytes;
mod client;
mod error;
pub mod intents;
pub mod lock;
mod lost_reason;
pub mod platform;
mod request;
mod settings;
mod transport;

pub use as_bytes::AsBytes;
/// The version of `bytes` whose types are in the signatures of this crate.
pub use bytes;
pub use client::{
    Abandoned, Client, ConnectionState, Counters, DelOptions, DelOutcome, Entry, Expiry,
    GetOptions, Observation, ObserveOptions, Observer, Overflow, Retry, Scan, ScanOptions,
    ScanStream, SetOptions, SetOutcome, TransactOptions, Transaction, TransactionOutcome,
    VdelOutcome,
};
pub use error::{Error, ErrorKind, Outcome};
pub use lock::{
    Acquisition, Election, Followed, Guard, Holder, HolderObserver, Holding, Leader,
    LeaderObserver, Leadership, Lease, LeaseOptions, LockOptions, Release, Renewal, UpdateOptions,
    UpdateOutcome,
};
pub use lost_reason::LostReason;
#[cfg(feature = "tls")]
pub use rustls;
pub use settings::Settings;
pub use statestore_protocol::{
    Capabilities, Condition, Hlc, HlcError, ServiceError, Version, mqtt::ReasonCode,
};
/// The version of `tokio` whose types are in the signatures of this crate: [`sync::watch::Receiver`](tokio::sync::watch::Receiver) and
/// [`time::Instant`](tokio::time::Instant).
pub use tokio;

/// The programs in Rust of these pages, so that they are compiled with the examples of this documentation.
#[cfg(doctest)]
#[doc = include_str!("../../docs/start.md")]
#[doc = include_str!("../../docs/connecting.md")]
#[doc = include_str!("../../docs/rust.md")]
#[doc = include_str!("../README.md")]
struct Readme;
