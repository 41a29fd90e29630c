//! An etcd of its own for a test.
use crate::elsewhere::{Engine, block_on, wait_until_listening};
use etcd_client::{AlarmAction, AlarmOptions, AlarmType};
use harness::free_port;
use statestored::config::StorageConfig;
use statestored_etcd::{EtcdConfig, connect};
use statestored_link::ThreadLink;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// A process with a folder of its own; killed when it is dropped.
pub(crate) struct Etcd {
    folder: TempDir,
    child: Child,
    pub(crate) port: u16,
    peer_port: u16,
    arguments: Vec<String>,
}

impl Etcd {
    /// Starts etcd with these additional arguments; over TLS if they name files for it.
    pub(crate) fn with(arguments: &[String]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for _ in 0..10 {
            let (port, peer_port) = (free_port(), free_port());
            let mut child = spawn(&folder, port, peer_port, arguments);
            if wait_until_listening(&mut child, port) {
                return Self {
                    folder,
                    child,
                    port,
                    peer_port,
                    arguments: arguments.to_vec(),
                };
            }
        }
        panic!("etcd does not start: is it installed (Debian: etcd-server)?");
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("{}://127.0.0.1:{}", scheme(&self.arguments), self.port)
    }

    /// Copies the data on the disk into a new folder.
    pub(crate) fn copy(&self) -> TempDir {
        let copy = tempfile::tempdir().unwrap();
        copy_folder(self.folder.path(), copy.path());
        copy
    }

    /// Replaces the data on the disk with this copy.
    pub(crate) fn restore(&mut self, copy: &TempDir) {
        self.folder = tempfile::tempdir().unwrap();
        copy_folder(copy.path(), self.folder.path());
    }

    fn etcd_config(&self, prefix: &str) -> EtcdConfig {
        EtcdConfig {
            endpoints: vec![self.endpoint()],
            prefix: prefix.into(),
            tls: None,
            user: None,
            history: None,
        }
    }

    pub(crate) async fn client(&self) -> etcd_client::Client {
        let endpoints = [self.endpoint()];
        etcd_client::Client::connect(endpoints, None).await.unwrap()
    }

    /// Removes all keys that begin so, by etcd's own hand.
    pub(crate) async fn remove(&self, prefix: &str) {
        let all = etcd_client::DeleteOptions::new().with_prefix();
        let mut client = self.client().await;
        client.delete(prefix, Some(all)).await.unwrap();
    }

    /// Forgets what was, and takes writes again: what an operator does when it is full.
    pub(crate) async fn compact_and_disarm(&self) {
        let mut client = self.client().await;
        let found = client.get("k", None).await.unwrap();
        let revision = found.header().unwrap().revision();
        let physical = etcd_client::CompactionOptions::new().with_physical();
        client.compact(revision, Some(physical)).await.unwrap();
        client.defragment().await.unwrap();
        let full = AlarmType::Nospace;
        let raised = client.alarm(AlarmAction::Get, full, None).await.unwrap();
        for alarm in raised.alarms() {
            let mut member = AlarmOptions::new();
            member.with_member(alarm.member_id());
            let off = AlarmAction::Deactivate;
            client.alarm(off, full, Some(member)).await.unwrap();
        }
    }

    /// Writes a key by etcd's own hand.
    pub(crate) async fn put(&self, key: &str, value: impl Into<Vec<u8>>) {
        let mut client = self.client().await;
        client.put(key, value, None).await.unwrap();
    }
}

impl Engine for Etcd {
    fn start() -> Self {
        Self::with(&[])
    }

    fn storage(&self, prefix: &str) -> StorageConfig {
        StorageConfig::Etcd(self.etcd_config(prefix))
    }

    fn url(&self, prefix: &str) -> String {
        format!("etcd://127.0.0.1:{}/{prefix}", self.port)
    }

    fn link(&self, prefix: &str) -> ThreadLink {
        block_on(connect(self.etcd_config(prefix))).unwrap()
    }

    fn child(&self) -> &Child {
        &self.child
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    fn restart(&mut self) {
        self.child = spawn(&self.folder, self.port, self.peer_port, &self.arguments);
        assert!(wait_until_listening(&mut self.child, self.port));
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        // The process may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn copy_folder(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let copy = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            std::fs::create_dir(&copy).unwrap();
            copy_folder(&entry.path(), &copy);
        } else {
            std::fs::copy(entry.path(), copy).unwrap();
        }
    }
}

fn scheme(arguments: &[String]) -> &'static str {
    let has_tls = arguments.iter().any(|it| it.starts_with("--cert-file"));
    if has_tls { "https" } else { "http" }
}

fn spawn(folder: &TempDir, port: u16, peer_port: u16, arguments: &[String]) -> Child {
    let client = format!("{}://127.0.0.1:{port}", scheme(arguments));
    let peer = format!("http://127.0.0.1:{peer_port}");
    Command::new("etcd")
        .arg("--data-dir")
        .arg(folder.path())
        .args(["--listen-client-urls", &client])
        .args(["--advertise-client-urls", &client])
        .args(["--listen-peer-urls", &peer])
        .args(["--initial-advertise-peer-urls", &peer])
        .arg(format!("--initial-cluster=default={peer}"))
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("etcd (Debian: etcd-server)")
}
