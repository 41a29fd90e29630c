//! Servers over an engine, for the tests of every engine.
pub(crate) mod backups;
#[path = "../attached/bridge.rs"]
pub(crate) mod bridge;
pub(crate) mod bridged;
pub(crate) mod clocks;
pub(crate) mod ends;
pub(crate) mod files;
pub(crate) mod forgotten;
pub(crate) mod guarded;
pub(crate) mod keeping;
pub(crate) mod operators;
pub(crate) mod order;
#[allow(dead_code, reason = "only a broker that starts is needed here")]
#[path = "../attached/plugin.rs"]
pub(crate) mod plugin;
pub(crate) mod refusals;
pub(crate) mod remaining;
pub(crate) mod restores;
pub(crate) mod shared;
pub(crate) mod snapshots;
pub(crate) mod store;
pub(crate) mod suite;
pub(crate) mod unconfirmed;
#[allow(dead_code, reason = "only its client is needed here")]
#[path = "../attached/world.rs"]
pub(crate) mod world;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use statestore::{Client, Observation, Observer, Outcome, Settings};
use statestored::RunningServer;
use statestored::admin::AdminConfig;
use statestored::config::{Config, StorageConfig};
use statestored_link::ThreadLink;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::process::Child;
use std::time::{Duration, Instant};
use tokio::task::LocalSet;

/// Longer than anything takes on a machine that has much to do.
pub(crate) const LONG: Duration = Duration::from_secs(30);

/// How long the process of an engine may take until it listens.
const START: Duration = Duration::from_secs(60);

/// An engine of its own for a test, ended when it is dropped.
pub(crate) trait Engine: Sized {
    fn start() -> Self;

    /// Storage configuration of a server with this engine.
    fn storage(&self, prefix: &str) -> StorageConfig;

    /// The same, for a command line.
    fn url(&self, prefix: &str) -> String;

    /// The way to a store of this prefix.
    fn link(&self, prefix: &str) -> ThreadLink;

    fn child(&self) -> &Child;

    fn kill(&mut self);

    /// Starts the process again, with the data on its disk.
    fn restart(&mut self);

    /// Stops the process until [`resume`](Self::resume). Returns once it has stopped: some of its threads can run for a while after the
    /// signal.
    fn pause(&self) {
        signal(self.child(), Signal::STOP);
        let stopped = waitid(
            WaitId::Pid(Pid::from_child(self.child())),
            WaitIdOptions::STOPPED,
        );
        assert!(stopped.unwrap().is_some_and(|status| status.stopped()));
    }

    fn resume(&self) {
        signal(self.child(), Signal::CONT);
    }

    fn config(&self, prefix: &str) -> Config {
        Config {
            storage: self.storage(prefix),
            ..Config::in_memory()
        }
    }
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

/// Whether it listens before it ends.
pub(crate) fn wait_until_listening(child: &mut Child, port: u16) -> bool {
    let end = Instant::now() + START;
    while child.try_wait().unwrap().is_none() {
        if TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return true;
        }
        assert!(Instant::now() < end, "the engine does not listen");
        // It does not say when it does.
        std::thread::sleep(Duration::from_millis(20));
    }
    false
}

pub(crate) fn block_on<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    LocalSet::new().block_on(&runtime, test)
}

/// A server with a page for operators.
pub(crate) fn start(engine: &impl Engine) -> RunningServer {
    let admin = AdminConfig::new("http://127.0.0.1:0".parse().unwrap(), None).unwrap();
    RunningServer::start(Config {
        admin: Some(admin),
        ..engine.config("test")
    })
    .unwrap()
}

pub(crate) async fn connect_to(server: &RunningServer) -> Client {
    let settings: Settings = server.url().parse().unwrap();
    Client::connect(settings).await.unwrap()
}

pub(crate) async fn value(client: &Client, key: &str) -> Option<String> {
    let entry = client.get(key).await.unwrap()?;
    Some(String::from_utf8(entry.value.to_vec()).unwrap())
}

pub(crate) async fn next(observer: &mut Observer) -> Observation {
    let next = tokio::time::timeout(LONG, observer.next());
    next.await.expect("in time").expect("it goes on")
}

/// Returns the response of the HTTP port.
pub(crate) fn get(server: &RunningServer, path: &str) -> String {
    let mut stream = TcpStream::connect(server.http_address().unwrap()).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// Asks until it is so.
pub(crate) async fn until(what: &str, is_so: impl Fn() -> bool) {
    let end = Instant::now() + LONG;
    while !is_so() {
        assert!(Instant::now() < end, "not in time: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Checks that all requests are refused, with the reason.
pub(crate) async fn refuses_all(server: &RunningServer, client: &Client, why: &str) {
    let says = |what: &str| get(server, "/readyz").contains(what);
    until("it says so", || says("storage_replaced")).await;
    for error in [
        client.get("k").await.unwrap_err(),
        client.set("k", "2").await.unwrap_err(),
        client.set("new", "1").await.unwrap_err(),
        client.scan("*").next_page().await.unwrap_err(),
        client.observe("unseen").await.unwrap_err(),
    ] {
        assert_eq!(error.outcome(), Outcome::NotDone, "{error}");
        assert!(error.to_string().contains("restart the server"), "{error}");
        assert!(error.to_string().contains(why), "{error}");
    }
    // The state is permanent.
    assert!(says("storage_replaced"));
}

/// Servers over one engine.
pub(crate) struct Cluster<E> {
    pub(crate) engine: E,
    nodes: Vec<RunningServer>,
}

impl<E: Engine> Cluster<E> {
    pub(crate) fn start(nodes: usize) -> Self {
        Self::with_engine(E::start(), nodes)
    }

    pub(crate) fn with_engine(engine: E, nodes: usize) -> Self {
        let start = |_| RunningServer::start(engine.config("test")).unwrap();
        let nodes = (0..nodes).map(start).collect();
        Self { engine, nodes }
    }

    pub(crate) async fn client(&self, node: usize) -> Client {
        connect_to(&self.nodes[node]).await
    }

    pub(crate) fn block_on(&self, test: impl AsyncFnOnce(&Self)) {
        block_on(test(self));
    }

    /// Runs a test, and stops everything afterwards.
    pub(crate) fn run(self, test: impl AsyncFnOnce(&Self)) {
        self.block_on(test);
        drop(self.into_engine());
    }

    /// Stops the servers.
    pub(crate) fn into_engine(self) -> E {
        for node in self.nodes {
            node.stop().unwrap();
        }
        self.engine
    }
}
