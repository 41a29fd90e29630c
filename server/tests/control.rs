//! Requests and commands to a running server.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
use bytes::BytesMut;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use statestore::{Client, Settings};
use statestore_protocol::mqtt::{Connect, Limits};
use statestored::access_files::read_users;
use statestored::config::{Config, ConfigError, ConfigSource, ProcessSettings};
use statestored::{ReloadError, RunningServer, ServerHandle, ServerStopped, SnapshotError};
use statestored_storage::backup::BackupReader;
use statestored_storage::{RecordReceiver, RecordView, StorageError};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::watch;

/// A client that has sent this CONNECT, and the reason code of the answer.
fn connect(server: &RunningServer, connect: &Connect) -> (TcpStream, u8) {
    let mut stream = TcpStream::connect(server.addresses()[0]).unwrap();
    let mut packet = BytesMut::new();
    connect
        .encode(Limits::MAX_PACKET_BYTES, &mut packet)
        .unwrap();
    stream.write_all(&packet).unwrap();
    let mut connack = [0; 4];
    stream.read_exact(&mut connack).unwrap();
    assert_eq!(connack[0], 0x20, "CONNACK");
    let mut rest = vec![0; usize::from(connack[1]) - 2];
    stream.read_exact(&mut rest).unwrap();
    (stream, connack[3])
}

/// A client that is connected.
fn connected(server: &RunningServer) -> TcpStream {
    let (stream, reason) = connect(server, &Connect::default());
    assert_eq!(reason, 0);
    stream
}

/// The CONNECT of a user.
fn login(user: &str, password: &'static str) -> Connect {
    Connect {
        user_name: Some(user.into()),
        password: Some(password.into()),
        ..Connect::default()
    }
}

#[test]
fn metrics_are_current() {
    let server = RunningServer::start(Config::in_memory()).unwrap();
    let control = server.handle();
    let before = control.metrics_blocking().unwrap();
    assert_eq!((before.connections, before.connections_opened), (0, 0));
    let _first = connected(&server);
    let _second = connected(&server);
    let asking = control.clone();
    let thread = std::thread::spawn(move || asking.metrics_blocking());
    let after = thread.join().unwrap().unwrap();
    assert_eq!((after.connections, after.sessions), (2, 2));
    assert_eq!(after.connections_opened, 2);
    server.stop().unwrap();
}

#[test]
fn a_stopped_server_returns_an_error() {
    let server = RunningServer::start(Config::in_memory()).unwrap();
    let control: ServerHandle = server.handle();
    server.stop().unwrap();
    assert_eq!(control.metrics_blocking(), Err(ServerStopped));
}

/// A configuration with the users of a file, which a reload reads again.
fn with_users_file(path: PathBuf) -> Config {
    let read = move || -> Result<Config, ConfigError> {
        Ok(Config {
            authenticator: read_users(&path)?.into(),
            ..Config::in_memory()
        })
    };
    Config {
        source: Some(ConfigSource::new(read.clone())),
        ..read().unwrap()
    }
}

#[test]
fn a_reload_reads_the_users() {
    const REFUSED: u8 = 0x86;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("users");
    std::fs::write(&file, "ann:old\nbob:same\n").unwrap();
    let server = RunningServer::start(with_users_file(file.clone())).unwrap();
    let control = server.handle();
    let (mut ann, _) = connect(&server, &login("ann", "old"));
    let (mut bob, _) = connect(&server, &login("bob", "same"));

    std::fs::write(&file, "ann:new\nbob:same\ncid:secret\n").unwrap();
    let reloaded = control.reload_blocking().unwrap();
    assert_eq!((reloaded.users, reloaded.disconnected), (Some(3), 1));
    let mut goodbye = Vec::new();
    ann.read_to_end(&mut goodbye).unwrap();
    assert_eq!((goodbye[0], goodbye[2]), (0xE0, 0x87), "not authorized");
    bob.write_all(&[0xC0, 0]).unwrap();
    let mut pong = [0; 2];
    bob.read_exact(&mut pong).unwrap();
    assert_eq!(pong, [0xD0, 0]);
    assert_eq!(connect(&server, &login("cid", "secret")).1, 0);
    assert_eq!(connect(&server, &login("ann", "new")).1, 0);
    assert_eq!(connect(&server, &login("ann", "old")).1, REFUSED);

    std::fs::write(&file, "ann\n").unwrap();
    let error = control.reload_blocking().unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, ReloadError::Config(_)));
    assert!(
        text.contains("line 1") && text.contains("stays in force"),
        "{text}"
    );
    assert_eq!(connect(&server, &login("cid", "secret")).1, 0);
    server.stop().unwrap();
    std::fs::write(&file, "ann:new\n").unwrap();
    let stopped = control.reload_blocking();
    assert!(matches!(stopped, Err(ReloadError::Stopped(ServerStopped))));
}

