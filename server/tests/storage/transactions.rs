//! Atomicity of transactions on disk, whatever happens to the process and its files.
use super::backup::backup_of;
use super::model::{Model, SMALL_LOGS, current_log, open, read_files, write_files};
use super::restore::restore;
use bytes::{Bytes, BytesMut};
use statestore_protocol::property::RequestProperties;
use statestore_protocol::{Command, Hlc, Reply, SetOptions, TransactionOperation};
use statestored_access::Principal;
use statestored_storage::{Batch, DurableStorage, Storage};
use statestored_store::service::{
    ClockReading, Outcome, Request, RequestEnvelope, RequestProgress, Service, ServiceConfig,
};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command as Process, Stdio};
use tempfile::TempDir;

const KEYS: usize = 7;
const WALL: u64 = 1_700_000_000_000;
const DIRECTORY: &str = "STATESTORE_TEST_TRANSACTIONS_DIRECTORY";
const ACKNOWLEDGED: &str = "acknowledged ";

/// Makes transactions, each of which gives all keys one value, or deletes all.
struct Engine {
    service: Service,
    number: u64,
}

/// The value that the transaction with this number gives all keys.
fn value(number: u64) -> Option<Bytes> {
    // Values of different lengths give frames of different lengths.
    let length = if number.is_multiple_of(3) { 40 } else { 1 };
    (number > 0 && !number.is_multiple_of(4)).then(|| format!("{number:0length$}").into())
}

fn operations(number: u64) -> Vec<TransactionOperation> {
    let keys = (0..KEYS).map(|key| Bytes::from(format!("t/{key}")));
    let operation = |key| match value(number) {
        Some(value) => TransactionOperation::Set {
            key,
            value,
            options: SetOptions::default(),
            token: None,
        },
        None => TransactionOperation::Del {
            key,
            if_version: None,
            token: None,
        },
    };
    let mut operations = keys.map(operation).collect::<Vec<_>>();
    // Says which one was the last.
    operations.push(TransactionOperation::Set {
        key: "number".into(),
        value: number.to_string().into(),
        options: SetOptions::default(),
        token: None,
    });
    operations
}

impl Engine {
    fn after(number: u64) -> Self {
        let service = Service::embedded(ServiceConfig {
            is_durable: true,
            ..ServiceConfig::default()
        });
        let mut engine = Self { service, number: 0 };
        while engine.number < number {
            engine.next();
        }
        engine
    }

    /// The batches that the next transaction brings about: it is one.
    fn next(&mut self) -> Vec<Batch> {
        self.number += 1;
        let operations = operations(self.number);
        let count = operations.len();
        let mut payload = BytesMut::new();
        Command::Transact { operations }.encode(&mut payload);
        let timestamp = Hlc::new(WALL + self.number, 0, "c").expect("valid");
        let request = Request {
            client: &"c".into(),
            principal: &Principal::default(),
            rights: None,
            correlation: &self.number.to_be_bytes(),
            payload: &payload.freeze(),
            properties: RequestProperties {
                timestamp: Some(Ok(timestamp)),
                ..RequestProperties::default()
            },
            may_be_redelivered: true,
        };
        let envelope = RequestEnvelope {
            request,
            deadline_ms: None,
            has_capacity: true,
            max_reply_bytes: usize::MAX,
            is_shared: false,
        };
        let now = ClockReading {
            wall_ms: WALL + self.number,
            mono_ms: self.number,
        };
        let reception = self.service.submit(&envelope, now);
        let RequestProgress::Complete(Outcome::Replied(response)) = reception else {
            panic!("{reception:?}");
        };
        let Reply::Transacted(versions) = response.reply else {
            panic!("{response:?}");
        };
        assert_eq!(versions.len(), count);
        let (sequence, batch) = self.service.take_batch().expect("a batch");
        assert_eq!(response.commit_index, sequence, "the answer waits for it");
        assert_eq!(self.service.take_batch(), None);
        vec![batch]
    }
}

/// Which transaction was the last one; all of it must be there, and nothing else.
fn last(model: &Model) -> u64 {
    let number = model.records.get(&b"number"[..]).map_or(0, |record| {
        let text = String::from_utf8_lossy(&record.value);
        text.parse().expect("a number")
    });
    for key in 0..KEYS {
        let record = model.records.get(format!("t/{key}").as_bytes());
        let found = record.map(|record| record.value.clone());
        assert_eq!(found, value(number), "t/{key} after transaction {number}");
    }
    number
}

