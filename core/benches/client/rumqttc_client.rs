//! rumqttc's own event loop: it sends the same properties and counts responses, but has no deadlines, no typed results and
//! a task less.
use crate::request;
use crate::run_metrics::{RunMetrics, Stopwatch, runtime};
use bytes::Bytes;
use rumqttc::v5::mqttbytes::QoS;
use rumqttc::v5::mqttbytes::v5::{ConnectProperties, Packet, PublishProperties};
use rumqttc::v5::{AsyncClient, Event, MqttOptions};
use statestore_protocol::{property, topic};
use std::net::SocketAddr;
use std::time::Instant;

/// A publish for each response.
pub(crate) fn run(broker: SocketAddr, in_flight: usize, pairs: usize) -> RunMetrics {
    runtime().block_on(async move {
        let mut options =
            MqttOptions::new(request::CLIENT_ID, broker.ip().to_string(), broker.port());
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
                message_expiry_interval: Some(request::EXPIRY_S),
                response_topic: Some(topic::response(request::CLIENT_ID)),
                correlation_data: Some(Bytes::copy_from_slice(&(number as u128).to_be_bytes())),
                content_type: Some(property::CONTENT_TYPE.into()),
                user_properties: request::USERS
                    .iter()
                    .map(|(name, value)| ((*name).into(), (*value).into()))
                    .collect(),
                ..PublishProperties::default()
            };
            client
                .try_publish_with_properties(
                    topic::REQUEST,
                    QoS::AtLeastOnce,
                    false,
                    request::payload(),
                    properties,
                )
                .unwrap();
        };
        let (mut sent, mut done) = (0, 0);
        let mut latencies = Vec::new();
        let mut sampled = None;
        let mut stopwatch = Stopwatch::start();
        while done < pairs {
            let Event::Incoming(packet) = events.poll().await.unwrap() else {
                continue;
            };
            match packet {
                Packet::ConnAck(_) => {
                    stopwatch = Stopwatch::start();
                    for _ in 0..in_flight {
                        publish(sent);
                        sent += 1;
                    }
                }
                Packet::Publish(response) => {
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
        stopwatch.stop(pairs, latencies)
    })
}
