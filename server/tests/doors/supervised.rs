//! The server as the service manager and its journal see it.
use crate::daemon::{Daemon, statestored};
use crate::tls_fixture::TIMEOUT;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

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

/// Returns the state of the main thread of a process, as `T` if it is stopped.
fn state(daemon: &Daemon) -> String {
    let stat = fs::read_to_string(format!("/proc/{}/stat", daemon.id())).unwrap();
    let (_, after_name) = stat.rsplit_once(") ").unwrap();
    after_name.split(' ').next().unwrap().to_owned()
}

#[test]
fn a_stopped_process_sends_no_watchdog_messages_until_it_continues() {
    const INTERVAL: Duration = Duration::from_millis(500);
    let folder = tempfile::tempdir().unwrap();
    let socket = manager(folder.path());
    let mut command = statestored();
    command
        .args(["--listen", "tcp://127.0.0.1:0"])
        .env("NOTIFY_SOCKET", folder.path().join("notify"))
        .env("WATCHDOG_USEC", INTERVAL.as_micros().to_string());
    let daemon = Daemon::spawn(command, 1);
    message(&socket, "WATCHDOG=1");
    daemon.signal("-STOP");
    while state(&daemon) != "T" {
        std::thread::yield_now();
    }
    // What was sent before the stop.
    socket.set_nonblocking(true).unwrap();
    let mut buffer = [0; 4096];
    while socket.recv(&mut buffer).is_ok() {}
    socket.set_nonblocking(false).unwrap();
    socket.set_read_timeout(Some(INTERVAL)).unwrap();
    let received = socket.recv(&mut buffer);
    assert_eq!(
        received.map_err(|error| error.kind()),
        Err(ErrorKind::WouldBlock)
    );
    daemon.signal("-CONT");
    socket.set_read_timeout(Some(TIMEOUT)).unwrap();
    for _ in 0..2 {
        message(&socket, "WATCHDOG=1");
    }
    daemon.signal("-TERM");
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

/// Runs a server whose standard error is a file, from its start to its end. Returns the entries that the journal received, and the
/// content of the file. `JOURNAL_STREAM` names an inode that differs by `inode_offset`.
fn journal_entries(inode_offset: u64, arguments: &[&str]) -> (Vec<String>, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let journal = UnixDatagram::bind(path("journal")).unwrap();
    let reader = std::thread::spawn(move || {
        let mut buffer = vec![0; 65_536];
        let mut entries = Vec::new();
        loop {
            let count = journal.recv(&mut buffer).unwrap();
            if count == 0 {
                return entries;
            }
            entries.push(String::from_utf8(buffer[..count].to_vec()).unwrap());
        }
    });
    let stderr = File::create(path("stderr")).unwrap();
    let status = stderr.metadata().unwrap();
    let stream = format!("{}:{}", status.dev(), status.ino() + inode_offset);
    let mut child = statestored()
        .args(["--log-format", "journal"])
        .args(arguments)
        .env("JOURNAL_STREAM", stream)
        .env("STATESTORE_TEST_JOURNAL", path("journal"))
        .stdout(Stdio::piped())
        .stderr(stderr)
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    if stdout.read_line(&mut line).unwrap() > 0 {
        let id = child.id().to_string();
        let status = Command::new("kill").args(["-TERM", &id]).status().unwrap();
        assert!(status.success());
    }
    child.wait().unwrap();
    let end = UnixDatagram::unbound().unwrap();
    end.send_to(b"", path("journal")).unwrap();
    let entries = reader.join().unwrap();
    (entries, fs::read_to_string(path("stderr")).unwrap())
}

const OPEN_LISTENER: [&str; 3] = ["--listen", "tcp://0.0.0.0:0", "--allow-anonymous"];

#[test]
fn the_journal_receives_entries_with_the_fields_of_events() {
    let (entries, stderr) = journal_entries(0, &OPEN_LISTENER);
    assert_eq!(stderr, "");
    let entry = |message: &str| {
        let begin = format!("MESSAGE={message}");
        let found = entries.iter().find(|entry| entry.starts_with(&begin));
        let lines = found.unwrap_or_else(|| panic!("{message}: {entries:?}"));
        lines.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let loaded = entry("the state is loaded keys=0 ");
    for line in [
        "PRIORITY=6",
        "SYSLOG_IDENTIFIER=statestored",
        "TARGET=statestored::keyspace_loader",
        "KEYS=0",
    ] {
        assert!(loaded.iter().any(|one| one == line), "{line}: {loaded:?}");
    }
    assert!(entry("every client").contains(&"PRIORITY=4".to_owned()));
    assert!(entry("stopping").contains(&"PRIORITY=6".to_owned()));
    let (entries, _) = journal_entries(0, &["--data-dir", "/dev/null"]);
    let last = entries.last().unwrap();
    assert!(last.starts_with("MESSAGE=statestored: "), "{last}");
    assert!(last.contains("\nPRIORITY=3\n"), "{last}");
}

#[test]
fn the_journal_receives_no_entries_if_it_does_not_read_standard_error() {
    let (entries, stderr) = journal_entries(1, &OPEN_LISTENER);
    assert!(entries.is_empty(), "{entries:?}");
    assert!(stderr.contains("<6>stopping\n"), "{stderr}");
}

#[test]
fn systemd_accepts_the_packaged_units() {
    let folder = tempfile::tempdir().unwrap();
    let packaging = Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging");
    for unit in ["statestored", "statestore-dapr"] {
        let name = format!("{unit}.service");
        let text = fs::read_to_string(packaging.join(&name)).unwrap();
        // The program does not have to be installed.
        let text = text.replace(
            &format!("ExecStart=/usr/bin/{unit} "),
            "ExecStart=/bin/true ",
        );
        let path = folder.path().join(&name);
        fs::write(&path, text).unwrap();
        let verified = Command::new("systemd-analyze")
            .args(["verify", "--man=no"])
            .arg(&path)
            .output()
            .expect("systemd-analyze runs");
        let problems = String::from_utf8_lossy(&verified.stderr).into_owned();
        let of_unit = problems.lines().filter(|line| line.contains(&name));
        assert_eq!(of_unit.collect::<Vec<_>>(), Vec::<&str>::new());
        assert!(verified.status.success(), "{problems}");
    }
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
