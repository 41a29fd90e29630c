//! One network connection.
use super::SessionId;
use super::output::Output;
use super::timers::Timer;
use statestore::mqtt::alias::InboundAliases;
use statestore::mqtt::keep_alive::ServerKeepAlive;
use statestore::mqtt::{Limits, ReasonCode, Will};
use std::sync::Arc;

/// Where a connection is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// CONNECT has not come yet.
    Opening,
    /// CONNECT was accepted; it has this session.
    Open(SessionId),
    /// Its last output is on its way; nothing is read any more.
    Closing,
    /// To be dropped at once.
    Closed,
}

/// What happens to a will when a connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WillOutcome {
    /// It is published, at once or after its delay.
    Published,
    /// The client ended the connection in order.
    Dropped,
}

/// One network connection.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) phase: Phase,
    /// Empty before CONNECT.
    pub(crate) client: Arc<str>,
    pub(crate) output: Output,
    pub(crate) aliases: InboundAliases,
    pub(crate) keep_alive: ServerKeepAlive,
    /// What the client allows.
    pub(crate) limits: Limits,
    /// Whether the client wants reason strings in acknowledgements.
    pub(crate) wants_reasons: bool,
    pub(crate) will: Option<Will>,
    /// Bytes of input that were left when the front last looked.
    pub(crate) unread: usize,
    /// Since when input waits until output has left.
    pub(crate) blocked_since_ms: Option<u64>,
    /// Whether it is in the list of those that have something for the driver.
    pub(crate) is_dirty: bool,
    pub(crate) timer: Timer,
}

impl Connection {
    pub(crate) fn new(now_ms: u64) -> Self {
        Self {
            phase: Phase::Opening,
            client: Arc::default(),
            output: Output::default(),
            aliases: InboundAliases::default(),
            keep_alive: ServerKeepAlive::new(0, now_ms),
            limits: Limits::default(),
            wants_reasons: true,
            will: None,
            unread: 0,
            blocked_since_ms: None,
            is_dirty: false,
            timer: Timer::default(),
        }
    }

    pub(crate) fn session(&self) -> Option<SessionId> {
        match self.phase {
            Phase::Open(session) => Some(session),
            _ => None,
        }
    }
}

/// A connection that has lost its session, which is still to be told.
#[derive(Debug)]
pub(crate) struct Detached {
    pub(crate) session: SessionId,
    pub(crate) will: Option<Will>,
}

/// Whether the client or its network is at fault, for the statistics.
pub(crate) fn is_failure(reason: ReasonCode) -> bool {
    !matches!(
        reason,
        ReasonCode::SUCCESS | ReasonCode::SESSION_TAKEN_OVER | ReasonCode::SERVER_SHUTTING_DOWN
    )
}
