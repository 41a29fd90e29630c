//! The limit of the file size (`ulimit -f`): a write beyond it is a full disk.
use crate::peer::{Daemon, TIMEOUT, encode_request, statestored};
use std::process::Command;
use std::time::{Duration, Instant};
use tempfile::tempdir;

/// Limits files to 2 MiB, in the units of `sh`.
const SCRIPT: &str = "ulimit -f 4096; exec \"$0\" \"$@\"";

#[test]
fn a_write_beyond_the_file_size_limit_makes_the_store_read_only() {
    let folder = tempdir().unwrap();
    let arguments = ["--data-dir", folder.path().to_str().unwrap()];
    let daemon = Daemon::start_through(&["sh", "-c", SCRIPT], &arguments);
    let mut peer = daemon.connect("peer");
    assert_eq!(peer.request(1, &[b"SET", b"old", b"1"]), b"+OK\r\n");
    let mut writer = daemon.connect("writer");
    let value = vec![b'.'; 3 << 20];
    writer.send(|out| encode_request(2, &[b"SET", b"large", &value], out));
    let begin = Instant::now();
    for number in 3.. {
        // A write that comes before the refusal waits for room: it gets no answer.
        let mut probe = daemon.connect(&format!("probe-{number}"));
        let patience = Some(Duration::from_millis(200));
        probe.stream.set_read_timeout(patience).unwrap();
        probe.send(|out| encode_request(number, &[b"SET", b"other", b"1"], out));
        let reply = probe.try_answer().unwrap_or_default();
        let text = String::from_utf8_lossy(&reply);
        if text.contains("disk is full") {
            break;
        }
        assert!(begin.elapsed() < TIMEOUT, "still {text:?}");
    }
    assert_eq!(peer.request(2_000, &[b"GET", b"old"]), b"$1\r\n1\r\n");
    daemon.signal("-KILL");
    let log = String::from_utf8(daemon.wait().stderr).unwrap();
    assert!(
        log.contains("raise the limit of the file size (`ulimit -f`"),
        "{log}"
    );

    let daemon = Daemon::start(&arguments);
    let mut peer = daemon.connect("peer");
    assert_eq!(peer.request(5, &[b"GET", b"old"]), b"$1\r\n1\r\n");
    assert_eq!(peer.request(6, &[b"SET", b"large", &value]), b"+OK\r\n");
}

#[test]
fn a_tool_that_exceeds_the_file_size_limit_reports_an_error() {
    let folder = tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let data = path("data");
    let daemon = Daemon::start(&["--data-dir", &data]);
    let mut peer = daemon.connect("peer");
    let value = vec![b'.'; 3 << 20];
    assert_eq!(peer.request(1, &[b"SET", b"large", &value]), b"+OK\r\n");
    daemon.signal("-TERM");
    daemon.wait();
    let mut shell = Command::new("sh");
    shell.args(["-c", SCRIPT]);
    shell.arg(statestored(&[]).get_program());
    let copied = shell.args(["backup", "--data-dir", &data, &path("backup")]);
    let copied = copied.output().unwrap();
    assert_eq!(copied.status.code(), Some(1), "{copied:?}");
    let text = String::from_utf8_lossy(&copied.stderr);
    assert!(text.contains("raise the limit of the file size"), "{text}");
}
