//! A client that is still to prove who it is, or does so again.
use super::{Connection, connect_bytes};
use crate::access::{Exchange, Refusal};
use bytes::Bytes;
use statestore_protocol::mqtt::Connect;

/// What a client has shown of itself that has no answer yet.
#[derive(Debug)]
pub(crate) struct Proving {
    pub(crate) shown: Shown,
    pub(crate) stage: Stage,
    /// What it has answered to what it was asked, until that is looked at.
    pub(crate) answer: Option<Answer>,
}

/// What a client has answered.
pub(crate) struct Answer {
    pub(crate) exchange: Box<Exchange>,
    pub(crate) data: Bytes,
}

impl std::fmt::Debug for Answer {
    /// Without the answer.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Answer").field(&self.exchange).finish()
    }
}

/// What it has shown.
pub(crate) enum Shown {
    /// Its CONNECT.
    Connect(Box<Connect>),
    /// The data of an AUTH with which it authenticates again.
    Again(Bytes),
}

/// How far that is looked at.
#[derive(Debug)]
pub(crate) enum Stage {
    /// It waits until its turn has come, since others were refused.
    Delayed,
    /// It waits until somebody has time to look at it.
    Queued,
    /// Another thread looks at it, since this time on the monotonic clock.
    Looked { since_ms: u64 },
    /// The login is refused, and the answer is held back.
    Refused(Refusal),
    /// The client was asked something.
    Asked(Box<Exchange>),
}

impl std::fmt::Debug for Shown {
    /// Without what it has shown.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Connect(_) => "Shown::Connect",
            Self::Again(_) => "Shown::Again",
        })
    }
}

impl Proving {
    /// Memory that it takes, in bytes.
    pub(super) fn bytes(&self) -> usize {
        let shown = match &self.shown {
            Shown::Connect(connect) => connect_bytes(connect),
            Shown::Again(data) => data.len(),
        };
        shown + self.answer.as_ref().map_or(0, |answer| answer.data.len())
    }
}

impl Connection {
    /// The client has shown something that has no answer yet. Nothing is read behind a CONNECT meanwhile, unless the client
    /// is asked something.
    pub(crate) fn prove(&mut self, shown: Shown, stage: Stage) {
        self.proving = Some(Box::new(Proving {
            shown,
            stage,
            answer: None,
        }));
    }

    /// What has no answer yet.
    pub(crate) fn proving(&self) -> Option<&Proving> {
        self.proving.as_deref()
    }

    /// The same, to go on with.
    pub(crate) fn proving_mut(&mut self) -> Option<&mut Proving> {
        self.proving.as_deref_mut()
    }

    /// It has an answer.
    pub(crate) fn take_proving(&mut self) -> Option<Proving> {
        self.proving.take().map(|proving| *proving)
    }

    /// Whether a CONNECT waits behind which nothing is read.
    pub(super) fn is_held_up(&self) -> bool {
        let waits = |proving: &Proving| {
            matches!(proving.shown, Shown::Connect(_)) && !matches!(proving.stage, Stage::Asked(_))
        };
        self.proving().is_some_and(waits)
    }

    /// The method with which the client authenticates.
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

    /// Until when it holds who the client is, on the monotonic clock. Says when the connection is to be
    /// [looked at](Self::due_ms).
    pub(crate) fn holds_until(&mut self, until_ms: Option<u64>) -> Option<u64> {
        self.until_ms = until_ms;
        self.due_ms()
    }

    /// Until when it holds who the client is.
    pub(crate) fn until_ms(&self) -> Option<u64> {
        self.until_ms
    }

    /// Whether it does not hold any more who the client is.
    pub(crate) fn is_over(&self, now_ms: u64) -> bool {
        self.until_ms.is_some_and(|until_ms| until_ms <= now_ms)
    }

    /// When an open connection is to be looked at: whether it is [silent](Self::is_silent), or [over](Self::is_over), or its
    /// [pause](Self::end_pause) is.
    pub(crate) fn due_ms(&self) -> Option<u64> {
        let silent_ms = self.keep_alive.wake_at_ms();
        let times = [silent_ms, self.until_ms, self.paused_until_ms];
        times.into_iter().flatten().min()
    }
}
