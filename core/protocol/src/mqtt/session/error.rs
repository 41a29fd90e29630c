//! Reasons for the end of a connection.
use super::super::alias::AliasError;
use super::super::{ConnAck, DecodeError, Disconnect, EncodeError, ReasonCode};

/// The reason for the end of a connection.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// The broker refused the CONNECT.
    #[error("the broker refused the connection: {}{}", .0.reason, text(.0.reason_string.as_ref()))]
    Refused(Box<ConnAck>),
    /// The broker refused a subscription without which nothing works.
    #[error("the broker refused the subscription of `{filter}`: {reason}")]
    SubscriptionRefused {
        /// The topic filter.
        filter: String,
        /// Why.
        reason: ReasonCode,
    },
    /// The broker ended the connection.
    #[error("the broker closed the connection: {}{}", .0.reason, text(.0.reason_string.as_ref()))]
    Disconnected(Disconnect),
    /// The broker sent an invalid packet.
    #[error("the broker sent an unacceptable packet: {0}")]
    Decode(#[from] DecodeError),
    /// The broker used an invalid topic alias.
    #[error("the broker sent an unacceptable packet: {0}")]
    Alias(#[from] AliasError),
    /// The broker sent a packet that has no place here.
    #[error("the broker violated the protocol: {0}")]
    Protocol(&'static str),
    /// The broker sent more messages without waiting for their acknowledgements than it may.
    #[error(
        "the broker violated the protocol: it sent more messages than the Receive Maximum allows"
    )]
    TooManyMessages,
    /// The broker has a session that this client knows nothing of, [MQTT-3.2.2-4]: the next connection is to begin a
    /// [new one](super::Session::force_clean_start).
    #[error("the broker has a session of an earlier client with this client id")]
    UnknownSession,
    /// The broker answers, but has not acknowledged a PUBLISH long after its deadline.
    #[error("the broker does not acknowledge a request")]
    Unacknowledged,
    /// A packet that sets the session up cannot be encoded for this broker.
    #[error("the session cannot be set up: {0}")]
    Encode(#[from] EncodeError),
    /// A PINGREQ was not answered in time.
    #[error("the broker does not answer any more")]
    PeerDead,
}

fn text(reason_string: Option<&String>) -> String {
    reason_string
        .map(|text| format!(", \"{}\"", text.escape_debug()))
        .unwrap_or_default()
}

impl SessionError {
    /// Returns the reason code for the DISCONNECT, or `None` if the broker gets none.
    pub fn reason(&self) -> Option<ReasonCode> {
        match self {
            Self::Refused(_) | Self::Disconnected(_) | Self::PeerDead => None,
            Self::SubscriptionRefused { .. } | Self::Encode(_) | Self::UnknownSession => {
                Some(ReasonCode::SUCCESS)
            }
            Self::Unacknowledged => Some(ReasonCode::UNSPECIFIED_ERROR),
            Self::Decode(error) => Some(error.reason()),
            Self::Alias(error) => Some(error.reason()),
            Self::Protocol(_) => Some(ReasonCode::PROTOCOL_ERROR),
            Self::TooManyMessages => Some(ReasonCode::RECEIVE_MAXIMUM_EXCEEDED),
        }
    }
}
