use crate::GUARD;
use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
    sync::mpsc,
    thread,
};

/// Names the binary to test; `scripts/test interop` sets it.
const BINARY: &str = "STATESTORED_BIN";

/// A `statestored` process with an empty store in memory, on a free loopback port.
#[derive(Debug)]
pub struct Server {
    process: Child,
    port: u16,
}

impl Server {
    /// Starts one and waits until it listens.
    pub fn start() -> Self {
        let binary = std::env::var_os(BINARY)
            .unwrap_or_else(|| panic!("set {BINARY} to the path of the statestored binary"));
        let mut process = Command::new(&binary)
            .args([
                "--listen",
                "tcp://127.0.0.1:0",
                "--storage",
                "memory",
                "--log",
                "warn",
            ])
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
        let mut server = Self { process, port: 0 };
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
