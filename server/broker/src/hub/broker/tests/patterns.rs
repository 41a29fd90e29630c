//! Watches of patterns by clients of the broker.
use super::*;
use statestore_protocol::Command;

const RESYNC: &[u8] = b"*2\r\n$6\r\nNOTIFY\r\n$6\r\nRESYNC\r\n";

/// Acknowledges the PUBLISHes among packets, as the broker does.
fn acknowledge(hub: &mut Hub, said: &[Packet]) {
    for publish in responses(said) {
        let mut puback = BytesMut::new();
        PubAck::success(publish.packet_id().unwrap())
            .encode(u32::MAX, &mut puback)
            .unwrap();
        deliver_packet(hub, puback).unwrap();
    }
}

#[test]
fn a_dropped_notification_is_a_gap_of_each_watched_pattern() {
    let limits = HubLimits {
        max_queued_messages: 3,
        ..HubLimits::default()
    };
    let mut hub = hub_with(limits, None);
    attach(&mut hub);
    let keys = ["k1", "k2", "k3", "k4"];
    let sets = keys.map(|key| ["SET", key, "v"]);
    let watches = ["k*", "*"].map(|pattern| ["KEYNOTIFY", pattern, "MATCH"]);
    for (id, words) in (1..).zip(sets.iter().chain(&watches)) {
        let said = deliver_packet(&mut hub, request(id, "watcher", words)).unwrap();
        acknowledge(&mut hub, &said);
    }
    hub.broker_disconnected(None, NOW);
    for key in keys {
        let command = Command::Del {
            key: key.into(),
            if_version: None,
        };
        hub.submit_for_operator(&command, None, NOW);
    }
    assert_eq!(hub.metrics.dropped_full, 1, "three wait");
    attach(&mut hub);
    let said = deliver_packet(&mut hub, BytesMut::new()).unwrap();
    let gaps = responses(&said);
    let mut topics: Vec<_> = gaps.iter().map(|gap| gap.topic()).collect();
    topics.sort_unstable();
    let patterns = [&b"*"[..], b"k*"];
    assert_eq!(
        topics,
        patterns.map(|it| topic::notification("watcher", it))
    );
    for gap in gaps {
        assert_eq!(gap.payload_bytes(), RESYNC);
    }
    let said = deliver_packet(&mut hub, BytesMut::new()).unwrap();
    assert!(responses(&said).is_empty(), "each is notified once");
}

#[test]
fn a_notification_that_is_too_large_for_the_broker_is_a_gap() {
    let mut hub = hub();
    let mut connack = ConnAck::new(ReasonCode::SUCCESS);
    connack.limits.max_packet_bytes = 2_000;
    attach_to(&mut hub, &connack);
    let watch = request(1, "watcher", &["KEYNOTIFY", "k*", "MATCH"]);
    deliver_packet(&mut hub, watch).unwrap();
    let set = request(2, "writer", &["SET", "k", &"v".repeat(3_000)]);
    let said = deliver_packet(&mut hub, set).unwrap();
    let [response] = responses(&said)[..] else {
        panic!("{said:?}");
    };
    assert_eq!(response.payload_bytes(), b"+OK\r\n");
    assert_eq!(hub.metrics.dropped_too_large, 1);
    let said = deliver_packet(&mut hub, BytesMut::new()).unwrap();
    let [gap] = responses(&said)[..] else {
        panic!("{said:?}");
    };
    assert_eq!(gap.topic(), topic::notification("watcher", b"k*"));
    assert_eq!(gap.payload_bytes(), RESYNC);
    let said = deliver_packet(&mut hub, BytesMut::new()).unwrap();
    assert!(responses(&said).is_empty(), "it is notified once");
}

/// Servers of a group, each with its own entries, behind a broker that delivers at once.
struct Servers {
    now: ClockReading,
    hubs: Vec<Hub>,
    /// Packets on their way to each server.
    inputs: Vec<BytesMut>,
    last_packet_id: u16,
}

/// A message to a client, and the index of its server.
type Published = (usize, Publish);

impl Servers {
    /// Creates a group of one server, which leads.
    fn new() -> Self {
        let mut servers = Self {
            now: NOW,
            hubs: Vec::new(),
            inputs: Vec::new(),
            last_packet_id: 0,
        };
        servers.start("one");
        servers.pass(4_000);
        servers
    }

    /// Starts another server.
    fn start(&mut self, client_id: &str) {
        let terms = BrokerConfig {
            client_id: client_id.to_owned(),
            share_name: Some("group".to_owned()),
            ..BrokerConfig::default()
        };
        let config = HubConfig {
            broker: Some(terms),
            ..HubConfig::default()
        };
        let mut hub = Hub::new(config, Service::embedded(ServiceConfig::default()));
        attach_at(&mut hub, &ConnAck::new(ReasonCode::SUCCESS), self.now);
        self.hubs.push(hub);
        self.inputs.push(BytesMut::new());
    }

    /// Lets milliseconds pass.
    fn pass(&mut self, ms: u64) -> Vec<Published> {
        let mut published = Vec::new();
        for _ in 0..ms / 100 {
            self.now.mono_ms += 100;
            self.now.wall_ms += 100;
            published.extend(self.settle());
        }
        published
    }

    /// Sends a request to one of the servers.
    fn ask(&mut self, server: usize, client: &str, words: &[&str]) -> Vec<Published> {
        self.last_packet_id += 1;
        let request = request(self.last_packet_id, client, words);
        self.inputs[server].extend_from_slice(&request);
        self.settle()
    }

