//! Pending requests: the connection that waits for each outcome, and how the response is sent.
//!
//! Outcomes arrive in any order. A response is sent when its outcome arrives. PUBACKs keep the order of their PUBLISHes, for which each has
//! its [place](AckSlot). Room is reserved meanwhile: a connection with much pending is not read, and a session counts pending requests as if
//! they were queued. If the connection has ended when the outcome arrives, the response goes to the session. The client, which has no
//! PUBACK, delivers the request again and gets another response.
use super::audit::key_of;
use super::request::ReturnAddress;
use super::{ConnectionId, Hub, SessionId};
use bytes::Bytes;
use statestore_protocol::mqtt::{CheckedTopic, OwnedTopic, PacketId};
use statestored_common::ClockReading;
use statestored_connection::memory_budget::Reservation;
use statestored_connection::{AckSlot, Connection};
use statestored_store::service::{Outcome, Ticket};

/// Memory of a pending request besides what the client has sent: here, in the service and in the keyspace.
const PENDING_REQUEST_BYTES: usize = 512;

/// Returns the bytes of memory that a pending request takes.
pub(super) fn pending_bytes(topic: CheckedTopic<'_>, correlation: &[u8], payload: usize) -> usize {
    PENDING_REQUEST_BYTES + payload + topic.as_bytes().len() + correlation.len()
}

/// A pending request.
#[derive(Debug)]
pub(super) struct PendingRequest {
    connection: ConnectionId,
    session: SessionId,
    packet_id: PacketId,
    ack_slot: AckSlot,
    response_topic: OwnedTopic,
    correlation_data: Box<[u8]>,
    /// Payload of the request, if keys are logged.
    payload: Option<Bytes>,
    reservation: Reservation,
}

impl Hub {
    /// Registers a request with this payload, whose outcome is pending.
    #[inline(never)]
    pub(super) fn register_pending(
        &mut self,
        id: ConnectionId,
        session_id: SessionId,
        to: ReturnAddress<'_>,
        ticket: Ticket,
        payload: &Bytes,
    ) {
        let (Some(connection), Some(session)) = (
            self.connections.get_mut(id),
            self.sessions.get_mut(session_id),
        ) else {
            return;
        };
        let bytes = pending_bytes(to.response_topic, to.correlation_data, payload.len());
        session.reserve_response(bytes);
        let request = PendingRequest {
            connection: id,
            session: session_id,
            packet_id: to.packet_id,
            ack_slot: connection.reserve_response(bytes),
            response_topic: to.response_topic.into_owned(),
            correlation_data: to.correlation_data.into(),
            payload: self.limits.audit.logs_keys.then(|| payload.clone()),
            reservation: Reservation::new(&self.memory_budget, bytes),
        };
        self.pending_requests.insert(ticket, request);
    }

    /// Sends the gathered requests, since no more come soon.
    pub fn flush_gathered(&mut self) {
        self.service.flush_gathered();
    }

    /// Processes the outcomes that have arrived.
    pub(super) fn process_outcomes(&mut self, now: ClockReading) {
        while let Some((ticket, outcome)) = self.service.take_outcome() {
            self.trace_outcome(ticket, &outcome);
            if let Some(request) = self.pending_requests.remove(&ticket) {
                self.complete_pending(&request, &outcome, now);
            } else if let Some(outcome) = self.operator_requests.store_outcome(ticket, outcome) {
                self.complete_pending_for_broker(ticket, &outcome, now);
            }
        }
    }

    fn complete_pending(&mut self, request: &PendingRequest, outcome: &Outcome, now: ClockReading) {
        let bytes = request.reservation.bytes();
        let Some(session) = self.sessions.get_mut(request.session) else {
            self.metrics.dropped_no_session += 1;
            return;
        };
        session.release_response(bytes);
        if let Some(reasons) = self.refusal_reason(outcome) {
            let payload = request.payload.as_ref();
            let key = payload.and_then(|payload| key_of(payload, outcome));
            let identity = self.client_identity(request.session);
            let connection = self.connections.get(request.connection);
            let peer = connection.map(Connection::endpoint).cloned();
            self.record_refusal(identity, peer.as_ref(), reasons, key, now);
        }
        let mut to = ReturnAddress {
            packet_id: request.packet_id,
            response_topic: request.response_topic.get(),
            correlation_data: &request.correlation_data,
            ack_slot: Some(request.ack_slot),
        };
        let connection = self.connections.get_mut(request.connection);
        if let Some(connection) = connection.filter(|it| it.session() == Some(request.session)) {
            if connection.release_response(bytes) {
                self.mark_dirty(request.connection);
            }
            self.complete_request(request.connection, request.session, to, outcome, now);
        } else if let Outcome::Replied(response) = outcome {
            to.ack_slot = None;
            self.queue_response(request.session, to, response, None);
            self.send_queued(request.session, now);
        }
    }
}