/// A configuration that is read in time applies its settings of the process once; one that is read too late applies none.
#[tokio::test]
async fn a_configuration_that_is_read_too_late_changes_nothing_of_the_process() {
    let (reading, readings) = std::sync::mpsc::channel();
    let (come, comes) = std::sync::mpsc::channel::<u64>();
    let (applied, of_process) = std::sync::mpsc::channel();
    let comes = std::sync::Mutex::new(comes);
    let source = ConfigSource::new(move || {
        reading.send(()).unwrap();
        let keys = comes.lock().unwrap().recv().unwrap();
        let applied = applied.clone();
        let mut config = Config::in_memory();
        config.service.max_keys = keys;
        config.process = Some(ProcessSettings::new(move |_| applied.send(keys).unwrap()));
        Ok(config)
    });
    let server = RunningServer::start(Config {
        source: Some(source),
        ..Config::in_memory()
    })
    .unwrap();
    let control = server.handle();
    let stalled = tokio::spawn({
        let control = control.clone();
        async move { control.reload().await }
    });
    let first = tokio::task::spawn_blocking(move || {
        readings.recv().unwrap();
        readings
    });
    // The second reading sends as well.
    let _readings = first.await.unwrap();
    tokio::time::pause();
    let error = stalled.await.unwrap().unwrap_err();
    assert!(matches!(error, ReloadError::Stalled(_)), "{error}");
    tokio::time::resume();
    for keys in [1, 2] {
        come.send(keys).unwrap();
    }
    control.reload().await.unwrap();
    tokio::task::spawn_blocking(|| server.stop())
        .await
        .unwrap()
        .unwrap();
    drop(control);
    // Ends once both configurations and their source are gone.
    assert_eq!(of_process.iter().collect::<Vec<_>>(), [2]);
}

#[tokio::test(start_paused = true)]
async fn a_stalled_file_times_out_and_does_not_block_later_reloads() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("users");
    std::fs::write(&file, "ann:secret\n").unwrap();
    let server = RunningServer::start(with_users_file(file.clone())).unwrap();
    let control = server.handle();
    // No process ever opens its other end.
    std::fs::remove_file(&file).unwrap();
    mknodat(CWD, &file, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let error = control.reload().await.unwrap_err();
    assert!(matches!(error, ReloadError::Stalled(_)), "{error}");
    std::fs::remove_file(&file).unwrap();
    std::fs::write(&file, "ann:secret\nbob:secret\n").unwrap();
    tokio::time::resume();
    let reloaded = control.reload().await.unwrap();
    assert_eq!((reloaded.users, reloaded.disconnected), (Some(2), 0));
    tokio::task::spawn_blocking(|| server.stop())
        .await
        .unwrap()
        .unwrap();
}

#[tokio::test]
async fn a_reload_without_files_changes_nothing() {
    let server = RunningServer::start(Config::in_memory()).unwrap();
    let reloaded = server.handle().reload().await.unwrap();
    assert_eq!((reloaded.users, reloaded.disconnected), (None, 0));
    tokio::task::spawn_blocking(|| server.stop())
        .await
        .unwrap()
        .unwrap();
}

