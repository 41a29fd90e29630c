//! Requests per second through the hub: without sockets, and over loopback TCP from a raw client loop.
//!
//! `cargo bench -p statestored --bench hub`
#![allow(clippy::unwrap_used, reason = "a benchmark fails by panicking")]
#![allow(clippy::cast_precision_loss, reason = "rates are read by people")]
use bytes::{Buf, Bytes, BytesMut};
use statestore_protocol::mqtt::{
    Connect, Packet, PacketId, PubAck, PublishHeader, QoS, ReasonCode, decode,
};
use statestore_protocol::{Command, Condition, SetOptions, TransactionOperation, Version, topic};
use statestored::RunningServer;
use statestored::config::Config;
use statestored_access::Policy;
use statestored_broker::hub::{ConnectionId, Hub, HubConfig};
use statestored_store::service::{ClockReading, Service, ServiceConfig};
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::{Duration, Instant};

const MAX: u32 = u32::MAX;
const VALUE: [u8; 100] = [b'v'; 100];
const KEYS: u64 = 1000;

/// How long each case runs.
const TIME: Duration = Duration::from_secs(2);

/// The command that a client sends.
#[derive(Clone, Copy)]
enum Verb {
    Get,
    Set,
    /// A SET under the version that its key has, if the clock stands still.
    SetIfVersion,
    /// A transaction of this number of SETs.
    Transact(u64),
}

/// A client of the store that has a fixed number of requests in flight, without a socket.
struct Client {
    out: BytesMut,
    next: u64,
    responses: u64,
    verb: Verb,
}

impl Client {
    fn new(verb: Verb, session_expiry_s: u32) -> Self {
        let mut out = BytesMut::new();
        let connect = Connect {
            client_id: "bench".into(),
            clean_start: true,
            session_expiry_s,
            ..Connect::default()
        };
        connect.encode(MAX, &mut out).unwrap();
        Self {
            out,
            next: 0,
            responses: 0,
            verb,
        }
    }

    fn payload(&self) -> BytesMut {
        let key = |number: u64| Bytes::from(format!("key-{:08}", number % KEYS));
        let value = Bytes::from_static(&VALUE);
        // Each round over all keys gives each of them its next version.
        let round = self.next / KEYS;
        let condition = match self.verb {
            Verb::SetIfVersion if round > 0 => {
                Condition::IfVersion(Version::new(NOW.wall_ms, round))
            }
            _ => Condition::Always,
        };
        let options = SetOptions {
            condition,
            expires_in_ms: None,
        };
        let command = match self.verb {
            Verb::Get => Command::Get {
                key: key(self.next),
                remaining: false,
                eventual: false,
            },
            Verb::Set | Verb::SetIfVersion => Command::Set {
                key: key(self.next),
                value,
                options,
            },
            Verb::Transact(count) => {
                let set = |number| TransactionOperation::Set {
                    key: key(self.next * count + number),
                    value: value.clone(),
                    options,
                    token: None,
                };
                let operations = (0..count).map(set).collect();
                Command::Transact { operations }
            }
        };
        let mut payload = BytesMut::with_capacity(command.encoded_len());
        command.encode(&mut payload);
        payload
    }

    fn request(&mut self) {
        let payload = self.payload();
        self.next += 1;
        let correlation = u128::from(self.next).to_be_bytes();
        let id = u16::try_from(self.next % 60_000 + 1)
            .ok()
            .and_then(PacketId::new);
        let header = PublishHeader {
            topic: topic::REQUEST,
            packet_id: id,
            message_expiry: Some(10),
            response_topic: Some("clients/bench/services/statestore/_any_/command/invoke/response"),
            correlation_data: Some(&correlation),
            user_properties: &[
                ("__ts", "001700000000000:00000:bench"),
                ("__protVer", "1.0"),
                ("__srcId", "bench"),
            ],
            ..PublishHeader::default()
        };
        header
            .encode(MAX, &mut self.out, payload.len(), |out| {
                out.extend_from_slice(&payload);
            })
            .unwrap();
    }

    /// Reads what the server sent, acknowledges responses and sends the next request for each.
    fn receive(&mut self, input: &mut BytesMut) {
        while let Some(packet) = decode(input, MAX).unwrap() {
            match packet {
                Packet::Publish(publish) => {
                    assert_eq!(publish.qos(), QoS::AtLeastOnce);
                    let expected = match self.verb {
                        Verb::Get => "$".into(),
                        Verb::Set | Verb::SetIfVersion => "+OK".into(),
                        Verb::Transact(count) => format!("*{count}\r\n$"),
                    };
                    assert!(publish.payload_bytes().starts_with(expected.as_bytes()));
                    let ack = PubAck::success(publish.packet_id().unwrap());
                    ack.encode(MAX, &mut self.out).unwrap();
                    self.responses += 1;
                    self.request();
                }
                Packet::PubAck(ack) => assert_eq!(ack.reason, ReasonCode::SUCCESS),
                Packet::ConnAck(ack) => assert_eq!(ack.reason, ReasonCode::SUCCESS),
                other => panic!("{other:?}"),
            }
        }
    }
}

