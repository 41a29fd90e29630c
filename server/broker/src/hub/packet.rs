//! Dispatch of received packets.
use super::refusal_log::RefusalCause;
use super::session::InFlightContent;
use super::{ConnectionId, Hub};
use crate::audit::EndReason;
use statestore_protocol::mqtt::{DecodeError, Packet, ReasonCode};
use statestored_common::ClockReading;
use statestored_connection::Connection;
use statestored_connection::proxy_header::UNTRUSTED;

impl Hub {
    /// Processes a packet.
    pub(super) fn handle_packet(&mut self, id: ConnectionId, packet: Packet, now: ClockReading) {
        let Some(connection) = self.connections.get(id) else {
            return;
        };
        let Some(session) = connection.session() else {
            return match packet {
                Packet::Connect(connect) if connection.auth_exchange().is_none() => {
                    self.handle_connect(id, connect, now);
                }
                Packet::Auth(auth) if connection.auth_exchange().is_some() => {
                    self.handle_auth(id, auth, now);
                }
                _ => {
                    let why = "the first packet is not a CONNECT";
                    self.drop_connection(id, EndReason::ProtocolError, why, now);
                }
            };
        };
        match packet {
            Packet::Publish(publish) => self.handle_publish(id, session, &publish, now),
            Packet::PubAck(puback) => {
                if let Some(session) = self.sessions.get_mut(session)
                    && let Some(in_flight) = session.finish(puback.packet_id)
                {
                    if let Some(answer) = in_flight.cached_reply
                        // On a later connection, the client may not have seen the request acknowledged.
                        && answer.connection == id
                    {
                        self.service.forget_reply(&session.client, answer.number);
                    }
                    if let InFlightContent::Packet(packet) = in_flight.content {
                        self.packet_buffers.release(packet);
                    }
                }
                self.send_queued(session, now);
            }
            Packet::Subscribe(subscribe) => self.handle_subscribe(id, session, subscribe, now),
            Packet::Unsubscribe(unsubscribe) => {
                self.handle_unsubscribe(id, session, &unsubscribe, now);
            }
            Packet::PingReq => {
                if self
                    .connections
                    .get_mut(id)
                    .is_some_and(Connection::needs_pingresp)
                {
                    self.send_pingresp(id, now);
                }
            }
            Packet::Disconnect(disconnect) => self.handle_disconnect(id, session, &disconnect, now),
            Packet::Auth(auth) => self.handle_auth(id, auth, now),
            _ => self.disconnect_with(
                id,
                ReasonCode::PROTOCOL_ERROR,
                "a client does not send this packet",
                now,
            ),
        }
    }

    /// Processes input that is no packet.
    #[cold]
    pub(super) fn handle_undecodable(
        &mut self,
        id: ConnectionId,
        first: Option<u8>,
        error: &DecodeError,
        now: ClockReading,
    ) {
        const CONNECT: u8 = 0x10;
        let is_open = self
            .connections
            .get(id)
            .is_some_and(|c| c.session().is_some());
        if is_open {
            self.disconnect_with(id, error.reason(), &error.to_string(), now);
        } else if first == Some(CONNECT) {
            self.refuse_undecodable_connect(id, error, now);
        } else {
            let why = error.to_string();
            self.drop_connection(id, EndReason::ProtocolError, &why, now);
        }
    }

    /// Drops a connection on which a proxy that is not trusted passes on an address.
    #[cold]
    pub(super) fn drop_untrusted_proxy(&mut self, id: ConnectionId, now: ClockReading) {
        self.record_keyless_refusal(id, RefusalCause::Protocol, UNTRUSTED, now);
        self.drop_connection(id, EndReason::ProtocolError, UNTRUSTED, now);
    }
}