#[tokio::test]
async fn the_async_calls_do_not_block() {
    let server = RunningServer::start(Config::in_memory()).unwrap();
    let control = server.handle();
    assert_eq!(control.metrics().await.unwrap().keys, Some(0));
    tokio::task::spawn_blocking(|| server.stop())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(control.metrics().await, Err(ServerStopped));
}

async fn client(server: &RunningServer) -> Client {
    let url = format!("mqtt://{}", server.addresses()[0]);
    Client::connect(Settings::from_url(&url).unwrap())
        .await
        .unwrap()
}

#[tokio::test]
async fn a_snapshot_contains_all_acknowledged_writes() {
    let place = tempfile::tempdir().unwrap();
    let copy = place.path().join("copy");
    let server = RunningServer::start(Config::durable(place.path().join("data"))).unwrap();
    let control = server.handle();
    let one = client(&server).await;
    one.set("key", "before").await.unwrap();
    control.snapshot(&copy).await.unwrap();
    one.set("key", "after").await.unwrap();
    let again = control.snapshot(&copy).await.unwrap_err();
    assert!(matches!(again, SnapshotError::Storage(_)), "{again}");

    let other = RunningServer::start(Config::durable(&copy)).unwrap();
    let two = client(&other).await;
    let held = |entry: Option<statestore::Entry>| entry.unwrap().value;
    assert_eq!(held(two.get("key").await.unwrap()), "before");
    assert_eq!(held(one.get("key").await.unwrap()), "after");
    for server in [server, other] {
        let stopped = tokio::task::spawn_blocking(|| server.stop());
        stopped.await.unwrap().unwrap();
    }
    let stopped = control.snapshot(&copy).await;
    assert!(matches!(
        stopped,
        Err(SnapshotError::Stopped(ServerStopped))
    ));
}

#[test]
fn a_snapshot_of_a_memory_store_is_an_error() {
    let place = tempfile::tempdir().unwrap();
    let server = RunningServer::start(Config::in_memory()).unwrap();
    let error = server
        .handle()
        .snapshot_blocking(&place.path().join("copy"));
    let text = error.unwrap_err().to_string();
    assert!(text.contains("in memory only"), "{text}");
    server.stop().unwrap();
}

#[tokio::test]
async fn a_backup_contains_all_earlier_acknowledged_writes() {
    let place = tempfile::tempdir().unwrap();
    let server = RunningServer::start(Config::durable(place.path().join("data"))).unwrap();
    let control = server.handle();
    let one = client(&server).await;
    one.set("key", "before").await.unwrap();
    let mut backup = control.backup().await.unwrap();
    one.set("key", "after").await.unwrap();
    let mut bytes = Vec::new();
    while let Some(piece) = backup.next().await {
        bytes.extend_from_slice(&piece.unwrap());
    }
    assert!(backup.next().await.is_none());
    let records = values(&bytes);
    assert_eq!(records, [("key".into(), "before".into())]);

    let file = place.path().join("backup");
    let (to, again) = (file.clone(), control.clone());
    let written = tokio::task::spawn_blocking(move || again.backup_to_file_blocking(&to, false));
    assert_eq!(written.await.unwrap().unwrap().records, 1);
    let records = values(&std::fs::read(&file).unwrap());
    assert_eq!(records, [("key".into(), "after".into())]);
    // The file is not replaced by mistake, and no other file is left beside it.
    let (to, again) = (file.clone(), control.clone());
    let refused = tokio::task::spawn_blocking(move || again.backup_to_file_blocking(&to, false));
    let refused = refused.await.unwrap().unwrap_err().to_string();
    assert!(refused.contains("exists"), "{refused}");
    one.del("key").await.unwrap();
    let (to, again) = (file.clone(), control.clone());
    let replaced = tokio::task::spawn_blocking(move || again.backup_to_file_blocking(&to, true));
    assert_eq!(replaced.await.unwrap().unwrap().records, 0);
    assert_eq!(values(&std::fs::read(&file).unwrap()), []);
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 2);

    // A backup that is dropped before its end does not hold up the shutdown.
    drop(control.backup().await.unwrap());
    tokio::task::spawn_blocking(|| server.stop())
        .await
        .unwrap()
        .unwrap();
    assert!(matches!(
        control.backup().await,
        Err(SnapshotError::Stopped(ServerStopped))
    ));
}

