//! Watches of clients of the broker: the broker does not report when such a client is gone.
use super::world::{Peer, Store, command, now};
use harness::Mosquitto;
use statestore_protocol::mqtt::PublishHeader;
use statestore_protocol::topic;

#[test]
fn watches_end_when_notifications_have_no_subscriber() {
    let broker = Mosquitto::start();
    let store = Store::start(broker.address(), &[]);
    let now = now();
    let stamped: &[(&str, &str)] = &[("__ts", &now)];
    let mut gone = Peer::connect(broker.address(), "gone");
    let mut here = Peer::connect(broker.address(), "here");
    for peer in [&mut gone, &mut here] {
        for key in ["k", "l"] {
            peer.request(&["KEYNOTIFY", key], stamped);
        }
    }
    store.wait_for_metric("statestored_watches", 4);
    drop(gone);
    let mut writer = Peer::connect(broker.address(), "writer");
    // The broker may not have noticed yet.
    let mut sets = 0;
    while !store.get("/metrics").contains("\nstatestored_watches 2\n") {
        writer.request(&["SET", "k", "v"], stamped);
        sets += 1;
        assert_eq!(
            here.message().payload_bytes(),
            b"*4\r\n$6\r\nNOTIFY\r\n$3\r\nSET\r\n$5\r\nVALUE\r\n$1\r\nv\r\n"
        );
    }
    let unwanted = store.metric("statestored_attached_unwanted_total");
    assert!((1..=sets).contains(&unwanted), "{unwanted} of {sets}");
    // The client reconnects, and watches again.
    let mut back = Peer::connect(broker.address(), "gone");
    back.request(&["KEYNOTIFY", "k"], stamped);
    writer.request(&["DEL", "k"], stamped);
    for peer in [&mut back, &mut here] {
        let payload = peer.message().payload_bytes().to_vec();
        assert_eq!(payload, b"*2\r\n$6\r\nNOTIFY\r\n$6\r\nDELETE\r\n");
    }
}

#[test]
fn a_lease_ends_the_watches_of_a_silent_client() {
    let broker = Mosquitto::start();
    let store = Store::start(broker.address(), &["--attach-watch-lease", "1"]);
    let now = now();
    let mut silent = Peer::connect(broker.address(), "silent");
    let stamped: &[(&str, &str)] = &[("__ts", &now)];
    for value in ["1", "2"] {
        // Without a pause between them: the watch shows itself by the notification of the change that follows.
        for parts in [&["KEYNOTIFY", "k"][..], &["SET", "k", value]] {
            let correlation = [parts[0], value].concat();
            let header = PublishHeader {
                correlation_data: Some(correlation.as_bytes()),
                user_properties: stamped,
                ..PublishHeader::default()
            };
            silent.send_request(&command(parts), &header);
        }
        let mut payloads = [(); 3].map(|()| silent.message().payload_bytes().to_vec());
        payloads.sort();
        let notification =
            format!("*4\r\n$6\r\nNOTIFY\r\n$3\r\nSET\r\n$5\r\nVALUE\r\n$1\r\n{value}\r\n");
        assert_eq!(payloads, [notification.as_bytes(), b"+OK\r\n", b"+OK\r\n"]);
        store.wait_for_metric("statestored_watches", 0);
    }
    // The lease has ended both watches, so there is none to stop.
    let stopped = silent.request(&["KEYNOTIFY", "k", "STOP"], stamped);
    assert_eq!(stopped.payload_bytes(), b":0\r\n");
}

#[test]
fn a_client_with_a_hexadecimal_id_is_notified_under_its_id() {
    let broker = Mosquitto::start();
    let _store = Store::start(broker.address(), &[]);
    let now = now();
    let mut peer = Peer::connect(broker.address(), "me");
    let response_topic = format!(
        "clients/6D65/statestore/v1/{}/command/invoke/response",
        topic::STORE_GUID
    );
    peer.subscribe(&response_topic);
    let header = PublishHeader {
        correlation_data: Some(b"1"),
        response_topic: Some(&response_topic),
        user_properties: &[("__ts", &now)],
        ..PublishHeader::default()
    };
    peer.send_request(&command(&["KEYNOTIFY", "k"]), &header);
    assert_eq!(peer.message().payload_bytes(), b"+OK\r\n");
    let mut writer = Peer::connect(broker.address(), "writer");
    writer.request(&["SET", "k", "v"], &[("__ts", &now)]);
    let told = peer.message();
    assert_eq!(told.topic(), topic::notification("me", b"k"));
}
