//! A hub with its clients.
use crate::store;
use bytes::{Bytes, BytesMut};
use statestore_protocol::mqtt::{
    ConnAck, Connect, Disconnect, EncodeError, Packet, PacketId, PubAck, Publish, PublishHeader,
    ReasonCode, SubAck, Subscribe, Subscription, decode,
};
use statestore_protocol::topic;
use statestored_broker::hub::{CloseAction, ConnectionId, Hub, HubConfig, HubLimits};
use statestored_store::service::{ClockReading, ServiceConfig};
use std::net::{IpAddr, Ipv4Addr};

pub(crate) const MAX: u32 = u32::MAX;
/// Where clients connect from.
pub(crate) const PEER: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

pub(crate) const START_WALL_MS: u64 = 1_700_000_000_000;

/// A hub and its time.
pub(crate) struct HubSimulation {
    pub(crate) hub: Hub,
    pub(crate) now: ClockReading,
}

/// The client's end of a connection.
pub(crate) struct Client {
    pub(crate) connection: ConnectionId,
    /// Bytes that the hub has not read yet.
    pub(crate) unread: BytesMut,
}

pub(crate) fn id(number: u16) -> PacketId {
    PacketId::new(number).unwrap()
}

pub(crate) fn connect(client_id: &str) -> Connect {
    Connect {
        client_id: client_id.into(),
        clean_start: true,
        ..Connect::default()
    }
}

/// CONNECT that resumes, or makes, a session which outlives its connection by a minute.
pub(crate) fn resume(client_id: &str) -> Connect {
    Connect {
        clean_start: false,
        session_expiry_s: 60,
        ..connect(client_id)
    }
}

impl HubSimulation {
    pub(crate) fn new() -> Self {
        Self::with(HubConfig::default())
    }

    pub(crate) fn limited(limits: HubLimits) -> Self {
        Self::with(HubConfig {
            limits,
            ..HubConfig::default()
        })
    }

    pub(crate) fn with(config: HubConfig) -> Self {
        Self::with_service(config, ServiceConfig::default())
    }

    /// Creates a world with a durable storage.
    pub(crate) fn durable(config: HubConfig) -> Self {
        let service = ServiceConfig {
            is_durable: true,
            ..ServiceConfig::default()
        };
        Self::with_service(config, service)
    }

    pub(crate) fn with_service(config: HubConfig, mut service: ServiceConfig) -> Self {
        service.hash_key = [1, 2];
        Self {
            hub: Hub::new(config, store::open(service)),
            now: ClockReading {
                wall_ms: START_WALL_MS,
                mono_ms: 5_000,
            },
        }
    }

    /// Lets time pass, and everything happen that is due meanwhile, each at its own time.
    pub(crate) fn advance(&mut self, milliseconds: u64) {
        let end_ms = self.now.mono_ms + milliseconds;
        while let Some(at_ms) = self.hub.next_wakeup().filter(|at_ms| *at_ms <= end_ms) {
            self.set_time(at_ms.max(self.now.mono_ms));
            self.hub.tick(self.now);
        }
        self.set_time(end_ms);
    }

    fn set_time(&mut self, mono_ms: u64) {
        self.now.wall_ms += mono_ms - self.now.mono_ms;
        self.now.mono_ms = mono_ms;
    }

    pub(crate) fn open(&mut self) -> Client {
        let connection = self
            .hub
            .opened(PEER, self.now)
            .expect("room for a connection");
        Client {
            connection,
            unread: BytesMut::new(),
        }
    }

    /// Connects and expects success.
    pub(crate) fn join(&mut self, connect: &Connect) -> (Client, ConnAck) {
        let (client, connack) = self.try_join(connect);
        assert_eq!(connack.reason, ReasonCode::SUCCESS);
        (client, connack)
    }

    /// Connects; the answer may be a refusal. More packets than the CONNACK stay in the output.
    pub(crate) fn try_join(&mut self, connect: &Connect) -> (Client, ConnAck) {
        let mut client = self.open();
        self.send(&mut client, |out| connect.encode(MAX, out));
        match self.packets(&client).as_slice() {
            [Packet::ConnAck(connack)] => (client, (**connack).clone()),
            other => panic!("{other:?}"),
        }
    }

    /// A client with a session that ends with its connection.
    pub(crate) fn client(&mut self, client_id: &str) -> Client {
        self.join(&connect(client_id)).0
    }

    pub(crate) fn bytes(&mut self, client: &mut Client, bytes: &[u8]) {
        client.unread.extend_from_slice(bytes);
        self.drive(client);
    }

    /// Offers what the client has sent until the hub has taken all that it may take now.
    fn drive(&mut self, client: &mut Client) {
        let (connection, unread) = (client.connection, &mut client.unread);
        while self.hub.received(connection, unread, self.now) {}
        // With a keyspace whose outcomes come later: waits for all outcomes that come before any time passes.
        while self.hub.metrics().requests_pending > 0
            && self
                .hub
                .next_wakeup()
                .is_some_and(|at_ms| at_ms <= self.now.mono_ms)
        {
            self.hub.tick(self.now);
            while self.hub.received(connection, unread, self.now) {}
        }
    }

    pub(crate) fn send(
        &mut self,
        client: &mut Client,
        encode: impl FnOnce(&mut BytesMut) -> Result<(), EncodeError>,
    ) {
        encode(&mut client.unread).unwrap();
        self.drive(client);
    }

    pub(crate) fn publish(
        &mut self,
        client: &mut Client,
        header: &PublishHeader<'_>,
        payload: &[u8],
    ) {
        self.send(client, |out| {
            header.encode(MAX, out, payload.len(), |out| {
                out.extend_from_slice(payload);
            })
        });
    }

