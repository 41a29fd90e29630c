//! How connections and sessions end: DISCONNECT, time-outs, wills (MQTT 5, sections 3.1.2.5, 3.14 and 4.1).
//!
//! ```text
//!                                 opened
//!                                   │
//!                                   ▼          no CONNECT in time, or something else first
//!                                Opening ───────────────────────────────────────────────┐
//!                  CONNECT refused  │  │  CONNECT accepted                              │
//!                ┌──────────────────┘  ▼                                                │
//!                │                   Open ── DISCONNECT from the client ────────────────┤
//!        CONNACK │                     │                                                │
//!                │     keep-alive over, a broken rule, taken over,                      │
//!                │     too slow, too much held, the server stops                        │
//!                │                     │ DISCONNECT to the client                       │
//!                ▼                     ▼                                                ▼
//!             Closing ◀────────────────┘                                              Closed
//!                │                                                                      │
//!                └── the output has left, or lingered for long enough ──────────────────┤
//!                                                                                       ▼
//!        the socket is gone, in whatever phase ────────────────────────────▶ closed: forgotten
//! ```
//!
//! All arrows to the right and down are [`Hub::end_connection`]. Where it leaves `Open`, the session is taken off the connection before anything else
//! can happen to either. The watches of the session end, its will is published or waits, and the session ends or waits for its client. A
//! DISCONNECT to the client follows all output that may be sent by then.
use super::fanout::MessageFanout;
use super::fanout_queue::FanoutQueue;
use super::message::Message;
use super::{ConnectionId, Hub, SessionId, TimerOwner};
use crate::audit::{EndReason, truncate};
use statestore_protocol::mqtt::{Disconnect, ReasonCode, Will};
use statestored_access::Peer;
use statestored_common::ClockReading;
use statestored_connection::{AuthState, CloseMode, Connection, ConnectionState};

/// Handling of a will when a connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WillOutcome {
    /// Publication, at once or after the will's delay.
    Published,
    /// No publication: the client ended the connection in order, or was never accepted.
    Dropped,
}

/// A session whose connection has ended, and its will, until [`settle`](Hub::settle) processes them.
#[derive(Debug)]
pub(super) struct DetachedSession {
    session: SessionId,
    will: Option<Box<Will>>,
}

/// Number of turns for deliveries at the end of the process: about a second.
const MAX_FINAL_QUANTA: usize = 10_000;

/// Expiry interval of a session that does not end by itself.
const NEVER_EXPIRES: u32 = u32::MAX;

impl Hub {
    /// Processes a client's DISCONNECT.
    #[cold]
    pub(super) fn handle_disconnect(
        &mut self,
        id: ConnectionId,
        session: SessionId,
        packet: &Disconnect,
        now: ClockReading,
    ) {
        let Some(session) = self.sessions.get_mut(session) else {
            return;
        };
        if let Some(expiry_s) = packet.session_expiry_s {
            if session.is_ephemeral() && expiry_s > 0 {
                let why = "DISCONNECT cannot give a session an expiry that its CONNECT did not";
                return self.disconnect_with(id, ReasonCode::PROTOCOL_ERROR, why, now);
            }
            session.expiry_s = expiry_s.min(self.limits.max_session_expiry_s);
        }
        let (will, reason) = if packet.reason == ReasonCode::SUCCESS {
            (WillOutcome::Dropped, EndReason::ClientDisconnect)
        } else {
            let reason = EndReason::ClientDisconnectWithWill;
            (WillOutcome::Published, reason)
        };
        let why = packet.reason_string.as_deref().unwrap_or_default();
        self.log_end(id, reason, &truncate(why), None, now);
        self.end_connection(id, CloseMode::Immediate, will, now);
    }

    /// Ends an open connection with a DISCONNECT. Pending output about writes that are not durable is dropped.
    #[cold]
    pub(super) fn disconnect_with(
        &mut self,
        id: ConnectionId,
        reason: ReasonCode,
        why: &str,
        now: ClockReading,
    ) {
        self.disconnect_with_end_reason(id, EndReason::from_reason_code(reason), reason, why, now);
    }

    /// Does the same with an end reason, where the reason code alone is not enough.
    #[cold]
    pub(super) fn disconnect_with_end_reason(
        &mut self,
        id: ConnectionId,
        end_reason: EndReason,
        reason: ReasonCode,
        why: &str,
        now: ClockReading,
    ) {
        self.disconnect_by_peer(id, None, end_reason, reason, why, now);
    }

