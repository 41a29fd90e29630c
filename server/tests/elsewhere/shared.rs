//! Servers over one engine, behind one broker, that share its requests.
use super::world::{Peer, command, now};
use super::{Engine, block_on};
use harness::Mosquitto;
use statestore_protocol::mqtt::{Packet, PublishHeader, ReasonCode};
use statestored::RunningServer;
use statestored::config::{AttachConfig, BrokerConfig, Config};
use std::net::SocketAddr;

/// How often a request is delivered: the broker takes turns, so that each server gets it.
const DELIVERIES: usize = 6;

/// A server that shares the requests of the broker.
pub(crate) fn node(engine: &impl Engine, broker: &Mosquitto, name: &str) -> RunningServer {
    node_at(engine, broker.address(), name)
}

/// The same, by the address of the broker.
pub(crate) fn node_at(engine: &impl Engine, broker: SocketAddr, name: &str) -> RunningServer {
    RunningServer::start(Config {
        listeners: Vec::new(),
        attach: Some(AttachConfig {
            address: format!("mqtt://{broker}").parse().unwrap(),
            terms: BrokerConfig {
                client_id: name.into(),
                identity: None,
                share_name: Some("nodes".into()),
                watch_lease_ms: None,
            },
            user: None,
            ca: None,
            identity: None,
            identity_key: None,
        }),
        ..engine.config("test")
    })
    .unwrap()
}

/// How many requests each has been given.
async fn requests_received(nodes: &[RunningServer]) -> Vec<u64> {
    let mut given = Vec::new();
    for node in nodes {
        given.push(node.handle().metrics().await.unwrap().requests);
    }
    given
}

/// Delivers one request so often that every server gets it, and gives what it is answered, with the version.
async fn deliver(
    peer: &mut Peer,
    nodes: &[RunningServer],
    parts: &[&str],
    properties: &[(&str, &str)],
) -> Vec<(Vec<u8>, Option<String>)> {
    let before = requests_received(nodes).await;
    let header = PublishHeader {
        correlation_data: Some(parts.last().unwrap().as_bytes()),
        user_properties: properties,
        ..PublishHeader::default()
    };
    let mut answers = Vec::new();
    for _ in 0..DELIVERIES {
        peer.send_request(&command(parts), &header);
        let response = peer.message();
        let version = response.user_properties().find(|(name, _)| *name == "__ts");
        let version = version.map(|(_, version)| version.to_owned());
        answers.push((response.payload_bytes().to_vec(), version));
    }
    let after = requests_received(nodes).await;
    assert!(
        before
            .iter()
            .zip(&after)
            .all(|(before, after)| after > before),
        "{before:?} {after:?}"
    );
    answers
}

pub(crate) fn a_request_delivered_to_several_servers_is_executed_once<E: Engine>() {
    let engine = E::start();
    let broker = Mosquitto::start();
    let nodes = ["a", "b"].map(|name| node(&engine, &broker, name));
    block_on(async {
        let mut peer = Peer::connect(broker.address(), "me");
        // Without any server there is an answer of the broker only.
        while requests_received(&nodes).await.contains(&0) {
            if let Some(first) = attempt(&mut peer) {
                assert_eq!(first, b"$-1\r\n");
            }
        }
        let now = now();
        let properties = [("__ts", &now[..])];
        let set = deliver(&mut peer, &nodes, &["SET", "k", "v", "NX"], &properties).await;
        assert_eq!(set[0].0, b"+OK\r\n");
        let refused = ["SET", "k", "other", "NX"];
        let header = PublishHeader {
            correlation_data: Some(b"refused"),
            user_properties: &properties,
            ..PublishHeader::default()
        };
        peer.send_request(&command(&refused), &header);
        assert_eq!(peer.message().payload_bytes(), b":-1\r\n");
        let deleted = deliver(&mut peer, &nodes, &["DEL", "k"], &[]).await;
        assert_eq!(deleted[0].0, b":1\r\n");
        for answers in [&set, &deleted] {
            assert!(answers.iter().all(|it| *it == answers[0]), "{answers:?}");
        }
        // A refused request stays refused, although it would be executed now.
        for _ in 0..DELIVERIES {
            peer.send_request(&command(&refused), &header);
            assert_eq!(peer.message().payload_bytes(), b":-1\r\n");
        }
        assert_eq!(peer.request(&["GET", "k"], &[]).payload_bytes(), b"$-1\r\n");
        // Another client may use the same correlation data.
        let mut other = Peer::connect(broker.address(), "other");
        other.send_request(&command(&refused), &header);
        assert_eq!(other.message().payload_bytes(), b"+OK\r\n");
    });
}

/// Asks for a key that is not there; `None` if no server was attached yet.
pub(crate) fn attempt(peer: &mut Peer) -> Option<Vec<u8>> {
    let header = PublishHeader {
        correlation_data: Some(b"first"),
        ..PublishHeader::default()
    };
    peer.send_request(&command(&["GET", "k"]), &header);
    let mut is_answered = None;
    let mut is_acknowledged = false;
    while is_answered.is_none() || !is_acknowledged {
        match peer.receive() {
            Some(Packet::PubAck(puback)) if puback.reason == ReasonCode::SUCCESS => {
                is_acknowledged = true;
            }
            Some(Packet::PubAck(_)) => return None,
            Some(Packet::Publish(publish)) => {
                is_answered = Some(publish.payload_bytes().to_vec());
            }
            other => panic!("{other:?}"),
        }
    }
    is_answered
}
