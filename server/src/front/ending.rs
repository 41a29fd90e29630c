//! How connections and sessions end: DISCONNECT, time-outs, wills (MQTT 5, sections 3.1.2.5, 3.14 and 4.1).
use super::connection::{Detached, Phase, WillOutcome, is_failure};
use super::delivery::Routed;
use super::fanout::Publication;
use super::message::Message;
use super::timers::Timed;
use super::{ConnectionId, Front, SessionId};
use crate::engine::Now;
use statestore_protocol::mqtt::{Disconnect, ReasonCode, Will};

/// How many turns handing out gets at the end of the process: a second or so.
const LAST_TURNS: usize = 10_000;

/// A session with this expiry interval does not end by itself.
const NEVER: u32 = u32::MAX;

impl Front {
    /// A client's DISCONNECT.
    pub(super) fn disconnect(
        &mut self,
        id: ConnectionId,
        session: SessionId,
        packet: &Disconnect,
        now: Now,
    ) {
        let Some(session) = self.sessions.get_mut(session) else {
            return;
        };
        if let Some(expiry_s) = packet.session_expiry_s {
            if session.is_ephemeral() && expiry_s > 0 {
                let why = "DISCONNECT cannot give a session an expiry that its CONNECT did not";
                return self.fail(id, ReasonCode::PROTOCOL_ERROR, why, now);
            }
            session.expiry_s = expiry_s.min(self.limits.max_session_expiry_s);
        }
        let will = if packet.reason == ReasonCode::SUCCESS {
            WillOutcome::Dropped
        } else {
            WillOutcome::Published
        };
        self.detach(id, will);
        self.drop_connection(id);
    }

    /// Ends an open connection with a DISCONNECT. What it would still have been told about writes that are not
    /// durable is forgotten.
    pub(super) fn fail(&mut self, id: ConnectionId, reason: ReasonCode, why: &str, now: Now) {
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        if connection.session().is_none() {
            return;
        }
        if is_failure(reason) {
            self.statistics.connections_failed += 1;
            tracing::debug!(client = ?connection.client, peer = %connection.peer, %reason, why, "disconnecting a client");
        }
        let packet = Disconnect {
            reason_string: Some(why.into()),
            ..Disconnect::new(reason)
        };
        connection.output.drop_held();
        let max_packet_bytes = connection.limits.max_packet_bytes;
        let _ = connection.output.append(0, |out| {
            // Without the text it has four bytes. A client that does not even take these sees the end.
            packet
                .encode(max_packet_bytes, out)
                .or_else(|_| Disconnect::new(reason).encode(max_packet_bytes, out))
        });
        self.detach(id, WillOutcome::Published);
        self.close_after_output(id, now);
    }

    /// Closes a connection once its output has left, or has had time to.
    pub(super) fn close_after_output(&mut self, id: ConnectionId, now: Now) {
        if let Some(connection) = self.connections.get_mut(id) {
            connection.phase = Phase::Closing;
        }
        self.set_connection_timer(id, Some(now.mono_ms.saturating_add(self.limits.linger_ms)));
        self.mark_dirty(id);
    }

    /// Closes a connection without a word.
    pub(super) fn drop_connection(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connections.get_mut(id) {
            connection.phase = Phase::Closed;
        }
        self.mark_dirty(id);
    }

    /// Takes the session off its connection. [`settle`](Self::settle) does the rest, so that a will that
    /// overflows another client's queue does not end that client within this call.
    pub(super) fn detach(&mut self, id: ConnectionId, outcome: WillOutcome) {
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        let Some(session) = connection.session() else {
            return;
        };
        let will = connection
            .will
            .take()
            .filter(|_| outcome == WillOutcome::Published);
        connection.phase = Phase::Closed;
        if let Some(session) = self.sessions.get_mut(session) {
            session.connection = None;
        }
        self.detached.push_back(Detached { session, will });
    }

    /// Finishes what began in this call: lingering connections, sessions that lost theirs, and more held than may be.
    pub(super) fn settle(&mut self, now: Now) {
        self.settle_detached(now);
        let held = self.held_bytes();
        if held > self.tight_at_bytes {
            self.make_room(now);
        } else if held <= self.limits.max_session_bytes {
            self.tight_at_bytes = self.limits.max_session_bytes;
        }
    }

    pub(super) fn settle_detached(&mut self, now: Now) {
        while let Some(Detached { session, will }) = self.detached.pop_front() {
            self.disconnected(session, will, now);
        }
    }

