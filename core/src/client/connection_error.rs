//! The end of a connection, and the error that it causes.
use super::foreign_protocol::ForeignProtocol;
use crate::error::{Error, ErrorKind, Outcome};
use crate::transport::{Stream, TransportError};
use statestore_protocol::mqtt::ReasonCode;
use statestore_protocol::mqtt::session::SessionError;
use std::io;

/// Reason for the end of a connection.
#[derive(Debug)]
pub(super) enum ConnectionError {
    /// The client is closing.
    Closing,
    Transport(TransportError),
    TimedOut,
    ClosedByBroker,
    Io(io::Error),
    Session(SessionError),
    /// The first bytes from the server are not MQTT 5.
    NotMqtt(ForeignProtocol, SessionError),
}

impl ConnectionError {
    pub(super) fn is_protocol_error(&self) -> bool {
        use SessionError::{Alias, Decode, Protocol, TooManyMessages};
        matches!(
            self,
            Self::Session(Alias(_) | Decode(_) | Protocol(_) | TooManyMessages) | Self::NotMqtt(..)
        )
    }

    /// Returns whether the broker has a session that this client does not know.
    pub(super) fn is_unknown_session(&self) -> bool {
        matches!(self, Self::Session(SessionError::UnknownSession))
    }

    /// Returns whether another connection with this client id took the session over. If it belongs to another client,
    /// reconnecting would take the session from that client.
    pub(super) fn is_takeover(&self) -> bool {
        matches!(
            self,
            Self::Session(SessionError::Disconnected(disconnect))
                if disconnect.reason == ReasonCode::SESSION_TAKEN_OVER
        )
    }

    /// Replaces an I/O error by the explanation of `stream`, if it has one.
    pub(super) fn with_explanation(self, stream: &Stream) -> Self {
        match self {
            Self::Io(error) => match stream.explain(&error) {
                Some(failure) => Self::Transport(failure),
                None => Self::Io(error),
            },
            other => other,
        }
    }

    /// Returns the error for the caller. `held` is whether the connection was ready before.
    pub(super) fn into_error(self, address: &str, held: bool) -> Error {
        let action = if held {
            format!("the connection to {address}")
        } else {
            format!("connecting to {address}")
        };
        let error = |kind, reason: String| Error::new(kind, Outcome::NotDone, action, reason);
        match self {
            Self::Closing => error(ErrorKind::Closed, "the client was closed".into()),
            Self::Transport(failure) => {
                let error = error(failure.kind, failure.reason);
                match failure.source {
                    Some(source) => error.with_shared_source(source),
                    None => error,
                }
            }
            Self::NotMqtt(protocol, source) => error(
                ErrorKind::ConnectionRefused,
                match protocol {
                    ForeignProtocol::Unknown => format!("{protocol}: {source}"),
                    _ => protocol.to_string(),
                },
            )
            .with_source(source),
            Self::Io(source) => {
                error(ErrorKind::Unreachable, source.to_string()).with_source(source)
            }
            Self::TimedOut => error(
                ErrorKind::Unreachable,
                "the broker did not answer in time".into(),
            ),
            Self::ClosedByBroker => error(
                ErrorKind::Unreachable,
                "the broker closed the connection".into(),
            ),
            Self::Session(source) => {
                let (kind, reason) = match &source {
                    SessionError::Refused(connack) => {
                        (refusal_kind(connack.reason), Some(connack.reason))
                    }
                    SessionError::SubscriptionRefused { reason, .. } => {
                        (refusal_kind(*reason), Some(*reason))
                    }
                    SessionError::Disconnected(disconnect) => {
                        let kind = match refusal_kind(disconnect.reason) {
                            ErrorKind::NotAuthenticated => ErrorKind::NotAuthenticated,
                            _ => ErrorKind::Unreachable,
                        };
                        (kind, Some(disconnect.reason))
                    }
                    SessionError::PeerDead | SessionError::Unacknowledged => {
                        (ErrorKind::Unreachable, None)
                    }
                    _ => (ErrorKind::ConnectionRefused, None),
                };
                error(kind, source.to_string())
                    .with_mqtt_reason(reason)
                    .with_source(source)
            }
        }
    }
}

fn refusal_kind(reason: ReasonCode) -> ErrorKind {
    match reason {
        ReasonCode::BAD_USER_NAME_OR_PASSWORD
        | ReasonCode::NOT_AUTHORIZED
        | ReasonCode::BAD_AUTHENTICATION_METHOD
        | ReasonCode::BANNED => ErrorKind::NotAuthenticated,
        _ => ErrorKind::ConnectionRefused,
    }
}
