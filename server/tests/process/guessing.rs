//! Refused logins slow down guessing, but not the logins of other users.
use crate::peer::{Daemon, MAX, Peer, statestored};
use bytes::Bytes;
use statestore_protocol::mqtt::{Connect, Packet, ReasonCode};
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::Stdio;
use std::time::Instant;
use tempfile::TempDir;

/// Users whose password `secret` is stored as a hash, so that the server caches a successful verification.
const USERS: usize = 5;

fn start() -> (TempDir, Daemon) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("users");
    let file = path.to_str().unwrap();
    let mut passwd = statestored(&["passwd", "--stdin", file, "user"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    passwd.stdin.take().unwrap().write_all(b"secret\n").unwrap();
    assert!(passwd.wait().unwrap().success());
    let line = std::fs::read_to_string(&path).unwrap();
    let (_, hash) = line.split_once(':').unwrap();
    let mut text = String::new();
    for number in 0..USERS {
        write!(text, "user {number}:{hash}").unwrap();
    }
    std::fs::write(&path, text).unwrap();
    let daemon = Daemon::start(&["--storage", "memory", "--users-file", file]);
    (folder, daemon)
}

fn connect(client: usize, user: &str, password: &'static str) -> Connect {
    Connect {
        client_id: format!("client {client}"),
        user_name: Some(user.into()),
        password: Some(Bytes::from_static(password.as_bytes())),
        ..Connect::default()
    }
}

/// Connects them all at once.
fn join(daemon: &Daemon, connects: &[Connect]) -> Vec<ReasonCode> {
    let mut peers: Vec<Peer> = connects
        .iter()
        .map(|connect| {
            let mut peer = Peer::open(daemon.address);
            peer.send(|out| connect.encode(MAX, out));
            peer
        })
        .collect();
    let reason = |peer: &mut Peer| match peer.receive() {
        Some(Packet::ConnAck(connack)) => connack.reason,
        other => panic!("{other:?}"),
    };
    peers.iter_mut().map(reason).collect()
}

#[test]
fn devices_sharing_an_address_with_a_guesser_are_accepted() {
    let (_folder, daemon) = start();
    for number in 0..USERS {
        let right = connect(number, &format!("user {number}"), "secret");
        Peer::join(daemon.address, &right).unwrap();
    }
    let wrong: Vec<_> = (0..25)
        .map(|number| connect(number, &format!("nobody {number}"), "wrong"))
        .collect();
    for reason in join(&daemon, &wrong) {
        assert_eq!(reason, ReasonCode::BAD_USER_NAME_OR_PASSWORD);
    }
    let devices: Vec<_> = (0..300)
        .map(|number| connect(100 + number, &format!("user {}", number % USERS), "secret"))
        .collect();
    let begin = Instant::now();
    let reasons = join(&daemon, &devices);
    println!("300 devices in {:?}", begin.elapsed());
    let refused = reasons
        .iter()
        .filter(|reason| **reason != ReasonCode::SUCCESS)
        .count();
    assert_eq!(refused, 0, "{reasons:?}");
}

#[test]
fn existing_and_unknown_users_are_refused_after_the_same_delay() {
    let (_folder, daemon) = start();
    let nobodies: Vec<_> = (0..21)
        .map(|number| connect(number, &format!("nobody {number}"), "wrong"))
        .collect();
    join(&daemon, &nobodies);
    for user in ["user 0", "nobody"] {
        let begin = Instant::now();
        let refused = Peer::join(daemon.address, &connect(0, user, "wrong")).err();
        assert_eq!(refused, Some(ReasonCode::BAD_USER_NAME_OR_PASSWORD));
        // No sooner; a busy machine may take longer.
        assert!(
            begin.elapsed().as_millis() >= 1_990,
            "{user}: {:?}",
            begin.elapsed()
        );
    }
    // A right password that was never shown before does not wait for them.
    assert!(Peer::join(daemon.address, &connect(0, "user 1", "secret")).is_ok());
}
