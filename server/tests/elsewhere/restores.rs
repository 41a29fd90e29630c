//! Restores of backups into an engine.
use super::backups::{SLACK, expiry_of, tool, version};
use super::{Engine, block_on, connect_to, signal, value};
use futures_util::future::join_all;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::Signal;
use statestore::{Client, Expiry, GetOptions, Hlc, Outcome, SetOptions};
use statestored::RunningServer;
use statestored::config::Config;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tempfile::TempDir;

const KEYS: usize = 3_000;

/// Bytes of a backup that a tool has read before they fit into its buffer and a pipe.
const BUFFERED: usize = 1 << 20;

/// A backup of a data folder, and what it contains.
struct Source {
    folder: TempDir,
    backup: PathBuf,
    now_ms: u64,
    /// The highest version of a deletion, ahead of all clocks.
    floor: (u64, u64),
}

impl Source {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let now_ms = u64::try_from(now.as_millis()).unwrap();
        let floor = (now_ms + 45_000, 7);
        let version = |ms: u64, counter: u64| format!("{ms:015}:{counter:05}:StateStore");
        let mut text = format!(
            "{{\"statestore_export\":1,\"made\":\"2026-11-22T19:32:04.250Z\",\"records\":{},\"floor\":\"{}\"}}\n",
            KEYS + 3,
            version(floor.0, floor.1)
        );
        for key in 0..KEYS {
            let (value, version) = ("v".repeat(1_000), version(now_ms - 5_000, key as u64));
            writeln!(
                text,
                "{{\"key\":\"key-{key}\",\"value\":\"{key} {value}\",\"version\":\"{version}\"}}"
            )
            .unwrap();
        }
        let version = version(now_ms - 4_000, 1);
        for (key, more) in [
            (
                "ends",
                format!(
                    "\"expiry\":{{\"at_ms\":{},\"ttl_ms\":900000}}",
                    now_ms + 300_000
                ),
            ),
            (
                "ended",
                format!("\"expiry\":{{\"at_ms\":{},\"ttl_ms\":900000}}", now_ms - 1),
            ),
            ("fenced", format!("\"fence\":\"{now_ms:015}:00003:holder\"")),
        ] {
            writeln!(
                text,
                "{{\"key\":\"{key}\",\"value\":\"\",\"version\":\"{version}\",{more}}}"
            )
            .unwrap();
        }
        let lines = folder.path().join("state.jsonl");
        std::fs::write(&lines, text).unwrap();
        let (data, backup) = (folder.path().join("data"), folder.path().join("backup"));
        tool(&["import", path(&lines), "--data-dir", path(&data)]);
        tool(&["backup", "--data-dir", path(&data), path(&backup)]);
        Self {
            folder,
            backup,
            now_ms,
            floor,
        }
    }

    /// Begins a restore that has read a part of the backup, and waits for the rest.
    fn begin_restore(&self, url: &str) -> (Child, File) {
        let pipe = self.folder.path().join("pipe");
        // A former test may have left it.
        let _ = std::fs::remove_file(&pipe);
        mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let child = restore(&pipe, url).stdout(Stdio::null()).spawn().unwrap();
        let mut writer = OpenOptions::new().write(true).open(&pipe).unwrap();
        let bytes = std::fs::read(&self.backup).unwrap();
        writer.write_all(&bytes[..BUFFERED]).unwrap();
        (child, writer)
    }
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn restore(backup: &Path, url: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_statestored"));
    command.arg("restore").arg(backup).args(["--storage", url]);
    command
}

