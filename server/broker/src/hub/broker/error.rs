//! The error of a connection to the broker.
use statestore_protocol::mqtt::ReasonCode;
use statestore_protocol::mqtt::session::SessionError;

/// The reason for which a connection to the broker ends.
#[derive(Debug, thiserror::Error)]
pub enum BrokerError {
    /// An error of the session, or of the broker.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// A probe was lost.
    #[error(
        "the broker answers pings, but does not deliver messages: none came back from {topic} in time; check its queues, and \
         that its rules allow this server the topic"
    )]
    ProbeLost {
        /// The topic of the probes.
        topic: String,
    },
    /// Log entries of the group arrive faster than this server can process them.
    #[error(
        "messages from the servers of the group arrive faster than this server processes them: it restarts its part of the group"
    )]
    LogOverflow,
}

impl BrokerError {
    /// Returns the reason code of the DISCONNECT to the broker, if one should be sent.
    pub fn reason(&self) -> Option<ReasonCode> {
        match self {
            Self::Session(error) => error.reason(),
            Self::LogOverflow | Self::ProbeLost { .. } => Some(ReasonCode::SUCCESS),
        }
    }
}
