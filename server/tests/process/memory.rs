//! Memory that the process takes, and its behaviour when it gets no more.
use crate::peer::{Daemon, Peer, TIMEOUT, encode_request};
use bytes::BytesMut;
use statestore_protocol::mqtt::{Packet, ReasonCode};
use std::io::Write;
use std::time::Instant;

pub(crate) const MIB: u64 = 1 << 20;
const OK: &[u8] = b"+OK\r\n";
const QUOTA: &[u8] = b"-ERR the quota has been exceeded\r\n";

/// Sends requests in one piece, and returns their answers.
fn exchange(peer: &mut Peer, requests: &[Vec<Vec<u8>>]) -> Vec<Vec<u8>> {
    let mut batch = BytesMut::new();
    for (number, parts) in (0..).zip(requests) {
        let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
        encode_request(number, &parts, &mut batch).unwrap();
    }
    peer.stream.write_all(&batch).unwrap();
    let mut answers = Vec::new();
    while answers.len() < requests.len() {
        match peer.receive() {
            Some(Packet::PubAck(puback)) => assert_eq!(puback.reason, ReasonCode::SUCCESS),
            Some(Packet::Publish(response)) => {
                peer.acknowledge(response.packet_id().unwrap());
                answers.push(response.payload_bytes().to_vec());
            }
            other => panic!("{other:?}"),
        }
    }
    answers
}

fn key(stage: usize, number: usize) -> Vec<u8> {
    format!("{stage}-{number}").into_bytes()
}

/// Sets keys of a stage until one is refused. Returns how many are there.
pub(crate) fn fill(peer: &mut Peer, stage: usize, value_bytes: usize) -> usize {
    let in_batch = (1_000_000 / value_bytes).clamp(1, 200);
    let mut count = 0;
    loop {
        let set = |number| {
            let value = vec![b'v'; value_bytes];
            vec![b"SET".to_vec(), key(stage, number), value]
        };
        let requests: Vec<_> = (count..count + in_batch).map(set).collect();
        let answers = exchange(peer, &requests);
        let done = answers.iter().filter(|it| *it == OK).count();
        count += done;
        if done < in_batch {
            let refused = answers.iter().find(|it| *it != OK).unwrap();
            let text = String::from_utf8_lossy(refused);
            assert_eq!(refused, QUOTA, "{text}");
            return count;
        }
    }
}

/// Deletes the keys of a stage, but keeps every `each`-th key.
pub(crate) fn thin_out(peer: &mut Peer, stage: usize, count: usize, each: usize) {
    let gone: Vec<_> = (0..count).filter(|number| number % each != 0).collect();
    for numbers in gone.chunks(200) {
        let del = |number: &usize| vec![b"DEL".to_vec(), key(stage, *number)];
        exchange(peer, &numbers.iter().map(del).collect::<Vec<_>>());
    }
}

/// Fills the store three times with ever larger values. Each time, what stays of the former ones keeps the memory between them from being
/// one piece. Returns the largest resident memory.
fn make_holes(daemon: &Daemon, peer: &mut Peer) -> u64 {
    let mut most = 0;
    for (stage, (value_bytes, each)) in [(1_000, 24), (28_000, 4), (100_000, 1)]
        .into_iter()
        .enumerate()
    {
        let count = fill(peer, stage, value_bytes);
        let resident = resident_bytes(daemon);
        println!(
            "{count} values of {value_bytes} bytes: {} MiB resident",
            resident / MIB
        );
        most = most.max(resident);
        thin_out(peer, stage, count, each);
        most = most.max(resident_bytes(daemon));
    }
    most
}

fn resident_bytes(daemon: &Daemon) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", daemon.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.unwrap().trim().strip_suffix(" kB").unwrap();
    kib.parse::<u64>().unwrap() * 1024
}

