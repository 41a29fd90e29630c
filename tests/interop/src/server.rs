use crate::GUARD;
use std::{
    io::{BufRead, BufReader, Read},
    process::{Child, Command, Stdio},
    sync::{
        atomic::{AtomicU32, Ordering},
        mpsc,
    },
    thread,
};
use tempfile::TempDir;

/// Names the binary to test; `scripts/test interop` sets it.
const BINARY: &str = "STATESTORED_BIN";

/// Where entries are, `memory` if it is not set, and where the engine listens that has them: see `tests/mqtt/engine.py`.
const STORAGE: &str = "TESTED_STORAGE";
const ADDRESS: &str = "TESTED_ADDRESS";

/// Behind which broker the server is: see `tests/mqtt/broker.py`. Not set for none.
const BROKER: &str = "TESTED_BROKER";

/// A `statestored` process with an empty store, on a free loopback port, or behind a broker on one.
#[derive(Debug)]
pub struct Server {
    process: Child,
    broker: Option<Child>,
    port: u16,
    /// Folder of a durable store.
    _folder: Option<TempDir>,
}

/// The options of a server with a store of its own, and the folder that it is in.
fn storage() -> ([String; 2], Option<TempDir>) {
    static STORES: AtomicU32 = AtomicU32::new(0);
    let kind = std::env::var(STORAGE).unwrap_or_else(|_| "memory".into());
    let address = || std::env::var(ADDRESS).expect("the address of the engine");
    // Several processes of tests share an engine.
    let number = STORES.fetch_add(1, Ordering::Relaxed);
    let store = format!("interop{}n{number}", std::process::id());
    let url = match &kind[..] {
        "memory" => kind,
        "etcd" => format!("etcd://{}/{store}", address()),
        "redis" => format!("redis://{}?prefix={store}", address()),
        "durable" => {
            let folder = TempDir::new().expect("a folder");
            let path = folder.path().join("data").display().to_string();
            return (["--data-dir".into(), path], Some(folder));
        }
        other => panic!("{STORAGE} is {other:?}"),
    };
    (["--storage".into(), url], None)
}

/// Sends all lines, to the end, so that the server can never block on a full pipe.
fn read(from: impl Read + Send + 'static, lines: mpsc::Sender<String>) {
    thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            let _ = lines.send(line);
        }
    });
}

/// Starts the broker, which ends with the input of its process, and gives its port.
fn broker() -> (Child, u16) {
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/../mqtt/broker.py");
    let mut process = Command::new("python3")
        .arg(program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3 runs");
    let stdout = process.stdout.take().expect("stdout is piped");
    let mut line = String::new();
    BufReader::new(stdout)
        .read_line(&mut line)
        .expect("the broker says its port");
    let port = line.trim().parse().expect("the broker says its port");
    (process, port)
}

impl Server {
    /// Starts one and waits until it listens.
    pub fn start() -> Self {
        let binary = std::env::var_os(BINARY)
            .unwrap_or_else(|| panic!("set {BINARY} to the path of the statestored binary"));
        let (options, folder) = storage();
        let broker = std::env::var_os(BROKER).map(|_| broker());
        let ways = match &broker {
            Some((_, port)) => ["--attach".into(), format!("mqtt://127.0.0.1:{port}")],
            None => ["--listen".into(), "tcp://127.0.0.1:0".into()],
        };
        let log = if broker.is_some() { "info" } else { "warn" };
        let mut process = Command::new(&binary)
            .args(ways)
            .args(["--log", log])
            .args(options)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(if broker.is_some() {
                Stdio::piped()
            } else {
                Stdio::inherit()
            })
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}", binary.display()));
        let (lines, first) = mpsc::channel();
        let stdout = process.stdout.take().expect("stdout is piped");
        let stderr = process.stderr.take();
        read(stdout, lines.clone());
        if let Some(stderr) = stderr {
            read(stderr, lines);
        }
        let (broker, port) = broker.unzip();
        let mut server = Self {
            process,
            broker,
            port: port.unwrap_or(0),
            _folder: folder,
        };
        if server.broker.is_some() {
            while !first
                .recv_timeout(GUARD)
                .expect("statestored says when it is attached")
                .ends_with(" attached to the broker")
            {}
            return server;
        }
        let line = first
            .recv_timeout(GUARD)
            .expect("statestored says where it listens");
        server.port = line
            .strip_prefix("listening on tcp://127.0.0.1:")
            .and_then(|port| port.parse().ok())
            .unwrap_or_else(|| panic!("not a ready line: {line:?}"));
        server
    }

    /// The port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        if let Some(mut broker) = self.broker.take() {
            drop(broker.stdin.take());
            let _ = broker.wait();
        }
    }
}
