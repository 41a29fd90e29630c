//! How the process ends.
use crate::disk::Disk;
use crate::peer::{Daemon, TIMEOUT, encode_request, statestored};
use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat};
use statestore_protocol::mqtt::{Packet, ReasonCode};
use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Output, Stdio};
use std::sync::mpsc::channel;
use std::time::Instant;

#[test]
fn signals_stop_the_server_cleanly() {
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
fn end_of_standard_input_stops_the_server_if_configured() {
    let arguments = ["--storage", "memory", "--listen", "tcp://127.0.0.1:0"];
    let start = |more: &[&str]| {
        let mut command = statestored(&[&arguments, more].concat());
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let stdout = child.stdout.as_mut().unwrap();
        BufReader::new(stdout).read_line(&mut line).unwrap();
        assert!(line.starts_with("listening on tcp://"), "{line:?}");
        child
    };
    let mut child = start(&["--stop-with-stdin"]);
    let mut input = child.stdin.take().unwrap();
    input.write_all(b"input is ignored\n").unwrap();
    assert!(child.try_wait().unwrap().is_none());
    drop(input);
    assert_eq!(child.wait().unwrap().code(), Some(0));

    let mut other = start(&[]);
    drop(other.stdin.take());
    other.kill().unwrap();
    let status = other.wait().unwrap();
    assert_eq!(status.signal(), Some(9), "{status}");
}

#[test]
fn a_client_that_does_not_read_does_not_block_shutdown() {
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
fn requests_received_before_shutdown_are_answered() {
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

/// The end of a process, which may not come.
fn ended(daemon: Daemon) -> Output {
    let (told, ended) = channel();
    std::thread::spawn(move || told.send(daemon.wait()));
    ended.recv_timeout(TIMEOUT).unwrap()
}

#[test]
fn a_stalled_disk_does_not_block_shutdown() {
    let folder = tempfile::tempdir().unwrap();
    let disk = Disk::under(folder.path());
    let data = ["--data-dir", folder.path().to_str().unwrap()];
    let daemon = Daemon::start_on(&disk, &[&data[..], &["--stop-timeout", "1"]].concat());
    let mut peer = daemon.connect("peer");
    assert_eq!(
        peer.request(1, &[b"SET", b"acknowledged", b"1"]),
        b"+OK\r\n"
    );
    disk.set(&[("sync_delay_ms", 24 * 3600 * 1000)]);
    peer.send(|out| encode_request(2, &[b"SET", b"other", b"1"], out));
    peer.assert_alive();
    daemon.signal("-TERM");
    let output = ended(daemon);
    // No packet before it may report that the other request was executed.
    match peer.receive() {
        Some(Packet::Disconnect(it)) => {
            assert_eq!(it.reason, ReasonCode::IMPLEMENTATION_SPECIFIC_ERROR);
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(output.status.code(), Some(1));
    let log = String::from_utf8(output.stderr).unwrap();
    assert!(log.contains("the disk does not answer"), "{log}");
    let daemon = Daemon::start(&data);
    let mut peer = daemon.connect("peer");
    let held = peer.request(1, &[b"GET", b"acknowledged"]);
    assert_eq!(held, b"$1\r\n1\r\n");
}

/// Makes more lines than a pipe and the server keep: of each client that sends what is no packet the log has the name.
fn fill_log(daemon: &Daemon) {
    let name = "n".repeat(1_000);
    for _ in 0..1_500 {
        let mut client = daemon.connect(&name);
        client.stream.write_all(&[0, 0]).unwrap();
        assert_eq!(client.disconnected(), ReasonCode::MALFORMED_PACKET);
    }
}

#[test]
fn an_unread_log_does_not_block_the_server() {
    let daemon = Daemon::start(&["--storage", "memory", "--log", "debug"]);
    fill_log(&daemon);
    daemon.signal("-TERM");
    // Only now, what the pipe has is read.
    let output = ended(daemon);
    assert_eq!(output.status.code(), Some(0));
    let log = String::from_utf8(output.stderr).unwrap();
    assert!(log.contains("disconnecting a client"), "{log}");
}

#[test]
fn omitted_log_lines_are_reported() {
    let mut daemon = Daemon::start(&["--storage", "memory", "--log", "debug"]);
    fill_log(&daemon);
    daemon.until_logged(&[
        "standard error was not read: lines of the log are missing",
        "lines=",
    ]);
    daemon.connect("peer").assert_alive();
}

#[test]
fn a_stalled_reload_is_logged_and_does_not_block_shutdown() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("users");
    std::fs::write(&file, "ann:secret\n").unwrap();
    let path = file.to_str().unwrap();
    let mut daemon = Daemon::start(&["--storage", "memory", "--users-file", path]);
    // Something that can be opened and never gives anything, like a file of a server that is away.
    std::fs::remove_file(&file).unwrap();
    mknodat(CWD, &file, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    daemon.signal("-HUP");
    let begin = Instant::now();
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let other_end = loop {
        let mut other_end = OpenOptions::new();
        // Fails until a process reads.
        match other_end.write(true).custom_flags(flags).open(&file) {
            Ok(other_end) => break other_end,
            Err(_) => assert!(begin.elapsed() < TIMEOUT, "nobody reads"),
        }
        std::thread::yield_now();
    };
    daemon.until_logged(&["a reload waits for", path]);
    daemon.signal("-TERM");
    assert_eq!(ended(daemon).status.code(), Some(0));
    drop(other_end);
}