#[test]
fn resident_memory_stays_within_the_budgets_after_deletions() {
    let (entries, sessions) = (60 * MIB, 16 * MIB);
    let daemon = Daemon::start(&[
        "--storage",
        "memory",
        "--max-bytes",
        &entries.to_string(),
        "--max-session-bytes",
        &sessions.to_string(),
    ]);
    let mut peer = daemon.connect("peer");
    let most = make_holes(&daemon, &mut peer);
    let promised = entries + sessions + 64 * MIB;
    assert!(most <= promised, "{most} bytes of {promised}");
}

/// A limit of memory that the system refuses to exceed: the option of `ulimit`, and MiB.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limit(pub(crate) &'static str, pub(crate) u64);

/// Limit of private memory.
const OF_DATA: Limit = Limit("-d", 128);

/// Limit of the address space, of which the program and the stacks of its threads take 110 MiB.
const OF_ADDRESS_SPACE: Limit = Limit("-v", 240);

/// Starts a process with a limit of memory.
pub(crate) fn start_limited(Limit(option, mib): Limit, arguments: &[&str]) -> Daemon {
    let script = format!("ulimit {option} {}; exec \"$0\" \"$@\"", mib * 1024);
    Daemon::start_through(&["sh", "-c", &script], arguments)
}

fn outlives_writes_within_the_quota(limit: Limit) {
    let daemon = start_limited(limit, &["--storage", "memory"]);
    let mut peer = daemon.connect("peer");
    make_holes(&daemon, &mut peer);
    assert_eq!(peer.request(1, &[b"GET", b"none"]), b"$-1\r\n");
}

#[test]
fn writes_within_the_quota_do_not_end_a_process_with_limited_memory() {
    outlives_writes_within_the_quota(OF_DATA);
}

#[test]
fn writes_within_the_quota_do_not_end_a_process_with_a_limited_address_space() {
    outlives_writes_within_the_quota(OF_ADDRESS_SPACE);
}

#[test]
fn a_process_out_of_memory_refuses_writes_until_memory_is_free() {
    refuses_writes_until_there_is_memory(OF_DATA);
}

#[test]
fn a_process_without_address_space_refuses_writes_until_there_is_some() {
    refuses_writes_until_there_is_memory(OF_ADDRESS_SPACE);
}

fn refuses_writes_until_there_is_memory(limit: Limit) {
    let quota = (1024 * MIB).to_string();
    let http = ["--http", "http://127.0.0.1:0"];
    let options = ["--storage", "memory", "--max-bytes", &quota];
    let daemon = start_limited(limit, &[&options[..], &http].concat());
    assert!(!daemon.get("/readyz").contains("memory_short"));
    let mut peer = daemon.connect("peer");
    for value_bytes in [1_000, 30_000, 1_500_000] {
        let mut count = fill(&mut peer, 0, value_bytes);
        assert!(count > 10, "{count} values of {value_bytes} bytes");
        // A pass over the entries may end the shortage; further growth begins the next one.
        let begin = Instant::now();
        loop {
            let ready = daemon.get("/readyz");
            let metrics = daemon.get("/metrics");
            if ready.contains("\nmemory_short: ")
                && metrics.contains("\nstatestored_memory_short 1\n")
            {
                break;
            }
            assert!(begin.elapsed() < TIMEOUT, "{ready}");
            let value = vec![b'v'; value_bytes];
            let answer = peer.request(9, &[b"SET", &key(0, count), &value]);
            count += usize::from(answer == OK);
        }
        // Reads go on, and so do writes that make nothing larger.
        assert_eq!(peer.request(1, &[b"GET", b"none"]), b"$-1\r\n");
        let shrunk = peer.request(2, &[b"SET", b"0-0", b"small"]);
        assert_eq!(shrunk, OK, "{:?}", String::from_utf8_lossy(&shrunk));
        daemon.connect("another").assert_alive();
        thin_out(&mut peer, 0, count, usize::MAX);
        let begin = Instant::now();
        while peer.request(3, &[b"SET", b"0-0", &vec![b'v'; 1_000]]) != OK {
            assert!(begin.elapsed() < TIMEOUT, "still refused");
        }
        peer.request(4, &[b"DEL", b"0-0"]);
    }
    daemon.signal("-TERM");
    let output = daemon.wait();
    assert!(output.status.success(), "{output:?}");
    let log = String::from_utf8(output.stderr).unwrap();
    assert!(log.contains("the process has no memory left"), "{log}");
}

