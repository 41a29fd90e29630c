//! How fast the client is by itself: SETs of 100 bytes against a broker that answers at once and stores nothing, with
//! rumqttc's event loop as the peer in the same run.
//!
//! ```text
//! cargo bench -p statestore --bench null_broker
//! ```
//!
//! The broker has a thread of its own. A client runs on one thread, whose CPU time is what the last column tells. The
//! peer sends the same properties and counts responses, but has no deadlines, no typed results and a task less.
#![allow(clippy::unwrap_used, clippy::cast_precision_loss, missing_docs)]

use bytes::{Bytes, BytesMut};
use rumqttc::v5::mqttbytes::QoS;
use rumqttc::v5::mqttbytes::v5::{ConnectProperties, Packet as PeerPacket, PublishProperties};
use rumqttc::v5::{AsyncClient, Event, MqttOptions};
use statestore::mqtt::{
    ConnAck, Disconnect, EncodedProperties, Packet, PubAck, PublishHeader, ReasonCode, SubAck,
    decode, encode_pingresp,
};
use statestore::{Client, Settings};
use std::cell::Cell;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::rc::Rc;
use std::time::{Duration, Instant};

const VALUE: [u8; 100] = [b'v'; 100];
const IN_FLIGHT: [usize; 4] = [1, 64, 256, 1024];

fn main() {
    let broker = start_broker();
    println!(
        "{:<12}{:>10}{:>14}{:>12}{:>12}{:>16}",
        "client", "in flight", "pairs/s", "p50 µs", "p99 µs", "CPU µs/pair"
    );
    for in_flight in IN_FLIGHT {
        let pairs = if in_flight == 1 { 30_000 } else { 1_000_000 };
        report("statestore", in_flight, &own(broker, in_flight, pairs));
        report("rumqttc", in_flight, &peer(broker, in_flight, pairs / 5));
    }
}

struct Figures {
    pairs: usize,
    elapsed: Duration,
    cpu: Duration,
    latencies: Vec<Duration>,
}

fn report(name: &str, in_flight: usize, figures: &Figures) {
    let mut latencies = figures.latencies.clone();
    latencies.sort_unstable();
    let at = |part: usize| {
        latencies
            .get(latencies.len() * part / 100)
            .map_or(0.0, |latency| latency.as_secs_f64() * 1e6)
    };
    println!(
        "{name:<12}{in_flight:>10}{:>14.0}{:>12.1}{:>12.1}{:>16.2}",
        figures.pairs as f64 / figures.elapsed.as_secs_f64(),
        at(50),
        at(99),
        figures.cpu.as_secs_f64() * 1e6 / figures.pairs as f64,
    );
}

/// CPU time of this thread.
fn cpu() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(text.split(' ').next().unwrap().parse().unwrap())
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
}

/// Our client: `in_flight` tasks that each wait for their response before they send again.
fn own(broker: SocketAddr, in_flight: usize, pairs: usize) -> Figures {
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime(), async move {
        let settings = Settings::new(broker.ip().to_string(), broker.port());
        let client = Client::connect(settings).await.unwrap();
        let left = Rc::new(Cell::new(pairs));
        let (started, cpu_before) = (Instant::now(), cpu());
        let tasks: Vec<_> = (0..in_flight)
            .map(|_| {
                let (client, left) = (client.clone(), left.clone());
                tokio::task::spawn_local(async move {
                    let mut latencies = Vec::new();
                    while left.get() > 0 {
                        left.set(left.get() - 1);
                        // Every sixteenth, so that reading the clock does not count.
                        let start = (left.get() % 16 == 0).then(Instant::now);
                        client.set("key", VALUE).await.unwrap();
                        latencies.extend(start.map(|start| start.elapsed()));
                    }
                    latencies
                })
            })
            .collect();
        let mut latencies = Vec::new();
        for task in tasks {
            latencies.extend(task.await.unwrap());
        }
        let (elapsed, cpu) = (started.elapsed(), cpu().saturating_sub(cpu_before));
        client.close().await;
        Figures {
            pairs,
            elapsed,
            cpu,
            latencies,
        }
    })
}

