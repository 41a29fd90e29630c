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
//! Every call ends exactly once, with a result or with an [`Error`]. The error reports whether the operation certainly was not
//! executed ([`Outcome::NotDone`]) or may have been executed ([`Outcome::Unknown`]). An absent key and an unmet condition are
//! results.
//!
//! [`Hlc`], [`Version`], [`Condition`], [`Capabilities`], [`ServiceError`] and [`ReasonCode`] are types of
//! [`statestore_protocol`]. Use that crate if you write a server or a tool.
//!
//! # Tracing
//! The client reports events of the connection to [`tracing`](https://docs.rs/tracing), with the level WARN if they need
//! attention. Each request is a span of level DEBUG with the target `statestore::request`. Unless a subscriber enables it, a
//! span costs one comparison when a request begins and one when it ends. Events and spans contain no keys, values or
//! credentials. A span has these fields, the last three of them at its end:
//! - `verb`: the command, such as `SET`, and `key_bytes`, the length of the first key or the pattern.
//! - `attempts`: number of times that the request was sent as a new one. It is 0 if the request was never sent, and more than 1
//!   after a lost session.
//! - `latency_us`: microseconds from the first poll to the end, including the time in the queue.
//! - `outcome`: `ok`; the kind of error in words, such as `timed out`; or `cancelled`.
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
//! The crate `statestored` is the server as a library. Each test can start its own empty server, in its process and in memory,
//! which ends when it is dropped; the documentation of `statestored` shows one.
//!
//! For a paused clock, see [`Platform`](platform::Platform#paused-time).
//!
//! # Features
//! - `ring` (on by default): `mqtts` connections with the cryptography of ring. Includes `tls`.
//! - `tls`: `mqtts` connections with cryptography that the program installs or [configures](Settings::rustls_config). Use this
//!   feature alone if your program must not contain ring. [`rustls`] is the matching version.
//! - `ws`: MQTT over WebSocket, `ws` and `wss`.
//! - `json`: calls that read and write values as JSON.
//! - `serde`: implementations of the serde traits for [`Hlc`] (as text) and [`Entry`].
//!
//! # Compatibility
//! Until version 1.0, a change of the first or second number of the version may break programs. A later version may add kinds of
//! errors, observations, options, capabilities, counters, and fields of [`Entry`], [`Holding`] and [`Leader`], which are
//! `#[non_exhaustive]`. The outcomes of calls ([`SetOutcome`], [`DelOutcome`], [`VdelOutcome`], [`UpdateOutcome`],
//! [`TransactionOutcome`], [`Acquisition`], [`Release`], [`TryNextError`]) are exhaustive. A `match` of all variants stays
//! complete, and a new variant requires a version that may break programs.
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod as_bytes;
mod client;
mod counters;
mod error;
pub mod lock;
mod lost_reason;
pub mod platform;
mod request;
mod settings;
mod transaction_record;
mod transport;

pub use as_bytes::AsBytes;
/// The version of `bytes` whose types are in the signatures of this crate.
pub use bytes;
pub use client::{
    CancellationRecorder, Client, ConnectionState, DelOptions, DelOutcome, Entries, Entry,
    EntryScan, Expiry, GetOptions, MatchObservation, MatchObserver, Mirror, MirrorChanges,
    MirrorOptions, Observation, ObserveMatchingOptions, ObserveOptions, Observer, Overflow, Scan,
    ScanOptions, ScanStream, SetOptions, SetOutcome, TransactOptions, Transaction,
    TransactionOutcome, TryNextError, VdelOutcome,
};
pub use counters::Counters;
pub use error::{Error, ErrorKind, Outcome};
pub use lock::{
    Acquisition, Election, Guard, Holder, HolderObserver, Holding, Leader, LeaderObserver,
    Leadership, Lease, LeaseOptions, LockOptions, Observable, Release, Renewal, UpdateOptions,
    UpdateOutcome,
};
pub use lost_reason::LostReason;
pub use request::Retry;
#[cfg(feature = "tls")]
pub use rustls;
pub use settings::Settings;
pub use statestore_protocol::{
    Capabilities, Condition, Hlc, HlcError, ServiceError, Version, mqtt::ReasonCode,
};
/// The version of `tokio` whose types are in the signatures of this crate: [`sync::watch::Receiver`](tokio::sync::watch::Receiver) and
/// [`time::Instant`](tokio::time::Instant).
pub use tokio;
pub use transaction_record::TransactionRecord;