    fn disconnected(&mut self, id: SessionId, will: Option<Will>, now: Now) {
        let Some(session) = self.sessions.get_mut(id) else {
            return;
        };
        self.engine.disconnected(&session.client);
        if session.is_ephemeral() {
            session.will = will.map(|will| (now.mono_ms, will));
            return self.end_session(id, now);
        }
        session.ends_ms = (session.expiry_s != NEVER).then(|| {
            now.mono_ms
                .saturating_add(u64::from(session.expiry_s) * 1000)
        });
        session.will = will.map(|will| {
            let due_ms = now.mono_ms.saturating_add(u64::from(will.delay_s) * 1000);
            (due_ms, will)
        });
        self.sessions.went_offline(id, now.mono_ms);
        self.session_due(id, now);
    }

    /// Publishes the will and ends the session, each if its time has come.
    pub(super) fn session_due(&mut self, id: SessionId, now: Now) {
        let Some(session) = self.sessions.get_mut(id) else {
            return;
        };
        if session.ends_ms.is_some_and(|at_ms| at_ms <= now.mono_ms) {
            return self.end_session(id, now);
        }
        let will = session.will.take_if(|(at_ms, _)| *at_ms <= now.mono_ms);
        let will_ms = session.will.as_ref().map(|(at_ms, _)| *at_ms);
        let next_ms = [session.ends_ms, will_ms].into_iter().flatten().min();
        self.timers
            .set(&mut session.timer, Timed::Session(id), next_ms);
        if let Some((_, will)) = will {
            self.sessions.classify(id);
            self.publish_will(&will, now);
        }
    }

    /// Ends a session that has no connection.
    pub(super) fn end_session(&mut self, id: SessionId, now: Now) {
        let Some(mut session) = self.sessions.remove(id) else {
            return;
        };
        self.timers
            .set(&mut session.timer, Timed::Session(id), None);
        for filter in session.subscriptions.keys() {
            self.subscriptions.remove(filter, id);
        }
        self.engine.session_ended(&session.client);
        if let Some((_, will)) = session.will.take() {
            self.publish_will(&will, now);
        }
    }

    fn publish_will(&mut self, will: &Will, now: Now) {
        match Message::will(will, now.mono_ms, &self.gauge) {
            Ok(message) => {
                let targets = self.subscriptions.matches(message.topic(), None);
                let publication = Publication {
                    message,
                    qos: will.qos,
                    routed: Routed::to(targets.len()),
                    targets: targets.into_iter(),
                    packet_id: None,
                };
                self.begin_message(publication, None, now);
            }
            Err(error) => tracing::debug!(%error, "a will cannot be published"),
        }
    }

    /// The timer of a connection has fired.
    pub(super) fn connection_due(&mut self, id: ConnectionId, now: Now) {
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        if let Some(connect) = connection.login.take() {
            self.connect_now(id, *connect, now);
            // What came meanwhile.
            return self.mark_dirty(id);
        }
        match connection.phase {
            Phase::Opening => {
                self.statistics.connections_failed += 1;
                self.drop_connection(id);
            }
            Phase::Open(_) if connection.keep_alive.is_over(now.mono_ms) => {
                let why = "nothing came for one and a half times the keep-alive";
                self.fail(id, ReasonCode::KEEP_ALIVE_TIMEOUT, why, now);
            }
            Phase::Open(_) => {
                let next_ms = connection.keep_alive.wake_at_ms();
                self.set_connection_timer(id, next_ms);
            }
            Phase::Closing | Phase::Closed => self.drop_connection(id),
        }
    }

    /// Ends all connections since the process ends, and with it all sessions: their wills are published before.
    pub(super) fn end_all(&mut self, reason: ReasonCode, why: &str, now: Now) {
        let connections = self.connections.values_mut();
        let mut wills: Vec<Will> = connections.filter_map(|it| it.will.take()).collect();
        let sessions = self.sessions.iter_mut();
        wills.extend(sessions.filter_map(|it| Some(it.will.take()?.1)));
        for will in &wills {
            self.publish_will(will, now);
        }
        for _ in 0..LAST_TURNS {
            self.work(now);
        }
        self.fanouts.clear();
        let ids: Vec<ConnectionId> = self.connections.keys().collect();
        for id in ids {
            if let Some(connection) = self.connections.get(id)
                && connection.phase == Phase::Opening
            {
                self.drop_connection(id);
            }
            self.fail(id, reason, why, now);
        }
        self.settle(now);
    }
}
