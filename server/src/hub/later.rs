//! Pending requests: the connection that waits for each outcome, and how the response is sent.
//!
//! Outcomes arrive in any order. A response is sent when its outcome arrives. PUBACKs keep the order of their PUBLISHes, for which each has
//! its [place](Place). Room is reserved meanwhile: a connection with much pending is not read, and a session counts pending requests as if
//! they were queued. If the connection has ended when the outcome arrives, the response goes to the session. The client, which has no
//! PUBACK, delivers the request again and gets another response.
use super::audit::key_of;
use super::request::ReturnAddress;
use super::{ConnectionId, Hub, SessionId};
use crate::budget::Charge;
use crate::clock::Now;
use crate::connection::{Connection, Place};
use crate::service::{Outcome, Ticket};
use bytes::Bytes;
use statestore_protocol::mqtt::{KeptTopic, PacketId};

/// Memory of a pending request besides what the client has sent: here, in the service and in the keyspace.
const ASKER_BYTES: usize = 512;

/// A pending request.
#[derive(Debug)]
pub(super) struct Asker {
    connection: ConnectionId,
    session: SessionId,
    packet_id: PacketId,
    place: Place,
    response_topic: KeptTopic,
    correlation_data: Box<[u8]>,
    /// Payload of the request, if keys are logged.
    payload: Option<Bytes>,
    charge: Charge,
}

impl Hub {
    /// Registers a request with this payload, whose outcome is pending.
    #[inline(never)]
    pub(super) fn await_outcome(
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
        let bytes = ASKER_BYTES
            + payload.len()
            + to.response_topic.as_bytes().len()
            + to.correlation_data.len();
        session.outcome_awaited(bytes);
        let asker = Asker {
            connection: id,
            session: session_id,
            packet_id: to.packet_id,
            place: connection.outcome_awaited(bytes),
            response_topic: to.response_topic.kept(),
            correlation_data: to.correlation_data.into(),
            payload: self.limits.audit.logs_keys.then(|| payload.clone()),
            charge: Charge::new(&self.gauge, bytes),
        };
        self.askers.insert(ticket, asker);
    }

    /// Returns how many requests wait to be sent to an engine together with others.
    pub fn gathered(&self) -> usize {
        self.service.gathered()
    }

    /// Sends the gathered requests, since no more come soon.
    pub fn ask_gathered(&mut self) {
        self.service.ask_gathered();
    }

    /// Processes the outcomes that have arrived.
    pub(super) fn tell_outcomes(&mut self, now: Now) {
        while let Some((ticket, outcome)) = self.service.take_outcome() {
            if let Some(asker) = self.askers.remove(&ticket) {
                self.conclude_later(&asker, &outcome, now);
            } else if let Some(outcome) = self.operator_requests.put(ticket, outcome) {
                self.conclude_later_for_broker(ticket, &outcome, now);
            }
        }
    }

    fn conclude_later(&mut self, asker: &Asker, outcome: &Outcome, now: Now) {
        let bytes = asker.charge.bytes();
        let Some(session) = self.sessions.get_mut(asker.session) else {
            self.statistics.dropped_no_session += 1;
            return;
        };
        session.outcome_came(bytes);
        if let Some(reasons) = self.refusal(outcome) {
            let payload = asker.payload.as_ref();
            let key = payload.and_then(|payload| key_of(payload, outcome));
            let party = self.party_of(asker.session);
            let connection = self.connections.get(asker.connection);
            let peer = connection.map(Connection::endpoint).cloned();
            self.refuse(party, peer.as_ref(), reasons, key, now);
        }
        let mut to = ReturnAddress {
            packet_id: asker.packet_id,
            response_topic: asker.response_topic.get(),
            correlation_data: &asker.correlation_data,
            place: Some(asker.place),
        };
        let connection = self.connections.get_mut(asker.connection);
        if let Some(connection) = connection.filter(|it| it.session() == Some(asker.session)) {
            if connection.outcome_came(bytes) {
                self.mark_dirty(asker.connection);
            }
            self.conclude(asker.connection, asker.session, to, outcome, now);
        } else if let Outcome::Answered(answered) = outcome {
            to.place = None;
            self.queue_response(asker.session, to, answered, None);
            self.send_waiting(asker.session, now);
        }
    }
}
