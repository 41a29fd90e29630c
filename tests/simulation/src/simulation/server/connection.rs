//! The server's end of a connection: its input, the part that the hub takes, and its output.
use super::CLIENT_ADDRESS;
use crate::broker::Peer;
use crate::faults::Mishap;
use crate::simulation::Simulation;
use crate::simulation::network::{CloseKind, Direction, Link, first_packet, lower};
use crate::wire_monitor;
use bytes::{Buf, Bytes, BytesMut};
use statestore_protocol::mqtt::{Limits, Packet};
use statestored_broker::hub::CloseAction;

impl Simulation {
    /// Handles a connection attempt. Returns whether it is accepted.
    pub(crate) fn server_accepts(&mut self, link: usize) -> bool {
        let now = self.server_now();
        if let Some(broker) = &mut self.broker {
            if !broker.is_up {
                return false;
            }
            let peer = Peer::Client(link);
            broker.opened(peer);
            let far = &mut self.links[link].server_end;
            far.peer = Some(peer);
            far.wire.is_of_broker = true;
            return true;
        }
        let Some(hub) = &mut self.server.hub else {
            return false;
        };
        let Some(connection) = hub.opened(CLIENT_ADDRESS, now) else {
            return false;
        };
        let client = self.links[link].client;
        let mut others = self.server.links.values();
        if others.any(|other| self.links[*other].client == client) {
            self.fault_counts.count(Mishap::Overlapping);
        }
        self.server.links.insert(connection, link);
        self.links[link].server_end.connection = Some(connection);
        self.settle();
        true
    }

    /// Handles bytes that arrive on a connection.
    pub(crate) fn server_receives(&mut self, link: usize, bytes: Bytes) {
        let far = &mut self.links[link].server_end;
        if !far.is_connected() || far.is_lingering {
            return;
        }
        let bytes = if far.has_connect {
            bytes
        } else {
            far.connect_packet.extend_from_slice(&bytes);
            match first_packet(&mut far.connect_packet) {
                Some(Packet::Connect(mut connect)) => {
                    far.has_connect = true;
                    let rest = far.connect_packet.split();
                    lower(&mut connect.limits, self.links[link].lowered.of_client);
                    let mut bytes = BytesMut::new();
                    if let Err(error) = connect.encode(Limits::MAX_PACKET_BYTES, &mut bytes) {
                        return self.violated(format!("CONNECT cannot be encoded again: {error}"));
                    }
                    bytes.unsplit(rest);
                    bytes.freeze()
                }
                Some(other) => {
                    return self.violated(format!(
                        "the first packet is {}",
                        wire_monitor::summary(&other)
                    ));
                }
                None => return,
            }
        };
        let far = &mut self.links[link].server_end;
        let result = far.wire.record_received(&bytes);
        if let Some(peer) = far.peer {
            let packets = result.clone().unwrap_or_default();
            self.inspect(link, "to the broker", "=>", result);
            for packet in packets {
                self.broker_received(peer, packet);
            }
            return self.serve_broker();
        }
        far.input.extend_from_slice(&bytes);
        for packet in result.iter().flatten() {
            if let Packet::Publish(publish) = packet {
                let lifetime_s = publish.message_expiry().unwrap_or(u32::MAX);
                far.lifetimes.push_back(u64::from(lifetime_s) * 1_000);
            }
        }
        self.inspect(link, "to the server", "=>", result);
        self.take_input(link);
        self.settle();
    }

    /// Offers input to the hub, if it accepts any.
    fn take_input(&mut self, link: usize) {
        let now = self.server_now();
        let far = &mut self.links[link].server_end;
        let (Some(hub), Some(connection)) = (&mut self.server.hub, far.connection) else {
            return;
        };
        if far.input.is_empty() || !hub.accepts_input(connection) {
            return;
        }
        let offered = far.input.clone();
        // Until this offer, the hub did not know of these messages, as if they were in flight.
        let lifetimes = far.lifetimes.drain(..);
        far.expiries
            .extend(lifetimes.map(|lifetime_ms| now.mono_ms + lifetime_ms));
        while hub.received(connection, &mut far.input, now) {}
        let len = offered.len() - far.input.len();
        far.taken.extend_from_slice(&offered[..len]);
        while let Some(packet) = first_packet(&mut self.links[link].server_end.taken) {
            self.record_taken_request(link, &packet);
        }
        self.record_changes();
    }

