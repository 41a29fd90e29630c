//! A foreign broker, behind which the server is an ordinary client. It implements what MQTT 5 requires for QoS 0 and 1.
//!
//! The broker delivers messages in the order of their arrival. It drops none, except those of a shared subscription if it is
//! configured so. At times it is down, and loses all sessions and messages. It notices a silent peer only when another connection
//! takes the session over.
mod session;
mod shared_subscriptions;

use bytes::{Bytes, BytesMut};
use session::{Message, Session};
use statestore_protocol::mqtt::{
    ConnAck, Connect, Disconnect, EncodeError, Limits, Packet, PubAck, Publish, QoS, ReasonCode,
    SubAck, Subscribe, UnsubAck, Unsubscribe, Will, encode_pingresp,
};
use std::collections::BTreeMap;

/// The peer of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Peer {
    /// The client at the other end of this link.
    Client(usize),
    /// The server, on its connection of this number.
    Server(u64),
}

/// A connection.
#[derive(Debug, Default)]
struct Connection {
    /// Client id of the session, once the connection has one.
    client_id: Option<String>,
    limits: Limits,
    output: BytesMut,
    /// Whether the connection ends as soon as its output is sent.
    is_closing: bool,
    /// Published when the connection ends without a normal DISCONNECT.
    will: Option<Will>,
}

#[derive(Debug, Default)]
pub(crate) struct Broker {
    pub(crate) is_up: bool,
    connections: BTreeMap<Peer, Connection>,
    sessions: BTreeMap<String, Session>,
    /// Whether unacknowledged messages of a shared subscription go to another member when a session ends. If not, they are
    /// dropped.
    pub(crate) redelivers_shared: bool,
    /// Number of messages that another member got this way, and the correlation data of the latest ones.
    pub(crate) redelivered: u64,
    pub(crate) recently_redelivered: Vec<Bytes>,
    /// Number of messages that were shared.
    shared: usize,
}

impl Broker {
    pub(crate) fn new() -> Self {
        Self {
            is_up: true,
            ..Self::default()
        }
    }

    /// Takes the broker down. It is empty when it is back. Returns the peers whose connections ended.
    pub(crate) fn lose_state(&mut self) -> Vec<Peer> {
        self.sessions.clear();
        std::mem::take(&mut self.connections).into_keys().collect()
    }

    pub(crate) fn opened(&mut self, peer: Peer) {
        self.connections.insert(peer, Connection::default());
    }

    pub(crate) fn is_closing(&self, peer: Peer) -> bool {
        let connection = self.connections.get(&peer);
        connection.is_none_or(|connection| connection.is_closing)
    }

    /// Returns all connected peers.
    pub(crate) fn peers(&self) -> Vec<Peer> {
        self.connections.keys().copied().collect()
    }

    /// Handles the end of a connection.
    pub(crate) fn closed(&mut self, peer: Peer, now_ms: u64) {
        let Some(connection) = self.connections.remove(&peer) else {
            return;
        };
        let session = connection
            .client_id
            .and_then(|id| self.sessions.get_mut(&id));
        if let Some(session) = session.filter(|session| session.peer == Some(peer)) {
            session.end(now_ms);
        }
        self.remove_expired(now_ms);
        if let Some(will) = connection.will {
            self.publish_will(&will, now_ms);
        }
    }

    /// Removes expired sessions.
    fn remove_expired(&mut self, now_ms: u64) {
        let over = self
            .sessions
            .iter()
            .filter(|(_, session)| !session.is_alive(now_ms));
        let over: Vec<_> = over.map(|(client_id, _)| client_id.clone()).collect();
        for client_id in over {
            if let Some(session) = self.sessions.remove(&client_id) {
                self.redeliver_shared(session);
            }
        }
    }

