//! The state store's protocol by hand: the bytes that the client of this project sends, created once for each connection.

use crate::{
    load::{Request, VALUE},
    socket::{Message, Wire},
};
use bytes::BytesMut;
use statestore_protocol::{
    CommandRef, Hlc, SetOptions,
    mqtt::{Connect, Limits, PacketId, PublishHeader, Subscribe, Subscription},
    property, topic,
};
use std::time::SystemTime;

const ANY_SIZE: u32 = u32::MAX;
/// Message expiry of requests: the timeout of the client of this project.
const EXPIRY_S: u32 = 10;
const SESSION_EXPIRY_S: u32 = 3600;
/// Placeholders for the key and the correlation data of a template.
const NO_KEY: [u8; 16] = [b'?'; 16];
const NO_CORRELATION: [u8; 16] = [0xEE; 16];

/// MQTT on a socket.
#[derive(Debug)]
pub struct Mqtt {
    client_id: String,
    get: Template,
    set: Template,
    watch: Template,
    packet_id: u16,
    /// Number of the next request; each request has its own correlation data.
    number: u64,
}

impl Mqtt {
    /// Creates a client; its id contains `name` and `number`.
    pub fn new(name: &str, number: usize) -> Self {
        let client_id = format!("{name}-{number:016x}");
        let command = |command: CommandRef<'_>| Template::new(&client_id, command, &NO_KEY);
        let set = CommandRef::Set {
            key: &NO_KEY,
            value: &VALUE,
            options: SetOptions::default(),
        };
        Self {
            get: command(CommandRef::Get {
                key: &NO_KEY,
                remaining: false,
                eventual: false,
            }),
            set: command(set),
            watch: command(CommandRef::Watch { key: &NO_KEY }),
            client_id,
            packet_id: 0,
            number: 0,
        }
    }

    /// Appends a request to watch a key.
    pub fn watch(&mut self, key: [u8; 16], out: &mut Vec<u8>) {
        let numbers = self.next();
        self.watch.send(&key, numbers, out);
    }

    /// Appends a request to watch the keys that match a pattern.
    #[cfg(feature = "engines")]
    pub fn watch_pattern(&mut self, pattern: &[u8], out: &mut Vec<u8>) {
        let numbers = self.next();
        let command = CommandRef::WatchPattern { pattern };
        Template::new(&self.client_id, command, pattern).send(pattern, numbers, out);
    }

    /// Returns the packet identifier and the number of the next request.
    fn next(&mut self) -> (u16, u64) {
        self.packet_id = self.packet_id.checked_add(1).unwrap_or(1);
        self.number += 1;
        (self.packet_id, self.number)
    }
}

impl Wire for Mqtt {
    fn open(&mut self, out: &mut Vec<u8>) -> usize {
        let connect = Connect {
            client_id: self.client_id.clone(),
            clean_start: true,
            session_expiry_s: SESSION_EXPIRY_S,
            limits: Limits {
                topic_alias_maximum: 16,
                ..Limits::default()
            },
            ..Connect::default()
        };
        let subscribe = Subscribe {
            packet_id: PacketId::MAX,
            subscription_id: None,
            subscriptions: vec![
                Subscription::at_least_once(topic::response(&self.client_id)),
                Subscription::at_least_once(topic::notification_filter(&self.client_id)),
            ],
        };
        let mut bytes = BytesMut::new();
        connect
            .encode(ANY_SIZE, &mut bytes)
            .expect("a short packet");
        subscribe
            .encode(ANY_SIZE, &mut bytes)
            .expect("a short packet");
        out.extend_from_slice(&bytes);
        2
    }

    fn request(&mut self, request: Request, out: &mut Vec<u8>) {
        let numbers = self.next();
        let template = if request.is_set {
            &mut self.set
        } else {
            &mut self.get
        };
        template.send(&request.key, numbers, out);
    }