    /// Does the same for a connection that ends because of an action of this peer.
    pub(super) fn disconnect_by_peer(
        &mut self,
        id: ConnectionId,
        by: Option<&Peer>,
        end_reason: EndReason,
        reason: ReasonCode,
        why: &str,
        now: ClockReading,
    ) {
        let connection = self.connections.get(id);
        if connection.and_then(Connection::session).is_none() {
            return;
        }
        self.log_end(id, end_reason, why, by, now);
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        if end_reason.is_failure() {
            tracing::debug!(client = ?connection.client(), peer = %connection.ip_address(), %reason, why, "disconnecting a client");
        }
        connection.append_disconnect(reason, why);
        self.end_connection(id, CloseMode::Graceful, WillOutcome::Published, now);
    }

    /// Ends a connection whose network connection failed; [`closed`](Self::closed) follows.
    pub fn connection_failed(
        &mut self,
        id: ConnectionId,
        error: &std::io::Error,
        now: ClockReading,
    ) {
        self.log_end(id, EndReason::NetworkError, &error.to_string(), None, now);
        self.end_connection(id, CloseMode::Immediate, WillOutcome::Published, now);
    }

    /// Ends a connection without a packet.
    #[cold]
    pub(super) fn drop_connection(
        &mut self,
        id: ConnectionId,
        reason: EndReason,
        why: &str,
        now: ClockReading,
    ) {
        self.log_end(id, reason, why, None, now);
        self.end_connection(id, CloseMode::Immediate, WillOutcome::Published, now);
    }

    /// Ends a connection; every end goes through this function. A connection may end twice: first with some output that is to leave before,
    /// then at once.
    ///
    /// The session is taken off here, and [`settle`](Self::settle) does the rest. So a will that overflows another client's queue does not
    /// end that client within this call.
    pub(super) fn end_connection(
        &mut self,
        id: ConnectionId,
        close_mode: CloseMode,
        outcome: WillOutcome,
        now: ClockReading,
    ) {
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        if let Some((session, will)) = connection.end(close_mode) {
            let will = will.filter(|_| outcome == WillOutcome::Published);
            if let Some(session) = self.sessions.get_mut(session) {
                session.connection = None;
            }
            self.detached.push_back(DetachedSession { session, will });
        }
        if close_mode == CloseMode::Graceful {
            let until_ms = now.mono_ms.saturating_add(self.limits.linger_ms);
            self.set_connection_timer(id, Some(until_ms));
        }
        self.mark_dirty(id);
    }

    /// Finishes the work of this call: lingering connections, sessions that lost their connection, and evictions.
    pub(super) fn settle(&mut self, now: ClockReading) {
        self.settle_detached(now);
        let held = self.held_bytes();
        if held > self.session_memory_limits.eviction_threshold_bytes {
            self.evict(now);
        } else if held <= self.max_session_bytes() {
            self.session_memory_limits.eviction_threshold_bytes = self.max_session_bytes();
        }
    }

    pub(super) fn settle_detached(&mut self, now: ClockReading) {
        while let Some(DetachedSession { session, will }) = self.detached.pop_front() {
            self.detach_session(session, will, now);
        }
    }

    fn detach_session(&mut self, id: SessionId, will: Option<Box<Will>>, now: ClockReading) {
        let Some(session) = self.sessions.get_mut(id) else {
            return;
        };
        self.service.end_watches(&session.client);
        if session.is_ephemeral() {
            session.will = will.map(|will| (now.mono_ms, will));
            return self.end_session(id, now);
        }
        session.expires_ms = (session.expiry_s != NEVER_EXPIRES).then(|| {
            now.mono_ms
                .saturating_add(u64::from(session.expiry_s) * 1000)
        });
        session.will = will.map(|will| {
            let due_ms = now.mono_ms.saturating_add(u64::from(will.delay_s) * 1000);
            (due_ms, will)
        });
        self.sessions.mark_offline(id, now.mono_ms);
        self.handle_session_timer(id, now);
    }

    /// Publishes the will and ends the session, each if its time has come.
    pub(super) fn handle_session_timer(&mut self, id: SessionId, now: ClockReading) {
        let Some(session) = self.sessions.get_mut(id) else {
            return;
        };
        if session.expires_ms.is_some_and(|at_ms| at_ms <= now.mono_ms) {
            return self.end_session(id, now);
        }
        let will = session.will.take_if(|(at_ms, _)| *at_ms <= now.mono_ms);
        let will_ms = session.will.as_ref().map(|(at_ms, _)| *at_ms);
        let next_ms = [session.expires_ms, will_ms].into_iter().flatten().min();
        self.timers
            .set(&mut session.timer, TimerOwner::Session(id), next_ms);
        if let Some((_, will)) = will {
            self.sessions.update_rank(id);
            self.publish_will(&will, now);
        }
    }

