//! The broker's side of a connection, played by hand: a test says what arrives and what is answered.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

use bytes::{Bytes, BytesMut};
use statestore::platform::Duplex;
use statestore::{Client, Error, Hlc, Settings};
use statestore_protocol::mqtt::{
    ConnAck, Connect, Disconnect, Limits, Packet, PacketId, PubAck, Publish, PublishHeader,
    ReasonCode, SubAck, Subscribe, UnsubAck, decode, encode_pingresp,
};
use statestore_protocol::{Command, Event, Reply, property, topic};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

/// How long anything may take before a test fails.
const PATIENCE: Duration = Duration::from_secs(20);

pub const CLIENT_ID: &str = "me";

/// A listener on a free port of the loopback interface.
pub struct Broker {
    listener: TcpListener,
}

impl Broker {
    pub async fn start() -> Self {
        Self {
            listener: TcpListener::bind("127.0.0.1:0").await.unwrap(),
        }
    }

    /// Settings of a client of this broker that reconnects without delay.
    pub fn settings(&self) -> Settings {
        let address = self.address();
        Settings::new(address.ip().to_string(), address.port())
            .client_id(CLIENT_ID)
            .reconnect_delay(Duration::from_millis(1), Duration::from_millis(1))
    }

    pub fn address(&self) -> SocketAddr {
        self.listener.local_addr().unwrap()
    }

    pub async fn accept_stream(&self) -> TcpStream {
        let (stream, _) = within(self.listener.accept()).await.unwrap();
        stream.set_nodelay(true).unwrap();
        stream
    }

    pub async fn accept(&self) -> Peer {
        Peer::new(self.accept_stream().await)
    }

    /// A client that is connected, and the other end of its connection.
    pub async fn connect(&self, settings: Settings) -> (Client, Peer) {
        self.connect_with(settings, ConnAck::new(ReasonCode::SUCCESS))
            .await
    }

    /// The same, with this CONNACK.
    pub async fn connect_with(&self, settings: Settings, connack: ConnAck) -> (Client, Peer) {
        let accept = async {
            let mut peer = self.accept().await;
            peer.connect().await;
            peer.send_connack(connack).await;
            peer.subscribe().await;
            peer
        };
        let (client, peer) =
            within(async { tokio::join!(Client::connect(settings), accept) }).await;
        (client.unwrap(), peer)
    }

    /// Returns the error of a client whose CONNECT is answered with `answer`.
    pub async fn refuse(&self, answer: impl AsyncFnOnce(&mut Peer)) -> Error {
        let accept = async {
            let mut peer = self.accept().await;
            peer.connect().await;
            answer(&mut peer).await;
            peer
        };
        let (client, _peer) =
            within(async { tokio::join!(Client::connect(self.settings()), accept) }).await;
        client.unwrap_err()
    }
}

pub async fn within<F: Future>(future: F) -> F::Output {
    timeout(PATIENCE, future)
        .await
        .expect("nothing happened for too long")
}

/// A version of the store.
pub fn version(number: u64) -> Hlc {
    Hlc::new(number, 0, "StateStore").unwrap()
}

/// The broker's end of one connection.
pub struct Peer {
    stream: Box<dyn Duplex>,
    input: BytesMut,
    next_id: u16,
}

/// A request as it arrived.
#[derive(Debug)]
pub struct Request {
    pub publish: Publish,
    pub command: Command,
}

impl Request {
    pub fn key(&self) -> &[u8] {
        match &self.command {
            Command::Set { key, .. }
            | Command::Get { key, .. }
            | Command::Del { key, .. }
            | Command::Vdel { key, .. }
            | Command::Watch { key }
            | Command::Unwatch { key } => key,
            Command::Scan { pattern, .. } => pattern,
            _ => &[],
        }
    }
    /// Value of a SET; empty for other commands.
    pub fn value(&self) -> &[u8] {
        match &self.command {
            Command::Set { value, .. } => value,
            _ => &[],
        }
    }
    pub fn packet_id(&self) -> PacketId {
        self.publish.packet_id().unwrap()
    }
    pub fn user(&self, name: &str) -> Option<&str> {
        self.publish
            .user_properties()
            .find(|pair| pair.0 == name)
            .map(|pair| pair.1)
    }
}

