//! Watches of clients behind a broker whose requests servers share: processes over one engine, of which one answers and notifies.
use super::world::{Peer, Store, now};
use harness::Mosquitto;
use statestore_protocol::mqtt::{Packet, PublishHeader, ReasonCode};
use statestore_protocol::topic;
use std::time::Instant;

/// Number of times that a request is sent, so that every server receives it.
pub(crate) const DELIVERIES: usize = 4;
pub(crate) const LEADS: &str = "is now the leader of its group";
pub(crate) const STANDS_BY: &str = "stands by";

/// A server that shares the requests of the broker.
fn server(storage: &str, broker: &Mosquitto, name: &str) -> Store {
    server_with(storage, broker, name, &[])
}

/// The same, with more options.
pub(crate) fn server_with(storage: &str, broker: &Mosquitto, name: &str, more: &[&str]) -> Store {
    let attach = format!("mqtt://{}", broker.address());
    let options = [
        "--storage",
        storage,
        "--attach",
        &attach,
        "--attach-client-id",
        name,
        "--attach-share",
        "nodes",
    ];
    Store::launch(&[&options, more].concat())
}

/// Sends a request, and gives what it is answered; notifications may come before.
pub(crate) fn ask(peer: &mut Peer, parts: &[&str], told: &mut Vec<String>) -> String {
    ask_repeatedly(1, peer, parts, told)
}

/// The same, so often that not only a server that stands still is given it.
fn ask_repeatedly(times: usize, peer: &mut Peer, parts: &[&str], told: &mut Vec<String>) -> String {
    static NUMBER: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let correlation = number.to_be_bytes();
    let stamp = now();
    let header = PublishHeader {
        correlation_data: Some(&correlation),
        user_properties: &[("__ts", &stamp)],
        ..PublishHeader::default()
    };
    for _ in 0..times {
        peer.send_request(&super::world::command(parts), &header);
    }
    loop {
        match peer.receive() {
            Some(Packet::PubAck(puback)) => assert_eq!(puback.reason, ReasonCode::SUCCESS),
            Some(Packet::Publish(publish)) => {
                let payload = String::from_utf8_lossy(publish.payload_bytes()).into_owned();
                match publish.correlation_data() {
                    None => told.push(payload),
                    Some(its) if its == correlation => return payload,
                    // An answer to a former request that a new leader sends again.
                    Some(_) => {}
                }
            }
            other => panic!("{other:?}"),
        }
    }
}

fn set(value: &str) -> String {
    let length = value.len();
    format!("*4\r\n$6\r\nNOTIFY\r\n$3\r\nSET\r\n$5\r\nVALUE\r\n${length}\r\n{value}\r\n")
}

/// Sets the key of a client that watches it, and waits for the notification. Returns the notifications before it.
pub(crate) fn wait_for_notification(
    writer: &mut Peer,
    peer: &mut Peer,
    key: &str,
    value: &str,
) -> Vec<String> {
    assert_eq!(
        ask(writer, &["SET", key, value], &mut Vec::new()),
        "+OK\r\n"
    );
    let mut before = Vec::new();
    loop {
        let message = peer.message();
        let text = String::from_utf8_lossy(message.payload_bytes()).into_owned();
        if text == set(value) {
            return before;
        }
        // A request may be answered again.
        if message.correlation_data().is_none() {
            before.push(text);
        }
    }
}