#[test]
fn a_torn_transaction_is_dropped() {
    let place = TempDir::new().expect("a temporary directory");
    let (mut storage, _) = open(place.path(), SMALL_LOGS).expect("a new store");
    let mut engine = Engine::after(0);
    let scratch = TempDir::new().expect("a temporary directory");
    let copy = scratch.path().join("store");
    // A transaction that makes keys, and one that deletes them.
    for number in 1..=4 {
        let before = read_files(place.path());
        storage.commit(&engine.next()).expect("commit");
        let log = current_log(&before);
        let complete = read_files(place.path())[&log].clone();
        for cut in before[&log].len()..=complete.len() {
            if number != 1 && number != 4 {
                continue;
            }
            let mut files = before.clone();
            files.insert(log.clone(), complete[..cut].to_vec());
            write_files(&copy, &files);
            let (_, model) = open(&copy, SMALL_LOGS).expect("opens");
            let is_whole = cut == complete.len();
            assert_eq!(last(&model), number - u64::from(!is_whole), "cut to {cut}");
        }
    }
}

#[test]
fn snapshots_and_backups_contain_whole_transactions() {
    let place = TempDir::new().expect("a temporary directory");
    let path = |name: String| place.path().join(name);
    let (mut storage, _) = open(&path("data".into()), SMALL_LOGS).expect("a new store");
    let mut engine = Engine::after(0);
    let mut images = Vec::new();
    for number in 1..=200 {
        storage.commit(&engine.next()).expect("commit");
        storage.prepare().expect("room");
        if number % 11 == 0 {
            let mut image = storage.image().expect("an image");
            image
                .copy_to(&path(format!("copy-{number}")))
                .expect("a copy");
            images.push((number, backup_of(&mut *image)));
        }
        if number % 30 == 0 {
            // Merged files are read again.
            drop(storage);
            let opened = open(&path("data".into()), SMALL_LOGS).expect("opens");
            assert_eq!(last(&opened.1), number);
            storage = opened.0;
        }
    }
    for (number, backup) in images {
        let (_, model) = open(&path(format!("copy-{number}")), SMALL_LOGS).expect("a store");
        assert_eq!(last(&model), number);
        let restored = path(format!("restored-{number}"));
        restore(&backup, &restored).expect("restored");
        let (_, model) = open(&restored, SMALL_LOGS).expect("a store");
        assert_eq!(last(&model), number);
    }
}

/// The process to be killed.
#[test]
#[ignore = "a process that other tests start"]
fn transacts_until_it_is_killed() {
    let directory = std::env::var_os(DIRECTORY).expect("where, from the test that starts it");
    let (mut storage, model) = open(&PathBuf::from(directory), SMALL_LOGS).expect("opens");
    let mut engine = Engine::after(last(&model));
    loop {
        // Several in one commit, as under load.
        let batches = [engine.next(), engine.next()].concat();
        commit_and_report(&mut storage, &batches, engine.number);
    }
}

fn commit_and_report(storage: &mut DurableStorage, batches: &[Batch], number: u64) {
    storage.commit(batches).expect("commit");
    println!("{ACKNOWLEDGED}{number}");
}

fn kill_after(directory: &Path, mut left: u64) -> u64 {
    let mut child = Process::new(std::env::current_exe().expect("this test"))
        .args([
            "transactions::transacts_until_it_is_killed",
            "--exact",
            "--ignored",
            "--nocapture",
        ])
        .env(DIRECTORY, directory)
        .stdout(Stdio::piped())
        .spawn()
        .expect("starts");
    let mut acknowledged = 0;
    for line in BufReader::new(child.stdout.take().expect("piped")).lines() {
        if let Some((_, number)) = line.expect("text").split_once(ACKNOWLEDGED) {
            acknowledged = number.parse().expect("a number");
            left = left.saturating_sub(1);
            if left == 0 {
                child.kill().expect("killable");
            }
        }
    }
    assert!(!child.wait().expect("ended").success());
    acknowledged
}

#[test]
fn a_killed_process_leaves_whole_transactions() {
    let place = TempDir::new().expect("a temporary directory");
    for round in 0..12_u64 {
        let acknowledged = kill_after(place.path(), 1 + round.wrapping_mul(0x9e37_79b9) % 60);
        let (_, model) = open(place.path(), SMALL_LOGS).expect("opens after a kill");
        let last = last(&model);
        assert!(
            (acknowledged..=acknowledged + 2).contains(&last),
            "{acknowledged} were acknowledged, {last} are there"
        );
    }
}
