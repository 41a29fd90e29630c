//! A broker with a store behind it that does as little as possible: it reads, answers all that was read, and writes once.
//!
//! SET and KEYNOTIFY get `+OK`, GET the same value of 100 bytes whatever the key, each with a version higher than all
//! before. A SET of the key that was watched last sends its notification as well.
use bytes::BytesMut;
use statestore_protocol::mqtt::{
    ConnAck, Packet, PacketId, PublishHeader, ReasonCode, SubAck, decode, encode_pingresp,
};
use statestore_protocol::{Command, Event, Reply, property, topic};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};

/// The value that every GET returns and that a SET of a benchmark stores.
pub(crate) const VALUE: [u8; 100] = [b'v'; 100];

const ANY_SIZE: u32 = u32::MAX;

/// Starts it, with a thread for each connection.
pub(crate) fn start() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let accept = move || {
        for stream in listener.incoming() {
            let stream = stream.unwrap();
            let thread = std::thread::Builder::new().name("broker".into());
            // The end of a connection is no news here.
            thread.spawn(move || serve(stream).unwrap_or(())).unwrap();
        }
    };
    std::thread::spawn(accept);
    address
}

fn serve(mut stream: TcpStream) -> std::io::Result<()> {
    static CONNECTIONS: AtomicU64 = AtomicU64::new(0);
    stream.set_nodelay(true)?;
    let mut connection = Connection {
        number: CONNECTIONS.fetch_add(1, Ordering::Relaxed) * 1_000_000_000,
        ..Connection::default()
    };
    let mut input = vec![0; 1 << 20];
    let mut filled = 0;
    loop {
        match stream.read(&mut input[filled..])? {
            0 => return Ok(()),
            count => filled += count,
        }
        let mut at = 0;
        while let Some((body, end)) = frame(&input[at..filled]) {
            connection.answer(&input[at..at + end], body);
            at += end;
        }
        input.copy_within(at..filled, 0);
        filled -= at;
        stream.write_all(&connection.output)?;
        connection.output.clear();
    }
}

/// Where the body of the first packet begins and where it ends; `None` if it is not complete.
fn frame(bytes: &[u8]) -> Option<(usize, usize)> {
    let (remaining, width) = varint(bytes.get(1..)?)?;
    let end = 1 + width + remaining;
    (end <= bytes.len()).then_some((1 + width, end))
}

fn varint(bytes: &[u8]) -> Option<(usize, usize)> {
    let mut value = 0;
    for (index, byte) in bytes.iter().take(4).enumerate() {
        value |= usize::from(byte & 0x7F) << (7 * index);
        if byte & 0x80 == 0 {
            return Some((value, index + 1));
        }
    }
    None
}

fn u16_at(bytes: &[u8], at: usize) -> usize {
    usize::from(u16::from_be_bytes([bytes[at], bytes[at + 1]]))
}

/// The parts of a request that the broker reads.
struct Request<'a> {
    packet_id: [u8; 2],
    correlation: &'a [u8],
    response_topic: &'a [u8],
    payload: &'a [u8],
}

impl<'a> Request<'a> {
    fn new(body: &'a [u8]) -> Self {
        let mut at = 2 + u16_at(body, 0);
        let packet_id = [body[at], body[at + 1]];
        let (len, width) = varint(&body[at + 2..]).unwrap();
        at += 2 + width;
        let payload = at + len;
        let (mut correlation, mut response_topic) = (&body[..0], &body[..0]);
        while at < payload {
            let field = |at: usize| &body[at + 2..at + 2 + u16_at(body, at)];
            let id = body[at];
            at += 1;
            match id {
                0x09 => correlation = field(at),
                0x08 => response_topic = field(at),
                _ => {}
            }
            at += match id {
                0x01 => 1,
                0x23 => 2,
                0x02 => 4,
                0x26 => {
                    let name = 2 + u16_at(body, at);
                    name + 2 + u16_at(body, at + name)
                }
                _ => 2 + u16_at(body, at),
            };
        }
        Self {
            packet_id,
            correlation,
            response_topic,
            payload: &body[payload..],
        }
    }
}

/// A PUBLISH that is sent many times, with other numbers in it.
struct Template {
    bytes: Vec<u8>,
    packet_id: usize,
    correlation: Option<usize>,
    version: usize,
}

const NO_VERSION: &str = "000000000000000:00000:StateStore";

