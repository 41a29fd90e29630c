//! Dispatch of received packets.
use super::refusals::Cause;
use super::session::Content;
use super::{ConnectionId, Hub};
use crate::access::proxy_header::UNTRUSTED;
use crate::audit::EndReason;
use crate::clock::Now;
use crate::connection::Connection;
use statestore_protocol::mqtt::{DecodeError, Packet, ReasonCode};

impl Hub {
    /// Processes a packet.
    pub(super) fn packet(&mut self, id: ConnectionId, packet: Packet, now: Now) {
        let Some(connection) = self.connections.get(id) else {
            return;
        };
        let Some(session) = connection.session() else {
            return match packet {
                Packet::Connect(connect) if connection.proving().is_none() => {
                    self.connect(id, connect, now);
                }
                Packet::Auth(auth) if connection.proving().is_some() => self.auth(id, auth, now),
                _ => {
                    let why = "the first packet is no CONNECT";
                    self.drop_connection(id, EndReason::ProtocolError, why, now);
                }
            };
        };
        match packet {
            Packet::Publish(publish) => self.publish(id, session, &publish, now),
            Packet::PubAck(puback) => {
                if let Some(session) = self.sessions.get_mut(session)
                    && let Some(in_flight) = session.finish(puback.packet_id)
                {
                    if let Some(answer) = in_flight.answer
                        // On a later connection, the client may not have seen the request acknowledged.
                        && answer.connection == id
                    {
                        self.service.answer_received(&session.client, answer.number);
                    }
                    if let Content::Packet(packet) = in_flight.content {
                        self.spares.put(packet);
                    }
                }
                self.send_waiting(session, now);
            }
            Packet::Subscribe(subscribe) => self.subscribe(id, session, subscribe, now),
            Packet::Unsubscribe(unsubscribe) => self.unsubscribe(id, session, &unsubscribe, now),
            Packet::PingReq => {
                if self
                    .connections
                    .get_mut(id)
                    .is_some_and(Connection::is_unanswered_ping)
                {
                    self.answer_ping(id, now);
                }
            }
            Packet::Disconnect(disconnect) => self.disconnect(id, session, &disconnect, now),
            Packet::Auth(auth) => self.auth(id, auth, now),
            _ => self.fail(
                id,
                ReasonCode::PROTOCOL_ERROR,
                "a client does not send this packet",
                now,
            ),
        }
    }

    /// Processes input that is no packet.
    #[cold]
    pub(super) fn undecodable(
        &mut self,
        id: ConnectionId,
        first: Option<u8>,
        error: &DecodeError,
        now: Now,
    ) {
        const CONNECT: u8 = 0x10;
        let is_open = self
            .connections
            .get(id)
            .is_some_and(|c| c.session().is_some());
        if is_open {
            self.fail(id, error.reason(), &error.to_string(), now);
        } else if first == Some(CONNECT) {
            self.refuse_undecodable_connect(id, error, now);
        } else {
            let why = error.to_string();
            self.drop_connection(id, EndReason::ProtocolError, &why, now);
        }
    }

    /// Drops a connection on which a proxy that is not trusted passes on an address.
    #[cold]
    pub(super) fn untrusted_proxy(&mut self, id: ConnectionId, now: Now) {
        self.note_refusal(id, Cause::Protocol, UNTRUSTED, now);
        self.drop_connection(id, EndReason::ProtocolError, UNTRUSTED, now);
    }
}
