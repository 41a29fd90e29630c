//! Authentication of a client: its CONNECT, or its reauthentication.
use super::{Connection, connect_bytes};
use crate::access::{Exchange, Refusal};
use bytes::Bytes;
use statestore_protocol::mqtt::Connect;

/// A client's credentials that have no answer yet.
#[derive(Debug)]
pub(crate) struct Proving {
    pub(crate) shown: Shown,
    pub(crate) stage: Stage,
    /// The client's response to a challenge until it is verified.
    pub(crate) answer: Option<Answer>,
}

/// A client's response to a challenge.
pub(crate) struct Answer {
    pub(crate) exchange: Box<Exchange>,
    pub(crate) data: Bytes,
}

impl std::fmt::Debug for Answer {
    /// Omits the response, which is secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Answer").field(&self.exchange).finish()
    }
}

/// Credentials of a client.
pub(crate) enum Shown {
    /// The client's CONNECT.
    Connect(Box<Connect>),
    /// The data of an AUTH packet with which the client reauthenticates.
    Again(Bytes),
}

/// The progress of the verification.
#[derive(Debug)]
pub(crate) enum Stage {
    /// Delayed because earlier logins were refused.
    Delayed,
    /// Queued for verification.
    Queued,
    /// Being verified by another thread, since this time on the monotonic clock.
    Looked { since_ms: u64 },
    /// Refused; the answer is held back.
    Refused(Refusal),
    /// Waiting for the client's response to a challenge.
    Asked(Box<Exchange>),
}

impl std::fmt::Debug for Shown {
    /// Omits the credentials, which are secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Connect(_) => "Shown::Connect",
            Self::Again(_) => "Shown::Again",
        })
    }
}

impl Proving {
    /// Returns the memory of the credentials, in bytes.
    pub(super) fn bytes(&self) -> usize {
        let shown = match &self.shown {
            Shown::Connect(connect) => connect_bytes(connect),
            Shown::Again(data) => data.len(),
        };
        shown + self.answer.as_ref().map_or(0, |answer| answer.data.len())
    }
}

impl Connection {
    /// Stores credentials that have no answer yet. Nothing is read behind a CONNECT meanwhile, unless the client gets a
    /// challenge.
    pub(crate) fn prove(&mut self, shown: Shown, stage: Stage) {
        self.proving = Some(Box::new(Proving {
            shown,
            stage,
            answer: None,
        }));
    }

    /// Returns the credentials that have no answer yet.
    pub(crate) fn proving(&self) -> Option<&Proving> {
        self.proving.as_deref()
    }

    /// Returns the credentials that have no answer yet, mutably.
    pub(crate) fn proving_mut(&mut self) -> Option<&mut Proving> {
        self.proving.as_deref_mut()
    }

    /// Takes the credentials, which are answered now.
    pub(crate) fn take_proving(&mut self) -> Option<Proving> {
        self.proving.take().map(|proving| *proving)
    }

    /// Returns whether a CONNECT is pending behind which nothing is read.
    pub(super) fn is_held_up(&self) -> bool {
        let waits = |proving: &Proving| {
            matches!(proving.shown, Shown::Connect(_)) && !matches!(proving.stage, Stage::Asked(_))
        };
        self.proving().is_some_and(waits)
    }

    /// Returns the method with which the client authenticates.
    pub(crate) fn method(&self) -> Option<&str> {
        match self.proving() {
            Some(Proving {
                shown: Shown::Connect(connect),
                ..
            }) => connect
                .authentication
                .as_ref()
                .map(|(method, _)| method.as_str()),
            _ => self.method.as_deref(),
        }
    }

    /// Sets when the client's authentication expires, on the monotonic clock. Returns when the connection is
    /// [due](Self::due_ms).
    pub(crate) fn holds_until(&mut self, until_ms: Option<u64>) -> Option<u64> {
        self.until_ms = until_ms;
        self.due_ms()
    }

    /// Returns when the client's authentication expires.
    pub(crate) fn until_ms(&self) -> Option<u64> {
        self.until_ms
    }

    /// Returns whether the client's authentication has expired.
    pub(crate) fn is_over(&self, now_ms: u64) -> bool {
        self.until_ms.is_some_and(|until_ms| until_ms <= now_ms)
    }

    /// Returns when an open connection has to be checked: because it may be [silent](Self::is_silent), its
    /// authentication [expires](Self::is_over), or its [pause](Self::end_pause) ends.
    pub(crate) fn due_ms(&self) -> Option<u64> {
        let silent_ms = self.keep_alive.wake_at_ms();
        let times = [silent_ms, self.until_ms, self.paused_until_ms];
        times.into_iter().flatten().min()
    }
}