/// A hub with one client, without sockets.
struct HubBench {
    hub: Hub,
    connection: ConnectionId,
    client: Client,
    output: BytesMut,
}

const NOW: ClockReading = ClockReading {
    wall_ms: 1_700_000_000_000,
    mono_ms: 0,
};

impl HubBench {
    fn new(verb: Verb, in_flight: u64, session_expiry_s: u32, policy: Option<Arc<Policy>>) -> Self {
        let service = Service::embedded(ServiceConfig::default());
        let config = HubConfig {
            policy,
            ..HubConfig::default()
        };
        let mut hub = Hub::new(config, service);
        let connection = hub.opened(IpAddr::from(Ipv4Addr::LOCALHOST), NOW).unwrap();
        let mut client = Client::new(verb, session_expiry_s);
        for _ in 0..in_flight {
            client.request();
        }
        Self {
            hub,
            connection,
            client,
            output: BytesMut::new(),
        }
    }

    /// Processes all requests in flight once and returns the time that the hub took.
    fn batch(&mut self) -> Duration {
        let begin = Instant::now();
        self.hub
            .received(self.connection, &mut self.client.out, NOW);
        self.output.clear();
        self.hub.take_output(self.connection, &mut self.output, NOW);
        let taken = begin.elapsed();
        self.client.receive(&mut self.output);
        taken
    }
}

/// The median leaves out the moments in which something else had the processor.
fn median(mut batches: Vec<Duration>) -> f64 {
    batches.sort_unstable();
    batches[batches.len() / 2].as_secs_f64()
}

fn without_sockets(verb: Verb, in_flight: u64, session_expiry_s: u32) -> f64 {
    let mut world = HubBench::new(verb, in_flight, session_expiry_s, None);
    let mut batches = Vec::new();
    let start = Instant::now();
    while start.elapsed() < TIME {
        batches.push(world.batch());
    }
    in_flight as f64 / median(batches)
}

/// CPU time that a thread of this process has used. Linux only.
fn cpu_time(thread: &str) -> Option<Duration> {
    for task in std::fs::read_dir("/proc/self/task").ok()?.flatten() {
        let read = |file| std::fs::read_to_string(task.path().join(file)).unwrap_or_default();
        if read("comm").trim_end() == thread {
            let nanoseconds = read("schedstat").split(' ').next()?.parse().ok()?;
            return Some(Duration::from_nanos(nanoseconds));
        }
    }
    None
}

/// Responses per second, and what one costs the server's thread.
fn over_tcp(
    config: Config,
    verb: Verb,
    in_flight: u64,
    session_expiry_s: u32,
) -> (f64, Option<Duration>) {
    let server = RunningServer::start(config).unwrap();
    let mut stream = TcpStream::connect(server.addresses()[0]).unwrap();
    stream.set_nodelay(true).unwrap();
    let mut client = Client::new(verb, session_expiry_s);
    for _ in 0..in_flight {
        client.request();
    }
    let mut input = BytesMut::new();
    let mut chunk = vec![0; 256 * 1024];
    let start = Instant::now();
    while start.elapsed() < TIME {
        stream.write_all(&client.out).unwrap();
        let written = client.out.len();
        client.out.advance(written);
        let count = stream.read(&mut chunk).unwrap();
        input.extend_from_slice(&chunk[..count]);
        client.receive(&mut input);
    }
    let rate = client.responses as f64 / start.elapsed().as_secs_f64();
    let per_request = cpu_time("statestored").map(|time| time.div_f64(client.responses as f64));
    drop(stream);
    server.stop().unwrap();
    (rate, per_request)
}

/// Returns a policy of this number of rules, each about the client and its own pattern. The last rule is about the keys that the
/// client uses.
fn policy(rules: usize) -> Arc<Policy> {
    let mut text = String::from("rules:\n");
    for number in 1..=rules {
        let prefix = if number == rules {
            "key-".into()
        } else {
            format!("line-{number}/")
        };
        let _ = writeln!(
            text,
            "- {{principals: {{clientIds: [bench]}}, brokerResources: [{{method: Connect}}], \
             stateStoreResources: [{{method: ReadWrite, keys: ['{prefix}[0-9]*']}}]}}"
        );
    }
    Arc::new(Policy::parse(&text).unwrap())
}

