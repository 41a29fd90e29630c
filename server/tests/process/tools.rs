//! The tools for data, as an operator uses them.
use crate::disk::Disk;
use crate::peer::{Daemon, statestored};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::{TempDir, tempdir};

/// Runs a tool that has to succeed, and returns its output.
pub(crate) fn run(arguments: &[&str]) -> String {
    let Output {
        status,
        stdout,
        stderr,
    } = statestored(arguments).output().unwrap();
    let text = String::from_utf8_lossy(&stderr).into_owned();
    assert!(status.success(), "{arguments:?}: {text}");
    String::from_utf8(stdout).unwrap()
}

/// Runs a tool that has to fail. Returns its exit code and its error message of one line.
pub(crate) fn fail(arguments: &[&str]) -> (i32, String) {
    let Output {
        status,
        stdout,
        stderr,
    } = statestored(arguments).output().unwrap();
    let text = String::from_utf8(stderr).unwrap();
    assert!(stdout.is_empty(), "{arguments:?}");
    assert!(text.starts_with("statestored: "), "{text}");
    assert_eq!(text.lines().count(), 1, "{text}");
    (status.code().unwrap(), text)
}

/// The records of a data folder or backup as lines.
pub(crate) fn export(source: &[&str]) -> BTreeSet<String> {
    let text = run(&[&["export"], source].concat());
    let mut lines = text.lines().map(str::to_owned);
    let header: Value = serde_json::from_str(&lines.next().unwrap()).unwrap();
    let lines: BTreeSet<_> = lines.collect();
    assert_eq!(header["records"], lines.len());
    lines
}

/// Folders and files of one test.
pub(crate) struct TestFolder(TempDir);

