//! A bridge from one Mosquitto to another.
use super::world::Peer;
use harness::Mosquitto;
use statestore_protocol::mqtt::{Packet, ReasonCode};

/// The lines of the documentation about a bridge, to a broker without TLS.
pub(crate) fn bridge_to(broker: &Mosquitto) -> String {
    let page = include_str!("../../../docs/cluster.md");
    let (_, rest) = page.split_once("```text\nconnection to-b\n").unwrap();
    let (lines, _) = rest.split_once("```").unwrap();
    let address = format!("address {}", broker.address());
    let lines = lines
        .lines()
        .filter(|line| !line.starts_with("bridge_cafile "))
        .map(|line| {
            if line.starts_with("address ") {
                &address
            } else {
                line
            }
        });
    let bridge = ["allow_anonymous true", "connection to-b"]
        .into_iter()
        .chain(lines);
    bridge.collect::<Vec<_>>().join("\n") + "\n"
}

/// Subscribes messages of the plant at one broker, and publishes one at the other, until it comes over the bridge.
pub(crate) fn wait_until_bridged(from: &mut Peer, to: &mut Peer) {
    to.subscribe("plant/#");
    // The bridge may not be there yet.
    loop {
        from.publish("plant/line/1");
        let reason = from.puback();
        if reason != ReasonCode::SUCCESS {
            continue;
        }
        match to.receive() {
            Some(Packet::Publish(publish)) => {
                return assert_eq!(publish.topic(), "plant/line/1");
            }
            other => panic!("{other:?}"),
        }
    }
}
