//! How the process ends.
use crate::peer::{Daemon, encode_request};
use statestore_protocol::mqtt::{Packet, ReasonCode};

#[test]
fn signals_end_it_cleanly() {
    for signal in ["-TERM", "-INT"] {
        let daemon = Daemon::in_memory();
        let mut peer = daemon.connect("peer");
        daemon.signal(signal);
        assert_eq!(peer.disconnected(), ReasonCode::SERVER_SHUTTING_DOWN);
        let output = daemon.wait();
        assert_eq!(output.status.code(), Some(0));
        assert!(output.stdout.is_empty(), "only the ready line");
    }
}

#[test]
fn a_client_that_does_not_read_does_not_keep_it_alive() {
    let daemon = Daemon::in_memory();
    let mut peer = daemon.connect("peer");
    let value = vec![b'v'; 8_000_000];
    assert_eq!(peer.request(1, &[b"SET", b"k", &value]), b"+OK\r\n");
    for correlation in 2..6 {
        peer.send(|out| encode_request(correlation, &[b"GET", b"k"], out));
    }
    daemon.signal("-TERM");
    assert_eq!(daemon.wait().status.code(), Some(0));
}

#[test]
fn what_was_asked_before_the_end_is_answered() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(&["--data-dir", folder.path().to_str().unwrap()]);
    let mut peer = daemon.connect("peer");
    for correlation in 0..100 {
        peer.send(|out| encode_request(correlation, &[b"SET", b"k", b"v"], out));
    }
    // The first answer shows that requests are being executed.
    assert!(matches!(peer.receive(), Some(Packet::PubAck(_))));
    daemon.signal("-TERM");
    let mut acknowledged = 1;
    let mut answered = 0;
    loop {
        match peer.receive() {
            Some(Packet::PubAck(_)) => acknowledged += 1,
            Some(Packet::Publish(_)) => answered += 1,
            Some(Packet::Disconnect(disconnect)) => {
                assert_eq!(disconnect.reason, ReasonCode::SERVER_SHUTTING_DOWN);
                break;
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(acknowledged, answered);
    assert_eq!(daemon.wait().status.code(), Some(0));
}