impl Peer {
    pub fn new(stream: impl Duplex + 'static) -> Self {
        Self {
            stream: Box::new(stream),
            input: BytesMut::new(),
            next_id: 1,
        }
    }

    /// The next packet; `None` at the end of the stream.
    pub async fn packet_or_end(&mut self) -> Option<Packet> {
        loop {
            if let Some(packet) = decode(&mut self.input, Limits::MAX_PACKET_BYTES).unwrap() {
                return Some(packet);
            }
            match within(self.stream.read_buf(&mut self.input)).await {
                Ok(0) | Err(_) => return None,
                Ok(_) => {}
            }
        }
    }

    /// The next packet, whatever time passes before it.
    pub async fn packet_at_any_time(&mut self) -> Packet {
        loop {
            if let Some(packet) = decode(&mut self.input, Limits::MAX_PACKET_BYTES).unwrap() {
                return packet;
            }
            assert_ne!(self.stream.read_buf(&mut self.input).await.unwrap(), 0);
        }
    }

    pub async fn packet(&mut self) -> Packet {
        self.packet_or_end().await.expect("a packet")
    }

    /// The next packet, which is none of the acknowledgements of what this end sent.
    pub async fn packet_except_puback(&mut self) -> Packet {
        loop {
            match self.packet().await {
                Packet::PubAck(_) => {}
                packet => return packet,
            }
        }
    }

    pub async fn send_bytes(&mut self, bytes: &[u8]) {
        for piece in bytes.chunks(1 << 16) {
            within(self.stream.write_all(piece)).await.unwrap();
        }
        within(self.stream.flush()).await.unwrap();
    }

    /// For a client that may be gone.
    pub async fn try_send(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        within(self.stream.write_all(bytes)).await
    }

    pub async fn connect(&mut self) -> Connect {
        match self.packet().await {
            Packet::Connect(connect) => *connect,
            other => panic!("a CONNECT was expected: {other:?}"),
        }
    }

    pub async fn send_connack(&mut self, connack: ConnAck) {
        let mut out = BytesMut::new();
        connack.encode(u32::MAX, &mut out).unwrap();
        self.send_bytes(&out).await;
    }

    /// Tells the client, which asks by ending a subscription, that this is the session that it knows.
    pub async fn confirm_session(&mut self) {
        let unsubscribe = match self.packet_except_puback().await {
            Packet::Unsubscribe(unsubscribe) => unsubscribe,
            other => panic!("an UNSUBSCRIBE was expected: {other:?}"),
        };
        let mut out = BytesMut::new();
        let unsuback = UnsubAck {
            packet_id: unsubscribe.packet_id,
            reasons: vec![ReasonCode::SUCCESS],
            reason_string: None,
        };
        unsuback.encode(u32::MAX, &mut out).unwrap();
        self.send_bytes(&out).await;
        self.subscribe().await;
    }

    /// Grants the subscriptions that the client asks for, and returns their filters.
    pub async fn subscribe(&mut self) -> Vec<String> {
        self.answer_subscribe(&[ReasonCode::GRANTED_QOS_1; 2]).await
    }

    pub async fn answer_subscribe(&mut self, reasons: &[ReasonCode]) -> Vec<String> {
        let subscribe = match self.packet_except_puback().await {
            Packet::Subscribe(subscribe) => subscribe,
            other => panic!("a SUBSCRIBE was expected: {other:?}"),
        };
        self.send_suback(&subscribe, reasons).await;
        subscribe
            .subscriptions
            .into_iter()
            .map(|subscription| subscription.filter)
            .collect()
    }

    pub async fn send_suback(&mut self, subscribe: &Subscribe, reasons: &[ReasonCode]) {
        let mut out = BytesMut::new();
        let suback = SubAck {
            packet_id: subscribe.packet_id,
            reasons: reasons.to_vec(),
            reason_string: None,
        };
        suback.encode(u32::MAX, &mut out).unwrap();
        self.send_bytes(&out).await;
    }