/// rumqttc's event loop: a publish for each response.
fn peer(broker: SocketAddr, in_flight: usize, pairs: usize) -> Figures {
    runtime().block_on(async move {
        let mut options = MqttOptions::new("peer", broker.ip().to_string(), broker.port());
        let mut properties = ConnectProperties::new();
        properties.receive_maximum = Some(u16::MAX);
        options.set_connect_properties(properties);
        options.set_outgoing_inflight_upper_limit(u16::MAX);
        let mut network = options.network_options();
        network.set_tcp_nodelay(true);
        options.set_network_options(network);
        let (client, mut events) = AsyncClient::new(options, in_flight.max(10));
        let publish = |number: usize| {
            let properties = PublishProperties {
                message_expiry_interval: Some(10),
                response_topic: Some(
                    "clients/peer/services/statestore/_any_/command/invoke/response".into(),
                ),
                correlation_data: Some(Bytes::copy_from_slice(&(number as u128).to_be_bytes())),
                content_type: Some("application/octet-stream".into()),
                user_properties: vec![
                    ("__ts".into(), "001696374425000:00000:peer".into()),
                    ("__srcId".into(), "peer".into()),
                    ("__protVer".into(), "1.0".into()),
                    ("$partition".into(), "peer".into()),
                ],
                ..PublishProperties::default()
            };
            let mut payload = b"*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$100\r\n".to_vec();
            payload.extend_from_slice(&VALUE);
            payload.extend_from_slice(b"\r\n");
            let topic = statestore::protocol::topic::REQUEST;
            client
                .try_publish_with_properties(topic, QoS::AtLeastOnce, false, payload, properties)
                .unwrap();
        };
        let (mut sent, mut done) = (0, 0);
        let mut latencies = Vec::new();
        let mut sampled = None;
        let mut started = (Instant::now(), cpu());
        while done < pairs {
            let Event::Incoming(packet) = events.poll().await.unwrap() else {
                continue;
            };
            match packet {
                PeerPacket::ConnAck(_) => {
                    started = (Instant::now(), cpu());
                    for _ in 0..in_flight {
                        publish(sent);
                        sent += 1;
                    }
                }
                PeerPacket::Publish(response) => {
                    done += 1;
                    let correlation = response.properties.unwrap().correlation_data.unwrap();
                    let number = u128::from_be_bytes(correlation[..].try_into().unwrap());
                    if let Some((at, of)) = sampled
                        && of as u128 == number
                    {
                        latencies.push(Instant::elapsed(&at));
                        sampled = None;
                    }
                    if sent < pairs {
                        sampled.get_or_insert_with(|| (Instant::now(), sent));
                        publish(sent);
                        sent += 1;
                    }
                }
                _ => {}
            }
        }
        Figures {
            pairs,
            elapsed: started.0.elapsed(),
            cpu: cpu().saturating_sub(started.1),
            latencies,
        }
    })
}

/// A broker with a store behind it that says `+OK` to everything: reads, answers all that was read, writes once.
fn start_broker() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            // The end of a connection is no news here.
            let _ = answer(stream.unwrap());
        }
    });
    address
}

fn answer(mut stream: TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let common = EncodedProperties::new(&PublishHeader {
        user_properties: &[
            ("__stat", "200"),
            ("__protVer", "1.0"),
            ("__ts", "001696374425000:00001:StateStore"),
        ],
        ..PublishHeader::default()
    })
    .unwrap();
    let (mut input, mut output) = (BytesMut::new(), BytesMut::new());
    let mut chunk = vec![0; 256 * 1024];
    let max = u32::MAX;
    loop {
        let count = stream.read(&mut chunk)?;
        if count == 0 {
            return Ok(());
        }
        input.extend_from_slice(&chunk[..count]);
        while let Some(packet) = decode(&mut input, max).unwrap() {
            match packet {
                Packet::Connect(_) => ConnAck::new(ReasonCode::SUCCESS)
                    .encode(max, &mut output)
                    .unwrap(),
                Packet::Subscribe(subscribe) => SubAck {
                    packet_id: subscribe.packet_id,
                    reasons: vec![ReasonCode::GRANTED_QOS_1; subscribe.subscriptions.len()],
                    reason_string: None,
                }
                .encode(max, &mut output)
                .unwrap(),
                Packet::Publish(request) => {
                    let packet_id = request.packet_id();
                    PubAck::success(packet_id.unwrap())
                        .encode(max, &mut output)
                        .unwrap();
                    // The identifiers of the two directions are independent, so the request's will do.
                    let header = PublishHeader {
                        topic: request.response_topic().unwrap(),
                        packet_id,
                        correlation_data: request.correlation_data(),
                        encoded: Some(&common),
                        ..PublishHeader::default()
                    };
                    header
                        .encode(max, &mut output, 5, |out| out.extend_from_slice(b"+OK\r\n"))
                        .unwrap();
                }
                Packet::PingReq => encode_pingresp(&mut output),
                Packet::Disconnect(Disconnect { .. }) => return Ok(()),
                _ => {}
            }
        }
        stream.write_all(&output)?;
        output.clear();
    }
}
