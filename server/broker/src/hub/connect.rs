//! CONNECT and CONNACK (MQTT 5, sections 3.1 and 3.2).
use super::audit::{ClientIdentity, RefusalReason};
use super::refusal_log::RefusalCause;
use super::session::Session;
use super::termination::WillOutcome;
use super::{ConnectionId, Hub, SessionId, TimerOwner};
use crate::audit::EndReason;
use bytes::Bytes;
use statestore_protocol::mqtt::{
    ConnAck, Connect, DecodeError, EncodeError, Limits, QoS, ReasonCode, Will,
};
use statestore_protocol::topic;
use statestored_access::topic_filter;
use statestored_access::{Login, LoginRefusal};
use statestored_common::ClockReading;
use statestored_connection::{CloseMode, Connection};
use std::sync::Arc;

/// The longest client id, in bytes. In hexadecimal it is a part of notification topics.
const MAX_CLIENT_ID_BYTES: usize = 1024;

/// CONNACK of MQTT 3.1 and 3.1.1 with return code 1, "unacceptable protocol version".
const CONNACK_3_UNACCEPTABLE_VERSION: [u8; 4] = [0x20, 2, 0, 1];

impl Hub {
    /// Gives an accepted client its session.
    pub(super) fn try_connect(
        &mut self,
        id: ConnectionId,
        mut connect: Connect,
        login: Login,
        proof: Option<String>,
        now: ClockReading,
    ) -> Result<(), LoginRefusal> {
        if let Some(refusal) = self.drain_refusal() {
            return Err(refusal);
        }
        let principal = &login.principal;
        if connect.client_id.len() > MAX_CLIENT_ID_BYTES {
            let why = "the client identifier is longer than 1024 bytes";
            return Err((ReasonCode::CLIENT_IDENTIFIER_NOT_VALID, why));
        }
        if let Some(will) = &connect.will {
            check_will(will)?;
        }
        let assigned = connect.client_id.is_empty();
        if assigned {
            connect.client_id = self.assign_client_id()?;
        }

        if !self
            .authenticator
            .allows_client_id(principal, &connect.client_id)
        {
            let why = "this client identifier begins with the name of another user";
            return Err((ReasonCode::NOT_AUTHORIZED, why));
        }
        let rights = self.rights(principal, &connect)?;
        if let Some(old) = self.sessions.find(&connect.client_id)
            && let Some(session) = self.sessions.get(old)
            && !session.principal.has_same_owner(principal)
        {
            if session.connection.is_some() {
                let why = "another user is connected with this client identifier";
                return Err((ReasonCode::NOT_AUTHORIZED, why));
            }
            self.end_session(old, now);
        }
        let existing = self.sessions.find(&connect.client_id);
        self.check_user_limits(principal, existing, now)?;
        if existing.is_none()
            && self.sessions.len() >= self.limits.max_sessions
            && !self.evict_session(now)
        {
            return Err((ReasonCode::QUOTA_EXCEEDED, "there are too many sessions"));
        }
        let existing = existing.and_then(|old| {
            let is_new = connect.clean_start || self.exceeds_rights(old, rights.as_deref());
            self.take_over(old, id, is_new, now)
        });
        let session_present = existing.is_some();
        let receive_maximum = connect.limits.receive_maximum;
        let until_wall_ms = login.expires_wall_ms;
        let session = if let Some(session) = existing {
            self.resume(session, id, login, receive_maximum)
        } else {
            let client = connect.client_id.as_str().into();
            self.sessions.insert(Session::new(
                client,
                login,
                id,
                receive_maximum,
                &self.memory_budget,
            ))
        };
        let expiry_s = connect
            .session_expiry_s
            .min(self.limits.max_session_expiry_s);
        let keep_alive_s = self.keep_alive_s(connect.keep_alive_s);
        if let Some(session) = self.sessions.get_mut(session) {
            session.expiry_s = expiry_s;
            session.rights = rights;
            session.needs_review = false;
        }

        let connack = ConnAck {
            session_present,
            limits: Limits {
                receive_maximum: self.limits.receive_maximum,
                max_packet_bytes: self.limits.max_packet_bytes,
                topic_alias_maximum: self.limits.topic_alias_maximum,
            },
            session_expiry_s: (expiry_s != connect.session_expiry_s).then_some(expiry_s),
            maximum_qos: QoS::AtLeastOnce,
            retain_available: false,
            shared_available: false,
            assigned_client_id: assigned.then(|| connect.client_id.clone()),
            server_keep_alive_s: (keep_alive_s != connect.keep_alive_s).then_some(keep_alive_s),
            authentication: connect
                .authentication
                .as_ref()
                .map(|(method, _)| (method.clone(), proof.map(Bytes::from).unwrap_or_default())),
            ..ConnAck::new(ReasonCode::SUCCESS)
        };
        self.open(id, session, connect, keep_alive_s, now);
        self.set_auth_expiry(id, until_wall_ms, now);
        self.log_connected(id, session_present, keep_alive_s, now);
        if self.append_connack(id, &connack).is_err() {
            // No packet may come before CONNACK, not even a DISCONNECT [MQTT-3.14.0-1].
            let why = "CONNACK exceeds the Maximum Packet Size of the client";
            self.log_end(id, EndReason::PacketTooLarge, why, None, now);
            self.end_connection(id, CloseMode::Immediate, WillOutcome::Dropped, now);
            return Ok(());
        }
        self.send_queued(session, now);
        Ok(())
    }