    /// The next request, not acknowledged.
    pub async fn request(&mut self) -> Request {
        match self.packet_except_puback().await {
            Packet::Publish(publish) => {
                let command = Command::decode(&publish.payload()).unwrap();
                Request { publish, command }
            }
            other => panic!("a request was expected: {other:?}"),
        }
    }

    pub async fn acknowledge(&mut self, request: &Request, reason: ReasonCode) {
        let mut out = BytesMut::new();
        let puback = PubAck {
            packet_id: request.packet_id(),
            reason,
            reason_string: None,
        };
        puback.encode(u32::MAX, &mut out).unwrap();
        self.send_bytes(&out).await;
    }

    /// Sends a response, without acknowledging the request.
    pub async fn respond(&mut self, request: &Request, reply: &Reply, version: Option<&Hlc>) {
        let mut payload = BytesMut::new();
        reply.encode(&mut payload);
        self.respond_raw(request, &payload, version).await;
    }

    pub async fn respond_raw(&mut self, request: &Request, payload: &[u8], version: Option<&Hlc>) {
        let version = version.map(Hlc::to_string);
        let users: Vec<_> = property::response_pairs(version.as_deref()).collect();
        self.respond_with(request, payload, &users).await;
    }

    pub async fn respond_with(
        &mut self,
        request: &Request,
        payload: &[u8],
        users: &[(&str, &str)],
    ) {
        self.publish(
            &PublishHeader {
                topic: request.publish.response_topic().unwrap(),
                correlation_data: request.publish.correlation_data(),
                user_properties: users,
                ..PublishHeader::default()
            },
            payload,
        )
        .await;
    }

    /// Answers a PINGREQ, which is to be the next packet.
    pub async fn answer_ping(&mut self) {
        match self.packet_except_puback().await {
            Packet::PingReq => {
                let mut out = BytesMut::new();
                encode_pingresp(&mut out);
                self.send_bytes(&out).await;
            }
            other => panic!("a PINGREQ was expected: {other:?}"),
        }
    }

    /// Acknowledges and answers the next request, and returns it.
    pub async fn answer(&mut self, reply: &Reply, version: Option<&Hlc>) -> Request {
        let request = self.request().await;
        self.acknowledge(&request, ReasonCode::SUCCESS).await;
        self.respond(&request, reply, version).await;
        request
    }

    /// Sends a PUBLISH with QoS 1.
    pub async fn publish(&mut self, header: &PublishHeader<'_>, payload: &[u8]) {
        let header = PublishHeader {
            packet_id: PacketId::new(self.next_id),
            ..*header
        };
        self.next_id += 1;
        let mut out = BytesMut::new();
        header
            .encode(u32::MAX, &mut out, payload.len(), |out| {
                out.extend_from_slice(payload);
            })
            .unwrap();
        self.send_bytes(&out).await;
    }

    pub async fn notify(&mut self, key: &[u8], event: &Event, version: &Hlc) {
        let mut payload = BytesMut::new();
        event.encode(&mut payload);
        self.publish(
            &PublishHeader {
                topic: &topic::notification(CLIENT_ID, key),
                user_properties: &[(property::TIMESTAMP, &version.to_string())],
                ..PublishHeader::default()
            },
            &payload,
        )
        .await;
    }

    pub async fn disconnect(&mut self, reason: ReasonCode) {
        let mut out = BytesMut::new();
        Disconnect::new(reason).encode(u32::MAX, &mut out).unwrap();
        self.send_bytes(&out).await;
    }
}

/// A CONNACK that continues the session.
pub fn session_present() -> ConnAck {
    ConnAck {
        session_present: true,
        ..ConnAck::new(ReasonCode::SUCCESS)
    }
}

pub fn value(text: &'static str) -> Reply {
    Reply::Value(Bytes::from_static(text.as_bytes()))
}
