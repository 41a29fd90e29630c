//! Hashes of passwords take the memory of two slots, however many passwords there are.
use crate::peer::{Daemon, MAX, Peer, statestored};
use bytes::Bytes;
use statestore_protocol::mqtt::{Connect, Packet, ReasonCode};
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::Stdio;

const MIB: usize = 1024 * 1024;

/// Memory of one slot: what `statestored passwd` asks for.
const SLOT: usize = 19 * MIB;

/// Starts a server with this many users, all with one hash.
fn daemon(users: usize) -> Daemon {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("users");
    let file = path.to_str().unwrap();
    let mut passwd = statestored(&["passwd", "--stdin", file, "user"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let stdin = passwd.stdin.as_mut().unwrap();
    stdin.write_all(b"secret\n").unwrap();
    assert!(passwd.wait().unwrap().success());
    let line = std::fs::read_to_string(&path).unwrap();
    let (_, hash) = line.split_once(':').unwrap();
    let mut text = String::new();
    for number in 0..users {
        write!(text, "user {number}:{hash}").unwrap();
    }
    std::fs::write(&path, text).unwrap();
    Daemon::start(&[
        "--storage",
        "memory",
        "--http",
        "http://127.0.0.1:0",
        "--users-file",
        file,
    ])
}

fn wrong(number: usize) -> Connect {
    Connect {
        client_id: format!("client {number}"),
        user_name: Some(format!("user {number}")),
        password: Some(Bytes::from_static(b"wrong")),
        ..Connect::default()
    }
}

/// Bytes of memory of the process: now, or the most that it ever had.
fn memory(daemon: &Daemon, which: &str) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{}/status", daemon.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(which));
    let kilobytes = line.unwrap().trim().strip_suffix("kB").unwrap().trim();
    kilobytes.parse::<usize>().unwrap() * 1024
}

#[test]
fn memory_stays_flat_over_wrong_passwords() {
    let daemon = daemon(20);
    let before = memory(&daemon, "VmRSS:");
    let mut after_three = 0;
    for number in 0..20 {
        let refused = Peer::join(daemon.address, &wrong(number));
        assert_eq!(
            refused.err(),
            Some(ReasonCode::BAD_USER_NAME_OR_PASSWORD),
            "{number}"
        );
        if number == 2 {
            after_three = memory(&daemon, "VmRSS:");
        }
    }
    let after = memory(&daemon, "VmRSS:");
    let [before, after_three, after] = [before, after_three, after].map(|bytes| bytes / MIB);
    println!("{before} MiB, {after_three} MiB after three passwords, {after} MiB after twenty");
    assert!(
        after <= after_three + 4,
        "{after_three} MiB, then {after} MiB"
    );
    assert!(
        after <= before + SLOT / MIB + 8,
        "{before} MiB, then {after} MiB"
    );
}

#[test]
fn a_flood_of_wrong_passwords_takes_the_memory_of_two_slots() {
    let daemon = daemon(100);
    let before = memory(&daemon, "VmRSS:");
    let mut peers: Vec<Peer> = (0..100)
        .map(|number| {
            let mut peer = Peer::open(daemon.address);
            peer.send(|out| wrong(number).encode(MAX, out));
            peer
        })
        .collect();
    for peer in &mut peers {
        // A login that is not verified in time is disconnected.
        if let Some(Packet::ConnAck(connack)) = peer.receive() {
            assert_ne!(connack.reason, ReasonCode::SERVER_BUSY);
        }
    }
    let peak = memory(&daemon, "VmHWM:");
    let [before, peak] = [before, peak].map(|bytes| bytes / MIB);
    println!("{before} MiB, {peak} MiB at most");
    assert!(
        peak <= before + 2 * SLOT / MIB + 12,
        "{before} MiB, then {peak} MiB"
    );
    let metrics = daemon.get("/metrics");
    let line = metrics
        .lines()
        .find_map(|line| line.strip_prefix("statestored_hashing_bytes "));
    let counted: usize = line.unwrap().parse().unwrap();
    assert!((SLOT..=2 * SLOT).contains(&counted), "{counted}");
}
