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
//! Decoders accept every form that deployed stores send and hand out slices of the payload; encoders write the one form
//! that every deployed client accepts. Whatever bytes arrive, the answer is a value or an error, and never takes more
//! memory than the bytes suggest.
//!
//! # What it is not
//!
//! Nothing in here opens a socket or a file, starts a thread or a task, reads a clock or asks for a random number: bytes
//! and times come in as arguments, bytes and events go out. Therefore it is no client (that is the crate `statestore`) and
//! no server. Nor is it an MQTT library for everything: of MQTT 5 it has what a state store and its clients need, which is
//! not QoS 2.
//!
//! # What is promised
//!
//! Everything public follows semantic versioning. The version is that of the project, the same for client, server and
//! this crate; a release that breaks only what is in here counts as breaking nevertheless. Enums that are
//! `#[non_exhaustive]` may grow in any release. A decoder may come to accept more, and does not come to accept less; the
//! bytes that an encoder writes do not change but for a fault.
#![forbid(unsafe_code)]

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
pub use reply::{Rejection, Reply, ReplyError};
pub use request_reader::RequestReader;
pub use service_error::ServiceError;
pub use version::Version;

/// The program in the README, so that it is run with the examples of this documentation.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
