//! The state store protocol: bytes to values and back, in both directions.
//!
//! Nothing in here reads a clock or opens a socket. Decoders accept every form that deployed stores send and hand out
//! slices of the payload; encoders write the one form that every deployed client accepts. Whatever bytes arrive, the
//! answer is a value or an error, and never takes more memory than the bytes suggest.

pub mod command;
mod decimal;
pub mod glob;
pub mod hlc;
pub mod notification;
pub mod property;
pub mod reply;
pub mod resp;
pub mod service_error;
pub mod topic;

pub use command::{Command, CommandRef, Condition, SetOptions};
pub use hlc::{Clock, ClockSkew, Hlc, HlcError};
pub use notification::{Event, Notification, NotificationError};
pub use reply::{Reply, ReplyError};
pub use service_error::ServiceError;