#[track_caller]
fn refusal(output: &Output) -> String {
    assert!(!output.status.success(), "{output:?}");
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Returns all keys.
async fn keys(client: &Client) -> BTreeSet<Vec<u8>> {
    let mut keys = BTreeSet::new();
    let mut scan = client.scan("*");
    while let Some(page) = scan.next_page().await.unwrap() {
        keys.extend(page.iter().map(|key| key.to_vec()));
    }
    keys
}

/// Checks that both serve the same.
async fn assert_same(client: &Client, other: &Client) {
    let keys = keys(client).await;
    assert_eq!(keys, self::keys(other).await);
    assert_eq!(keys.len(), KEYS + 2);
    let remaining = GetOptions::new().remaining(true);
    let keys: Vec<_> = keys.into_iter().collect();
    for some in keys.chunks(100) {
        let here = some.iter().map(|key| client.get_with(&key[..], &remaining));
        let there = some.iter().map(|key| other.get_with(&key[..], &remaining));
        for (here, there) in join_all(here).await.into_iter().zip(join_all(there).await) {
            let (here, there) = (here.unwrap().unwrap(), there.unwrap().unwrap());
            assert_eq!((&here.value, &here.version), (&there.value, &there.version));
            let is_endless = |expiry: &Expiry| matches!(expiry, Expiry::Never);
            assert_eq!(is_endless(&here.expires_in), is_endless(&there.expires_in));
        }
    }
    let (here, there) = (
        expiry_of(client, "ends").await,
        expiry_of(other, "ends").await,
    );
    assert!(there.0 <= here.1 + SLACK, "{here:?}, {there:?}");
    // A server of an engine counts the rest from when it first sees the entry.
    let unseen = Duration::from_secs(300);
    assert!(here.0 <= there.1 + SLACK + unseen, "{here:?}, {there:?}");
}

pub(crate) fn a_backup_is_served_from_an_engine_as_from_a_data_folder<E: Engine>() {
    let source = Source::new();
    let engine = E::start();
    let folder = source.folder.path().join("restored");
    let backup = path(&source.backup);
    let output = tool(&["restore", backup, "--storage", &engine.url("test")]);
    assert!(
        output.starts_with(&format!("{} records are in ", KEYS + 3)),
        "{output}"
    );
    tool(&["restore", backup, "--data-dir", path(&folder)]);
    let shared = RunningServer::start(engine.config("test")).unwrap();
    let own = RunningServer::start(Config::durable(&folder)).unwrap();
    block_on(async {
        let (shared_client, own_client) = (connect_to(&shared).await, connect_to(&own).await);
        assert_same(&shared_client, &own_client).await;

        // From one engine into another prefix.
        let file = source.folder.path().join("second.backup");
        let control = shared.handle();
        let to = file.clone();
        let written =
            tokio::task::spawn_blocking(move || control.backup_to_file_blocking(&to, false));
        written.await.unwrap().unwrap();
        tool(&["restore", path(&file), "--storage", &engine.url("second")]);
        let second = RunningServer::start(engine.config("second")).unwrap();
        assert_same(&connect_to(&second).await, &own_client).await;
        second.stop().unwrap();

        for client in [&shared_client, &own_client] {
            assert_eq!(value(client, "ended").await, None);
            let fence = Hlc::new(source.now_ms, 3, "holder").unwrap();
            let older = Hlc::new(source.now_ms, 2, "holder").unwrap();
            let with = |fence| SetOptions::new().fencing_token(fence);
            for refused in [SetOptions::new(), with(older)] {
                let error = client.set_with("fenced", "x", &refused).await.unwrap_err();
                assert_eq!(error.outcome(), Outcome::NotDone, "{error}");
            }
            version(client, "fenced", &with(fence)).await;
            // All versions rise above those of deletions.
            let next = version(client, "new", &SetOptions::new()).await;
            assert!((next.wall_ms(), next.counter()) > source.floor, "{next:?}");
        }
    });
    shared.stop().unwrap();
    own.stop().unwrap();
}

pub(crate) fn a_restore_that_is_refused_or_fails_changes_nothing<E: Engine>() {
    let source = Source::new();
    let engine = E::start();
    let server = RunningServer::start(engine.config("test")).unwrap();
    block_on(async {
        let client = connect_to(&server).await;
        client.set("key-1", "own").await.unwrap();
        let refused = restore(&source.backup, &engine.url("test")).output();
        let error = refusal(&refused.unwrap());
        assert!(error.contains("there is a store already"), "{error}");
        assert_eq!(value(&client, "key-1").await.as_deref(), Some("own"));
        assert_eq!(value(&client, "key-2").await, None);
    });
    server.stop().unwrap();

    let bytes = std::fs::read(&source.backup).unwrap();
    let cut = source.folder.path().join("cut");
    std::fs::write(&cut, &bytes[..bytes.len() - 1]).unwrap();
    let error = refusal(&restore(&cut, &engine.url("cut")).output().unwrap());
    assert!(error.contains("is damaged"), "{error}");
    let (child, mut writer) = source.begin_restore(&engine.url("cut"));
    signal(&child, Signal::INT);
    // The tool may have closed the pipe.
    let _ = writer.write_all(&bytes[BUFFERED..]);
    drop(writer);
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(130));
    let server = RunningServer::start(engine.config("cut")).unwrap();
    block_on(async {
        let client = connect_to(&server).await;
        assert!(keys(&client).await.is_empty());
    });
    server.stop().unwrap();

    let mut both = restore(&source.backup, &engine.url("both"));
    both.args(["--data-dir", "nowhere"]);
    let error = refusal(&both.output().unwrap());
    assert!(error.contains("cannot be used with"), "{error}");
    let error = refusal(&restore(&source.backup, "memory").output().unwrap());
    assert!(error.contains("expected etcd://HOST:PORT"), "{error}");
}

pub(crate) fn a_server_rejects_a_store_that_a_restore_did_not_finish<E: Engine>() {
    let source = Source::new();
    let engine = E::start();
    let (mut child, writer) = source.begin_restore(&engine.url("test"));
    let start = || RunningServer::start(engine.config("test"));
    let rejected = || {
        let error = start().unwrap_err().to_string();
        assert!(error.contains("has not filled it completely"), "{error}");
    };
    rejected();
    signal(&child, Signal::KILL);
    child.wait().unwrap();
    drop(writer);
    rejected();
    // A second restore takes the place of one that has not ended.
    let (child, mut writer) = source.begin_restore(&engine.url("test"));
    tool(&[
        "restore",
        path(&source.backup),
        "--storage",
        &engine.url("test"),
    ]);
    let bytes = std::fs::read(&source.backup).unwrap();
    // The tool may have closed the pipe.
    let _ = writer.write_all(&bytes[BUFFERED..]);
    drop(writer);
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(1));
    let server = start().unwrap();
    block_on(async {
        let client = connect_to(&server).await;
        assert_eq!(keys(&client).await.len(), KEYS + 2);
    });
    server.stop().unwrap();
}
