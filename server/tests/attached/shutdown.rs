//! How a store takes its leave of the broker.
use super::world::{Peer, Store, command, now};
use harness::Mosquitto;
use statestore_protocol::mqtt::{Packet, PublishHeader, ReasonCode};

/// Requests in progress when the server is stopped. The broker forwards 20 at a time.
const REQUESTS: u16 = 200;

#[test]
fn received_requests_are_answered_before_shutdown() {
    let broker = Mosquitto::start();
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().to_str().unwrap();
    let attach = format!("mqtt://{}", broker.address());
    let mut store = Store::start_with(&["--data-dir", data, "--attach", &attach]);
    let mut peer = Peer::connect(broker.address(), "me");
    let now = now();
    peer.request(&["SET", "k", "v"], &[("__ts", &now)]);
    for number in 0..REQUESTS {
        let header = PublishHeader {
            correlation_data: Some(&number.to_be_bytes()),
            user_properties: &[("__ts", &now)],
            ..PublishHeader::default()
        };
        peer.send_request(&command(&["SET", "k", "v"]), &header);
        if number == REQUESTS / 4 {
            store.terminate();
        }
    }
    let (mut taken, mut refused, mut answered) = (0, 0, 0);
    while taken + refused < REQUESTS || answered < taken {
        match peer.receive() {
            Some(Packet::PubAck(puback)) if puback.reason == ReasonCode::SUCCESS => taken += 1,
            Some(Packet::PubAck(puback)) => {
                assert_eq!(puback.reason, ReasonCode::NO_MATCHING_SUBSCRIBERS);
                refused += 1;
            }
            Some(Packet::Publish(response)) => {
                assert_eq!(response.payload_bytes(), b"+OK\r\n");
                answered += 1;
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(answered, taken);
    assert!(store.wait().success());
}

#[test]
fn a_server_without_its_broker_stops_immediately() {
    let mut broker = Mosquitto::start();
    let mut store = Store::start(broker.address(), &[]);
    broker.kill();
    store.wait_for_log("not attached to the broker");
    store.terminate();
    assert!(store.wait().success());
}
