//! Backups of a store in an engine, and durable stores that are restored from them.
use super::world::Store;
use super::{Engine, block_on, connect_to};
use futures_util::future::join_all;
use harness::{AcceptMode, CutKind, Proxy};
use serde_json::Value;
use statestore::{
    Client, Expiry, GetOptions, Hlc, Outcome, SetOptions, SetOutcome, Settings, Transaction,
    TransactionOutcome,
};
use statestored::RunningServer;
use statestored::admin::{AdminConfig, Token};
use statestored::config::Config;
use statestored_shared::{
    CommitOutcome, EngineCommit, EngineEvent, EngineKey, EngineRequest, EngineRequestId,
    EngineValue, Link,
};
use statestored_storage::backup::BackupReader;
use std::cell::Cell;
use std::future::poll_fn;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::task::{spawn_blocking, spawn_local};

const TOKEN: &str = "a-token-that-nobody-guesses";

/// More keys than one answer of an engine has, so that others change while they are read.
const KEYS: usize = 3_000;

const BACKUPS: usize = 3;

/// Tolerance of an expiry time, for a clock step of this machine and for rounding.
pub(crate) const SLACK: Duration = Duration::from_secs(2);

/// Asks for a backup: the status, and what follows the head.
fn backup(address: SocketAddr) -> (u16, Vec<u8>) {
    let mut stream = TcpStream::connect(address).unwrap();
    let request = format!(
        "POST /api/backup HTTP/1.0\r\nHost: {address}\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: 0\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let head = answer.windows(4).position(|part| part == b"\r\n\r\n");
    let body = answer.split_off(head.unwrap() + 4);
    let head = String::from_utf8(answer).unwrap();
    let status = head.split(' ').nth(1).unwrap();
    (status.parse().unwrap(), body)
}

fn failure((status, body): (u16, Vec<u8>)) -> (u16, String) {
    let document: Value = serde_json::from_slice(&body).unwrap();
    (status, document["error"].as_str().unwrap().to_owned())
}

/// Returns the output of a tool of the server.
pub(crate) fn tool(arguments: &[&str]) -> String {
    let ended = Command::new(env!("CARGO_BIN_EXE_statestored"))
        .args(arguments)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(ended.status.success(), "{arguments:?}: {errors}");
    String::from_utf8(ended.stdout).unwrap()
}

/// Raises the floor of one bucket, as a server does when it purges a tombstone.
fn raise_floor(engine: &impl Engine, floor: (u64, u64)) {
    let mut link = engine.link("test");
    let unit = EngineCommit {
        compares: Vec::new(),
        puts: vec![(EngineKey::Floor(7), EngineValue::Floor(floor))],
    };
    link.request(EngineRequestId(1), EngineRequest::Commit(Arc::new(unit)));
    link.flush();
    block_on(async {
        loop {
            poll_fn(|context| link.poll_events(context)).await;
            match link.next_event() {
                Some(EngineEvent::Committed(_, verdict)) => {
                    assert!(
                        matches!(verdict, CommitOutcome::Committed(_)),
                        "{verdict:?}"
                    );
                    return;
                }
                other => assert!(
                    !matches!(other, Some(EngineEvent::WatchLost(..))),
                    "{other:?}"
                ),
            }
        }
    });
}

pub(crate) async fn version(client: &Client, key: &str, options: &SetOptions) -> Hlc {
    let value = format!("value of {key}");
    let outcome = client.set_with(key, value, options).await.unwrap();
    let SetOutcome::Applied { version } = outcome else {
        panic!("{outcome:?}");
    };
    version
}

/// When an entry ends: not before the first moment, and not after the second one.
pub(crate) async fn expiry_of(client: &Client, key: &str) -> (Instant, Instant) {
    let remaining = GetOptions::new().remaining(true);
    let before = Instant::now();
    let entry = client.get_with(key, &remaining).await.unwrap().unwrap();
    let Expiry::After(left) = entry.expires_in else {
        panic!("{key} does not expire");
    };
    (before + left, Instant::now() + left)
}

pub(crate) fn a_backup_is_a_consistent_snapshot_with_versions_fences_and_expiries<E: Engine>() {
    let engine = E::start();
    let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    // Ahead of all clocks, so that nothing else gives versions behind it.
    let floor_ms = u64::try_from(now_ms.as_millis()).unwrap() + 45_000;
    raise_floor(&engine, (floor_ms, 7));
    let token = Token::new(TOKEN).unwrap();
    let admin = AdminConfig::new("http://127.0.0.1:0".parse().unwrap(), Some(token)).unwrap();
    let server = RunningServer::start(Config {
        admin: Some(admin),
        ..engine.config("test")
    });
    let server = server.unwrap();
    let address = server.http_address().unwrap();
    let folder = tempfile::tempdir().unwrap();
    block_on(async {
        let client = connect_to(&server).await;
        let plain = SetOptions::new();
        let mut versions = Vec::new();
        let keys: Vec<_> = (0..KEYS).map(|number| format!("key-{number}")).collect();
        for some in keys.chunks(100) {
            let setting = some.iter().map(|key| version(&client, key, &plain));
            versions.extend(some.iter().cloned().zip(join_all(setting).await));
        }
        let ends = SetOptions::new().expires_in(Duration::from_secs(600));
        versions.push(("ends".into(), version(&client, "ends", &ends).await));
        let fence = Hlc::new(u64::try_from(now_ms.as_millis()).unwrap(), 3, "holder").unwrap();
        let fenced = SetOptions::new().fencing_token(fence.clone());
        versions.push(("fenced".into(), version(&client, "fenced", &fenced).await));
        for key in ["deleted", "key-0"] {
            client.set(key, "gone").await.unwrap();
            client.del(key).await.unwrap();
        }
        versions.remove(0);

        let is_over = Rc::new(Cell::new(false));
        let writing = {
            let (client, is_over) = (connect_to(&server).await, Rc::clone(&is_over));
            spawn_local(async move {
                let mut number = 0;
                while !is_over.get() {
                    number += 1;
                    let text = number.to_string();
                    let both = Transaction::new()
                        .set("left", text.clone(), &SetOptions::new())
                        .set("right", text, &SetOptions::new());
                    let outcome = client.transact(&both).await.unwrap();
                    assert!(matches!(outcome, TransactionOutcome::Applied(_)));
                    // Made and deleted while others are read.
                    let key = format!("passing-{}", number % 100);
                    client.set(&key, "value").await.unwrap();
                    client.del(&key).await.unwrap();
                }
                number
            })
        };
        while client.get("right").await.unwrap().is_none() {}
        let mut last = 0;
        for number in 0..BACKUPS {
            let (status, bytes) = spawn_blocking(move || backup(address)).await.unwrap();
            assert_eq!(status, 200, "{}", String::from_utf8_lossy(&bytes));
            let file = folder.path().join(format!("{number}.backup"));
            std::fs::write(&file, &bytes).unwrap();
            let restored = folder.path().join(number.to_string());
            let both = restored_equal(&file, &restored, &client, &versions, &fence).await;
            assert!(both >= last, "{both} after {last}");
            last = both;
        }
        is_over.set(true);
        assert!(writing.await.unwrap() >= last);

        let file = folder.path().join("0.backup");
        let reader = BackupReader::new(&file, std::fs::File::open(&file).unwrap()).unwrap();
        assert!(reader.header().highest >= (floor_ms, 7));
    });
    server.stop().unwrap();
}

/// Restores a backup, and compares what a server has on it with what the other one has. Returns the number that the writer had stored.
async fn restored_equal(
    file: &Path,
    folder: &Path,
    client: &Client,
    versions: &[(String, Hlc)],
    fence: &Hlc,
) -> u64 {
    let (file, data) = (file.to_str().unwrap(), folder.to_str().unwrap());
    let checked = tool(&["check", file]);
    assert!(checked.contains("is as it was written"), "{checked}");
    tool(&["restore", file, "--data-dir", data]);
    let restored = RunningServer::start(Config::durable(folder)).unwrap();
    let other = connect_to(&restored).await;
    for (key, version) in versions {
        let entry = other.get(key).await.unwrap();
        let entry = entry.unwrap_or_else(|| panic!("{key} is missing"));
        let expected = format!("value of {key}");
        assert_eq!(
            (&entry.value[..], &entry.version),
            (expected.as_bytes(), version)
        );
    }
    for absent in ["deleted", "key-0"] {
        assert_eq!(other.get(absent).await.unwrap(), None, "{absent}");
    }
    let both = ["left", "right"].map(|key| other.get(key));
    let [left, right] = join_all(both).await.try_into().unwrap();
    let (left, right) = (left.unwrap().unwrap(), right.unwrap().unwrap());
    assert_eq!(left.value, right.value, "of different revisions");

    let (here, there) = (
        expiry_of(client, "ends").await,
        expiry_of(&other, "ends").await,
    );
    assert!(
        there.0 <= here.1 + SLACK && here.0 <= there.1 + SLACK,
        "{here:?}, {there:?}"
    );
    let remaining = GetOptions::new().remaining(true);
    let plain = other.get_with("key-1", &remaining).await.unwrap().unwrap();
    assert_eq!(plain.expires_in, Expiry::Never);

    let error = other.set("fenced", "x").await.unwrap_err();
    assert_eq!(error.outcome(), Outcome::NotDone, "{error}");
    let older = Hlc::new(fence.wall_ms(), fence.counter() - 1, "holder").unwrap();
    let older = SetOptions::new().fencing_token(older);
    assert!(other.set_with("fenced", "x", &older).await.is_err());
    let same = SetOptions::new().fencing_token(fence.clone());
    version(&other, "fenced", &same).await;
    // All versions rise above those of deletions.
    let next = version(&other, "deleted", &SetOptions::new()).await;
    assert!(versions.iter().all(|(_, version)| next > *version));
    drop(other);
    restored.stop().unwrap();
    std::str::from_utf8(&left.value).unwrap().parse().unwrap()
}

pub(crate) fn a_backup_aborted_by_the_engine_is_an_error_without_a_file<E: Engine>() {
    let mut engine = E::start();
    let url = engine.url("test");
    let (head, rest) = url.split_once("127.0.0.1:").unwrap();
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let (port, tail) = rest.split_at(digits);
    let upstream = SocketAddr::from(([127, 0, 0, 1], port.parse().unwrap()));
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token");
    std::fs::write(&token, TOKEN).unwrap();
    block_on(async {
        let proxy = Proxy::start(upstream).await;
        let storage = format!("{head}{}{tail}", proxy.address());
        let token = token.to_str().unwrap().to_owned();
        let launching = spawn_blocking(move || {
            let listen = ["--listen", "tcp://127.0.0.1:0", "--http-token-file", &token];
            Store::launch(&[&["--storage", &storage][..], &listen].concat())
        });
        let store = launching.await.unwrap();
        let settings: Settings = format!("mqtt://{}", store.listener.unwrap())
            .parse()
            .unwrap();
        let client = Client::connect(settings).await.unwrap();
        for number in 0..40 {
            let value = vec![b'v'; 200_000];
            client.set(format!("key-{number}"), value).await.unwrap();
        }
        let address = store.http;
        let asked = move || spawn_blocking(move || backup(address));
        let (status, whole) = asked().await.unwrap();
        assert_eq!(status, 200);
        assert!(whole.len() > 40 * 200_000);

        // Far slower than the snapshot needs, which so is under way when the engine goes.
        proxy.set_rate(200_000);
        let before = proxy.connections();
        let broken = asked();
        while proxy.connections() == before {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        proxy.set_accept_mode(AcceptMode::Reset);
        proxy.cut(CutKind::Reset);
        let (status, error) = failure(broken.await.unwrap());
        assert_eq!(status, 503, "{error}");
        assert!(
            error.starts_with("cannot take a snapshot of the store: "),
            "{error}"
        );
    });

    engine.kill();
    let server = {
        engine.restart();
        RunningServer::start(engine.config("test")).unwrap()
    };
    engine.kill();
    let file = folder.path().join("store.backup");
    let error = server.handle().backup_to_file_blocking(&file, false);
    let error = error.unwrap_err().to_string();
    assert!(error.contains("cannot be reached"), "{error}");
    let names = std::fs::read_dir(folder.path()).unwrap();
    let names: Vec<_> = names.map(|it| it.unwrap().file_name()).collect();
    assert_eq!(names, ["token"]);
    server.stop().unwrap();
}