    /// Ends a session that has no connection.
    pub(super) fn end_session(&mut self, id: SessionId, now: ClockReading) {
        let Some(mut session) = self.sessions.remove(id) else {
            return;
        };
        self.timers
            .set(&mut session.timer, TimerOwner::Session(id), None);
        for filter in session.subscriptions.keys() {
            self.subscriptions.remove(filter, id);
        }
        self.service.forget_replies(&session.client);
        if let Some((_, will)) = session.will.take() {
            self.publish_will(&will, now);
        }
    }

    fn publish_will(&mut self, will: &Will, now: ClockReading) {
        match Message::from_will(will, now.mono_ms, &self.memory_budget) {
            Ok(message) => {
                let publication = MessageFanout::new(message, will.qos, None, None);
                self.begin_message(publication, None, now);
            }
            Err(error) => tracing::debug!(%error, "a will cannot be published"),
        }
    }

    /// Processes the timer of a connection.
    pub(super) fn handle_connection_timer(&mut self, id: ConnectionId, now: ClockReading) {
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        match connection.auth_exchange().map(|proving| &proving.state) {
            Some(AuthState::Delayed) => return self.resume_login(id, now),
            Some(AuthState::Refused(refusal)) => {
                let refusal = *refusal;
                return self.send_refusal(id, refusal, now);
            }
            _ => {}
        }
        if matches!(connection.state(), ConnectionState::Open(_)) && self.end_rate_pause(id, now) {
            return;
        }
        let Some(connection) = self.connections.get(id) else {
            return;
        };
        match connection.state() {
            ConnectionState::Opening => {
                let why = "no CONNECT came in time";
                self.drop_connection(id, EndReason::ConnectTimeout, why, now);
            }
            ConnectionState::Open(_) if connection.is_auth_expired(now.mono_ms) => {
                let why = "the token has expired, and there was no newer one";
                let code = ReasonCode::NOT_AUTHORIZED;
                self.disconnect_with_end_reason(id, EndReason::TokenExpired, code, why, now);
            }
            ConnectionState::Open(_) if connection.is_silent(now.mono_ms) => {
                let why = "nothing came for one and a half times the keep-alive";
                self.disconnect_with(id, ReasonCode::KEEP_ALIVE_TIMEOUT, why, now);
            }
            ConnectionState::Open(_) => {
                let next_ms = connection.due_ms();
                self.set_connection_timer(id, next_ms);
            }
            ConnectionState::Closing | ConnectionState::Closed => {
                self.end_connection(id, CloseMode::Immediate, WillOutcome::Published, now);
            }
        }
    }

    /// Ends all connections, since the storage cannot keep writes any more. Output that waits for the storage is dropped. Wills are
    /// published, and all clients are disconnected with "implementation specific error".
    pub fn storage_failed(&mut self, now: ClockReading) {
        self.end_all(
            ReasonCode::IMPLEMENTATION_SPECIFIC_ERROR,
            "the storage failed",
            now,
        );
    }

    /// Stops the server: disconnects all clients with "server shutting down".
    ///
    /// All sessions end with the process. Therefore all wills are published first [MQTT-3.1.2-8], without their delay. Only connected
    /// clients receive them, since nothing is kept for others.
    pub fn shut_down(&mut self, now: ClockReading) {
        self.end_all(
            ReasonCode::SERVER_SHUTTING_DOWN,
            "the server is shutting down",
            now,
        );
    }

    /// Ends all connections, since the process ends and all sessions with it. Publishes their wills before.
    pub(super) fn end_all(&mut self, reason: ReasonCode, why: &str, now: ClockReading) {
        let connections = self.connections.values_mut();
        let mut wills: Vec<_> = connections.filter_map(Connection::take_will).collect();
        let sessions = self.sessions.iter_mut();
        wills.extend(sessions.filter_map(|it| Some(it.will.take()?.1)));
        for will in &wills {
            self.publish_will(will, now);
        }
        for _ in 0..MAX_FINAL_QUANTA {
            self.work(now);
        }
        self.fanout_queue = FanoutQueue::default();
        let ids: Vec<ConnectionId> = self.connections.keys().collect();
        for id in ids {
            if let Some(connection) = self.connections.get(id)
                && connection.state() == ConnectionState::Opening
            {
                self.drop_connection(id, EndReason::from_reason_code(reason), why, now);
            }
            self.disconnect_with(id, reason, why, now);
        }
        self.settle(now);
    }
}
