//! The state store protocol: bytes to values and back, in both directions.
//!
//! Nothing in here reads a clock, opens a socket or keeps state.

pub mod command;
pub mod glob;
pub mod hlc;
pub mod notification;
pub mod property;
pub mod reply;
pub mod resp;
pub mod service_error;
pub mod topic;

pub use command::{Command, Condition, SetOptions};
pub use hlc::{Clock, ClockSkew, Hlc, HlcError};
pub use notification::{Event, Notification, NotificationError};
pub use reply::{Reply, ReplyError};
pub use service_error::ServiceError;