    pub(crate) fn acknowledge(&mut self, client: &mut Client, packet_id: PacketId) {
        self.send(client, |out| PubAck::success(packet_id).encode(MAX, out));
    }

    pub(crate) fn subscribe(&mut self, client: &mut Client, filter: &str) {
        let subscriptions = vec![Subscription::at_least_once(filter)];
        assert_eq!(
            self.subscribe_all(client, None, subscriptions),
            [ReasonCode::GRANTED_QOS_1]
        );
    }

    pub(crate) fn subscribe_all(
        &mut self,
        client: &mut Client,
        subscription_id: Option<u32>,
        subscriptions: Vec<Subscription>,
    ) -> Vec<ReasonCode> {
        let packet = Subscribe {
            packet_id: id(77),
            subscription_id,
            subscriptions,
        };
        self.send(client, |out| packet.encode(MAX, out));
        match self.packets(client).as_slice() {
            [
                Packet::SubAck(SubAck {
                    packet_id, reasons, ..
                }),
            ] => {
                assert_eq!(*packet_id, id(77));
                reasons.clone()
            }
            other => panic!("{other:?}"),
        }
    }

    /// Ends the connection in order, or not.
    pub(crate) fn disconnect(&mut self, mut client: Client, reason: ReasonCode) {
        self.send(&mut client, |out| Disconnect::new(reason).encode(MAX, out));
        assert_eq!(
            self.hub.close_action(client.connection),
            CloseAction::Immediately
        );
        self.drop_connection(&client);
    }

    /// The network connection breaks.
    pub(crate) fn drop_connection(&mut self, client: &Client) {
        self.hub.closed(client.connection, self.now);
    }

    /// Returns the output of the hub since the last call.
    pub(crate) fn output(&mut self, client: &Client) -> BytesMut {
        let mut output = BytesMut::new();
        loop {
            let mut taken = BytesMut::new();
            self.hub
                .take_output(client.connection, &mut taken, self.now);
            if taken.is_empty() {
                return output;
            }
            output.extend_from_slice(&taken);
        }
    }

    /// The same as packets.
    pub(crate) fn packets(&mut self, client: &Client) -> Vec<Packet> {
        let mut output = self.output(client);
        let mut packets = Vec::new();
        while let Some(packet) = decode(&mut output, MAX).unwrap() {
            packets.push(packet);
        }
        assert!(output.is_empty(), "output ends inside a packet");
        packets
    }

    /// The same, but nothing else than PUBLISH is expected.
    pub(crate) fn published(&mut self, client: &Client) -> Vec<Publish> {
        let packets = self.packets(client).into_iter();
        packets
            .map(|packet| match packet {
                Packet::Publish(publish) => publish,
                other => panic!("{other:?}"),
            })
            .collect()
    }

    /// The reason code of the only packet, a PUBACK for `packet_id`.
    pub(crate) fn puback(&mut self, client: &Client, packet_id: PacketId) -> ReasonCode {
        match self.packets(client).as_slice() {
            [Packet::PubAck(puback)] => {
                assert_eq!(puback.packet_id, packet_id);
                puback.reason
            }
            other => panic!("{other:?}"),
        }
    }

    /// Expects that the last packet is a DISCONNECT, after which the connection is to be closed.
    pub(crate) fn disconnected(&mut self, client: &Client) -> ReasonCode {
        assert_eq!(
            self.hub.close_action(client.connection),
            CloseAction::AfterOutput
        );
        match self.packets(client).pop() {
            Some(Packet::Disconnect(disconnect)) => disconnect.reason,
            other => panic!("{other:?}"),
        }
    }

    /// Expects that the connection works, and that nothing else was sent to it.
    pub(crate) fn assert_alive(&mut self, client: &mut Client) {
        self.bytes(client, &[0xC0, 0]);
        assert_eq!(self.packets(client), [Packet::PingResp]);
    }

    /// Sends a request and returns PUBACK and response.
    pub(crate) fn request(&mut self, client: &mut Client, payload: &[u8]) -> (PubAck, Publish) {
        self.publish(client, &request(id(9)), payload);
        let mut packets = self.packets(client).into_iter();
        match (packets.next(), packets.next(), packets.next()) {
            (Some(Packet::PubAck(puback)), Some(Packet::Publish(response)), None) => {
                self.acknowledge(client, response.packet_id().unwrap());
                (puback, response)
            }
            other => panic!("{other:?}"),
        }
    }
}

pub(crate) const RESPONSES: &str = "clients/me/services/statestore/_any_/command/invoke/response";

/// A request with all that it needs.
pub(crate) fn request(packet_id: PacketId) -> PublishHeader<'static> {
    PublishHeader {
        topic: topic::REQUEST,
        packet_id: Some(packet_id),
        response_topic: Some(RESPONSES),
        correlation_data: Some(b"0123456789abcdef"),
        user_properties: &[("__ts", "001700000000000:00000:me")],
        ..PublishHeader::default()
    }
}

/// A plain QoS 1 message.
pub(crate) fn message(topic: &str, packet_id: u16) -> PublishHeader<'_> {
    PublishHeader {
        topic,
        packet_id: Some(id(packet_id)),
        ..PublishHeader::default()
    }
}

pub(crate) fn set(key: &str, value: &str) -> Bytes {
    command(&["SET", key, value])
}

pub(crate) fn command(parts: &[&str]) -> Bytes {
    let strings = parts
        .iter()
        .map(|part| format!("${}\r\n{part}\r\n", part.len()));
    format!("*{}\r\n{}", parts.len(), strings.collect::<String>()).into()
}