    /// Ends the connection of an existing session, and the session too if a new one is to begin.
    fn take_over(
        &mut self,
        old: SessionId,
        by: ConnectionId,
        is_new: bool,
        now: ClockReading,
    ) -> Option<SessionId> {
        if let Some(connection) = self.sessions.get(old)?.connection {
            let why = "another connection uses this client identifier";
            let by = self.connections.get(by).map(Connection::endpoint).cloned();
            let code = ReasonCode::SESSION_TAKEN_OVER;
            let end = EndReason::TakenOver;
            self.disconnect_by_peer(connection, by.as_ref(), end, code, why, now);
            self.settle(now);
        }
        if is_new {
            self.end_session(old, now);
        }
        self.sessions.get(old).map(|_| old)
    }

    /// Continues a session and cancels its will.
    fn resume(
        &mut self,
        id: SessionId,
        connection: ConnectionId,
        login: Login,
        receive_maximum: u16,
    ) -> SessionId {
        if let Some(session) = self.sessions.get_mut(id) {
            session.principal = login.principal;
            session.proof = login.credential;
            session.connection = Some(connection);
            session.will = None;
            session.expires_ms = None;
            session.update_reservation();
            session.window.reconnected(receive_maximum);
            self.timers
                .set(&mut session.timer, TimerOwner::Session(id), None);
        }
        self.sessions.mark_online(id);
        id
    }

    fn open(
        &mut self,
        id: ConnectionId,
        session: SessionId,
        connect: Connect,
        keep_alive_s: u16,
        now: ClockReading,
    ) {
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        let Some(client) = self
            .sessions
            .get(session)
            .map(|session| Arc::clone(&session.client))
        else {
            return;
        };
        let next_ms = connection.open(session, client, connect, keep_alive_s, now.mono_ms);
        self.set_connection_timer(id, next_ms);
    }

    fn keep_alive_s(&self, asked_s: u16) -> u16 {
        match (self.limits.max_keep_alive_s, asked_s) {
            (0, asked_s) => asked_s,
            (max_s, 0) => max_s,
            (max_s, asked_s) => asked_s.min(max_s),
        }
    }

    /// Returns a client id that no session has, and that cannot be guessed from others.
    fn assign_client_id(&mut self) -> Result<String, LoginRefusal> {
        loop {
            let number = if let Some(state) = &mut self.client_id_seed {
                u128::from(next_split_mix64(state))
            } else {
                let mut bytes = [0; 16];
                getrandom::fill(&mut bytes).map_err(|_| {
                    let why = "the system gives no random bytes for a client identifier";
                    (ReasonCode::SERVER_UNAVAILABLE, why)
                })?;
                u128::from_ne_bytes(bytes)
            };
            let id = format!("auto-{number:032x}");
            if self.sessions.find(&id).is_none() {
                return Ok(id);
            }
        }
    }

