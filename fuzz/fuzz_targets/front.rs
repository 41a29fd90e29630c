//! Several clients on the hub, with packets in any order, times, lost connections and arbitrary bytes. A small model checks the hub: the
//! value of each key, the subscriptions of each client, and the unacknowledged PUBLISH packets.
#![no_main]
use bytes::{Bytes, BytesMut};
use libfuzzer_sys::fuzz_target;
use statestore_protocol::mqtt::{
    Connect, Disconnect, Packet, PacketId, PubAck, PublishHeader, ReasonCode, Subscribe,
    Subscription, decode,
};
use statestore_protocol::topic;
use statestored_broker::hub::{CloseAction, ConnectionId, Hub, HubConfig};
use statestored_store::service::{ClockReading, Service, ServiceConfig};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, Ipv4Addr};

const MAX: u32 = u32::MAX;
const CLIENTS: [&str; 2] = ["a", "b"];
const LEVELS: [&str; 6] = ["x", "y", "", "+", "#", "$x"];
const PEER: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Choices of the fuzzer, byte by byte.
struct FuzzInput<'a>(&'a [u8]);

impl<'a> FuzzInput<'a> {
    fn byte(&mut self) -> Option<usize> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(usize::from(*first))
    }
    fn bytes(&mut self, count: usize) -> &'a [u8] {
        let (bytes, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        bytes
    }
    /// Up to three levels; wildcards only in a filter.
    fn levels(&mut self, is_filter: bool) -> Option<String> {
        let count = 1 + self.byte()? % 3;
        let known = if is_filter { 6 } else { 3 };
        let mut levels = Vec::new();
        for _ in 0..count {
            levels.push(LEVELS[self.byte()? % known]);
        }
        Some(levels.join("/"))
    }
}

/// The client's end of a connection.
#[derive(Default)]
struct ClientConnection {
    client: Option<&'static str>,
    is_connected: bool,
    unread: BytesMut,
    /// Sent PUBLISH packets that are not acknowledged.
    published: VecDeque<PacketId>,
    /// Received PUBLISH packets that are not acknowledged.
    received: VecDeque<PacketId>,
    /// Messages received in this step.
    messages: Vec<(String, Bytes)>,
    /// Responses received in this step.
    answers: Vec<Bytes>,
}

struct HubSimulation {
    hub: Hub,
    now: ClockReading,
    connections: BTreeMap<ConnectionId, ClientConnection>,
    keys: BTreeMap<usize, Vec<u8>>,
    filters: BTreeMap<&'static str, BTreeSet<String>>,
    /// Whether arbitrary bytes were sent, whose effect the model does not know.
    has_arbitrary_bytes: bool,
    sent: u16,
}

impl HubSimulation {
    fn new() -> Self {
        Self {
            hub: Hub::new(
                HubConfig::default(),
                Service::embedded(ServiceConfig::default()),
            ),
            now: ClockReading {
                wall_ms: 1_700_000_000_000,
                mono_ms: 5_000,
            },
            connections: BTreeMap::new(),
            keys: BTreeMap::new(),
            filters: BTreeMap::new(),
            has_arbitrary_bytes: false,
            sent: 0,
        }
    }

    /// Chooses a connection.
    fn pick(&self, choices: &mut FuzzInput<'_>) -> Option<ConnectionId> {
        let at = choices.byte()? % self.connections.len().max(1);
        self.connections.keys().nth(at).copied()
    }

    fn send(&mut self, id: ConnectionId, bytes: &[u8]) {
        if let Some(end) = self.connections.get_mut(&id) {
            end.unread.extend_from_slice(bytes);
        }
        self.settle();
    }

    /// Moves packets between hub and clients until none is left.
    fn settle(&mut self) {
        loop {
            let mut is_quiet = true;
            let ids: Vec<_> = self.connections.keys().copied().collect();
            for id in ids {
                let Some(end) = self.connections.get_mut(&id) else {
                    continue;
                };
                let before = end.unread.len();
                while self.hub.received(id, &mut end.unread, self.now) {}
                is_quiet &= end.unread.len() == before;
                let mut output = BytesMut::new();
                self.hub.take_output(id, &mut output, self.now);
                is_quiet &= output.is_empty();
                while let Some(packet) = decode(&mut output, MAX).expect("the server sends packets")
                {
                    self.take(id, packet);
                }
                assert!(output.is_empty(), "whole packets");
                let mut left = BytesMut::new();
                if self.hub.close_action(id) != CloseAction::KeepOpen {
                    self.hub.take_output(id, &mut left, self.now);
                    self.lose(id);
                    is_quiet = false;
                }
            }
            if self
                .hub
                .next_wakeup()
                .is_some_and(|at_ms| at_ms <= self.now.mono_ms)
            {
                self.hub.tick(self.now);
                is_quiet = false;
            }
            if is_quiet {
                return;
            }
        }
    }