/// Keys and values of a backup.
fn values(backup: &[u8]) -> Vec<(String, String)> {
    struct Values(Vec<(String, String)>);
    impl RecordReceiver for Values {
        fn record(&mut self, record: &RecordView<'_>) -> Result<(), StorageError> {
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
            self.0.push((text(record.key), text(record.value)));
            Ok(())
        }
    }
    let mut values = Values(Vec::new());
    let reader = BackupReader::new(Path::new("backup"), backup).unwrap();
    reader.records(&mut values).unwrap();
    values.0
}

#[test]
fn a_backup_of_a_memory_store_is_an_error() {
    let place = tempfile::tempdir().unwrap();
    let server = RunningServer::start(Config::in_memory()).unwrap();
    let file = place.path().join("backup");
    let error = server.handle().backup_to_file_blocking(&file, false);
    let text = error.unwrap_err().to_string();
    assert!(text.contains("in memory only"), "{text}");
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
    server.stop().unwrap();
}

/// Each writer sets its keys in turn to 1, 2, 3 and so on, each after the one before was acknowledged. A backup begins when every
/// writer has got further since the one before, however slow the machine is.
#[tokio::test]
async fn a_backup_under_load_contains_a_prefix_of_each_writers_history() {
    const WRITERS: u64 = 4;
    const KEYS: u64 = 50;
    const BACKUPS: u64 = 12;
    let place = tempfile::tempdir().unwrap();
    let server = RunningServer::start(Config::durable(place.path().join("data"))).unwrap();
    let control = server.handle();
    let is_over = Arc::new(AtomicBool::new(false));
    let mut acknowledged = Vec::new();
    let mut writers = Vec::new();
    for writer in 0..WRITERS {
        let (client, is_over) = (client(&server).await, Arc::clone(&is_over));
        let (last, acknowledgement) = watch::channel(0_u64);
        acknowledged.push(acknowledgement);
        writers.push(tokio::spawn(async move {
            for number in 1.. {
                let key = format!("{writer}-{}", number % KEYS);
                client.set(key, number.to_string()).await.unwrap();
                last.send_replace(number);
                if is_over.load(Ordering::SeqCst) {
                    return;
                }
            }
        }));
    }
    for _ in 0..BACKUPS {
        let mut before = Vec::new();
        for acknowledgement in &mut acknowledged {
            acknowledgement.changed().await.unwrap();
            before.push(*acknowledgement.borrow_and_update());
        }
        let mut backup = control.backup().await.unwrap();
        let mut bytes = Vec::new();
        while let Some(piece) = backup.next().await {
            bytes.extend_from_slice(&piece.unwrap());
        }
        let records: BTreeMap<String, u64> = values(&bytes)
            .into_iter()
            .map(|(key, value)| (key, value.parse().unwrap()))
            .collect();
        for (writer, acknowledged) in (0..WRITERS).zip(before) {
            let prefix = format!("{writer}-");
            let of_writer = records.iter().filter(|(key, _)| key.starts_with(&prefix));
            let last = of_writer.map(|(_, number)| *number).max().unwrap_or(0);
            assert!(
                last >= acknowledged,
                "{last} is there, {acknowledged} was acknowledged"
            );
            for number in last.saturating_sub(KEYS) + 1..=last {
                assert_eq!(
                    records.get(&format!("{writer}-{}", number % KEYS)),
                    Some(&number)
                );
            }
        }
    }
    is_over.store(true, Ordering::SeqCst);
    for writer in writers {
        writer.await.unwrap();
    }
    tokio::task::spawn_blocking(|| server.stop())
        .await
        .unwrap()
        .unwrap();
}