    /// Handles the end of a connection at the server.
    pub(crate) fn end_at_server(&mut self, link: usize) {
        let now = self.server_now();
        if let Some(broker) = &mut self.broker
            && let Some(peer) = self.links[link].server_end.peer.take()
        {
            broker.closed(peer, now.mono_ms);
            return self.trace_event(|| format!("broker: link {link} is over"));
        }
        let Some(connection) = self.links[link].server_end.connection.take() else {
            return;
        };
        self.trace_event(|| format!("server: link {link} is over"));
        self.server.links.remove(&connection);
        if let Some(hub) = &mut self.server.hub {
            hub.closed(connection, now);
        }
        self.settle();
    }

    /// Moves bytes of a connection in both directions until none can move.
    pub(crate) fn serve(&mut self, link: usize) {
        loop {
            self.send_output(link);
            let far = &self.links[link].server_end;
            if let Some(broker) = &self.broker {
                let is_closing = far.peer.is_some_and(|peer| broker.is_closing(peer));
                if is_closing && far.output.is_empty() {
                    self.server_closes(link, CloseKind::Closed);
                    self.end_at_server(link);
                }
                return;
            }
            let (Some(hub), Some(connection)) = (&self.server.hub, far.connection) else {
                return;
            };
            match hub.close_action(connection) {
                CloseAction::KeepOpen => {}
                CloseAction::AfterOutput if !far.output.is_empty() => return,
                CloseAction::AfterOutput => {
                    if !far.is_lingering {
                        self.links[link].server_end.is_lingering = true;
                        self.server_closes(link, CloseKind::Closed);
                    }
                    return;
                }
                CloseAction::Immediately => {
                    self.server_closes(link, CloseKind::Closed);
                    return self.end_at_server(link);
                }
            }
            let before = far.input.len();
            self.take_input(link);
            if self.links[link].server_end.input.len() == before {
                return;
            }
        }
    }

    /// Sends as much output as the connection accepts.
    fn send_output(&mut self, link: usize) {
        let now = self.server_now();
        loop {
            let Link {
                server_end: far,
                down,
                lowered,
                ..
            } = &mut self.links[link];
            if !far.is_connected() {
                return;
            }
            if far.output.is_empty() {
                let mut result = Ok(());
                if let (Some(broker), Some(peer)) = (&mut self.broker, far.peer) {
                    result = broker.take_output(peer, &mut far.output, now.mono_ms);
                } else if let (Some(hub), Some(connection)) = (&mut self.server.hub, far.connection)
                {
                    hub.take_output(connection, &mut far.output, now);
                }
                if let Err(error) = result {
                    return self.violated(error);
                }
                if far.output.is_empty() {
                    return;
                }
                if !far.has_connack {
                    far.has_connack = true;
                    let rest = far.output.split();
                    far.output = with_lowered_connack(rest, lowered.of_server);
                }
                let output = far.output.clone();
                let result = far.wire.record_sent(&output);
                if let Ok(packets) = &result
                    && self.broker.is_none()
                {
                    self.check_durable(link, packets);
                }
                self.inspect(link, "from the server", "<=", result);
                continue;
            }
            let len = far.output.len().min(down.free_bytes());
            if len == 0 {
                return;
            }
            let bytes = far.output.copy_to_bytes(len);
            self.send(link, Direction::ToClient, bytes);
        }
    }
}

/// Returns the first bytes of the server, with a CONNACK that allows less.
fn with_lowered_connack(mut stream: BytesMut, to: Limits) -> BytesMut {
    let whole = stream.clone();
    let Some(Packet::ConnAck(mut connack)) = first_packet(&mut stream) else {
        return whole;
    };
    lower(&mut connack.limits, to);
    let mut bytes = BytesMut::new();
    if connack
        .encode(Limits::MAX_PACKET_BYTES, &mut bytes)
        .is_err()
    {
        return whole;
    }
    bytes.unsplit(stream);
    bytes
}
