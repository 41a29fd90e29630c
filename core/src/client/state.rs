//! The state of the connection.
use crate::{Error, LostReason};
use std::fmt;

/// The state of a client's connection. [`Client::state`](crate::Client::state) follows it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum ConnectionState {
    /// The first connection is being established.
    Connecting,
    /// Requests are sent at once.
    Connected,
    /// The connection was lost for this reason and is being restored. Requests wait. With
    /// [`Settings::lazy`](crate::Settings::lazy), also: the attempts so far to establish the first connection failed, the last
    /// one for this reason.
    Reconnecting(Error),
    /// The client is closed; every request fails.
    Closed {
        /// [`Closed`](LostReason::Closed), [`TakenOver`](LostReason::TakenOver) or [`GaveUp`](LostReason::GaveUp).
        lost_reason: LostReason,
        /// The error that describes the end.
        error: Error,
    },
}

impl fmt::Display for ConnectionState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connecting => f.write_str("connecting"),
            Self::Connected => f.write_str("connected"),
            Self::Reconnecting(error) => write!(f, "reconnecting: {error}"),
            Self::Closed { lost_reason, error } => write!(f, "closed ({lost_reason}): {error}"),
        }
    }
}

impl ConnectionState {
    /// Returns whether requests are sent at once.
    pub fn is_connected(&self) -> bool {
        matches!(self, Self::Connected)
    }
    /// Returns whether the client is closed.
    pub fn is_closed(&self) -> bool {
        matches!(self, Self::Closed { .. })
    }
}
