//! Kills component and store in the middle of transactions: each is executed as a whole or not at all, and acknowledged
//! transactions are present.
use crate::harness::{PATIENCE, Process, Sidecar, delete, set};
use clap::Parser as _;
use statestore::{Client, Settings};
use statestore_dapr::proto::transactional_state_operation::Request as Operation;
use statestored::RunningServer;
use statestored::config::{Arguments, Config};
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;
use tokio::sync::Notify;
use tokio::task::JoinSet;

/// Writers at the same time, each with keys of its own.
const WRITERS: usize = 4;

/// Keys of one transaction, and one more, which every other transaction deletes.
const KEYS: usize = 5;

/// Names the folder of the store that this process is to be.
const FOLDER: &str = "STATESTORE_DAPR_TEST_FOLDER";

/// How often something is killed; `STATESTORE_DAPR_KILLS` says another number.
fn kills() -> u64 {
    let number = std::env::var("STATESTORE_DAPR_KILLS").ok();
    number.map_or(10, |number| number.parse().unwrap())
}

/// Transactions of all writers, and what is known of them.
struct TransactionLoad {
    /// The number of the last transaction of each writer that was begun.
    begun: [AtomicU64; WRITERS],
    /// The same, of those that were acknowledged.
    acknowledged: [AtomicU64; WRITERS],
    all: AtomicU64,
    is_ending: AtomicBool,
    progress: Notify,
}

impl TransactionLoad {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            begun: Default::default(),
            acknowledged: Default::default(),
            all: AtomicU64::new(0),
            is_ending: AtomicBool::new(false),
            progress: Notify::new(),
        })
    }

    /// Begins transactions of all writers. Each ends when one of its transactions fails, or when it is stopped.
    fn begin(self: &Arc<Self>, sidecar: &Sidecar) -> JoinSet<()> {
        self.is_ending.store(false, Ordering::SeqCst);
        let mut writers = JoinSet::new();
        for writer in 0..WRITERS {
            writers.spawn(self.clone().write(sidecar.clone(), writer));
        }
        writers
    }

    async fn end(&self, writers: JoinSet<()>) {
        self.is_ending.store(true, Ordering::SeqCst);
        writers.join_all().await;
    }

    async fn write(self: Arc<Self>, mut sidecar: Sidecar, writer: usize) {
        while !self.is_ending.load(Ordering::SeqCst) {
            let number = self.begun[writer].fetch_add(1, Ordering::SeqCst) + 1;
            let write = |key| Operation::Set(set(&name(writer, key), &number.to_string()));
            let mut operations: Vec<_> = (0..KEYS).map(write).collect();
            let odd = name(writer, KEYS);
            operations.push(if number % 2 == 1 {
                Operation::Set(set(&odd, "odd"))
            } else {
                Operation::Delete(delete(&odd))
            });
            if sidecar.transact(operations).await.is_err() {
                return;
            }
            self.acknowledged[writer].store(number, Ordering::SeqCst);
            self.all.fetch_add(1, Ordering::SeqCst);
            self.progress.notify_one();
        }
    }

    /// Waits until `more` further transactions were acknowledged.
    async fn wait(&self, more: u64) {
        let goal = self.all.load(Ordering::SeqCst) + more;
        let reached = async {
            while self.all.load(Ordering::SeqCst) < goal {
                self.progress.notified().await;
            }
        };
        tokio::time::timeout(PATIENCE, reached).await.unwrap();
    }

    /// Checks that one whole transaction of each writer is stored: the last that was acknowledged, or one that was in progress.
    async fn check(&self, store: &Client) {
        for writer in 0..WRITERS {
            let mut values = Vec::new();
            for key in 0..KEYS {
                let entry = store.get(name(writer, key)).await.unwrap();
                values.push(entry.map(|entry| entry.value));
            }
            let odd = store.get(name(writer, KEYS)).await.unwrap();
            values.dedup();
            assert_eq!(values.len(), 1, "a part of a transaction: {values:?}");
            let number = values[0].as_ref().map_or(0, |value| {
                std::str::from_utf8(value).unwrap().parse::<u64>().unwrap()
            });
            assert_eq!(
                odd.is_some(),
                number % 2 == 1,
                "a part of transaction {number}"
            );
            let least = self.acknowledged[writer].load(Ordering::SeqCst);
            let most = self.begun[writer].load(Ordering::SeqCst);
            assert!(
                (least..=most).contains(&number),
                "{least}..={most}: {number}"
            );
        }
    }
}

fn name(writer: usize, key: usize) -> String {
    format!("writer-{writer}||key-{key}")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_component_is_killed_in_the_middle_of_transactions() {
    let server = RunningServer::start(Config::in_memory()).unwrap();
    let url = server.url();
    let store = Client::connect(Settings::from_url(&url).unwrap())
        .await
        .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("component.sock");
    let load = TransactionLoad::new();
    for round in 0..kills() {
        let process = Process::start(&socket, &["--log", "error"]);
        let mut sidecar = Sidecar::connect(&socket, "crashes").await;
        sidecar
            .init(&[("url", &url), ("sessionExpiry", "1s")])
            .await
            .unwrap();
        let writers = load.begin(&sidecar);
        load.wait(1 + round * 7 % 40).await;
        process.kill();
        load.end(writers).await;
        load.check(&store).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_store_is_killed_in_the_middle_of_transactions() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("unix://{}", folder.path().join("store.sock").display());
    let component = Process::start(&folder.path().join("component.sock"), &["--log", "error"]);
    let mut sidecar = Sidecar::connect(&component.socket, "crashes").await;
    let load = TransactionLoad::new();
    let mut server = start_store(folder.path());
    let properties = [
        ("url", url.as_str()),
        ("reconnectDelayMax", "10ms"),
        ("requestTimeout", "5s"),
    ];
    sidecar.init(&properties).await.unwrap();
    for round in 0..kills() {
        let writers = load.begin(&sidecar);
        load.wait(1 + round * 7 % 40).await;
        drop(server);
        server = start_store(folder.path());
        load.end(writers).await;
        let store = Client::connect(Settings::from_url(&url).unwrap())
            .await
            .unwrap();
        load.check(&store).await;
        store.close().await;
        let began = Instant::now();
        while let Err(status) = sidecar.try_get("any").await {
            assert!(began.elapsed() < PATIENCE, "{status:?}");
        }
    }
}

/// A process that serves a durable store in a folder: this program again, with a test that does so.
fn start_store(folder: &Path) -> Store {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "crashes::serve_store_subprocess", "--nocapture"])
        .env(FOLDER, folder)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
    let mut lines = lines.map(Result::unwrap);
    assert!(lines.any(|line| line.ends_with("the store listens")));
    Store(child)
}

/// Is killed when this is dropped.
struct Store(Child);

impl Drop for Store {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Serves a store for [`start_store`]; without its environment variable, the test does nothing.
#[test]
fn serve_store_subprocess() {
    let Some(folder) = std::env::var_os(FOLDER) else {
        return;
    };
    let folder = Path::new(&folder);
    let listener = format!("unix://{}", folder.join("store.sock").display());
    let data = folder.join("data").display().to_string();
    let arguments = ["statestored", "--listen", &listener, "--data-dir", &data];
    let config = Arguments::try_parse_from(arguments)
        .unwrap()
        .into_config()
        .unwrap();
    let _server = RunningServer::start(config).unwrap();
    println!("the store listens");
    loop {
        std::thread::park();
    }
}
