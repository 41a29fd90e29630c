//! Requests of the broker's clients, and their responses.
use super::world::{Peer, Store, command, now};
use harness::{Mosquitto, direct, within};
use statestore::{Client, Condition, DelOutcome, Observation, SetOptions, SetOutcome};
use statestore_protocol::mqtt::{Packet, Publish, PublishHeader};
use statestore_protocol::topic;

#[tokio::test]
async fn the_client_library_supports_all_operations() {
    let broker = Mosquitto::start();
    let _store = Store::start(broker.address(), &[]);
    let reader = Client::connect(direct(broker.address())).await.unwrap();
    let writer = Client::connect(direct(broker.address())).await.unwrap();
    let mut observer = reader.observe("k").await.unwrap();
    let SetOutcome::Applied { version } = writer.set("k", "v").await.unwrap() else {
        panic!("not applied");
    };
    let entry = reader.get("k").await.unwrap().unwrap();
    assert_eq!((&entry.value[..], &entry.version), (&b"v"[..], &version));
    let value = "v".into();
    let told = Some(Observation::Set { value, version });
    assert_eq!(within(observer.next()).await, told);
    let absent = SetOptions::new().condition(Condition::IfAbsent);
    let refused = writer.set_with("k", "w", &absent).await.unwrap();
    assert!(matches!(refused, SetOutcome::NotApplied { .. }));
    let deleted = writer.del("k").await.unwrap();
    assert!(matches!(deleted, DelOutcome::Deleted { .. }));
    let told = within(observer.next()).await;
    assert!(
        matches!(told, Some(Observation::Deleted { .. })),
        "{told:?}"
    );
    let guard = within(reader.lock("lock")).await.unwrap();
    let waiting = tokio::spawn(async move { writer.lock("lock").await.unwrap().token().clone() });
    guard.set("guarded", "1").await.unwrap();
    let first = guard.token().clone();
    guard.release().await.unwrap();
    assert!(within(waiting).await.unwrap() > first);
}

/// Returns the parts of a response that do not depend on its time.
fn response_fields(response: &Publish) -> (String, Vec<(String, String)>, Option<String>, bool) {
    let payload = String::from_utf8_lossy(response.payload_bytes());
    let properties = response.user_properties().map(|(name, value)| {
        let value = if name == "__ts" { "" } else { value };
        (name.to_owned(), value.to_owned())
    });
    let content_type = response.content_type().map(Into::into);
    (
        payload.into(),
        properties.collect(),
        content_type,
        response.retain(),
    )
}

#[test]
fn responses_equal_those_of_a_listener() {
    let broker = Mosquitto::start();
    let store = Store::start(broker.address(), &["--listen", "tcp://127.0.0.1:0"]);
    let mut through = Peer::connect(broker.address(), "through");
    let mut straight = Peer::connect(store.listener.unwrap(), "straight");
    let now = now();
    let stamped: &[(&str, &str)] = &[("__ts", &now)];
    let strange: &[(&str, &str)] = &[("__ts", "soon")];
    let fenced: &[(&str, &str)] = &[("__ts", &now), ("__ft", &now)];
    for (parts, properties) in [
        (&["GET", "absent"][..], &[][..]),
        (&["SET", "NAME", "value"], stamped),
        (&["GET", "NAME"], &[]),
        (&["SET", "NAME", "value", "NX"], stamped),
        (&["SET", "NAME", "value", "PX", "600000"], stamped),
        (&["SET", "NAME", "value"], &[]),
        (&["SET", "NAME", "value"], strange),
        (&["SET", "NAME", "value", "LATER"], stamped),
        (&["SET", "fenced-NAME", "value"], fenced),
        (&["DEL", "fenced-NAME"], stamped),
        (&["VDEL", "NAME", "other"], stamped),
        (&["DEL", "NAME"], stamped),
        (&["KEYNOTIFY", "NAME"], stamped),
        (&["KEYNOTIFY", "NAME", "STOP"], stamped),
        (&["SCAN", "0", "MATCH", "none*"], &[]),
        (&["CAPS"], &[]),
        (&["DANCE"], &[]),
        (&[], &[]),
    ] {
        let with = |name: &str| -> Vec<String> {
            parts
                .iter()
                .map(|part| part.replace("NAME", name))
                .collect()
        };
        let [one, other] = [(&mut through, "one"), (&mut straight, "two")].map(|(peer, name)| {
            let parts = with(name);
            let parts: Vec<_> = parts.iter().map(String::as_str).collect();
            response_fields(&peer.request(&parts, properties))
        });
        assert_eq!(one, other, "{parts:?}");
    }
    // Both are clients of one store.
    let version = |peer: &mut Peer| {
        let response = peer.request(&["GET", "fenced-one"], &[]);
        let version = response.user_properties().find(|(name, _)| *name == "__ts");
        version.unwrap().1.to_owned()
    };
    assert_eq!(version(&mut through), version(&mut straight));
}

