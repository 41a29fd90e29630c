//! One network connection.
use super::SessionId;
use super::budget::{Charge, Gauge};
use super::output::Output;
use super::room::Ahead;
use super::timers::Timer;
use bytes::BytesMut;
use statestore_protocol::mqtt::alias::InboundAliases;
use statestore_protocol::mqtt::keep_alive::ServerKeepAlive;
use statestore_protocol::mqtt::{Connect, Limits, ReasonCode, Will};
use std::net::IpAddr;
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

/// Memory of a connection without its buffers: itself, its task and socket, and what changes too often to be counted
/// at every step.
const CONNECTION_BYTES: usize = 8 * 1024;
/// How much a connection may hold more or less than is counted.
const SLACK_BYTES: usize = 4 * 1024;

/// Bytes of a will.
pub(crate) fn will_bytes(will: &Will) -> usize {
    let properties = will.user_properties.iter();
    size_of::<Will>()
        + will.topic.len()
        + will.payload.len()
        + will.content_type.as_ref().map_or(0, String::len)
        + will.response_topic.as_ref().map_or(0, String::len)
        + will.correlation_data.as_ref().map_or(0, bytes::Bytes::len)
        + properties
            .map(|(name, value)| 2 * size_of::<String>() + name.len() + value.len())
            .sum::<usize>()
}

/// Bytes of a CONNECT that waits.
fn connect_bytes(connect: &Connect) -> usize {
    size_of::<Connect>()
        + connect.client_id.len()
        + connect.user_name.as_ref().map_or(0, String::len)
        + connect.password.as_ref().map_or(0, bytes::Bytes::len)
        + connect.will.as_ref().map_or(0, will_bytes)
}

/// One network connection.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) peer: IpAddr,
    pub(crate) phase: Phase,
    /// A CONNECT whose password is not looked at yet.
    pub(crate) login: Option<Box<Connect>>,
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
    /// Bytes of output that were taken and have not left yet.
    pub(crate) leaving: usize,
    /// What this connection caused that is still to be handed out to many; it waits for the end of it.
    pub(crate) fanouts: usize,
    pub(crate) charge: Charge,
    /// What is known of input behind a request that waits for room in the storage.
    pub(crate) ahead: Ahead,
    /// Since when input waits until output has left, or there is room in the storage.
    pub(crate) blocked_since_ms: Option<u64>,
    /// Whether it is in the list of those that have something for the driver.
    pub(crate) is_dirty: bool,
    pub(crate) timer: Timer,
}

impl Connection {
    pub(crate) fn new(peer: IpAddr, now_ms: u64, gauge: &Gauge) -> Self {
        Self {
            peer,
            phase: Phase::Opening,
            login: None,
            client: Arc::default(),
            output: Output::default(),
            aliases: InboundAliases::default(),
            keep_alive: ServerKeepAlive::new(0, now_ms),
            limits: Limits::default(),
            wants_reasons: true,
            will: None,
            unread: 0,
            ahead: Ahead::default(),
            leaving: 0,
            fanouts: 0,
            charge: Charge::new(gauge, CONNECTION_BYTES),
            blocked_since_ms: None,
            is_dirty: false,
            timer: Timer::default(),
        }
    }

    /// Bytes of output that have not left yet.
    pub(crate) fn outstanding(&self) -> usize {
        self.output.len() + self.leaving
    }

    /// Moves what may leave to the end of `to`, which holds what was taken before and has not left.
    pub(crate) fn take_output(&mut self, to: &mut BytesMut) {
        self.output.take(to);
        self.leaving = to.len();
        self.recharge();
    }

    /// Counts what it takes now.
    pub(crate) fn recharge(&mut self) {
        let bytes = CONNECTION_BYTES
            + self.unread
            + self.outstanding()
            + self.aliases.bytes()
            + self.will.as_ref().map_or(0, will_bytes)
            + self.login.as_deref().map_or(0, connect_bytes);
        self.charge.set_roughly(bytes, SLACK_BYTES);
    }

    /// Its input is not read any more, and its output not sent: it is to be closed. Says whether some output was on
    /// its way, so that nothing more gets through to the client.
    pub(crate) fn forget_buffers(&mut self) -> bool {
        let is_stuck = self.leaving > 0;
        self.output.clear();
        self.aliases = InboundAliases::default();
        self.unread = 0;
        self.leaving = 0;
        self.recharge();
        is_stuck
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