    fn take(&mut self, id: ConnectionId, packet: Packet) {
        let Some(end) = self.connections.get_mut(&id) else {
            return;
        };
        match packet {
            Packet::ConnAck(connack) => {
                assert!(!end.is_connected, "one CONNACK");
                end.is_connected = connack.reason == ReasonCode::SUCCESS;
                if let Some(client) = end.client.filter(|_| !connack.session_present) {
                    self.filters.remove(client);
                }
            }
            // It may be refused without a CONNACK, or end before it had one.
            Packet::Disconnect(_) => {}
            _ if !end.is_connected => {
                assert!(self.has_arbitrary_bytes, "nothing comes before CONNACK")
            }
            Packet::PubAck(puback) if !self.has_arbitrary_bytes => {
                assert_eq!(
                    end.published.pop_front(),
                    Some(puback.packet_id),
                    "in their order"
                );
            }
            Packet::Publish(publish) => {
                end.received.extend(publish.packet_id());
                let name = publish.topic().to_owned();
                let payload = Bytes::copy_from_slice(publish.payload_bytes());
                if publish.correlation_data().is_some() {
                    end.answers.push(payload);
                } else {
                    let filters = end.client.and_then(|client| self.filters.get(client));
                    let is_wanted =
                        filters.is_some_and(|all| all.iter().any(|filter| matches(filter, &name)));
                    assert!(
                        self.has_arbitrary_bytes || is_wanted,
                        "{name:?} was not subscribed"
                    );
                    end.messages.push((name, payload));
                }
            }
            _ => {}
        }
    }

    fn lose(&mut self, id: ConnectionId) {
        self.hub.closed(id, self.now);
        self.connections.remove(&id);
    }

    fn step(&mut self, choices: &mut FuzzInput<'_>) -> Option<()> {
        for end in self.connections.values_mut() {
            end.messages.clear();
            end.answers.clear();
        }
        match choices.byte()? % 10 {
            0 if self.connections.len() < 3 => {
                if let Some(id) = self.hub.opened(PEER, self.now) {
                    self.connections.insert(id, ClientConnection::default());
                }
            }
            1 => self.connect(choices)?,
            2 | 3 => self.request(choices)?,
            4 => self.subscribe(choices)?,
            5 => self.message(choices)?,
            6 => {
                let ms = choices.byte()? as u64 * 150;
                self.now.mono_ms += ms;
                self.now.wall_ms += ms;
                self.settle();
            }
            7 => {
                let id = self.pick(choices)?;
                if choices.byte()? % 2 == 0 {
                    let mut out = BytesMut::new();
                    Disconnect::new(ReasonCode::SUCCESS)
                        .encode(MAX, &mut out)
                        .expect("small");
                    self.send(id, &out);
                } else {
                    self.lose(id);
                    self.settle();
                }
            }
            8 => {
                let id = self.pick(choices)?;
                let count = choices.byte()?;
                self.has_arbitrary_bytes = true;
                self.send(id, choices.bytes(count));
            }
            _ => {
                let id = self.pick(choices)?;
                if let Some(packet_id) = self.connections.get_mut(&id)?.received.pop_front() {
                    let mut out = BytesMut::new();
                    PubAck::success(packet_id)
                        .encode(MAX, &mut out)
                        .expect("small");
                    self.send(id, &out);
                }
            }
        }
        Some(())
    }

    fn connect(&mut self, choices: &mut FuzzInput<'_>) -> Option<()> {
        let id = self.pick(choices)?;
        let (which, how) = (choices.byte()?, choices.byte()?);
        let client = CLIENTS[which % CLIENTS.len()];
        let end = self.connections.get_mut(&id)?;
        if end.client.is_some() {
            return Some(());
        }
        end.client = Some(client);
        let connect = Connect {
            client_id: client.into(),
            clean_start: how & 1 == 1,
            session_expiry_s: if how & 2 == 2 { 20 } else { 0 },
            ..Connect::default()
        };
        let mut out = BytesMut::new();
        connect.encode(MAX, &mut out).expect("small");
        self.send(id, &out);
        Some(())
    }

    /// The connection, the client on it, and an identifier for its next PUBLISH.
    fn sender(
        &mut self,
        choices: &mut FuzzInput<'_>,
    ) -> Option<(ConnectionId, &'static str, PacketId)> {
        let id = self.pick(choices)?;
        self.sent = self.sent.checked_add(1)?;
        let packet_id = PacketId::new(self.sent)?;
        let end = self
            .connections
            .get_mut(&id)
            .filter(|end| end.is_connected)?;
        end.published.push_back(packet_id);
        Some((id, end.client?, packet_id))
    }

