//! Connections and the limit of open files.
use crate::peer::{Daemon, Peer};
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use std::io::Read;
use std::net::TcpStream;
use tempfile::tempdir;

/// Starts it with limits as `ulimit` sets them.
fn start(limits: &str) -> Daemon {
    let script = format!("ulimit {limits}; exec \"$0\" \"$@\"");
    Daemon::start_through(&["sh", "-c", &script], &["--storage", "memory"])
}

/// Ends the server and returns its log.
fn log(daemon: Daemon) -> String {
    daemon.signal("-TERM");
    String::from_utf8(daemon.wait().stderr).unwrap()
}

#[test]
fn a_low_soft_limit_is_raised() {
    let daemon = start("-S -n 64");
    let mut peers: Vec<Peer> = (0..100)
        .map(|number| daemon.connect(&format!("peer-{number}")))
        .collect();
    for peer in &mut peers {
        assert_eq!(peer.request(1, &[b"GET", b"k"]), b"$-1\r\n");
    }
}

#[test]
fn a_descriptor_limit_below_the_connection_limit_is_a_warning() {
    let daemon = start("-n 64");
    let mut peer = daemon.connect("peer");
    assert_eq!(peer.request(1, &[b"GET", b"k"]), b"$-1\r\n");
    let log = log(daemon);
    assert!(
        log.contains("WARN 64 files may be open, too few for the 10000 connections"),
        "{log}"
    );
}

/// Writes twice as much as a log holds, so that the server has to open files.
fn write_much(peer: &mut Peer) {
    let value = vec![b'.'; 1 << 20];
    for number in 0..72 {
        let key = format!("key-{}", number % 8);
        let reply = peer.request(number, &[b"SET", key.as_bytes(), &value]);
        assert_eq!(reply, b"+OK\r\n", "write {number}");
    }
}

#[test]
fn idle_connections_leave_descriptors_for_the_storage() {
    let folder = tempdir().unwrap();
    let data = folder.path().to_str().unwrap();
    let script = "ulimit -n 160; exec \"$0\" \"$@\"";
    let daemon = Daemon::start_through(&["sh", "-c", script], &["--data-dir", data]);
    let mut writer = daemon.connect("writer");
    let idle = (0..400).map(|_| TcpStream::connect(daemon.address).unwrap());
    let idle: Vec<TcpStream> = idle.collect();
    write_much(&mut writer);
    // The last connection exceeds the limit: it is closed, not left waiting.
    let end = idle.last().unwrap().read(&mut [0]);
    assert!(matches!(end, Ok(0) | Err(_)), "{end:?}");
    assert_eq!(writer.request(1_000, &[b"GET", b"none"]), b"$-1\r\n");
    drop(idle);
    let log = log(daemon);
    assert!(!log.contains("cannot accept"), "{log}");
}

#[test]
fn a_durable_server_survives_running_out_of_descriptors() {
    let folder = tempdir().unwrap();
    let data = folder.path().to_str().unwrap();
    let daemon = Daemon::start(&["--data-dir", data]);
    let mut writer = daemon.connect("writer");
    let process = Pid::from_raw(i32::try_from(daemon.id()).unwrap());
    let limit = |current| Rlimit {
        current: Some(current),
        maximum: Some(1024),
    };
    // Below every number that is free.
    prlimit(process, Resource::Nofile, limit(3)).unwrap();
    write_much(&mut writer);
    assert_eq!(writer.request(1_000, &[b"GET", b"none"]), b"$-1\r\n");
    prlimit(process, Resource::Nofile, limit(1024)).unwrap();
    write_much(&mut writer);
    daemon.signal("-KILL");
    daemon.wait();

    let daemon = Daemon::start(&["--data-dir", data]);
    let mut peer = daemon.connect("peer");
    let mut kept = b"$1048576\r\n".to_vec();
    kept.resize(kept.len() + (1 << 20), b'.');
    kept.extend_from_slice(b"\r\n");
    assert!(peer.request(1, &[b"GET", b"key-7"]) == kept);
}
