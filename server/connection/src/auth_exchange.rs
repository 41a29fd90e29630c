//! Authentication of a client: its CONNECT, or its reauthentication.
use super::{Connection, connect_bytes};
use bytes::Bytes;
use statestore_protocol::mqtt::Connect;
use statestored_access::{LoginRefusal, ScramExchange};

/// A client's credentials that have no answer yet.
#[derive(Debug)]
pub struct AuthExchange {
    /// Credentials that the client presents.
    pub credentials: PresentedCredentials,
    /// Progress of their verification.
    pub state: AuthState,
    /// The client's response to a challenge until it is verified.
    pub response: Option<ChallengeResponse>,
}

/// A client's response to a challenge.
pub struct ChallengeResponse {
    /// Exchange that the response continues.
    pub exchange: Box<ScramExchange>,
    /// Data of the AUTH packet.
    pub data: Bytes,
}

impl std::fmt::Debug for ChallengeResponse {
    /// Omits the response, which is secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("ChallengeResponse")
            .field(&self.exchange)
            .finish()
    }
}

/// Credentials of a client.
pub enum PresentedCredentials {
    /// The client's CONNECT.
    Connect(Box<Connect>),
    /// The data of an AUTH packet with which the client reauthenticates.
    Reauthentication(Bytes),
}

/// The progress of the verification.
#[derive(Debug)]
pub enum AuthState {
    /// Delayed because earlier logins were refused.
    Delayed,
    /// Queued for verification.
    Queued,
    /// Being verified by another thread.
    Verifying {
        /// Time since when, in milliseconds of the monotonic clock.
        since_ms: u64,
    },
    /// Refused; the answer is held back.
    Refused(LoginRefusal),
    /// Waiting for the client's response to a challenge.
    Challenged(Box<ScramExchange>),
}

impl std::fmt::Debug for PresentedCredentials {
    /// Omits the credentials, which are secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Connect(_) => "Shown::Connect",
            Self::Reauthentication(_) => "Shown::Again",
        })
    }
}

impl AuthExchange {
    /// Returns the memory of the credentials, in bytes.
    pub(super) fn bytes(&self) -> usize {
        let shown = match &self.credentials {
            PresentedCredentials::Connect(connect) => connect_bytes(connect),
            PresentedCredentials::Reauthentication(data) => data.len(),
        };
        shown + self.response.as_ref().map_or(0, |answer| answer.data.len())
    }
}

impl Connection {
    /// Stores credentials that have no answer yet. Nothing is read behind a CONNECT meanwhile, unless the client gets a
    /// challenge.
    pub fn begin_auth(&mut self, credentials: PresentedCredentials, state: AuthState) {
        self.auth_exchange = Some(Box::new(AuthExchange {
            credentials,
            state,
            response: None,
        }));
    }

    /// Returns the credentials that have no answer yet.
    pub fn auth_exchange(&self) -> Option<&AuthExchange> {
        self.auth_exchange.as_deref()
    }

    /// Returns the credentials that have no answer yet, mutably.
    pub fn auth_exchange_mut(&mut self) -> Option<&mut AuthExchange> {
        self.auth_exchange.as_deref_mut()
    }

    /// Takes the credentials, which are answered now.
    pub fn take_auth_exchange(&mut self) -> Option<AuthExchange> {
        self.auth_exchange.take().map(|proving| *proving)
    }

    /// Returns whether a CONNECT is pending behind which nothing is read.
    pub(super) fn is_connect_pending(&self) -> bool {
        let waits = |proving: &AuthExchange| {
            matches!(proving.credentials, PresentedCredentials::Connect(_))
                && !matches!(proving.state, AuthState::Challenged(_))
        };
        self.auth_exchange().is_some_and(waits)
    }

    /// Returns the method with which the client authenticates.
    pub fn auth_method(&self) -> Option<&str> {
        match self.auth_exchange() {
            Some(AuthExchange {
                credentials: PresentedCredentials::Connect(connect),
                ..
            }) => connect
                .authentication
                .as_ref()
                .map(|(method, _)| method.as_str()),
            _ => self.auth_method.as_deref(),
        }
    }

    /// Sets when the client's authentication expires, on the monotonic clock. Returns when the connection is
    /// [due](Self::due_ms).
    pub fn set_auth_expiry(&mut self, until_ms: Option<u64>) -> Option<u64> {
        self.auth_expires_ms = until_ms;
        self.due_ms()
    }

    /// Returns when the client's authentication expires.
    pub fn auth_expires_ms(&self) -> Option<u64> {
        self.auth_expires_ms
    }

    /// Returns whether the client's authentication has expired.
    pub fn is_auth_expired(&self, now_ms: u64) -> bool {
        self.auth_expires_ms
            .is_some_and(|until_ms| until_ms <= now_ms)
    }

    /// Returns when an open connection has to be checked: because it may be [silent](Self::is_silent), its
    /// authentication [expires](Self::is_auth_expired), or its [pause](Self::end_pause) ends.
    pub fn due_ms(&self) -> Option<u64> {
        let silent_ms = self.keep_alive.wake_at_ms();
        let times = [silent_ms, self.auth_expires_ms, self.paused_until_ms];
        times.into_iter().flatten().min()
    }
}