#[test]
fn requests_with_an_invalid_response_topic_are_ignored() {
    let broker = Mosquitto::start();
    let store = Store::start(broker.address(), &[]);
    let mut peer = Peer::connect(broker.address(), "me");
    let (now, set) = (now(), command(&["SET", "k", "v"]));
    let stamped: &[(&str, &str)] = &[("__ts", &now)];
    let header = PublishHeader {
        correlation_data: Some(b"1"),
        user_properties: stamped,
        ..PublishHeader::default()
    };
    let elsewhere = ["answers/me", "clients/me", topic::REQUEST];
    let notification = topic::notification("me", b"k");
    for response_topic in elsewhere.into_iter().chain([notification.as_str()]) {
        let response_topic = Some(response_topic);
        peer.send_request(
            &set,
            &PublishHeader {
                response_topic,
                ..header
            },
        );
    }
    let correlation_data = None;
    peer.send_request(
        &set,
        &PublishHeader {
            correlation_data,
            ..header
        },
    );
    assert_eq!(peer.request(&["GET", "k"], &[]).payload_bytes(), b"$-1\r\n");
    store.wait_for_metric("statestored_requests_unanswerable_total", 5);
}

#[test]
fn a_redelivered_request_gets_the_same_response() {
    let broker = Mosquitto::start();
    let _store = Store::start(broker.address(), &[]);
    let now = now();
    let header = PublishHeader {
        correlation_data: Some(b"the same"),
        user_properties: &[("__ts", &now)],
        ..PublishHeader::default()
    };
    let set = command(&["SET", "k", "v", "NX"]);
    let mut answers = Vec::new();
    // The client of the second connection is the same one to the store.
    for _ in 0..2 {
        let mut peer = Peer::connect(broker.address(), "me");
        for _ in 0..2 {
            peer.send_request(&set, &header);
            let response = peer.message();
            let version = response.user_properties().find(|(name, _)| *name == "__ts");
            let version = version.map(|(_, version)| version.to_owned());
            answers.push((response.payload_bytes().to_vec(), version));
        }
    }
    assert_eq!(answers[0].0, b"+OK\r\n");
    assert!(
        answers.iter().all(|answer| *answer == answers[0]),
        "{answers:?}"
    );
    let mut other = Peer::connect(broker.address(), "other");
    other.send_request(&set, &header);
    assert_eq!(other.message().payload_bytes(), b":-1\r\n");
}

#[test]
fn a_retained_request_is_not_executed() {
    let broker = Mosquitto::start();
    let now = now();
    let header = PublishHeader {
        correlation_data: Some(b"old"),
        user_properties: &[("__ts", &now)],
        retain: true,
        ..PublishHeader::default()
    };
    let mut peer = Peer::connect(broker.address(), "me");
    peer.send_request(&command(&["SET", "k", "old"]), &header);
    assert!(matches!(peer.receive(), Some(Packet::PubAck(_))));
    let _store = Store::start(broker.address(), &[]);
    assert_eq!(peer.request(&["GET", "k"], &[]).payload_bytes(), b"$-1\r\n");
}

#[test]
fn the_requests_of_one_client_are_executed_in_order() {
    const ROUNDS: u16 = 100;
    let broker = Mosquitto::start();
    let _store = Store::start(broker.address(), &[]);
    let mut peer = Peer::connect(broker.address(), "me");
    let now = now();
    for round in 0..ROUNDS {
        let value = round.to_string();
        for (number, parts) in [(0, &["SET", "k", &value][..]), (1, &["GET", "k"])] {
            let header = PublishHeader {
                correlation_data: Some(&(2 * round + number).to_be_bytes()),
                user_properties: &[("__ts", &now)],
                ..PublishHeader::default()
            };
            peer.send_request(&command(parts), &header);
        }
    }
    for round in 0..ROUNDS {
        let value = round.to_string();
        let read = format!("${}\r\n{value}\r\n", value.len());
        for (number, payload) in [(0, "+OK\r\n"), (1, read.as_str())] {
            let response = peer.message();
            let correlation = (2 * round + number).to_be_bytes();
            assert_eq!(response.correlation_data(), Some(&correlation[..]));
            assert_eq!(response.payload_bytes(), payload.as_bytes());
        }
    }
}

#[test]
fn a_burst_beyond_the_receive_maximum_does_not_disconnect() {
    const BURST: u16 = 20_000;
    let broker = Mosquitto::start_with("allow_anonymous true\nmax_queued_messages 0\n");
    let store = Store::start(broker.address(), &[]);
    let mut peer = Peer::connect(broker.address(), "me");
    let mut other = Peer::connect(broker.address(), "other");
    let now = now();
    let get = command(&["GET", "k"]);
    for number in 0..BURST {
        let header = PublishHeader {
            correlation_data: Some(&number.to_be_bytes()),
            user_properties: &[("__ts", &now)],
            ..PublishHeader::default()
        };
        peer.send_request(&get, &header);
    }
    let response = other.request(&["GET", "k"], &[("__ts", &now)]);
    assert_eq!(response.payload_bytes(), b"$-1\r\n");
    for number in 0..BURST {
        let response = peer.message();
        assert_eq!(response.correlation_data(), Some(&number.to_be_bytes()[..]));
    }
    store.wait_for_metric("statestored_attachments_total", 1);
}
