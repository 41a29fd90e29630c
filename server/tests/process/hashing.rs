//! Hashes of passwords take the memory of two slots, however many passwords there are.
use crate::memory::{Limit, fill, start_limited};
use crate::peer::{Daemon, MAX, Peer, statestored};
use bytes::Bytes;
use statestore_protocol::mqtt::{Connect, Packet, ReasonCode};
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::Stdio;
use tempfile::TempDir;

const MIB: usize = 1024 * 1024;

/// Memory of one slot: what `statestored passwd` asks for.
const SLOT: usize = 19 * MIB;

/// A folder with a file of this many users, all with one hash, and the path of the file.
fn users(users: usize) -> (TempDir, String) {
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
    let path = path.to_str().unwrap().to_owned();
    (folder, path)
}

/// Starts a server with this many users.
fn daemon(count: usize) -> Daemon {
    let (_folder, file) = users(count);
    Daemon::start(&[
        "--storage",
        "memory",
        "--http",
        "http://127.0.0.1:0",
        "--users-file",
        &file,
    ])
}

fn login(number: usize, password: &'static str) -> Connect {
    Connect {
        client_id: format!("client {number}"),
        user_name: Some(format!("user {number}")),
        password: Some(Bytes::from_static(password.as_bytes())),
        ..Connect::default()
    }
}

fn wrong(number: usize) -> Connect {
    login(number, "wrong")
}

/// Logs users in at once. Returns the results in the order of the users.
fn log_in(daemon: &Daemon, logins: impl Iterator<Item = Connect>) -> Vec<ReasonCode> {
    let mut peers: Vec<Peer> = logins
        .map(|login| {
            let mut peer = Peer::open(daemon.address);
            peer.send(|out| login.encode(MAX, out));
            peer
        })
        .collect();
    let reason = |peer: &mut Peer| match peer.receive() {
        Some(Packet::ConnAck(connack)) => connack.reason,
        other => panic!("{other:?}"),
    };
    peers.iter_mut().map(reason).collect()
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

#[test]
fn right_passwords_are_accepted_while_the_process_has_memory_for_one_slot_only() {
    let (_folder, file) = users(9);
    let quota = (1024 * MIB).to_string();
    let options = ["--storage", "memory", "--max-bytes", &quota];
    let options = [&options[..], &["--users-file", &file]].concat();
    let daemon = start_limited(Limit("-d", 40), &options);
    // The first login takes the memory of one slot.
    let mut peer = Peer::join(daemon.address, &login(0, "secret")).unwrap();
    fill(&mut peer, 0, 1_000);
    let refused = log_in(&daemon, (1..5).map(wrong));
    assert_eq!(refused, [ReasonCode::BAD_USER_NAME_OR_PASSWORD; 4]);
    let accepted = log_in(&daemon, (5..9).map(|number| login(number, "secret")));
    assert_eq!(accepted, [ReasonCode::SUCCESS; 4]);
    assert_eq!(peer.request(1, &[b"GET", b"none"]), b"$-1\r\n");
}
