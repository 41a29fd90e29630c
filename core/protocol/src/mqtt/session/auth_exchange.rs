//! The client's side of enhanced authentication (MQTT 5, section 4.12). It supports methods in which a single message
//! carries all of the client's data, such as a token.
use super::super::{Auth, ReasonCode};
use super::error::SessionError;
use bytes::Bytes;
use std::fmt;

/// The state of an authentication over one connection.
#[derive(Default)]
pub(super) struct AuthExchange {
    /// The method, and the last data that was sent.
    sent: Option<(String, Bytes)>,
    /// The client asked to be authenticated again and has no answer.
    reauthenticating: bool,
    /// The broker has asked for the data again.
    challenged: bool,
    /// Newer data, for when the current authentication is done.
    pending: Option<Bytes>,
}

impl AuthExchange {
    /// Records that a CONNECT with this method and data is sent.
    pub(super) fn connecting(&mut self, shown: Option<(String, Bytes)>) {
        *self = Self {
            sent: shown,
            ..Self::default()
        };
    }

    /// Records that the broker accepted the CONNECT. Returns an AUTH if one must be sent.
    pub(super) fn connected(&mut self) -> Option<Auth> {
        self.challenged = false;
        let next = self.pending.take()?;
        self.reauthenticate(next)
    }

    /// Stores newer data. While the CONNECT is unanswered, the data waits; otherwise returns an AUTH if one must be sent.
    pub(super) fn update(&mut self, data: Bytes, is_connected: bool) -> Option<Auth> {
        if self.reauthenticating || !is_connected {
            self.pending = Some(data);
            return None;
        }
        self.reauthenticate(data)
    }

    fn reauthenticate(&mut self, data: Bytes) -> Option<Auth> {
        let (_, shown) = self.sent.as_mut()?;
        if *shown == data {
            return None;
        }
        *shown = data;
        self.reauthenticating = true;
        self.auth(ReasonCode::REAUTHENTICATE)
    }

    /// Handles an AUTH of the broker. Returns the answer, and whether it completes an authentication.
    pub(super) fn receive(
        &mut self,
        auth: &Auth,
        is_connected: bool,
    ) -> Result<(Option<Auth>, bool), SessionError> {
        let Some((method, _)) = &self.sent else {
            return Err(SessionError::Protocol(
                "an AUTH without an authentication method in CONNECT",
            ));
        };
        if auth
            .method
            .as_ref()
            .is_some_and(|received| received != method)
        {
            return Err(SessionError::Protocol(
                "an AUTH with another method than the CONNECT's",
            ));
        }
        if is_connected && !self.reauthenticating {
            return Err(SessionError::Protocol("an AUTH unasked"));
        }
        match auth.reason {
            // The data is the same, whatever the broker asks, so asking more than once leads nowhere.
            ReasonCode::CONTINUE_AUTHENTICATION if !self.challenged => {
                self.challenged = true;
                Ok((self.auth(ReasonCode::CONTINUE_AUTHENTICATION), false))
            }
            ReasonCode::CONTINUE_AUTHENTICATION => Err(SessionError::Protocol(
                "a second AUTH that asks for the same data",
            )),
            ReasonCode::SUCCESS if is_connected => {
                self.reauthenticating = false;
                Ok((self.connected(), true))
            }
            _ => Err(SessionError::Protocol(
                "an AUTH with a reason code that is not allowed here",
            )),
        }
    }

    fn auth(&self, reason: ReasonCode) -> Option<Auth> {
        let (method, data) = self.sent.clone()?;
        Some(Auth {
            reason,
            method: Some(method),
            data: Some(data),
            reason_string: None,
        })
    }
}

impl fmt::Debug for AuthExchange {
    /// Omits the authentication data.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthExchange")
            .field("method", &self.sent.as_ref().map(|(method, _)| method))
            .field("again", &self.reauthenticating)
            .field("challenged", &self.challenged)
            .field("next", &self.pending.is_some())
            .finish()
    }
}