pub(crate) fn a_key_watched_through_several_servers_is_notified_once(storage: &str) {
    let broker = Mosquitto::start();
    let one = server(storage, &broker, "one");
    one.wait_for_log(LEADS);
    let other = server(storage, &broker, "other");
    other.wait_for_log(STANDS_BY);
    let mut watcher = Peer::connect(broker.address(), "watcher");
    let mut writer = Peer::connect(broker.address(), "writer");
    let mut early = Vec::new();
    for _ in 0..DELIVERIES {
        let answer = ask(&mut watcher, &["KEYNOTIFY", "k"], &mut early);
        assert_eq!(answer, "+OK\r\n");
    }
    for store in [&one, &other] {
        store.wait_for_metric("statestored_watches", 1);
    }
    for round in 0..2 * DELIVERIES {
        let before = wait_for_notification(&mut writer, &mut watcher, "k", &round.to_string());
        assert_eq!(before, [""; 0], "in round {round}");
    }
    assert_eq!(
        ask(&mut watcher, &["KEYNOTIFY", "end"], &mut early),
        "+OK\r\n"
    );
    for round in 0..DELIVERIES {
        let stop = ask(&mut watcher, &["KEYNOTIFY", "k", "STOP"], &mut early);
        assert_eq!(stop, if round == 0 { "+OK\r\n" } else { ":0\r\n" });
        let value = format!("after {round}");
        assert_eq!(
            ask(&mut writer, &["SET", "k", &value], &mut Vec::new()),
            "+OK\r\n"
        );
    }
    let before = wait_for_notification(&mut writer, &mut watcher, "end", "end");
    assert_eq!(before, [""; 0]);
    assert_eq!(early, [""; 0]);
}

pub(crate) fn watches_survive_the_group_leader(storage: &str) {
    let broker = Mosquitto::start();
    let first = server(storage, &broker, "first");
    first.wait_for_log(LEADS);
    let mut watcher = Peer::connect(broker.address(), "watcher");
    let mut writer = Peer::connect(broker.address(), "writer");
    let mut early = Vec::new();
    for key in ["k", "stopped", "end"] {
        assert_eq!(
            ask(&mut watcher, &["KEYNOTIFY", key], &mut early),
            "+OK\r\n"
        );
    }
    // A server that starts later learns the watches.
    let mut second = server(storage, &broker, "second");
    second.wait_for_log(STANDS_BY);
    second.wait_for_metric("statestored_watches", 3);
    assert_eq!(
        wait_for_notification(&mut writer, &mut watcher, "k", "1"),
        [""; 0]
    );
    // The server is killed, and sends nothing more.
    drop(first);
    second.wait_for_log(LEADS);
    // Notifications that it has sent may be repeated, and no others.
    let before = wait_for_notification(&mut writer, &mut watcher, "k", "2");
    assert!(before.iter().all(|text| *text == set("1")), "{before:?}");
    let stop = ask(&mut watcher, &["KEYNOTIFY", "stopped", "STOP"], &mut early);
    assert_eq!(stop, "+OK\r\n");
    let third = server(storage, &broker, "third");
    third.wait_for_log(STANDS_BY);
    // An orderly end takes over at once as well.
    second.terminate();
    assert!(second.wait().success());
    third.wait_for_log(LEADS);
    third.wait_for_metric("statestored_watches", 2);
    let before = wait_for_notification(&mut writer, &mut watcher, "k", "3");
    assert!(before.iter().all(|text| *text == set("2")), "{before:?}");
    // A server that stops for longer than the lease of the leader, and then continues, is no longer the leader.
    let fourth = server(storage, &broker, "fourth");
    fourth.wait_for_log(STANDS_BY);
    third.send("-STOP");
    fourth.wait_for_log(LEADS);
    for key in ["k", "stopped"] {
        let stop = ask_repeatedly(2, &mut watcher, &["KEYNOTIFY", key, "STOP"], &mut early);
        assert_eq!(stop, if key == "k" { "+OK\r\n" } else { ":0\r\n" });
    }
    third.send("-CONT");
    for value in ["4", "5", "6"] {
        // Any of the servers may be given it.
        assert_eq!(
            ask(&mut writer, &["SET", "k", value], &mut Vec::new()),
            "+OK\r\n"
        );
    }
    third.wait_for_metric("statestored_watches", 1);
    assert_eq!(
        wait_for_notification(&mut writer, &mut watcher, "end", "end"),
        [""; 0]
    );
    assert!(
        early
            .iter()
            .all(|text| *text == set("2") || *text == set("3")),
        "{early:?}"
    );
}