/// Measures the throughput that remains with a policy of 1,000 rules. Each batch is followed by one without a policy.
fn with_a_policy() {
    let policy = policy(1000);
    for (name, verb) in [("GET", Verb::Get), ("SET", Verb::Set)] {
        let mut ratios = [(); 7].map(|()| {
            let mut without = HubBench::new(verb, 64, 0, None);
            let mut with = HubBench::new(verb, 64, 0, Some(Arc::clone(&policy)));
            let mut batches = (Vec::new(), Vec::new());
            let start = Instant::now();
            while start.elapsed() < TIME {
                batches.0.push(without.batch());
                batches.1.push(with.batch());
            }
            assert_eq!(with.hub.metrics().requests_denied, 0);
            median(batches.0) / median(batches.1)
        });
        ratios.sort_by(f64::total_cmp);
        println!(
            "{name}, 64 in flight, without sockets: with 1,000 rules {:.3} of the throughput without any \
             (median of 7 rounds, {:.3} to {:.3})",
            ratios[3], ratios[0], ratios[6]
        );
        let mut ratios = [(); 21].map(|()| {
            let with = Config {
                policy: Some(Arc::clone(&policy)),
                ..Config::in_memory()
            };
            let [without, with] = [Config::in_memory(), with].map(|config| {
                let (rate, cost) = over_tcp(config, verb, 64, 0);
                (rate, cost.unwrap_or_default().as_secs_f64())
            });
            (with.0 / without.0, with.1 / without.1)
        });
        ratios.sort_by(|a, b| a.0.total_cmp(&b.0));
        let rate = ratios[10].0;
        ratios.sort_by(|a, b| a.1.total_cmp(&b.1));
        println!(
            "{name}, 64 in flight, over TCP: with 1,000 rules {rate:.3} of the throughput without any, and {:.3} of the \
             server's processor for each (medians of 21 rounds in turns)",
            ratios[10].1
        );
    }
}

/// Measures the cost of a condition and of a transaction relative to plain SETs. Each batch is followed by one of plain SETs.
fn with_extensions() {
    for (name, verb) in [
        ("SET IFV", Verb::SetIfVersion),
        ("TXN of 10 SETs", Verb::Transact(10)),
    ] {
        let mut ratios = [(); 7].map(|()| {
            let mut plain = HubBench::new(Verb::Set, 64, 0, None);
            let mut other = HubBench::new(verb, 64, 0, None);
            let mut batches = (Vec::new(), Vec::new());
            let start = Instant::now();
            while start.elapsed() < TIME {
                batches.0.push(plain.batch());
                batches.1.push(other.batch());
            }
            median(batches.1) / median(batches.0)
        });
        ratios.sort_by(f64::total_cmp);
        println!(
            "{name}, 64 in flight, without sockets: {:.2} of the time of a SET (median of 7 rounds in turns, {:.2} to {:.2})",
            ratios[3], ratios[0], ratios[6]
        );
    }
    let mut longest = HubBench::new(Verb::Transact(10_000), 1, 0, None);
    let batches = [(); 21].map(|()| longest.batch()).to_vec();
    println!(
        "TXN of 10,000 SETs, without sockets: {:.2} ms (median of 21)",
        median(batches) * 1e3
    );
}

fn text(cost: Option<Duration>) -> String {
    cost.map_or("an unknown time".into(), |cost| format!("{cost:.2?}"))
}

fn main() {
    with_extensions();
    with_a_policy();
    for (name, verb) in [("GET", Verb::Get), ("SET", Verb::Set)] {
        for session_expiry_s in [0, 3600] {
            for in_flight in [1, 64, 256] {
                let bare = without_sockets(verb, in_flight, session_expiry_s);
                let (rate, cost) = over_tcp(Config::in_memory(), verb, in_flight, session_expiry_s);
                println!(
                    "{name}, session expiry {session_expiry_s} s, {in_flight} in flight: \
                     {bare:.0} req/s without sockets; over TCP {rate:.0} req/s, each taking {} of \
                     the server's processor",
                    text(cost)
                );
            }
        }
    }
    for in_flight in [1, 64, 256] {
        let folder = tempfile::tempdir().unwrap();
        let (rate, cost) = over_tcp(Config::durable(folder.path()), Verb::Set, in_flight, 0);
        println!(
            "durable SET, {in_flight} in flight: {rate:.0} req/s over TCP, each taking {} of the \
             processor of the server's own thread",
            text(cost)
        );
    }
}
