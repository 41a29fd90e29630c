//! The response that a request was not executed, which only the server that received the request sends. A broker without an
//! acknowledgement gives the request to another server. The response must therefore not precede the acknowledgement.
use super::shared::node_at;
use super::world::{command, now};
use super::{Engine, LONG};
use bytes::BytesMut;
use statestore_protocol::mqtt::{
    ConnAck, Packet, PacketId, PubAck, Publish, PublishHeader, ReasonCode, SubAck, decode,
};
use statestore_protocol::topic;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Instant;

const MAX: u32 = u32::MAX;

/// A minute is allowed.
const FAR_AHEAD_MS: u64 = 3_600_000;

/// A broker as the test wants it: it gives requests to the only server that is there, and looks at each packet that comes.
struct ScriptedBroker {
    listener: TcpListener,
    stream: Option<TcpStream>,
    input: BytesMut,
    /// Whether it acknowledges what the server says.
    acknowledges: bool,
}

/// A packet of the server about a request.
#[derive(Debug, PartialEq, Eq)]
enum ServerPacket {
    /// An acknowledgement, of the request under this packet identifier.
    Acknowledged(u16),
    /// A response, with the first of the correlation data: its status, or else its payload.
    Answered(u8, String),
}

impl ScriptedBroker {
    fn new() -> Self {
        Self {
            listener: TcpListener::bind("127.0.0.1:0").unwrap(),
            stream: None,
            input: BytesMut::new(),
            acknowledges: true,
        }
    }

    fn address(&self) -> SocketAddr {
        self.listener.local_addr().unwrap()
    }

    /// Ends the connection if there is one, takes the next one, and grants what is subscribed.
    fn accept(&mut self) {
        self.stream = None;
        self.input.clear();
        let (stream, _) = self.listener.accept().unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        self.stream = Some(stream);
        let connect = self.packet();
        assert!(matches!(connect, Packet::Connect(_)), "{connect:?}");
        let mut out = BytesMut::new();
        ConnAck::new(ReasonCode::SUCCESS)
            .encode(MAX, &mut out)
            .unwrap();
        self.send(&out);
        let subscribe = self.packet();
        let Packet::Subscribe(subscribe) = subscribe else {
            panic!("{subscribe:?}");
        };
        let mut out = BytesMut::new();
        let granted = SubAck {
            packet_id: subscribe.packet_id,
            reasons: vec![ReasonCode::GRANTED_QOS_1; subscribe.subscriptions.len()],
            reason_string: None,
        };
        granted.encode(MAX, &mut out).unwrap();
        self.send(&out);
    }

    fn send(&mut self, bytes: &[u8]) {
        self.stream.as_mut().unwrap().write_all(bytes).unwrap();
    }

    fn packet(&mut self) -> Packet {
        loop {
            if let Some(packet) = decode(&mut self.input, MAX).unwrap() {
                return packet;
            }
            let mut chunk = [0; 4096];
            let count = self.stream.as_mut().unwrap().read(&mut chunk).unwrap();
            assert!(count > 0, "the server ended the connection");
            self.input.extend_from_slice(&chunk[..count]);
        }
    }

    /// Sends the server a request with this byte as its correlation data.
    fn send_request(&mut self, packet_id: u16, correlation: u8, parts: &[&str], timestamp: &str) {
        let response_topic = topic::response("me");
        let header = PublishHeader {
            topic: topic::REQUEST,
            packet_id: PacketId::new(packet_id),
            response_topic: Some(&response_topic),
            correlation_data: Some(&[correlation]),
            user_properties: &[("__ts", timestamp)],
            ..PublishHeader::default()
        };
        let payload = command(parts);
        let mut out = BytesMut::new();
        let encoded = header.encode(MAX, &mut out, payload.len(), |out| {
            out.extend_from_slice(&payload);
        });
        encoded.unwrap();
        self.send(&out);
    }

