use crate::GUARD;
use std::{
    io::{BufRead, BufReader},
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

/// A `statestored` process with an empty store, on a free loopback port.
#[derive(Debug)]
pub struct Server {
    process: Child,
    port: u16,
    /// Of a durable store.
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

impl Server {
    /// Starts one and waits until it listens.
    pub fn start() -> Self {
        let binary = std::env::var_os(BINARY)
            .unwrap_or_else(|| panic!("set {BINARY} to the path of the statestored binary"));
        let (options, folder) = storage();
        let mut process = Command::new(&binary)
            .args(["--listen", "tcp://127.0.0.1:0", "--log", "warn"])
            .args(options)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}", binary.display()));
        let stdout = process.stdout.take().expect("stdout is piped");
        let (lines, first) = mpsc::channel();
        // Reads on to the end, so that the server can never block on a full pipe.
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let _ = lines.send(line);
            }
        });
        let mut server = Self {
            process,
            port: 0,
            _folder: folder,
        };
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
    }
}