    /// Lets the servers do their work, until no message is on its way.
    fn settle(&mut self) -> Vec<Published> {
        let mut published = Vec::new();
        loop {
            let mut is_idle = true;
            for index in 0..self.hubs.len() {
                let hub = &mut self.hubs[index];
                hub.broker_received(&mut self.inputs[index], self.now)
                    .unwrap();
                hub.poll_broker(self.now).unwrap();
                let mut output = BytesMut::from(&hub.broker_output(self.now)[..]);
                hub.broker_written(output.len(), false, self.now);
                is_idle &= output.is_empty() && !hub.take_broker_dirty();
                while let Some(packet) = decode(&mut output, u32::MAX).unwrap() {
                    let Packet::Publish(publish) = packet else {
                        continue;
                    };
                    PubAck::success(publish.packet_id().unwrap())
                        .encode(u32::MAX, &mut self.inputs[index])
                        .unwrap();
                    if publish.topic().starts_with("clients/") {
                        published.push((index, publish));
                    } else {
                        self.append_to_log(&publish);
                    }
                }
            }
            if is_idle && self.inputs.iter().all(BytesMut::is_empty) {
                return published;
            }
        }
    }

    /// Delivers an entry of the log to all servers.
    fn append_to_log(&mut self, publish: &Publish) {
        let properties: Vec<_> = publish.user_properties().collect();
        let header = PublishHeader {
            response_topic: publish.response_topic(),
            correlation_data: publish.correlation_data(),
            user_properties: &properties,
            ..PublishHeader::default()
        };
        self.last_packet_id += 1;
        let (id, payload) = (self.last_packet_id, publish.payload_bytes());
        let entry = message(id, publish.topic(), &header, payload);
        for input in &mut self.inputs {
            input.extend_from_slice(&entry);
        }
    }
}

/// Returns the payloads of the responses among messages.
fn answers(published: &[Published]) -> Vec<Bytes> {
    let answers = published.iter().filter_map(|(_, publish)| {
        publish.correlation_data()?;
        Some(publish.payload())
    });
    answers.collect()
}

/// Returns the notifications of the watcher among messages: the index of the server, and the key or pattern.
fn notified(published: &[Published]) -> Vec<String> {
    let notified = published.iter().filter_map(|(server, publish)| {
        let key = topic::notification_key("watcher", publish.topic())?;
        let is_gap = publish.payload_bytes() == RESYNC;
        let event = if is_gap { "RESYNC" } else { "changed" };
        let key = String::from_utf8_lossy(&key);
        Some(format!("{server}: {key} {event}"))
    });
    notified.collect()
}

#[test]
fn a_group_announces_patterns_and_notifies_of_each_change_once() {
    let mut servers = Servers::new();
    let capabilities = answers(&servers.ask(0, "watcher", &["CAPS"]));
    assert!(capabilities[0].ends_with(b"MATCH\r\n:1\r\n"));
    let watches: [&[&str]; 3] = [
        &["KEYNOTIFY", "k", "STOP"],
        &["KEYNOTIFY", "k*", "MATCH", "STOP"],
        &["KEYNOTIFY", "*", "MATCH", "STOP"],
    ];
    for stop in watches {
        let watch = &stop[..stop.len() - 1];
        for _ in 0..2 {
            let published = servers.ask(0, "watcher", watch);
            assert_eq!(answers(&published), ["+OK\r\n"], "{watch:?}");
        }
    }
    let published = servers.ask(0, "writer", &["SET", "k", "1"]);
    assert_eq!(notified(&published), ["0: k changed"]);
    for (left, stop) in (0..watches.len()).rev().zip(watches) {
        for expected in ["+OK\r\n", ":0\r\n"] {
            let published = servers.ask(0, "watcher", stop);
            assert_eq!(answers(&published), [expected], "{stop:?}");
        }
        let value = format!("{left} watches are left");
        let published = servers.ask(0, "writer", &["SET", "k", &value]);
        let expected = if left > 0 {
            &["0: k changed"][..]
        } else {
            &[][..]
        };
        assert_eq!(notified(&published), expected, "after {stop:?}");
    }
}

#[test]
fn a_new_leader_knows_the_watched_patterns_and_notifies_of_a_gap() {
    let mut servers = Servers::new();
    for pattern in ["k*", "*"] {
        servers.ask(0, "watcher", &["KEYNOTIFY", pattern, "MATCH"]);
    }
    // A server that starts later learns the watches.
    servers.start("two");
    servers.pass(2_000);
    let published = servers.ask(1, "watcher", &["KEYNOTIFY", "l?", "MATCH"]);
    assert_eq!(answers(&published), ["+OK\r\n"]);
    for hub in &servers.hubs {
        let client = format!("{BROKER_CLIENT_PREFIX}watcher");
        let patterns = hub.service.patterns_watched_by(&client);
        let patterns: Vec<_> = patterns.map(|it| it.to_vec()).collect();
        assert_eq!(patterns, [&b"*"[..], b"k*", b"l?"]);
    }
    for key in ["k1", "z"] {
        let leader = servers.ask(0, "writer", &["SET", key, "1"]);
        assert_eq!(notified(&leader), [format!("0: {key} changed")]);
        let standby = servers.ask(1, "writer", &["SET", key, "1"]);
        assert_eq!(notified(&standby), [""; 0]);
    }
    servers.ask(1, "watcher", &["KEYNOTIFY", "*", "MATCH", "STOP"]);
    servers.hubs[0].leave_broker(servers.now);
    // The new leader repeats what the former one may not have sent, but nothing of a watch that has ended.
    let published = servers.pass(1_000);
    assert_eq!(
        notified(&published),
        ["1: k1 changed", "1: l? RESYNC", "1: k* RESYNC"]
    );
    for (key, expected) in [("k2", &["1: k2 changed"][..]), ("z", &[][..])] {
        let published = servers.ask(1, "writer", &["SET", key, "2"]);
        assert_eq!(notified(&published), expected);
    }
}
