//! Two Mosquittos with a bridge, each with a store of its own: nothing of the store crosses the bridge that `docs/cluster.md` describes.
use super::bridge::{bridge_to, wait_until_bridged};
use super::world::{Peer, Store, now};
use harness::Mosquitto;
use statestore_protocol::mqtt::Packet;

/// A bridge that carries everything, which no page describes.
fn bridge_all_topics_to(broker: &Mosquitto) -> String {
    bridge_to(broker).replace("plant/#", "#")
}

#[test]
fn a_request_at_a_bridged_broker_gets_one_response() {
    let b = Mosquitto::start();
    let a = Mosquitto::start_with(&bridge_to(&b));
    let stores = [&a, &b].map(|broker| Store::start(broker.address(), &[]));
    let mut plant = [("plant-a", &a), ("plant-b", &b)]
        .map(|(name, broker)| Peer::connect(broker.address(), name));
    let [at_a, at_b] = &mut plant;
    wait_until_bridged(at_a, at_b);
    let stamp = now();
    let stamped: &[(&str, &str)] = &[("__ts", &stamp)];
    // A client of the same name at each: what one is told would come to the other one as well.
    let mut asking = Peer::connect(a.address(), "client");
    let mut other = Peer::connect(b.address(), "client");
    assert_eq!(
        asking.request(&["KEYNOTIFY", "k"], stamped).payload_bytes(),
        b"+OK\r\n"
    );
    for _ in 0..3 {
        let set = asking.request(&["SET", "k", "v"], stamped);
        let told = asking.message();
        let mut payloads = [set.payload_bytes(), told.payload_bytes()];
        payloads.sort_unstable();
        assert_eq!(payloads[1], b"+OK\r\n");
    }
    // The other store has not heard of it, and its client nothing.
    let get = other.request(&["GET", "k"], stamped);
    assert_eq!(get.payload_bytes(), b"$-1\r\n");
    stores[0].wait_for_metric("statestored_watches", 1);
    stores[1].wait_for_metric("statestored_watches", 0);
    // Topics of the plant still pass the bridge.
    at_a.publish("plant/line/2");
    loop {
        match at_b.receive() {
            Some(Packet::Publish(publish)) if publish.topic() == "plant/line/2" => break,
            Some(Packet::Publish(publish)) => assert_eq!(publish.topic(), "plant/line/1"),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_bridge_of_request_topics_executes_each_request_twice() {
    let b = Mosquitto::start();
    let a = Mosquitto::start_with(&bridge_all_topics_to(&b));
    let _stores = [&a, &b].map(|broker| Store::start(broker.address(), &[]));
    let mut plant = [("plant-a", &a), ("plant-b", &b)]
        .map(|(name, broker)| Peer::connect(broker.address(), name));
    let [at_a, at_b] = &mut plant;
    wait_until_bridged(at_a, at_b);
    let stamp = now();
    let mut asking = Peer::connect(a.address(), "asking");
    // Both stores answer, and both answers come.
    let set = asking.request(&["SET", "k", "v"], &[("__ts", &stamp)]);
    let again = asking.message();
    assert_eq!(set.payload_bytes(), b"+OK\r\n");
    assert_eq!(again.payload_bytes(), b"+OK\r\n");
    assert_eq!(again.correlation_data(), set.correlation_data());
}