    /// Returns the server's next packet about a request. Messages to the other servers are skipped.
    fn next_packet(&mut self) -> ServerPacket {
        loop {
            match self.packet() {
                Packet::PubAck(puback) => {
                    return ServerPacket::Acknowledged(puback.packet_id.get());
                }
                Packet::Publish(publish) => {
                    let mut out = BytesMut::new();
                    let packet_id = publish.packet_id().unwrap();
                    PubAck::success(packet_id).encode(MAX, &mut out).unwrap();
                    if self.acknowledges {
                        self.send(&out);
                    }
                    if let Some([correlation]) = publish.correlation_data() {
                        return ServerPacket::Answered(*correlation, response_text(&publish));
                    }
                }
                Packet::PingReq => self.send(&[0xd0, 0]),
                other => panic!("{other:?}"),
            }
        }
    }
}

fn response_text(publish: &Publish) -> String {
    let mut properties = publish.user_properties();
    let status = properties.find(|(name, status)| *name == "__stat" && *status != "200");
    status.map_or_else(
        || String::from_utf8(publish.payload_bytes().to_vec()).unwrap(),
        |(_, status)| status.to_owned(),
    )
}

fn expected_response(correlation: u8, what: &str) -> ServerPacket {
    ServerPacket::Answered(correlation, what.into())
}

pub(crate) fn a_request_that_others_may_execute_is_acknowledged_before_it_is_refused<E: Engine>() {
    const OK: &str = "+OK\r\n";
    let engine = E::start();
    let mut script = ScriptedBroker::new();
    let server = node_at(&engine, script.address(), "a");
    script.accept();
    let stamp = now();
    // An executed request is acknowledged as soon as its response is sent.
    script.send_request(1, 1, &["SET", "known", "1"], &stamp);
    assert_eq!(script.next_packet(), expected_response(1, OK));
    assert_eq!(script.next_packet(), ServerPacket::Acknowledged(1));
    // A clock that is ahead of this server may not be ahead of another one.
    let ahead = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let ahead = u64::try_from(ahead.unwrap().as_millis()).unwrap() + FAR_AHEAD_MS;
    script.send_request(2, 2, &["SET", "k", "1"], &format!("{ahead}:0:peer"));
    assert_eq!(script.next_packet(), ServerPacket::Acknowledged(2));
    // Another server may have received the request before. The only certain fact is that this server did not execute it.
    assert_eq!(script.next_packet(), expected_response(2, "503"));
    // A result that every server would find is sent unchanged.
    script.send_request(3, 3, &["SET", "k"], &stamp);
    assert_eq!(script.next_packet(), ServerPacket::Acknowledged(3));
    let arguments = "-ERR wrong number of arguments\r\n";
    assert_eq!(script.next_packet(), expected_response(3, arguments));

    // While the engine is away. The broker does not acknowledge that, so that it may have neither the refusal nor what was before it.
    engine.pause();
    script.acknowledges = false;
    script.send_request(4, 4, &["SET", "new", "1"], &stamp);
    assert_eq!(script.next_packet(), ServerPacket::Acknowledged(4));
    assert_eq!(script.next_packet(), expected_response(4, "503"));
    // The broker gives the request to another server, and the refusal is not repeated: the next packet is this one.
    script.acknowledges = true;
    script.accept();
    script.send_request(1, 6, &["CAPS"], &stamp);
    let said = script.next_packet();
    assert!(matches!(said, ServerPacket::Answered(6, _)), "{said:?}");
    assert_eq!(script.next_packet(), ServerPacket::Acknowledged(1));
    engine.resume();
    let mut packet_id = 2;
    let end = Instant::now() + LONG;
    loop {
        script.send_request(packet_id, 4, &["SET", "new", "1"], &stamp);
        let (one, other) = (script.next_packet(), script.next_packet());
        if one == expected_response(4, OK) {
            break assert_eq!(other, ServerPacket::Acknowledged(packet_id));
        }
        // The engine may take a moment.
        assert_eq!(one, ServerPacket::Acknowledged(packet_id));
        assert_eq!(other, expected_response(4, "503"));
        assert!(Instant::now() < end, "it is refused for ever");
        packet_id += 1;
    }
    server.stop().unwrap();
}