    /// Handles a packet.
    ///
    /// # Errors
    /// The peer must not send such a packet.
    pub(crate) fn received(
        &mut self,
        peer: Peer,
        packet: Packet,
        now_ms: u64,
    ) -> Result<(), String> {
        self.remove_expired(now_ms);
        let Some(connection) = self.connections.get_mut(&peer) else {
            return Ok(());
        };
        if connection.is_closing {
            return Ok(());
        }
        if let Packet::Connect(connect) = packet {
            return self.connect(peer, *connect).map_err(encode_error);
        }
        let Some(client_id) = connection.client_id.clone() else {
            return Err(format!("{packet:?} before CONNECT"));
        };
        let output = &mut connection.output;
        let Some(session) = self.sessions.get_mut(&client_id) else {
            return Err(format!("{client_id} has no session"));
        };
        let max = connection.limits.max_packet_bytes;
        match packet {
            Packet::Publish(publish) => {
                return self.publish(peer, &publish, now_ms).map_err(encode_error);
            }
            Packet::PubAck(puback) => session.acknowledged(puback.packet_id)?,
            Packet::Subscribe(Subscribe {
                packet_id,
                subscriptions,
                ..
            }) => {
                let reasons = vec![ReasonCode::GRANTED_QOS_1; subscriptions.len()];
                for subscription in subscriptions {
                    session.subscribe(subscription.filter);
                }
                let suback = SubAck {
                    packet_id,
                    reasons,
                    reason_string: None,
                };
                suback.encode(max, output).map_err(encode_error)?;
            }
            Packet::Unsubscribe(Unsubscribe { packet_id, filters }) => {
                let reasons = filters.iter().map(|filter| session.unsubscribe(filter));
                let unsuback = UnsubAck {
                    packet_id,
                    reasons: reasons.collect(),
                    reason_string: None,
                };
                unsuback.encode(max, output).map_err(encode_error)?;
            }
            Packet::PingReq => encode_pingresp(output),
            Packet::Disconnect(disconnect) => {
                if let Some(expiry_s) = disconnect.session_expiry_s {
                    session.expiry_s = expiry_s;
                }
                if disconnect.reason == ReasonCode::SUCCESS {
                    connection.will = None;
                }
                connection.is_closing = true;
            }
            other => return Err(format!("a broker is not sent {other:?}")),
        }
        Ok(())
    }

    fn connect(&mut self, peer: Peer, connect: Connect) -> Result<(), EncodeError> {
        self.take_over(&connect.client_id, peer)?;
        if connect.clean_start
            && let Some(session) = self.sessions.remove(&connect.client_id)
        {
            self.redeliver_shared(session);
        }
        let Some(connection) = self.connections.get_mut(&peer) else {
            return Ok(());
        };
        let is_present = self.sessions.contains_key(&connect.client_id);
        let session = self.sessions.entry(connect.client_id.clone()).or_default();
        connection.limits = connect.limits;
        connection.client_id = Some(connect.client_id);
        connection.will = connect.will;
        session.begin(peer, connect.session_expiry_s);
        let connack = ConnAck {
            session_present: is_present,
            ..ConnAck::new(ReasonCode::SUCCESS)
        };
        connack.encode(connect.limits.max_packet_bytes, &mut connection.output)
    }

    /// Disconnects another connection with this client id, which is notified of the takeover.
    fn take_over(&mut self, client_id: &str, peer: Peer) -> Result<(), EncodeError> {
        for (other, connection) in &mut self.connections {
            if *other != peer
                && connection.client_id.as_deref() == Some(client_id)
                && !connection.is_closing
            {
                connection.is_closing = true;
                let disconnect = Disconnect::new(ReasonCode::SESSION_TAKEN_OVER);
                disconnect.encode(Limits::MAX_PACKET_BYTES, &mut connection.output)?;
            }
        }
        Ok(())
    }

    /// Handles a PUBLISH.
    fn publish(&mut self, peer: Peer, publish: &Publish, now_ms: u64) -> Result<(), EncodeError> {
        let reason = if self.deliver(publish, now_ms) {
            ReasonCode::SUCCESS
        } else {
            ReasonCode::NO_MATCHING_SUBSCRIBERS
        };
        let connection = self.connections.get_mut(&peer);
        if let (Some(connection), Some(packet_id), QoS::AtLeastOnce) =
            (connection, publish.packet_id(), publish.qos())
        {
            let puback = PubAck {
                packet_id,
                reason,
                reason_string: None,
            };
            puback.encode(connection.limits.max_packet_bytes, &mut connection.output)?;
        }
        Ok(())
    }

    /// Delivers a message to all subscribers. Returns whether there are any.
    fn deliver(&mut self, publish: &Publish, now_ms: u64) -> bool {
        let mut is_wanted = false;
        for session in self.sessions.values_mut() {
            if session.is_subscribed(publish.topic()) {
                is_wanted = true;
                session.push(Message::new(publish, now_ms));
            }
        }
        self.share(&Message::new(publish, now_ms)) || is_wanted
    }

    /// Appends all output that may be sent on a connection now.
    ///
    /// # Errors
    /// A packet cannot be encoded.
    pub(crate) fn take_output(
        &mut self,
        peer: Peer,
        output: &mut BytesMut,
        now_ms: u64,
    ) -> Result<(), String> {
        let Some(connection) = self.connections.get_mut(&peer) else {
            return Ok(());
        };
        output.unsplit(connection.output.split());
        let client_id = connection.client_id.as_deref();
        if let Some(session) = client_id.and_then(|id| self.sessions.get_mut(id))
            && session.peer == Some(peer)
            && !connection.is_closing
        {
            session
                .send(connection.limits, now_ms, output)
                .map_err(encode_error)?;
        }
        Ok(())
    }
}

// An adapter for `map_err`.
#[allow(clippy::needless_pass_by_value)]
fn encode_error(error: EncodeError) -> String {
    format!("the broker cannot say it: {error}")
}
