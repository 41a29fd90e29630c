//! An etcd of its own for a test, and servers over it.
use etcd_client::{AlarmAction, AlarmOptions, AlarmType};
use statestore::{Client, Settings};
use statestored::RunningServer;
use statestored::config::{Config, StorageConfig};
use statestored::keyspace::remote::etcd::EtcdConfig;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio::task::LocalSet;

/// How long an etcd may take until it listens.
const START: Duration = Duration::from_secs(60);

/// A process with a folder of its own; killed when it is dropped.
pub(crate) struct Etcd {
    folder: TempDir,
    child: Child,
    port: u16,
    peer_port: u16,
    arguments: Vec<String>,
}

/// A port that was free a moment ago: etcd does not say which one it took.
fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.local_addr().unwrap().port()
}

impl Etcd {
    pub(crate) fn start() -> Self {
        Self::with(&[])
    }

    /// With these arguments as well; over TLS if they name files for it.
    pub(crate) fn with(arguments: &[String]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for _ in 0..10 {
            let (port, peer_port) = (free_port(), free_port());
            let mut child = spawn(&folder, port, peer_port, arguments);
            if listens(&mut child, port) {
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

    /// Its process does nothing until it may go on.
    pub(crate) fn pause(&self) {
        self.signal(rustix::process::Signal::STOP);
    }

    pub(crate) fn go_on(&self) {
        self.signal(rustix::process::Signal::CONT);
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).unwrap();
    }

    pub(crate) fn kill_and_start(&mut self) {
        self.kill();
        self.start_again();
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// With what it has on its disk.
    pub(crate) fn start_again(&mut self) {
        self.child = spawn(&self.folder, self.port, self.peer_port, &self.arguments);
        assert!(listens(&mut self.child, self.port));
    }

    /// What is on its disk, in a folder of its own.
    pub(crate) fn copy(&self) -> TempDir {
        let copy = tempfile::tempdir().unwrap();
        copy_folder(self.folder.path(), copy.path());
        copy
    }

    /// It has this on its disk, and nothing else.
    pub(crate) fn restore(&mut self, copy: &TempDir) {
        self.folder = tempfile::tempdir().unwrap();
        copy_folder(copy.path(), self.folder.path());
    }

    async fn client(&self) -> etcd_client::Client {
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
    pub(crate) async fn make_room(&self) {
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
    pub(crate) fn put(&self, key: &str, value: &str) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let mut client = self.client().await;
            client.put(key, value, None).await.unwrap();
        });
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        // It may have ended.
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

/// Whether it listens before it ends.
fn listens(child: &mut Child, port: u16) -> bool {
    let end = Instant::now() + START;
    while child.try_wait().unwrap().is_none() {
        if TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return true;
        }
        assert!(Instant::now() < end, "etcd does not listen");
        // It does not say when it does.
        std::thread::sleep(Duration::from_millis(20));
    }
    false
}

/// A server over an etcd.
pub(crate) fn config(etcd: &Etcd, prefix: &str) -> Config {
    Config {
        storage: StorageConfig::Etcd(EtcdConfig {
            endpoints: vec![etcd.endpoint()],
            prefix: prefix.into(),
            tls: None,
            user: None,
        }),
        ..Config::in_memory()
    }
}

/// Servers over one etcd.
pub(crate) struct Cluster {
    pub(crate) etcd: Etcd,
    nodes: Vec<RunningServer>,
}

impl Cluster {
    pub(crate) fn start(nodes: usize) -> Self {
        Self::over(Etcd::start(), nodes)
    }

    pub(crate) fn over(etcd: Etcd, nodes: usize) -> Self {
        let start = |_| RunningServer::start(config(&etcd, "test")).unwrap();
        let nodes = (0..nodes).map(start).collect();
        Self { etcd, nodes }
    }

    pub(crate) async fn client(&self, node: usize) -> Client {
        let settings: Settings = self.nodes[node].url().parse().unwrap();
        Client::connect(settings).await.unwrap()
    }

    pub(crate) fn block_on(&self, test: impl AsyncFnOnce(&Self)) {
        let runtime: Runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        LocalSet::new().block_on(&runtime, test(self));
    }

    /// Runs a test, and stops everything afterwards.
    pub(crate) fn run(self, test: impl AsyncFnOnce(&Self)) {
        self.block_on(test);
        drop(self.into_etcd());
    }

    /// Stops the servers.
    pub(crate) fn into_etcd(self) -> Etcd {
        for node in self.nodes {
            node.stop().unwrap();
        }
        self.etcd
    }
}
