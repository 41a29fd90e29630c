//! `HAProxy` in front of the servers, with the configuration of the cluster that is documented.
use crate::nodes::{NODES, Nodes, PROXY};
use crate::process::Process;
use harness::free_port;
use statestore::Settings;
use std::process::Command;
use tempfile::NamedTempFile;

/// As it is in the repository.
const CONFIGURATION: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/haproxy.cfg");

/// Ends when it is dropped.
pub(crate) struct Balancer {
    port: u16,
    _configuration: NamedTempFile,
    _process: Process,
}

impl Balancer {
    pub(crate) async fn start(nodes: &Nodes) -> Self {
        let port = free_port();
        let configuration = NamedTempFile::new().unwrap();
        let text = std::fs::read_to_string(CONFIGURATION).unwrap();
        std::fs::write(configuration.path(), adapted(&text, port, nodes)).unwrap();
        let mut command = Command::new("haproxy");
        command.arg("-db").arg("-f").arg(configuration.path());
        let mut process = Process::start(&mut command);
        process.listens(port).await;
        Self {
            port,
            _configuration: configuration,
            _process: process,
        }
    }

    /// Where clients reach it.
    pub(crate) fn settings(&self) -> Settings {
        Settings::new("127.0.0.1", self.port)
    }
}

/// The same for the servers that there are, and their ports.
fn adapted(text: &str, port: u16, nodes: &Nodes) -> String {
    let mut adapted = text
        .replace("bind :1883", &format!("bind 127.0.0.1:{port}"))
        // The servers trust this address. Clients that connect directly have another one.
        .replace(
            "default-server send-proxy-v2",
            &format!("default-server source {PROXY} send-proxy-v2"),
        )
        // The limit of open files may be too low for the original value.
        .replace("maxconn 30000", "maxconn 100");
    for number in 0..NODES {
        let way = nodes.way(number);
        adapted = adapted.replace(&format!("node{number}:1883"), &way);
    }
    let is_here = |line: &&str| !line.contains(&format!("node{NODES}:1883"));
    let lines: Vec<_> = adapted.lines().filter(is_here).collect();
    lines.join("\n") + "\n"
}