    fn request(&mut self, choices: &mut FuzzInput<'_>) -> Option<()> {
        let (verb, key, value) = (choices.byte()? % 3, choices.byte()? % 3, choices.byte()?);
        let (id, client, packet_id) = self.sender(choices)?;
        let (key_text, value) = (format!("k{key}"), format!("{value}").into_bytes());
        let (payload, expected) = match verb {
            0 => {
                let known = self.keys.insert(key, value.clone());
                drop(known);
                (
                    command(&[b"SET", key_text.as_bytes(), &value]),
                    b"+OK\r\n".to_vec(),
                )
            }
            1 => {
                let reply = self
                    .keys
                    .get(&key)
                    .map_or(b"$-1\r\n".to_vec(), |value| bulk(value));
                (command(&[b"GET", key_text.as_bytes()]), reply)
            }
            _ => {
                let count = usize::from(self.keys.remove(&key).is_some());
                (
                    command(&[b"DEL", key_text.as_bytes()]),
                    format!(":{count}\r\n").into_bytes(),
                )
            }
        };
        let response_topic = topic::response(client);
        let timestamp = format!("{:015}:00000:{client}", self.now.wall_ms);
        let header = PublishHeader {
            topic: topic::REQUEST,
            packet_id: Some(packet_id),
            response_topic: Some(&response_topic),
            correlation_data: Some(&self.sent.to_be_bytes()),
            user_properties: &[("__ts", &timestamp)],
            ..PublishHeader::default()
        };
        let mut out = BytesMut::new();
        let write = |out: &mut BytesMut| out.extend_from_slice(&payload);
        header
            .encode(MAX, &mut out, payload.len(), write)
            .expect("small");
        self.send(id, &out);
        if !self.has_arbitrary_bytes {
            let end = self.connections.get(&id).expect("no reason to end");
            assert_eq!(end.answers, [expected]);
            assert!(end.published.is_empty(), "it is acknowledged");
        }
        Some(())
    }

    fn subscribe(&mut self, choices: &mut FuzzInput<'_>) -> Option<()> {
        let filter = choices.levels(true)?;
        let id = self.pick(choices)?;
        let end = self.connections.get(&id).filter(|end| end.is_connected)?;
        let client = end.client?;
        let subscribe = Subscribe {
            packet_id: PacketId::new(60_000)?,
            subscription_id: None,
            subscriptions: vec![Subscription::at_least_once(filter.as_str())],
        };
        let mut out = BytesMut::new();
        // Only what is a filter can be encoded.
        subscribe.encode(MAX, &mut out).ok()?;
        if is_filter(&filter) {
            self.filters.entry(client).or_default().insert(filter);
        }
        self.send(id, &out);
        Some(())
    }

    fn message(&mut self, choices: &mut FuzzInput<'_>) -> Option<()> {
        let name = choices.levels(false)?;
        if name.is_empty() {
            return Some(());
        }
        let (id, _, packet_id) = self.sender(choices)?;
        let header = PublishHeader {
            topic: &name,
            packet_id: Some(packet_id),
            ..PublishHeader::default()
        };
        let payload = Bytes::from(format!("m{}", self.sent));
        let mut out = BytesMut::new();
        let write = |out: &mut BytesMut| out.extend_from_slice(&payload);
        header
            .encode(MAX, &mut out, payload.len(), write)
            .expect("small");
        self.send(id, &out);
        if self.has_arbitrary_bytes {
            return Some(());
        }
        for end in self.connections.values().filter(|end| end.is_connected) {
            let filters = end.client.and_then(|client| self.filters.get(client));
            let wants = filters.is_some_and(|all| all.iter().any(|filter| matches(filter, &name)));
            let times = end.messages.iter().filter(|(_, it)| *it == payload).count();
            assert_eq!(times, usize::from(wants), "{name:?} for {filters:?}");
        }
        Some(())
    }
}

fn command(parts: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", parts.len()).into_bytes();
    bytes.extend(parts.iter().flat_map(|part| bulk(part)));
    bytes
}

fn bulk(bytes: &[u8]) -> Vec<u8> {
    [format!("${}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat()
}

/// MQTT 5, section 4.7.1, written down once more.
fn is_filter(filter: &str) -> bool {
    let levels: Vec<_> = filter.split('/').collect();
    !filter.is_empty() && levels[..levels.len() - 1].iter().all(|level| *level != "#")
}

fn matches(filter: &str, name: &str) -> bool {
    if name.starts_with('$') && filter.starts_with(['+', '#']) {
        return false;
    }
    let (filter, name): (Vec<_>, Vec<_>) = (filter.split('/').collect(), name.split('/').collect());
    let matches_level = |(filter, name): (&&str, &&str)| *filter == "+" || filter == name;
    match filter.split_last() {
        Some((&"#", before)) => {
            before.len() <= name.len() && before.iter().zip(&name).all(matches_level)
        }
        _ => filter.len() == name.len() && filter.iter().zip(&name).all(matches_level),
    }
}

fuzz_target!(|input: &[u8]| {
    let mut world = HubSimulation::new();
    let mut choices = FuzzInput(input);
    for _ in 0..200 {
        if choices.0.is_empty() {
            break;
        }
        // A step that the fuzzer did not decide to its end, or for which there is nobody, is none.
        let _ = world.step(&mut choices);
    }
});
