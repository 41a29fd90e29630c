//! The client's session as a state machine: bytes and times in, bytes and events out, no socket and no clock.
#![allow(clippy::unwrap_used)]

mod connecting;
mod live_connection;
mod properties;
mod reporting;
mod resending;
mod serving;

use bytes::BytesMut;
use statestore_protocol::mqtt::session::{
    Event, PublishOptions, Session, SessionConfig, SessionError, Subscriptions,
};
use statestore_protocol::mqtt::{
    ConnAck, Connect, Limits, Packet, PacketId, PubAck, Publish, PublishHeader, ReasonCode, SubAck,
    Subscription, decode,
};

const MAX: u32 = Limits::MAX_PACKET_BYTES;

fn session() -> Session<u32> {
    session_with(|_| {})
}

fn session_with(change: impl FnOnce(&mut Connect)) -> Session<u32> {
    let mut connect = Connect {
        client_id: "me".into(),
        keep_alive_s: 60,
        ..Connect::default()
    };
    change(&mut connect);
    Session::new(SessionConfig {
        connect,
        subscriptions: Subscriptions::new(|client_id| {
            vec![Subscription::at_least_once(format!("{client_id}/answers"))]
        }),
        ping_timeout_ms: 5_000,
    })
}

/// A session with the other end of its connection.
struct SessionHarness {
    session: Session<u32>,
    now_ms: u64,
    events: Vec<Event<u32>>,
}

impl SessionHarness {
    fn new() -> Self {
        Self {
            session: session(),
            now_ms: 0,
            events: Vec::new(),
        }
    }

    fn ready() -> Self {
        let mut bench = Self::new();
        bench.connect(&ConnAck::new(ReasonCode::SUCCESS));
        bench
    }

    fn send(&mut self, bytes: &[u8]) -> Result<(), SessionError> {
        let mut stream = BytesMut::from(bytes);
        let events = &mut self.events;
        self.session
            .receive(&mut stream, self.now_ms, usize::MAX, |event| {
                events.push(event);
            })
            .map(drop)
    }

    /// Connects, up to the SUBACK if the session is new.
    fn connect(&mut self, connack: &ConnAck) {
        self.session.connect(self.now_ms).unwrap();
        assert!(matches!(self.sent()[..], [Packet::Connect(_)]));
        let mut bytes = BytesMut::new();
        connack.encode(MAX, &mut bytes).unwrap();
        self.send(&bytes).unwrap();
        if !self.session.is_ready() {
            let Ok([Packet::Subscribe(subscribe)]) = <[_; 1]>::try_from(self.sent()) else {
                panic!()
            };
            let suback = SubAck {
                packet_id: subscribe.packet_id,
                reasons: vec![ReasonCode::GRANTED_QOS_1],
                reason_string: None,
            };
            let mut bytes = BytesMut::new();
            suback.encode(MAX, &mut bytes).unwrap();
            self.send(&bytes).unwrap();
        }
    }

    /// Takes the output of the session and returns its packets.
    fn sent(&mut self) -> Vec<Packet> {
        let mut bytes = BytesMut::from(&self.session.take_output(self.now_ms)[..]);
        self.session.written(bytes.len(), false, self.now_ms);
        std::iter::from_fn(|| decode(&mut bytes, MAX).unwrap()).collect()
    }

    fn sent_publishes(&mut self) -> Vec<Publish> {
        let publish = |packet| match packet {
            Packet::Publish(publish) => Some(publish),
            _ => None,
        };
        self.sent().into_iter().filter_map(publish).collect()
    }

    fn publish(&mut self, tag: u32, deadline_ms: u64) -> PacketId {
        let payload = tag.to_be_bytes();
        let header = PublishHeader {
            topic: "requests",
            message_expiry: Some(9),
            ..PublishHeader::default()
        };
        self.session
            .publish(
                &header,
                4,
                |out| out.extend_from_slice(&payload),
                PublishOptions {
                    tag,
                    deadline_ms,
                    is_harmless: false,
                },
            )
            .unwrap()
    }

    fn acknowledge(&mut self, id: PacketId) {
        let mut bytes = BytesMut::new();
        PubAck::success(id).encode(MAX, &mut bytes).unwrap();
        self.send(&bytes).unwrap();
    }
}

fn tag(publish: &Publish) -> u32 {
    u32::from_be_bytes(publish.payload_bytes().try_into().unwrap())
}

fn resumed(change: impl FnOnce(&mut ConnAck)) -> ConnAck {
    let mut connack = ConnAck {
        session_present: true,
        ..ConnAck::new(ReasonCode::SUCCESS)
    };
    change(&mut connack);
    connack
}

/// Returns the tag of each message, and whether it is marked as a duplicate.
fn tags(publishes: &[Publish]) -> Vec<(u32, bool)> {
    publishes
        .iter()
        .map(|publish| (tag(publish), publish.dup()))
        .collect()
}