    /// Refuses a CONNECT for a reason that is sent to the client.
    pub(super) fn refuse_connect(
        &mut self,
        id: ConnectionId,
        reason: ReasonCode,
        why: &str,
        now: ClockReading,
    ) {
        let identity = self.claimed_identity(id);
        let reasons = (
            RefusalCause::from_reason_code(reason),
            why.to_owned().into(),
        );
        self.refuse_connect_as(id, identity, reasons, (reason, why), now);
    }

    /// Refuses the CONNECT of this identity. `reasons` is logged, and `refusal` is sent to the client.
    pub(super) fn refuse_connect_as(
        &mut self,
        id: ConnectionId,
        identity: ClientIdentity,
        reasons: RefusalReason,
        refusal: (ReasonCode, &str),
        now: ClockReading,
    ) {
        self.record_refused_connect(id, identity, reasons, now);
        self.send_refusal(id, refusal, now);
    }

    /// Records that the CONNECT of this identity is refused.
    pub(super) fn record_refused_connect(
        &mut self,
        id: ConnectionId,
        identity: ClientIdentity,
        reasons: RefusalReason,
        now: ClockReading,
    ) {
        let peer = self.connections.get(id).map(Connection::endpoint).cloned();
        self.record_refusal(identity, peer.as_ref(), reasons, None, now);
    }

    /// Sends the refusal of a CONNECT, and ends the connection.
    pub(super) fn send_refusal(
        &mut self,
        id: ConnectionId,
        refusal: (ReasonCode, &str),
        now: ClockReading,
    ) {
        let (reason, why) = refusal;
        let connack = ConnAck {
            reason_string: Some(why.into()),
            ..ConnAck::new(reason)
        };
        if self.append_connack(id, &connack).is_err() {
            // A client that does not even accept the few bytes without the text only sees the connection end [MQTT-3.1.2-24].
            let _ = self.append_connack(id, &ConnAck::new(reason));
        }
        self.end_refused(id, now);
    }

    fn append_connack(&mut self, id: ConnectionId, connack: &ConnAck) -> Result<(), EncodeError> {
        let Some(connection) = self.connections.get_mut(id) else {
            return Ok(());
        };
        let result =
            connection.append(|out, max_packet_bytes| connack.encode(max_packet_bytes, out));
        self.output_appended(id);
        result
    }

    /// Answers a CONNECT that cannot be read, as far as its sender can understand the answer.
    pub(super) fn refuse_undecodable_connect(
        &mut self,
        id: ConnectionId,
        error: &DecodeError,
        now: ClockReading,
    ) {
        if let DecodeError::Version(3 | 4) = error {
            self.record_keyless_refusal(
                id,
                RefusalCause::Protocol,
                "the client speaks MQTT 3",
                now,
            );
            self.append(id, now, |out, _| {
                out.extend_from_slice(&CONNACK_3_UNACCEPTABLE_VERSION);
                Ok(())
            });
            self.end_refused(id, now);
        } else {
            self.refuse_connect(id, error.reason(), &error.to_string(), now);
        }
    }

    /// Ends a connection after a CONNACK as its last packet.
    fn end_refused(&mut self, id: ConnectionId, now: ClockReading) {
        self.metrics.connects_refused += 1;
        self.log_end(id, EndReason::ConnectRefused, "", None, now);
        self.end_connection(id, CloseMode::Graceful, WillOutcome::Dropped, now);
    }
}

/// Returns the next number of `SplitMix64`.
fn next_split_mix64(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

/// Returns whether a will to this topic is forbidden: it would be a request, or look like a message of the store.
fn is_reserved(topic: &str) -> bool {
    topic == topic::REQUEST || topic::is_from_store(topic)
}

fn check_will(will: &Will) -> Result<(), LoginRefusal> {
    if will.retain {
        return Err((ReasonCode::RETAIN_NOT_SUPPORTED, "no retained messages"));
    }
    if will.qos == QoS::ExactlyOnce {
        return Err((ReasonCode::QOS_NOT_SUPPORTED, "no QoS 2"));
    }
    if !topic_filter::is_valid_topic(&will.topic) || is_reserved(&will.topic) {
        return Err((ReasonCode::TOPIC_NAME_INVALID, "no will to this topic"));
    }
    Ok(())
}
