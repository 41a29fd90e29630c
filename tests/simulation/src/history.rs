//! The calls of the clients, and their results.
use bytes::Bytes;
use statestore::{Condition, ErrorKind, Hlc, Outcome};

/// Wall clock and counter of a version.
pub(crate) type Version = (u64, u64);

pub(crate) fn version(hlc: &Hlc) -> Version {
    (hlc.wall_ms(), hlc.counter())
}

/// A request of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Invocation {
    Set {
        key: Bytes,
        value: Bytes,
        condition: Condition,
        px: Option<u64>,
        token: Option<Hlc>,
    },
    Get {
        key: Bytes,
    },
    Del {
        key: Bytes,
        token: Option<Hlc>,
    },
    Vdel {
        key: Bytes,
        value: Bytes,
        token: Option<Hlc>,
    },
    Scan {
        pattern: Bytes,
    },
}

impl Invocation {
    /// Returns the key of the action, if it has one.
    pub(crate) fn key(&self) -> Option<&Bytes> {
        match self {
            Self::Set { key, .. }
            | Self::Get { key }
            | Self::Del { key, .. }
            | Self::Vdel { key, .. } => Some(key),
            Self::Scan { .. } => None,
        }
    }
}

/// The result of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CallResult {
    Set {
        applied: bool,
        version: Version,
    },
    Read(Option<(Bytes, Version)>),
    Deleted(Option<Version>),
    Absent,
    Mismatch,
    Keys(Vec<Bytes>),
    Failed {
        kind: ErrorKind,
        outcome: Outcome,
        text: String,
    },
    /// The caller has stopped waiting.
    Cancelled,
}

/// A call.
#[derive(Debug, Clone)]
pub(crate) struct Operation {
    pub(crate) client: usize,
    /// Number of the client among those with its name.
    pub(crate) instance: u32,
    pub(crate) invocation: Invocation,
    pub(crate) called_ms: u64,
    /// Timeout of the call.
    pub(crate) timeout_ms: u64,
    pub(crate) completion: Option<(u64, CallResult)>,
    /// Span from its start to its end in the [order](crate::simulation::Simulation::stamp) of all events.
    pub(crate) span: (u64, u64),
    /// Positions at which the server took its request from the connection.
    pub(crate) taken: Vec<u64>,
    /// Whether the client has written the request.
    pub(crate) is_written: bool,
}

impl Operation {
    pub(crate) fn deadline_ms(&self) -> u64 {
        self.called_ms + self.timeout_ms
    }
    pub(crate) fn result(&self) -> Option<&CallResult> {
        self.completion.as_ref().map(|(_, answer)| answer)
    }
    /// Whether the operation certainly had no effect, according to its client.
    pub(crate) fn is_not_done(&self) -> bool {
        matches!(
            self.result(),
            Some(CallResult::Failed {
                outcome: Outcome::NotDone,
                ..
            })
        )
    }
}

/// Returns a value that names the operation which writes it, and its time to live.
pub(crate) fn value(operation: usize, px: Option<u64>, len: usize) -> Bytes {
    let mut text = format!("o{operation} px{} ", px.unwrap_or(0)).into_bytes();
    text.resize(text.len().max(len), b'.');
    text.into()
}

/// Returns a fencing token that names its operation.
pub(crate) fn token(operation: usize, wall_ms: u64) -> Option<Hlc> {
    Hlc::new(wall_ms, 0, &format!("o{operation}")).ok()
}

/// Returns the operation that is named in the node id of a token.
pub(crate) fn operation_of_token(text: &str) -> Option<usize> {
    text.rsplit(':').next()?.strip_prefix('o')?.parse().ok()
}

/// Returns a value that all operations of a lease holder share.
pub(crate) fn lease(client: usize, px: u64) -> Bytes {
    format!("lease{client} px{px} ").into()
}

/// Returns the operation that a value names, unless it is the value of a lease.
pub(crate) fn operation_of(value: &[u8]) -> Option<usize> {
    let text = std::str::from_utf8(value).ok()?;
    text.split(' ').next()?.strip_prefix('o')?.parse().ok()
}

/// Returns the time to live that is written in a value.
pub(crate) fn px_of(value: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(value).ok()?;
    let px = text.split(' ').nth(1)?.strip_prefix("px")?.parse().ok()?;
    (px > 0).then_some(px)
}
