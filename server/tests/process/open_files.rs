//! Connections and the limit of open files.
use crate::peer::{Daemon, Peer};

/// Starts it with limits as `ulimit` sets them.
fn start(limits: &str) -> Daemon {
    let script = format!("ulimit {limits}; exec \"$0\" \"$@\"");
    Daemon::start_through(&["sh", "-c", &script], &["--storage", "memory"])
}

/// What it logged up to its end.
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
fn a_limit_that_is_too_low_for_the_connections_is_a_warning() {
    let daemon = start("-n 64");
    let mut peer = daemon.connect("peer");
    assert_eq!(peer.request(1, &[b"GET", b"k"]), b"$-1\r\n");
    let log = log(daemon);
    assert!(
        log.contains("WARN 64 files may be open, too few for the 10000 connections"),
        "{log}"
    );
}