impl Template {
    fn new(topic: &str, users: &[(&str, &str)], correlation: bool, payload: &[u8]) -> Self {
        let placeholder = [0xEE; 16];
        let header = PublishHeader {
            topic,
            packet_id: PacketId::new(1),
            correlation_data: correlation.then_some(&placeholder),
            user_properties: users,
            ..PublishHeader::default()
        };
        let mut out = BytesMut::new();
        header
            .encode(ANY_SIZE, &mut out, payload.len(), |out| {
                out.extend_from_slice(payload);
            })
            .unwrap();
        let find = |wanted: &[u8]| {
            let mut windows = out.windows(wanted.len());
            windows.position(|window| window == wanted)
        };
        Self {
            packet_id: frame(&out).unwrap().0 + 2 + topic.len(),
            correlation: find(&placeholder),
            version: find(NO_VERSION.as_bytes()).unwrap(),
            bytes: out.to_vec(),
        }
    }

    fn response(topic: &str, reply: &Reply) -> Self {
        let mut payload = BytesMut::new();
        reply.encode(&mut payload);
        let users: Vec<_> = property::response_pairs(Some(NO_VERSION)).collect();
        Self::new(topic, &users, true, &payload)
    }

    fn send(&mut self, number: u64, correlation: &[u8], out: &mut Vec<u8>) {
        let [.., high, low] = (number % 65_535 + 1).to_be_bytes();
        self.bytes[self.packet_id..self.packet_id + 2].copy_from_slice(&[high, low]);
        if let Some(at) = self.correlation {
            self.bytes[at..at + 16].copy_from_slice(correlation);
        }
        let mut rest = 1_696_374_425_000 + number;
        for digit in self.bytes[self.version..self.version + 15].iter_mut().rev() {
            *digit = b'0' + u8::try_from(rest % 10).unwrap();
            rest /= 10;
        }
        out.extend_from_slice(&self.bytes);
    }
}

#[derive(Default)]
struct Connection {
    client_id: String,
    /// The responses to GET and to all else.
    responses: Option<(Template, Template)>,
    watched: Option<(Vec<u8>, Template)>,
    /// Number of the last message. Versions are derived from it; those of a later connection are higher.
    number: u64,
    output: Vec<u8>,
}

impl Connection {
    /// Answers one packet whose body begins at `body`.
    fn answer(&mut self, packet: &[u8], body: usize) {
        match packet[0] >> 4 {
            3 => self.request(&Request::new(&packet[body..])),
            4 => {}
            _ => self.other(packet),
        }
    }

    fn request(&mut self, request: &Request<'_>) {
        self.output.extend_from_slice(&[0x40, 2]);
        self.output.extend_from_slice(&request.packet_id);
        let (get, ok) = self.responses.get_or_insert_with(|| {
            let topic = std::str::from_utf8(request.response_topic).unwrap();
            let value = Reply::Value(VALUE.to_vec().into());
            (
                Template::response(topic, &value),
                Template::response(topic, &Reply::Ok),
            )
        });
        // `*2\r\n$3\r\nGET…`: the first letter of the verb.
        let (is_get, may_be_set) = match request.payload.get(8) {
            Some(b'G') => (true, false),
            Some(b'S') => (false, true),
            _ => (false, false),
        };
        self.number += 1;
        let response = if is_get { get } else { ok };
        response.send(self.number, request.correlation, &mut self.output);
        if is_get || may_be_set && self.watched.is_none() {
            return;
        }
        match Command::decode(&request.payload.to_vec().into()).unwrap() {
            Command::Watch { key } => {
                let topic = topic::notification(&self.client_id, &key);
                let mut payload = BytesMut::new();
                Event::Set(VALUE.to_vec().into()).encode(&mut payload);
                let users = [(property::TIMESTAMP, NO_VERSION)];
                let notification = Template::new(&topic, &users, false, &payload);
                self.watched = Some((key.to_vec(), notification));
            }
            Command::Set { key, .. } => {
                if let Some((_, notification)) =
                    self.watched.as_mut().filter(|(known, _)| *known == key)
                {
                    self.number += 1;
                    notification.send(self.number, &[], &mut self.output);
                }
            }
            _ => {}
        }
    }

    fn other(&mut self, packet: &[u8]) {
        let mut out = BytesMut::new();
        match decode(&mut packet.into(), ANY_SIZE).unwrap().unwrap() {
            Packet::Connect(connect) => {
                self.client_id = connect.client_id;
                let connack = ConnAck::new(ReasonCode::SUCCESS);
                connack.encode(ANY_SIZE, &mut out).unwrap();
            }
            Packet::Subscribe(subscribe) => {
                let suback = SubAck {
                    packet_id: subscribe.packet_id,
                    reasons: vec![ReasonCode::GRANTED_QOS_1; subscribe.subscriptions.len()],
                    reason_string: None,
                };
                suback.encode(ANY_SIZE, &mut out).unwrap();
            }
            Packet::PingReq => encode_pingresp(&mut out),
            _ => {}
        }
        self.output.extend_from_slice(&out);
    }
}
