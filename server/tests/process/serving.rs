//! Clients of the real process.
use crate::peer::{Daemon, MAX, Peer};
use statestore_protocol::mqtt::{
    Connect, Packet, PublishHeader, ReasonCode, Subscribe, Subscription,
};
use std::num::NonZeroU16;
use std::path::PathBuf;
use tempfile::TempDir;

#[test]
fn requests_are_answered_and_watchers_notified() {
    let daemon = Daemon::in_memory();
    let mut watcher = daemon.connect("watcher");
    assert_eq!(watcher.request(1, &[b"KEYNOTIFY", b"k"]), b"+OK\r\n");
    let mut peer = daemon.connect("peer");
    assert_eq!(peer.request(1, &[b"SET", b"k", b"v"]), b"+OK\r\n");
    assert_eq!(peer.request(2, &[b"GET", b"k"]), b"$1\r\nv\r\n");
    match watcher.receive() {
        Some(Packet::Publish(note)) => {
            assert!(
                note.topic().ends_with("/command/notify/6B"),
                "{}",
                note.topic()
            );
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_expiring_key_notifies_without_a_request() {
    let daemon = Daemon::in_memory();
    let mut peer = daemon.connect("peer");
    assert_eq!(peer.request(1, &[b"KEYNOTIFY", b"k"]), b"+OK\r\n");
    peer.send(|out| crate::peer::encode_request(2, &[b"SET", b"k", b"v", b"PX", b"20"], out));
    let mut payloads = Vec::new();
    while payloads.len() < 3 {
        if let Some(Packet::Publish(publish)) = peer.receive() {
            payloads.push(publish.payload_bytes().to_vec());
        }
    }
    assert_eq!(payloads[2], b"*2\r\n$6\r\nNOTIFY\r\n$6\r\nDELETE\r\n");
}

#[test]
fn messages_are_routed_between_clients() {
    let daemon = Daemon::in_memory();
    let mut subscriber = daemon.connect("subscriber");
    let subscribe = Subscribe {
        packet_id: NonZeroU16::MIN,
        subscription_id: None,
        subscriptions: vec![Subscription::at_least_once("a/#")],
    };
    subscriber.send(|out| subscribe.encode(MAX, out));
    assert!(matches!(subscriber.receive(), Some(Packet::SubAck(_))));
    let mut publisher = daemon.connect("publisher");
    let header = PublishHeader {
        topic: "a/b",
        ..PublishHeader::default()
    };
    publisher.send(|out| header.encode(MAX, out, 2, |out| out.extend_from_slice(b"hi")));
    match subscriber.receive() {
        Some(Packet::Publish(message)) => assert_eq!(message.payload_bytes(), b"hi"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_large_value_round_trips() {
    let daemon = Daemon::in_memory();
    let mut peer = daemon.connect("peer");
    let value: Vec<u8> = (0..5_000_000_u32)
        .map(|byte| byte.to_be_bytes()[3])
        .collect();
    assert_eq!(peer.request(1, &[b"SET", b"k", &value]), b"+OK\r\n");
    let answer = peer.request(2, &[b"GET", b"k"]);
    assert!(answer == [b"$5000000\r\n", &value[..], b"\r\n"].concat());
}

/// Starts a server with a file of users of this content. Returns the file and its folder as well.
fn with_users(content: &str) -> (Daemon, PathBuf, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("users");
    std::fs::write(&file, content).unwrap();
    let daemon = Daemon::start(&[
        "--storage",
        "memory",
        "--users-file",
        file.to_str().unwrap(),
    ]);
    (daemon, file, folder)
}

/// The CONNECT of the user `ann`.
fn login(password: &'static str) -> Connect {
    Connect {
        user_name: Some("ann".into()),
        password: Some(password.into()),
        ..Connect::default()
    }
}

#[test]
fn users_need_their_password() {
    let (daemon, ..) = with_users("# who\n\nann:se:cret\n");
    assert_eq!(
        Peer::join(daemon.address, &login("wrong")).err(),
        Some(ReasonCode::BAD_USER_NAME_OR_PASSWORD)
    );
    assert!(Peer::join(daemon.address, &login("se:cret")).is_ok());
}

#[test]
fn sighup_reloads_the_users() {
    let (daemon, file, _folder) = with_users("ann:old\n");
    let mut ann = Peer::join(daemon.address, &login("old")).unwrap();
    std::fs::write(&file, "ann:new\n").unwrap();
    daemon.signal("-HUP");
    // Which shows that they were read.
    assert_eq!(ann.disconnected(), ReasonCode::NOT_AUTHORIZED);
    assert!(Peer::join(daemon.address, &login("new")).is_ok());
    daemon.signal("-TERM");
    assert!(daemon.wait().status.success());
}

#[test]
fn the_state_survives_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["--data-dir", folder.path().to_str().unwrap()];
    let daemon = Daemon::start(&arguments);
    let mut peer = daemon.connect("peer");
    assert_eq!(peer.request(1, &[b"SET", b"k", b"v"]), b"+OK\r\n");
    assert_eq!(peer.request(2, &[b"SET", b"gone", b"v"]), b"+OK\r\n");
    assert_eq!(peer.request(3, &[b"DEL", b"gone"]), b":1\r\n");
    daemon.signal("-TERM");
    assert!(daemon.wait().status.success());
    let daemon = Daemon::start(&arguments);
    let mut peer = daemon.connect("peer");
    assert_eq!(peer.request(1, &[b"GET", b"k"]), b"$1\r\nv\r\n");
    assert_eq!(peer.request(2, &[b"GET", b"gone"]), b"$-1\r\n");
}
