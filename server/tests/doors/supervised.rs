//! The server as the service manager and its journal see it.
use crate::daemon::{Daemon, statestored};
use crate::tls_fixture::TIMEOUT;
use std::os::unix::net::UnixDatagram;
use std::path::Path;

/// The next message that has this line, and all of its lines.
fn message(socket: &UnixDatagram, line: &str) -> Vec<String> {
    let mut buffer = [0; 4096];
    loop {
        let count = socket.recv(&mut buffer).unwrap();
        let text = std::str::from_utf8(&buffer[..count]).unwrap();
        let lines: Vec<_> = text.lines().map(str::to_owned).collect();
        if lines.iter().any(|one| one == line) {
            return lines;
        }
    }
}

fn manager(folder: &Path) -> UnixDatagram {
    let socket = UnixDatagram::bind(folder.join("notify")).unwrap();
    socket.set_read_timeout(Some(TIMEOUT)).unwrap();
    socket
}

#[test]
fn systemd_is_notified_of_state_changes() {
    let folder = tempfile::tempdir().unwrap();
    let socket = manager(folder.path());
    let mut command = statestored();
    command
        .args(["--listen", "tcp://127.0.0.1:0"])
        .env("NOTIFY_SOCKET", folder.path().join("notify"))
        .env("WATCHDOG_USEC", "100000");
    let daemon = Daemon::spawn(command, 1);
    message(&socket, "READY=1");
    for _ in 0..3 {
        message(&socket, "WATCHDOG=1");
    }
    daemon.signal("-HUP");
    let reloading = message(&socket, "RELOADING=1");
    let since = reloading
        .iter()
        .find_map(|line| line.strip_prefix("MONOTONIC_USEC="));
    assert!(since.unwrap().parse::<u64>().unwrap() > 0);
    message(&socket, "READY=1");
    daemon.signal("-TERM");
    message(&socket, "STOPPING=1");
    assert!(daemon.wait());
}

#[test]
fn without_a_watchdog_interval_no_watchdog_messages_are_sent() {
    let folder = tempfile::tempdir().unwrap();
    let socket = manager(folder.path());
    let mut command = statestored();
    command
        .args(["--listen", "tcp://127.0.0.1:0"])
        .env("NOTIFY_SOCKET", folder.path().join("notify"))
        .env_remove("WATCHDOG_USEC");
    let daemon = Daemon::spawn(command, 1);
    daemon.signal("-TERM");
    assert!(daemon.wait());
    socket.set_nonblocking(true).unwrap();
    let mut buffer = [0; 4096];
    let mut all = String::new();
    while let Ok(count) = socket.recv(&mut buffer) {
        all.push_str(std::str::from_utf8(&buffer[..count]).unwrap());
    }
    assert!(
        all.contains("READY=1") && all.contains("STOPPING=1"),
        "{all}"
    );
    assert!(!all.contains("WATCHDOG"), "{all}");
}

/// All that is logged in this form from start to end; with a warning in it.
fn log(format: &str) -> Vec<String> {
    let mut command = statestored();
    command.args(["--listen", "tcp://0.0.0.0:0", "--allow-anonymous"]);
    command.args(["--log-format", format]);
    let daemon = Daemon::spawn(command, 1);
    daemon.signal("-TERM");
    daemon.rest_of_log()
}

#[test]
fn journal_lines_have_priorities_and_no_timestamps() {
    let lines = log("journal");
    assert!(lines.iter().any(|line| line == "<6>stopping"), "{lines:?}");
    let warning = lines
        .iter()
        .find(|line| line.starts_with("<4>every client"));
    assert!(warning.is_some(), "{lines:?}");
}

#[test]
fn lines_of_json_are_objects_with_level_and_message() {
    let lines = log("json");
    let mut levels = Vec::new();
    for line in &lines {
        let object: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(object["timestamp"].is_string() && object["message"].is_string());
        levels.push(object["level"].as_str().unwrap().to_owned());
    }
    assert!(
        levels.contains(&"WARN".into()) && levels.contains(&"INFO".into()),
        "{lines:?}"
    );
}