/// Results of large SETs.
#[derive(Debug, Default)]
struct LargeSets {
    done: usize,
    over_quota: usize,
    disconnected: usize,
}

impl LargeSets {
    /// Sends SETs of 8 to 15 MB to one key, on a new connection whenever the server has closed the former one.
    fn send(&mut self, daemon: &Daemon, client_id: &str, rounds: usize) {
        let mut peer = daemon.connect(client_id);
        for round in 0..rounds {
            let value = vec![b'v'; 15_000_000 - round % 8 * 1_000_000];
            let mut packet = BytesMut::new();
            encode_request(1, &[b"SET", client_id.as_bytes(), &value], &mut packet).unwrap();
            // The server may close the connection before it has read the whole packet.
            let is_written = peer.stream.write_all(&packet).is_ok();
            let answer = if is_written { answer(&mut peer) } else { None };
            match answer.as_deref() {
                Some(OK) => self.done += 1,
                Some(QUOTA) => self.over_quota += 1,
                Some(other) => panic!("{:?}", String::from_utf8_lossy(other)),
                None => {
                    self.disconnected += 1;
                    peer = daemon.connect(client_id);
                }
            }
        }
    }
}

/// Returns the payload of the next response; `None` if the server closes the connection since it lacks memory.
fn answer(peer: &mut Peer) -> Option<Vec<u8>> {
    loop {
        match peer.receive() {
            Some(Packet::PubAck(puback)) => assert_eq!(puback.reason, ReasonCode::SUCCESS),
            Some(Packet::Publish(response)) => {
                peer.acknowledge(response.packet_id().unwrap());
                return Some(response.payload_bytes().to_vec());
            }
            Some(Packet::Disconnect(disconnect)) => {
                assert_eq!(disconnect.reason, ReasonCode::QUOTA_EXCEEDED);
                return None;
            }
            None => return None,
            other => panic!("{other:?}"),
        }
    }
}

/// Fills the store, and sends large SETs from many clients at once, while another client makes small requests.
fn send_large_sets(limit: Limit, options: &[&str]) {
    const CLIENTS: usize = 24;
    let daemon = start_limited(
        limit,
        &[options, &["--http", "http://127.0.0.1:0"]].concat(),
    );
    let mut peer = daemon.connect("peer");
    fill(&mut peer, 0, 1_000);
    let send = &|number: usize| {
        let mut sets = LargeSets::default();
        sets.send(&daemon, &format!("large-{number}"), 4);
        sets
    };
    let results = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|number| scope.spawn(move || send(number)))
            .collect();
        while clients.iter().any(|client| !client.is_finished()) {
            let value = peer.request(1, &[b"GET", &key(0, 0)]);
            assert!(value.starts_with(b"$1000\r\n"));
        }
        let results = clients.into_iter().map(|client| client.join().unwrap());
        results.collect::<Vec<_>>()
    });
    println!("{results:?}");
    daemon.connect("another").assert_alive();
    let ends = "statestored_connections_closed_total{reason=\"evicted\"} ";
    let metrics = daemon.get("/metrics");
    let evicted = metrics.lines().find_map(|line| line.strip_prefix(ends));
    assert_ne!(evicted.unwrap(), "0");
    daemon.signal("-TERM");
    let output = daemon.wait();
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn large_sets_of_many_clients_do_not_end_a_process_with_limited_memory() {
    send_large_sets(Limit("-d", 112), &["--storage", "memory"]);
}

#[test]
fn large_sets_of_many_clients_do_not_end_a_process_with_a_limited_address_space() {
    send_large_sets(Limit("-v", 224), &["--storage", "memory"]);
}

#[test]
fn large_sets_of_many_clients_do_not_end_a_process_with_limited_memory_and_data_on_disk() {
    let data_dir = tempfile::tempdir().unwrap();
    let options = ["--data-dir", data_dir.path().to_str().unwrap()];
    send_large_sets(Limit("-d", 112), &options);
}