    fn message(&mut self, input: &[u8], out: &mut Vec<u8>) -> Option<(Message, usize)> {
        let (remaining, width) = varint(input.get(1..)?)?;
        let len = 1 + width + remaining;
        let body = input.get(1 + width..len)?;
        let message = match input[0] >> 4 {
            3 => publish(body, out),
            // SUBACK: a reason for each filter ends it. In the other packets the reason is absent or 0 for a success.
            9 => {
                assert!(
                    body.ends_with(&[1, 1]),
                    "the SUBSCRIBE is refused: {body:?}"
                );
                Message::Other
            }
            kind => {
                let is_good = matches!(kind, 2 | 4)
                    && body
                        .get(if kind == 2 { 1 } else { 2 })
                        .is_none_or(|reason| *reason == 0);
                assert!(
                    is_good,
                    "a packet that is no success: {:02x?}",
                    &input[..len]
                );
                Message::Other
            }
        };
        Some((message, len))
    }
}

/// Acknowledges a PUBLISH and returns its kind.
fn publish(body: &[u8], out: &mut Vec<u8>) -> Message {
    let packet_id = 2 + usize::from(u16::from_be_bytes([body[0], body[1]]));
    out.extend_from_slice(&[0x40, 2, body[packet_id], body[packet_id + 1]]);
    let properties = packet_id + 2;
    let (len, width) = varint(&body[properties..]).expect("a whole packet");
    let payload = &body[properties + width + len..];
    match payload {
        [b'*', ..] => Message::Notification,
        [b'+', ..] | [b'$', b'1', b'0', b'0', ..] => Message::Answer,
        _ => panic!("the store answers {:?}", String::from_utf8_lossy(payload)),
    }
}

/// Returns a variable byte integer and its width.
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

/// A request that is sent many times, with different keys and numbers.
#[derive(Debug)]
struct Template {
    bytes: Vec<u8>,
    packet_id: usize,
    correlation: usize,
    key: usize,
}

impl Template {
    /// Creates the request for a command that contains this key.
    fn new(client_id: &str, command: CommandRef<'_>, key: &[u8]) -> Self {
        let mut payload = BytesMut::new();
        command.encode(&mut payload);
        let now = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .expect("a clock that is set");
        let timestamp = Hlc::new(now.as_millis() as u64, 0, client_id)
            .expect("a client id without colons")
            .to_string();
        let [source, version, partition] = property::client_pairs(client_id);
        let header = PublishHeader {
            topic: topic::REQUEST,
            packet_id: Some(PacketId::MIN),
            message_expiry: Some(EXPIRY_S),
            content_type: Some(property::CONTENT_TYPE),
            response_topic: Some(&topic::response(client_id)),
            correlation_data: Some(&NO_CORRELATION),
            user_properties: &[
                source,
                version,
                partition,
                (property::TIMESTAMP, &timestamp),
            ],
            ..PublishHeader::default()
        };
        let mut packet = BytesMut::new();
        header
            .encode(ANY_SIZE, &mut packet, payload.len(), |out| {
                out.extend_from_slice(&payload);
            })
            .expect("a short packet");
        let find = |wanted: &[u8]| {
            let mut windows = packet.windows(wanted.len());
            windows
                .position(|window| window == wanted)
                .expect("it is in there")
        };
        Self {
            packet_id: find(topic::REQUEST.as_bytes()) + topic::REQUEST.len(),
            correlation: find(&NO_CORRELATION),
            key: find(key),
            bytes: packet.to_vec(),
        }
    }

    /// Appends the request with a key of the same length.
    fn send(&mut self, key: &[u8], (packet_id, number): (u16, u64), out: &mut Vec<u8>) {
        let mut put =
            |at: usize, bytes: &[u8]| self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        put(self.packet_id, &packet_id.to_be_bytes());
        put(self.correlation, &number.to_be_bytes());
        put(self.key, key);
        out.extend_from_slice(&self.bytes);
    }
}
