//! Two servers over one engine, each behind proxies of its own on its way there.
use crate::engine::Engine;
use crate::process::Process;
use harness::free_port;
use harness::proxy::{AcceptMode, CutKind, Proxy};
use statestore::Settings;
use std::process::Command;
use std::time::Duration;

/// How many.
pub(crate) const NODES: usize = 2;

/// The address of the load balancer.
pub(crate) const PROXY: &str = "127.0.0.2";

/// How long a client waits for an answer.
pub(crate) const REQUEST: Duration = Duration::from_secs(5);

struct Node {
    port: u16,
    /// Where it says how it is.
    http: u16,
    /// A proxy to each member.
    ways: Vec<Proxy>,
    /// Arguments for the storage engine.
    storage: Vec<String>,
    process: Option<Process>,
}

/// Settings of a client that notices soon what is not there any more.
pub(crate) fn impatient(settings: Settings) -> Settings {
    settings
        .reconnect_delay(Duration::from_millis(10), Duration::from_millis(200))
        .keep_alive(Duration::from_secs(1))
        .ping_timeout(Duration::from_secs(1))
        .request_timeout(REQUEST)
}

/// All of them.
pub(crate) struct Nodes(Vec<Node>);

impl Nodes {
    pub(crate) async fn start(engine: &Engine) -> Self {
        let mut nodes = Self(Vec::new());
        for number in 0..NODES {
            let mut ways = Vec::with_capacity(engine.members());
            for address in engine.addresses() {
                ways.push(Proxy::start(address).await);
            }
            let addresses: Vec<_> = ways.iter().map(Proxy::address).collect();
            nodes.0.push(Node {
                port: free_port(),
                http: free_port(),
                ways,
                storage: engine.arguments(&addresses),
                process: None,
            });
            nodes.begin(number);
            nodes.listens(number).await;
        }
        nodes
    }

    /// Settings of a client that knows all of them, and begins with this one.
    pub(crate) fn known(&self, first: usize) -> Settings {
        let port = |number: usize| self.0[number % NODES].port;
        let settings = Settings::new("127.0.0.1", port(first));
        (1..NODES).fold(settings, |settings, other| {
            settings.add_address("127.0.0.1", port(first + other))
        })
    }

    /// The same for one that notices soon what is not there any more.
    pub(crate) fn settings(&self, first: usize) -> Settings {
        impatient(self.known(first))
    }

    /// Where `HAProxy` reaches one, and how it is.
    pub(crate) fn way(&self, number: usize) -> String {
        let Node { port, http, .. } = &self.0[number];
        format!("127.0.0.1:{port} port {http}")
    }

    pub(crate) fn process(&mut self, number: usize) -> Option<&mut Process> {
        self.0[number].process.as_mut()
    }

    pub(crate) fn kill(&mut self, number: usize) {
        self.0[number].process = None;
    }

    pub(crate) fn begin(&mut self, number: usize) {
        let node = &mut self.0[number];
        let built = env!("CARGO_BIN_EXE_statestored").into();
        let program = std::env::var_os("STATESTORED_BIN").unwrap_or(built);
        let mut command = Command::new(program);
        command
            .args(&node.storage)
            .arg(format!("--listen=tcp://127.0.0.1:{}", node.port))
            .arg(format!("--http=http://127.0.0.1:{}", node.http))
            .arg(format!("--trusted-proxy={PROXY}"));
        node.process = Some(Process::start(&mut command));
    }

    pub(crate) async fn listens(&mut self, number: usize) {
        let node = &mut self.0[number];
        let process = node.process.as_mut().unwrap();
        process.listens(node.port).await;
    }

    /// Cuts a node's way to a member, and lets nothing through any more.
    pub(crate) fn cut(&self, node: usize, member: usize, admission: AcceptMode) {
        let way = &self.0[node].ways[member];
        way.set_accept_mode(admission);
        way.cut(CutKind::Reset);
    }

    /// Adds this delay to each byte from a node to a member and back.
    pub(crate) fn slow(&self, node: usize, member: usize, delay: Duration) {
        self.0[node].ways[member].set_delay(delay);
    }

    /// The ways of all nodes to a member.
    pub(crate) fn ways(&self, member: usize) -> impl Iterator<Item = &Proxy> {
        self.0.iter().map(move |node| &node.ways[member])
    }

    /// Everything gets through again.
    pub(crate) fn heal(&self, node: usize) {
        for way in &self.0[node].ways {
            way.set_accept_mode(AcceptMode::Forward);
            way.set_delay(Duration::ZERO);
        }
    }
}
