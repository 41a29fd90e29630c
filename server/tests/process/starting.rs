//! How the process starts, and what it warns of.
use crate::disk::Disk;
use crate::peer::{Daemon, TIMEOUT, statestored};
use std::fs::{Permissions, set_permissions, write};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::time::Instant;
use tempfile::tempdir;

#[test]
fn a_signal_stops_startup_and_connections_wait_for_it() {
    let folder = tempdir().unwrap();
    let disk = Disk::under(folder.path());
    // Making a new store takes a few syncs, and with this disk longer than any test.
    disk.set(&[("sync_delay_ms", 600_000)]);
    for signal in ["-TERM", "-INT"] {
        let mut child = statestored(&["--data-dir", folder.path().to_str().unwrap()])
            .args(["--listen", "tcp://127.0.0.1:0", "--log", "info"])
            .envs(disk.variables())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        while !line.contains("opening the data folder") {
            line.clear();
            assert_ne!(log.read_line(&mut line).unwrap(), 0, "the log ends");
        }
        let begin = Instant::now();
        let id = child.id().to_string();
        let killed = Command::new("kill").args([signal, &id]).status().unwrap();
        assert!(killed.success());
        assert_eq!(child.wait().unwrap().code(), Some(0), "{signal}");
        assert!(begin.elapsed() < TIMEOUT);
        let mut stdout = String::new();
        let mut end = child.stdout.take().unwrap();
        end.read_to_string(&mut stdout).unwrap();
        assert_eq!(stdout, "", "it never listened");
    }
}

/// Returns the log of a server whose file of users has these permissions and which also listens on `address`.
fn log(mode: u32, address: &str) -> String {
    let folder = tempdir().unwrap();
    let file = folder.path().join("users");
    write(&file, "ann:secret\n").unwrap();
    set_permissions(&file, Permissions::from_mode(mode)).unwrap();
    let daemon = Daemon::start(&[
        "--storage",
        "memory",
        "--listen",
        address,
        "--users-file",
        file.to_str().unwrap(),
    ]);
    daemon.signal("-TERM");
    String::from_utf8(daemon.wait().stderr).unwrap()
}

#[test]
fn a_world_readable_password_file_is_a_warning() {
    let text = log(0o644, "tcp://127.0.0.1:0");
    assert!(
        text.contains("WARN") && text.contains("chmod o-rw"),
        "{text}"
    );
    let text = log(0o640, "tcp://127.0.0.1:0");
    assert!(!text.contains("chmod"), "{text}");
    let in_clear = text.contains("WARN") && text.contains("statestored passwd");
    assert!(in_clear && text.contains("plain=1"), "{text}");
    assert!(!text.contains("secret"), "{text}");
}

#[test]
fn plain_passwords_on_a_network_are_a_warning() {
    let text = log(0o600, "tcp://0.0.0.0:0");
    assert!(
        text.contains("WARN") && text.contains("passwords") && text.contains("0.0.0.0"),
        "{text}"
    );
}

#[test]
#[cfg(target_os = "linux")]
fn core_dumps_are_disabled_by_default() {
    let soft_limit = |arguments: &[&str]| {
        let daemon = Daemon::start(arguments);
        let limits = std::fs::read_to_string(format!("/proc/{}/limits", daemon.id())).unwrap();
        let line = limits
            .lines()
            .find(|line| line.starts_with("Max core file size"))
            .unwrap();
        line.split_whitespace().nth(4).unwrap().to_owned()
    };
    assert_eq!(soft_limit(&["--storage", "memory"]), "0");
    let inherited = Command::new("sh")
        .args(["-c", "ulimit -c"])
        .output()
        .unwrap();
    let inherited = String::from_utf8(inherited.stdout).unwrap();
    let kept = soft_limit(&["--storage", "memory", "--core-dumps"]);
    assert_eq!(kept == "0", inherited.trim() == "0");
}