pub(crate) fn watches_of_patterns_survive_the_group_leader(storage: &str) {
    let broker = Mosquitto::start();
    let first = server(storage, &broker, "first");
    first.wait_for_log(LEADS);
    let mut watcher = Peer::connect(broker.address(), "watcher");
    let mut writer = Peer::connect(broker.address(), "writer");
    let mut early = Vec::new();
    let capabilities = ask(&mut watcher, &["CAPS"], &mut early);
    assert!(capabilities.ends_with("MATCH\r\n:1\r\n"), "{capabilities}");
    for watch in [&["?", "MATCH"][..], &["k*", "MATCH"], &["k"]] {
        let request = [&["KEYNOTIFY"], watch].concat();
        assert_eq!(ask(&mut watcher, &request, &mut early), "+OK\r\n");
    }
    let second = server(storage, &broker, "second");
    second.wait_for_log(STANDS_BY);
    second.wait_for_metric("statestored_watches", 3);
    for value in ["1", "2", "3"] {
        let before = wait_for_notification(&mut writer, &mut watcher, "k", value);
        assert_eq!(before, [""; 0], "before {value}");
    }
    assert_eq!(early, [""; 0]);
    // The server is killed, and the new leader notifies of a gap of each pattern.
    drop(first);
    second.wait_for_log(LEADS);
    let mut gaps = Vec::new();
    while gaps.len() < 2 {
        let message = watcher.message();
        if message.payload_bytes() == b"*2\r\n$6\r\nNOTIFY\r\n$6\r\nRESYNC\r\n" {
            gaps.push(message.topic().to_owned());
        }
    }
    gaps.sort_unstable();
    let patterns = [&b"?"[..], b"k*"];
    assert_eq!(gaps, patterns.map(|it| topic::notification("watcher", it)));
    wait_for_notification(&mut writer, &mut watcher, "k1", "4");
    for expected in ["+OK\r\n", ":0\r\n"] {
        let stop = ["KEYNOTIFY", "k*", "MATCH", "STOP"];
        assert_eq!(ask(&mut watcher, &stop, &mut early), expected);
    }
    let set = ask(&mut writer, &["SET", "k1", "5"], &mut early);
    assert_eq!(set, "+OK\r\n");
    let before = wait_for_notification(&mut writer, &mut watcher, "z", "6");
    assert_eq!(before, [""; 0]);
    assert_eq!(early, [""; 0]);
}

/// How many watches a server knows.
fn watches(store: &Store) -> u64 {
    let metrics = store.get("/metrics");
    let found = metrics
        .lines()
        .find_map(|line| line.strip_prefix("statestored_watches "));
    found.unwrap().parse().unwrap()
}

pub(crate) fn the_watches_of_a_silent_client_end_at_all_servers(storage: &str) {
    let broker = Mosquitto::start();
    let lease = ["--attach-watch-lease", "2"];
    let one = server_with(storage, &broker, "one", &lease);
    one.wait_for_log(LEADS);
    let other = server_with(storage, &broker, "other", &lease);
    other.wait_for_log(STANDS_BY);
    let mut silent = Peer::connect(broker.address(), "silent");
    let mut busy = Peer::connect(broker.address(), "busy");
    let mut early = Vec::new();
    for peer in [&mut silent, &mut busy] {
        assert_eq!(ask(peer, &["KEYNOTIFY", "k"], &mut early), "+OK\r\n");
    }
    // Whichever server is asked, that renews the lease at the one that keeps.
    let stores = [&one, &other];
    let end = Instant::now() + harness::WAIT_LIMIT;
    while stores.iter().any(|store| watches(store) != 1) {
        assert_eq!(ask(&mut busy, &["GET", "k"], &mut early), "$-1\r\n");
        assert!(stores.iter().all(|store| watches(store) >= 1));
        assert!(Instant::now() < end, "the watch of a silent client goes on");
    }
    let set = ask(&mut busy, &["SET", "k", "v"], &mut early);
    assert_eq!(set, "+OK\r\n");
    if early.is_empty() {
        busy.message();
    }
    for store in stores {
        store.wait_for_metric("statestored_watches", 0);
    }
}
