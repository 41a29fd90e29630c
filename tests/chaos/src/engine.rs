//! Engines that two servers share. They have no faults: `tests/cluster` kills its engines.
use harness::free_port;
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};
use tokio::process::{Child, Command};

async fn start(command: &mut Command, port: u16) -> Option<Child> {
    let command = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let child = command.kill_on_drop(true).spawn();
    let child = child.unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let end = Instant::now() + Duration::from_secs(60);
    while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
        assert!(Instant::now() < end, "{command:?} does not listen");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Some(child)
}

/// Starts etcd with one member; returns it and the option of the servers.
pub async fn etcd(folder: &Path) -> (Option<Child>, String) {
    let (port, peer) = (free_port(), free_port());
    let (url, peer) = (
        format!("http://127.0.0.1:{port}"),
        format!("http://127.0.0.1:{peer}"),
    );
    let mut command = Command::new("etcd");
    command
        .arg("--data-dir")
        .arg(folder.join("etcd"))
        .arg(format!("--listen-client-urls={url}"))
        .arg(format!("--advertise-client-urls={url}"))
        .arg(format!("--listen-peer-urls={peer}"))
        .arg(format!("--initial-advertise-peer-urls={peer}"))
        .arg(format!("--initial-cluster=default={peer}"));
    (
        start(&mut command, port).await,
        format!("etcd://127.0.0.1:{port}/chaos"),
    )
}

/// Starts a Redis that syncs each write; returns it and the option of the servers.
pub async fn redis(folder: &Path) -> (Option<Child>, String) {
    let port = free_port();
    let mut command = Command::new("redis-server");
    command
        .args([
            "--port",
            &port.to_string(),
            "--save",
            "",
            "--appendonly",
            "yes",
        ])
        .args([
            "--appendfsync",
            "always",
            "--maxmemory-policy",
            "noeviction",
            "--dir",
        ])
        .arg(folder);
    (
        start(&mut command, port).await,
        format!("redis://127.0.0.1:{port}?prefix=chaos"),
    )
}
