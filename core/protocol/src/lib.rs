//! The protocol of the Azure IoT Operations state store, and the MQTT 5 that carries it: encoders and decoders.
//!
//! The client `statestore`, the server `statestored`, and their tests and fuzz targets use this crate. The types of the
//! state store are at the top level; [MQTT 5](mqtt) has its own module.
//!
//! ```
//! use bytes::{Bytes, BytesMut};
//! use statestore_protocol::{Command, Reply};
//!
//! let mut request = BytesMut::new();
//! let get = Command::Get { key: "greeting".into(), remaining: false, eventual: false };
//! get.encode(&mut request);
//! assert_eq!(Command::decode(&request.freeze())?, get);
//!
//! let reply = Reply::decode(&Bytes::from_static(b"$5\r\nhello\r\n"));
//! assert_eq!(reply, Ok(Reply::Value("hello".into())));
//! # Ok::<(), statestore_protocol::ServiceError>(())
//! ```
//!
//! Decoders accept every form that deployed stores send, and return slices of the payload. Encoders write the one form
//! that every deployed client accepts. Any input decodes to a value or an error, with memory in proportion to its length.
//!
//! # Limits
//!
//! The crate opens no socket or file, starts no thread or task, reads no clock and needs no random numbers. Bytes and
//! times are arguments; bytes and events are results. It is no client (that is the crate `statestore`) and no server. It
//! is no general MQTT library either: it has the parts of MQTT 5 that a state store and its clients need, without QoS 2.
//!
//! # Stability
//!
//! The public API follows semantic versioning. Client, server and this crate share the version of the project. A release
//! that breaks only this crate also counts as breaking. Enums that are `#[non_exhaustive]` may grow in any release. A
//! decoder may accept more in a later release, but never less. The bytes that an encoder writes change only to fix a bug.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

pub mod capabilities;
pub mod command;
mod decimal;
pub mod glob;
pub mod hlc;
pub mod mqtt;
pub mod notification;
pub mod property;
pub mod reply;
mod request_reader;
pub mod resp;
pub mod service_error;
pub mod topic;
mod version;
pub mod websocket;

pub use capabilities::Capabilities;
pub use command::{Command, CommandRef, Condition, SetOptions, TransactionOperation};
pub use hlc::{Clock, ClockSkew, Hlc, HlcError};
pub use notification::{Event, Notification, NotificationError};
pub use reply::{PageEntry, Rejection, Reply, ReplyError};
pub use request_reader::RequestReader;
pub use service_error::ServiceError;
pub use version::Version;

/// The program in the README, so that it is run with the examples of this documentation.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