impl TestFolder {
    pub(crate) fn new() -> Self {
        Self(tempdir().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().into()
    }

    /// Creates a data folder with this many records of about a kilobyte.
    pub(crate) fn fill(&self, name: &str, records: usize) -> String {
        let file = self.path("fill.jsonl");
        let mut lines =
            format!("{{\"statestore_export\":1,\"made\":\"\",\"records\":{records}}}\n");
        for number in 0..records {
            let value = format!("{number} ").repeat(200);
            let version = 1_700_000_000_000 + number;
            writeln!(lines, "{{\"key\":\"key-{number}\",\"value\":\"{value}\",\"version\":\"{version}:0:StateStore\"}}").unwrap();
        }
        fs::write(&file, lines).unwrap();
        let folder = self.text(name);
        run(&["import", file.to_str().unwrap(), "--data-dir", &folder]);
        folder
    }
}

#[test]
fn a_store_round_trips_through_backup_and_export() {
    let place = TestFolder::new();
    let (data, backup) = (place.text("data"), place.text("backup"));
    let daemon = Daemon::start(&["--data-dir", &data]);
    let mut peer = daemon.connect("writer");
    let ok = b"+OK\r\n";
    assert_eq!(
        peer.request(1, &[b"SET", b"text", b"hello \"w\xc3\xb6rld\"\n"]),
        ok
    );
    assert_eq!(peer.request(2, &[b"SET", b"\x00\xff", b"\xfe\x00"]), ok);
    assert_eq!(
        peer.request(3, &[b"SET", b"lease", b"", b"PX", b"3600000"]),
        ok
    );
    assert_eq!(peer.request(4, &[b"SET", b"gone", b"1"]), ok);
    assert_eq!(peer.request(5, &[b"DEL", b"gone"]), b":1\r\n");
    daemon.signal("-TERM");
    assert!(daemon.wait().status.success());

    let said = run(&["backup", "--data-dir", &data, &backup]);
    assert_eq!(said, format!("3 records are in {backup}\n"));
    let restored = place.text("new/restored");
    run(&["restore", &backup, "--data-dir", &restored]);
    let text = place.path("text");
    fs::write(&text, run(&["export", &backup])).unwrap();
    let imported = place.text("imported");
    run(&["import", text.to_str().unwrap(), "--data-dir", &imported]);

    let expected = export(&["--data-dir", &data]);
    assert_eq!(expected.len(), 3);
    assert!(
        expected
            .iter()
            .any(|line| line.contains(r#""key":"text","value":"hello \"wörld\"\n""#))
    );
    assert!(
        expected
            .iter()
            .any(|line| line.contains(r#""key_base64":"AP8=","value_base64":"/gA=""#))
    );
    assert!(
        expected
            .iter()
            .any(|line| line.contains(r#""ttl_ms":3600000}"#))
    );
    for source in [
        &[backup.as_str()][..],
        &["--data-dir", &restored],
        &["--data-dir", &imported],
    ] {
        assert_eq!(export(source), expected, "{source:?}");
    }
    for path in [&data, &backup, &restored, &imported] {
        assert_eq!(
            run(&["check", path]),
            format!("{path} is as it was written: 3 records\n")
        );
    }
    for folder in [&restored, &imported] {
        let daemon = Daemon::start(&["--data-dir", folder]);
        let mut peer = daemon.connect("reader");
        assert_eq!(
            peer.request(1, &[b"GET", b"\x00\xff"]),
            b"$2\r\n\xfe\x00\r\n"
        );
        assert_eq!(peer.request(2, &[b"GET", b"gone"]), b"$-1\r\n");
        assert_eq!(peer.request(3, &[b"SET", b"more", b"1"]), ok);
        daemon.signal("-TERM");
        assert!(daemon.wait().status.success());
        assert_eq!(export(&["--data-dir", folder]).len(), 4);
    }
}

#[test]
fn a_folder_in_use_is_refused() {
    let place = TestFolder::new();
    let backup = place.text("backup");
    let other = place.fill("other", 1);
    run(&["backup", "--data-dir", &other, &backup]);
    let lines = place.text("fill.jsonl");
    let data = place.text("data");
    let daemon = Daemon::start(&["--data-dir", &data]);
    for arguments in [
        &["check", &data][..],
        &["compact", &data],
        &["export", "--data-dir", &data],
        &["backup", "--data-dir", &data, &place.text("never")],
        &["import", &lines, "--data-dir", &data, "--merge"],
    ] {
        let (code, text) = fail(arguments);
        assert!(text.contains("in use by another process"), "{text}");
        let is_check = arguments[0] == "check";
        assert!(
            is_check || text.contains("statestore admin backup"),
            "{text}"
        );
        assert_eq!(code, if is_check { 2 } else { 1 }, "{arguments:?}");
    }
    for arguments in [
        &["restore", &backup, "--data-dir", &data][..],
        &["import", &lines, "--data-dir", &data],
    ] {
        assert!(
            fail(arguments).1.contains("directory not empty"),
            "{arguments:?}"
        );
    }
    assert!(!place.path("never").exists());
    let mut peer = daemon.connect("writer");
    assert_eq!(peer.request(1, &[b"SET", b"k", b"v"]), b"+OK\r\n");
}

#[test]
fn damage_is_reported_with_its_position_and_creates_nothing() {
    let place = TestFolder::new();
    let data = place.fill("data", 600);
    let backup = place.text("backup");
    run(&["backup", "--data-dir", &data, &backup]);
    let whole = fs::read(&backup).unwrap();
    let mut damaged = whole.clone();
    let at = damaged.len() * 3 / 4;
    damaged[at] ^= 0x10;
    fs::write(&backup, &damaged).unwrap();
    let folder = place.text("restored");
    let (code, text) = fail(&["restore", &backup, "--data-dir", &folder]);
    assert!(code == 1 && text.contains("is damaged at byte "), "{text}");
    assert!(!place.path("restored").exists());
    let (code, text) = fail(&["export", &backup]);
    assert!(code == 1 && text.contains("is damaged at byte "), "{text}");

    let checked = statestored(&["check", "--json", &backup]).output().unwrap();
    assert_eq!(checked.status.code(), Some(1));
    let report: Value = serde_json::from_slice(&checked.stdout).unwrap();
    assert_eq!(report["fine"], false);
    assert_eq!(report["files"], 1);
    assert_eq!(report["bytes"], damaged.len());
    assert_eq!(report["kind"], "backup");
    assert_eq!(report["damage"][0]["file"], *backup);
    let offset = report["damage"][0]["offset"].as_u64().unwrap();
    assert!(offset > 300 && offset <= at as u64, "{report}");

    // Each damaged file of a folder is named, not only the first one.
    for file in ["base-2", "log-3"] {
        let path = place.path("data").join(file);
        let mut bytes = fs::read(&path).unwrap();
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        fs::write(&path, bytes).unwrap();
    }
    fs::write(place.path("data").join("notes.txt"), "mine").unwrap();
    let checked = statestored(&["check", &data]).output().unwrap();
    assert_eq!(checked.status.code(), Some(1));
    let text = String::from_utf8(checked.stdout).unwrap();
    for hint in [
        "base-2 is damaged: frame ",
        "log-3 is damaged",
        "notes.txt is not needed",
    ] {
        assert!(text.contains(hint), "{hint:?} is not in {text}");
    }
    let checked = statestored(&["check", "--json", &data]).output().unwrap();
    let report: Value = serde_json::from_slice(&checked.stdout).unwrap();
    assert!(
        report["bytes"].as_u64() > Some(damaged.len() as u64),
        "{report}"
    );
    let (code, text) = fail(&["check", &place.text("nowhere")]);
    assert!(code == 2 && text.contains("nowhere"), "{text}");
}

/// A restore that has read the first half of a backup, from a pipe.
fn half_restored(place: &TestFolder, backup: &[u8], folder: &str) -> (std::process::Child, File) {
    let pipe = place.path("pipe");
    let _ = fs::remove_file(&pipe);
    assert!(
        Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .unwrap()
            .success()
    );
    let child = statestored(&["restore", pipe.to_str().unwrap(), "--data-dir", folder])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut feed = File::options().write(true).open(&pipe).unwrap();
    // Once more than the pipe and its buffers hold has been taken, the rest is being restored.
    feed.write_all(&backup[..backup.len() / 2]).unwrap();
    (child, feed)
}

#[test]
fn a_killed_restore_leaves_no_store_and_can_be_repeated() {
    let place = TestFolder::new();
    let data = place.fill("data", 3_000);
    let backup = place.text("backup");
    run(&["backup", "--data-dir", &data, &backup]);
    let bytes = fs::read(&backup).unwrap();
    assert!(bytes.len() > 2 << 20, "{}", bytes.len());
    let folder = place.text("restored");
    let (mut child, _feed) = half_restored(&place, &bytes, &folder);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(place.path("restored").join("unfinished").exists());

    let (code, text) = fail(&[
        "--data-dir",
        &folder,
        "--listen",
        "tcp://127.0.0.1:0",
        "--log",
        "error",
    ]);
    assert!(code == 1 && text.contains("did not finish"), "{text}");
    let (_, text) = fail(&["export", "--data-dir", &folder]);
    assert!(text.contains("is not a data directory"), "{text}");
    run(&["restore", &backup, "--data-dir", &folder]);
    assert_eq!(
        export(&["--data-dir", &folder]),
        export(&["--data-dir", &data])
    );
    let names = |path: &Path| fs::read_dir(path).unwrap().count();
    assert_eq!(names(&place.path("restored")), names(&place.path("data")));
}

#[test]
fn an_interrupted_restore_leaves_nothing() {
    let place = TestFolder::new();
    let data = place.fill("data", 3_000);
    let backup = place.text("backup");
    run(&["backup", "--data-dir", &data, &backup]);
    let bytes = fs::read(&backup).unwrap();
    let folder = place.text("deep/restored");
    let (mut child, mut feed) = half_restored(&place, &bytes, &folder);
    let id = child.id().to_string();
    assert!(
        Command::new("kill")
            .args(["-INT", &id])
            .status()
            .unwrap()
            .success()
    );
    // The tool stops at the next frame, so it does not read everything.
    let taken = feed.write_all(&bytes[bytes.len() / 2..]);
    drop(feed);
    assert!(taken.is_err(), "it went on");
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let mut said = String::new();
    BufReader::new(child.stderr.take().unwrap())
        .read_line(&mut said)
        .unwrap();
    assert_eq!(said, "statestored: interrupted, nothing was changed\n");
    assert!(!place.path("deep").exists());
}

#[test]
fn a_single_record_is_counted_in_the_singular() {
    let place = TestFolder::new();
    let data = place.fill("data", 1);
    let backup = place.text("backup");
    let said = run(&["backup", "--data-dir", &data, &backup]);
    assert_eq!(said, format!("1 record is in {backup}\n"));
    let said = run(&["check", &backup]);
    assert_eq!(said, format!("{backup} is as it was written: 1 record\n"));
}

#[test]
fn existing_files_are_not_overwritten() {
    let place = TestFolder::new();
    let data = place.fill("data", 2);
    let backup = place.text("backup");
    fs::write(&backup, "precious").unwrap();
    let (code, text) = fail(&["backup", "--data-dir", &data, &backup]);
    assert!(code == 1 && text.contains("exists"), "{text}");
    assert_eq!(fs::read(&backup).unwrap(), b"precious");
    run(&["backup", "--force", "--data-dir", &data, &backup]);
    assert_eq!(
        run(&["check", &backup]),
        format!("{backup} is as it was written: 2 records\n")
    );

    let taken = place.path("taken");
    fs::create_dir(&taken).unwrap();
    fs::write(taken.join("letter.txt"), "Dear all").unwrap();
    let (code, text) = fail(&["restore", &backup, "--data-dir", taken.to_str().unwrap()]);
    assert!(code == 1 && text.contains("letter.txt"), "{text}");
    assert_eq!(fs::read_dir(&taken).unwrap().count(), 1);
    // A folder that was there before stays when something goes wrong.
    let empty = place.path("empty");
    fs::create_dir(&empty).unwrap();
    fs::write(&backup, &fs::read(&backup).unwrap()[..400]).unwrap();
    fail(&["restore", &backup, "--data-dir", empty.to_str().unwrap()]);
    assert_eq!(fs::read_dir(&empty).unwrap().count(), 0);
}

#[test]
fn a_full_disk_leaves_no_partial_files() {
    let place = TestFolder::new();
    let data = place.fill("data", 3_000);
    let backup = place.text("backup");
    run(&["backup", "--data-dir", &data, &backup]);
    let small = place.path("small");
    fs::create_dir(&small).unwrap();
    let disk = Disk::under(&small);
    let small_text = small.to_str().unwrap();
    let other = small.join("backup");
    for arguments in [
        &["restore", &backup, "--data-dir", small_text][..],
        &["backup", "--data-dir", &data, other.to_str().unwrap()],
    ] {
        disk.set(&[("capacity", 1 << 20)]);
        let output = statestored(arguments)
            .envs(disk.variables())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(text.contains("free some space on this disk"), "{text}");
        assert_eq!(fs::read_dir(&small).unwrap().count(), 0, "{arguments:?}");
    }
    disk.set(&[]);
    let output = statestored(&["restore", &backup, "--data-dir", small_text])
        .envs(disk.variables())
        .output()
        .unwrap();
    assert!(output.status.success());
    assert_eq!(
        export(&["--data-dir", small_text]),
        export(&["--data-dir", &data])
    );
}

#[test]
fn compaction_keeps_each_record_once() {
    let place = TestFolder::new();
    let data = place.text("data");
    let daemon = Daemon::start(&["--data-dir", &data]);
    let mut peer = daemon.connect("writer");
    for number in 0..2_000_u64 {
        let key = format!("key-{}", number % 10);
        let value = number.to_string().repeat(50);
        assert_eq!(
            peer.request(number, &[b"SET", key.as_bytes(), value.as_bytes()]),
            b"+OK\r\n"
        );
    }
    daemon.signal("-KILL");
    daemon.wait();
    let before = export(&["--data-dir", &data]);
    assert_eq!(before.len(), 10);
    let said = run(&["compact", &data]);
    let numbers: Vec<u64> = said
        .split(' ')
        .filter_map(|word| word.parse().ok())
        .collect();
    assert!(
        numbers.len() == 2 && numbers[0] > 400_000 && numbers[1] < 10_000,
        "{said}"
    );
    assert_eq!(export(&["--data-dir", &data]), before);
    let daemon = Daemon::start(&["--data-dir", &data]);
    assert_eq!(
        daemon.connect("writer").request(1, &[b"SET", b"k", b"v"]),
        b"+OK\r\n"
    );
    drop(daemon);
    let (code, text) = fail(&["compact", &place.text("nowhere")]);
    assert!(code == 1 && text.contains("nowhere"), "{text}");
    assert!(!place.path("nowhere").exists());
}
