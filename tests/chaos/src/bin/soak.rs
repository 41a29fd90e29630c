//! `scripts/soak`: many clients come and go for hours without faults, and no process may grow.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
use chaos::disk::Disk;
use chaos::interruption::until_interrupted;
use chaos::linear_fit::LinearFit;
use chaos::peer::{Peer, PeerReply};
use chaos::programs::{LANGUAGES, Language, Programs};
use chaos::resource_monitor::ResourceMonitor;
use chaos::server::{Certificate, Server};
use clap::Parser;
use rustix::process::Pid;
use statestore::{Client, Settings};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::task::{JoinSet, LocalSet};
use tokio::time::{sleep, sleep_until, timeout};

/// Interval at which memory is measured.
const MEASURE_INTERVAL: Duration = Duration::from_secs(10);

/// Share of the time that passes before growth counts: buffers, caches and the arenas of allocators fill.
const WARM_UP: f64 = 0.25;

/// Growth of a process's memory that is allowed in an hour: a share of its mean, plus this number of KiB. More growth counts if
/// it exceeds the limit by two standard errors.
const MAX_GROWTH_RATIO: f64 = 0.05;
const MAX_GROWTH_KIB: f64 = 1024.0;

/// Number of calls of which one may fail, because the machine may be busy.
const CALLS_PER_FAILURE: u64 = 1_000;

/// Upper bound of the duration of a call.
const CALL_LIMIT: Duration = Duration::from_secs(60);

/// Bytes of the values of each stage of the churn. The remaining values of a stage lie between free areas that are too small for
/// the next stage.
const STAGES: [usize; 4] = [100, 5_000, 100_000, 1_000];

/// Number of values for each one that stays when a stage ends, until that stage comes again.
const KEEP_EVERY: usize = 24;

/// Number of concurrent requests of the churn, and the time between two such groups.
const GROUP: usize = 32;
const PAUSE: Duration = Duration::from_millis(5);

/// Approximate size in bytes of a churn entry besides its value.
const OVERHEAD: usize = 200;

/// Memory of a server besides its budgets (docs/server.md), for batches that wait for the disk and for a merge of this store.
const OVERHEAD_MIB: u64 = 64 + 32;

/// Clients in Rust, C, Python (blocking and asyncio) and Node that come and go for hours, and what memory they and the server have
/// meanwhile.
#[derive(Debug, Parser)]
#[command(name = "scripts/soak")]
struct Options {
    /// For how long
    #[arg(long, value_name = "N", default_value_t = 4.0)]
    hours: f64,

    /// How many clients there are at a time, spread over a process for each language
    #[arg(long, value_name = "N", default_value_t = 200)]
    clients: usize,

    /// Memory of the server's entries in MiB (--max-bytes), nearly filled with values of changing sizes; sessions get half as much
    #[arg(long, value_name = "MIB", default_value_t = 64)]
    max_mib: u64,

    /// Decides what the clients do
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,

    #[command(flatten)]
    programs: Programs,
}

/// State that all clients share.
struct SoakRun {
    peers: Vec<(Language, Peer)>,
    addresses: [std::net::SocketAddr; 2],
    authority: String,
    end: Instant,
    failure: RefCell<Option<String>>,
    calls: Cell<u64>,
    connections: Cell<u64>,
    failed: RefCell<BTreeMap<(Language, String), u64>>,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    LocalSet::new().block_on(&runtime, until_interrupted(run(&options)))
}

impl SoakRun {
    fn is_running(&self) -> bool {
        Instant::now() < self.end && self.failure.borrow().is_none()
    }

    /// Sends a call to a client; returns the word of its result.
    async fn call(&self, process: usize, words: &str) -> String {
        let (language, peer) = &self.peers[process];
        self.calls.set(self.calls.get() + 1);
        let line = match timeout(CALL_LIMIT, peer.call(words)).await {
            Ok(PeerReply::Line(line)) => *line,
            Ok(PeerReply::Lost(_)) => {
                return self.set_failure(format!("{language:?} ended by itself"));
            }
            Err(_) => return self.set_failure(format!("{language:?}: no end of `{words}`")),
        };
        if line.told == "error" {
            let kind = line.kind.unwrap_or_default();
            *self
                .failed
                .borrow_mut()
                .entry((*language, kind))
                .or_default() += 1;
        }
        line.told
    }

    fn set_failure(&self, problem: String) -> String {
        *self.failure.borrow_mut() = Some(problem);
        String::new()
    }

    /// Fills this part of the store with values of one size and deletes most of them, stage by stage.
    async fn churn(self: Rc<Self>, bytes: usize) {
        let address = self.addresses[0];
        let settings = Settings::new(address.ip().to_string(), address.port());
        let client = Client::connect(settings).await.unwrap();
        let key = |stage: usize, number: usize| format!("churn-{stage}-{number}");
        let mut stages = (0..STAGES.len()).cycle();
        while let Some(stage) = stages.next().filter(|_| self.is_running()) {
            let count = bytes / (STAGES[stage] + OVERHEAD);
            let numbers: Vec<_> = (0..count).collect();
            let gone = numbers.iter().copied().filter(|it| it % KEEP_EVERY != 0);
            let gone: Vec<_> = gone.collect();
            for group in numbers.chunks(GROUP) {
                let sets = group.iter().map(|number| {
                    let (client, key) = (client.clone(), key(stage, *number));
                    async move { client.set(key, vec![b'v'; STAGES[stage]]).await.map(drop) }
                });
                self.send_all(sets).await;
            }
            for group in gone.chunks(GROUP) {
                let dels = group.iter().map(|number| {
                    let (client, key) = (client.clone(), key(stage, *number));
                    async move { client.del(key).await.map(drop) }
                });
                self.send_all(dels).await;
            }
        }
    }

    /// Sends these requests together, and counts those that fail.
    async fn send_all<Request>(&self, requests: impl Iterator<Item = Request>)
    where
        Request: Future<Output = Result<(), statestore::Error>> + 'static,
    {
        if !self.is_running() {
            return;
        }
        let mut under_way = JoinSet::new();
        for request in requests {
            under_way.spawn_local(request);
        }
        while let Some(done) = under_way.join_next().await {
            self.calls.set(self.calls.get() + 1);
            if let Err(error) = done.unwrap() {
                let kind = format!("{:?} of the churn", error.kind());
                let mut failed = self.failed.borrow_mut();
                *failed.entry((Language::Rust, kind)).or_default() += 1;
            }
        }
        sleep(PAUSE).await;
    }

    /// Runs one client after the other under one number.
    async fn run_clients(self: Rc<Self>, process: usize, number: usize, mut chance: fastrand::Rng) {
        // The clients do not start at the same time.
        sleep(Duration::from_millis(chance.u64(0..5_000))).await;
        while self.is_running() {
            let (scheme, authority, address) = match number % 2 {
                0 => ("mqtt", "-", self.addresses[0]),
                _ => ("mqtts", self.authority.as_str(), self.addresses[1]),
            };
            let words = format!("connect {number} {scheme}://{address} {authority}");
            if self.call(process, &words).await != "connected" {
                sleep(Duration::from_millis(500)).await;
                continue;
            }
            self.connections.set(self.connections.get() + 1);
            let until = Instant::now() + Duration::from_secs(chance.u64(10..60));
            self.run_client(process, number, until, &mut chance).await;
            self.call(process, &format!("close {number}")).await;
        }
    }

    /// Runs a client from its connect to its end.
    async fn run_client(
        &self,
        process: usize,
        number: usize,
        until: Instant,
        chance: &mut fastrand::Rng,
    ) {
        let mut observer = None;
        while self.is_running() && Instant::now() < until {
            let (key, other) = (chance.u32(0..500), chance.u32(0..50));
            let words = match chance.u32(0..20) {
                0..6 => format!("get {number} key-{key}"),
                6..12 => format!("set {number} key-{key} {} always", chance.u64(..)),
                12 => format!("set {number} key-{key} {} if_absent", chance.u64(..)),
                13 => format!("del {number} key-{key}"),
                14..17 => format!("count {number} count-{other}"),
                17 => format!(
                    "hold {number} lock-{other} 2000 10000 {}",
                    chance.u32(5..200)
                ),
                _ => {
                    let Some(id) = observer.take() else {
                        let peer = &self.peers[process].1;
                        self.calls.set(self.calls.get() + 1);
                        // The observations are dropped.
                        let made = peer.observe(number, &format!("count-{other}")).await;
                        observer = made.map(|(id, _)| id);
                        continue;
                    };
                    format!("forget {number} {id}")
                }
            };
            self.call(process, &words).await;
            sleep(Duration::from_millis(chance.u64(200..800))).await;
        }
        if let Some(id) = observer {
            self.call(process, &format!("forget {number} {id}")).await;
        }
    }
}

async fn run(options: &Options) -> ExitCode {
    println!(
        "{} hours, {} clients, seed {}",
        options.hours, options.clients, options.seed
    );
    let mut chance = fastrand::Rng::with_seed(options.seed);
    let scratch = tempfile::tempdir().unwrap();
    let certificate = Certificate::new(scratch.path());
    let authority = certificate.cert.display().to_string();
    let (disk, log) = (
        Disk::new(&options.programs.disk),
        scratch.path().join("server.log"),
    );
    let bytes = options.max_mib << 20;
    let budgets = [
        format!("--max-bytes={bytes}"),
        format!("--max-session-bytes={}", bytes / 2),
    ];
    let program = &options.programs.server;
    let mut server = Server::start(program, "durable", &budgets, certificate, log, disk).await;
    let peers = LANGUAGES.map(|language| {
        (
            language,
            Peer::start(&mut options.programs.client(language)),
        )
    });
    let soak = Rc::new(SoakRun {
        peers: peers.into(),
        addresses: server.addresses(),
        authority,
        end: Instant::now() + Duration::from_secs_f64(options.hours * 3600.0),
        failure: RefCell::default(),
        calls: Cell::new(0),
        connections: Cell::new(0),
        failed: RefCell::default(),
    });
    let mut clients = JoinSet::new();
    for number in 0..options.clients {
        let process = number % LANGUAGES.len();
        // Half of the clients of each language use TLS.
        clients.spawn_local(Rc::clone(&soak).run_clients(process, number, chance.fork()));
    }
    let churned = usize::try_from(bytes / 2).unwrap();
    clients.spawn_local(Rc::clone(&soak).churn(churned));
    let mut census = ResourceMonitor::default();
    let mut next = tokio::time::Instant::now() + MEASURE_INTERVAL;
    while soak.is_running() {
        sleep_until(next.min(soak.end.into())).await;
        next += MEASURE_INTERVAL;
        let processes = soak
            .peers
            .iter()
            .map(|(language, peer)| (format!("{language:?}"), peer.pid()));
        let server: Option<Pid> = server.pid();
        census.measure(
            server
                .map(|pid| ("server".to_owned(), pid))
                .into_iter()
                .chain(processes),
        );
        for (language, peer) in &soak.peers {
            if let Some(nonsense) = peer.take_invalid_line() {
                soak.set_failure(format!("{language:?} said {nonsense}"));
            }
        }
    }
    let ended = timeout(2 * CALL_LIMIT, async {
        while clients.join_next().await.is_some() {}
    })
    .await;
    if ended.is_err() {
        soak.set_failure("clients do not end".to_owned());
    }
    if let Some(how) = server.unexpected_end() {
        soak.set_failure(how);
    }
    let is_flat = report(options, &soak, &census);
    if !server.terminate().await {
        soak.set_failure("the server does not end".to_owned());
    }
    if let Some(problem) = soak.failure.borrow().as_ref() {
        println!("WRONG {problem}");
        return ExitCode::FAILURE;
    }
    if is_flat {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Prints the results. Returns whether they are good.
fn report(options: &Options, soak: &SoakRun, census: &ResourceMonitor) -> bool {
    let failed: u64 = soak.failed.borrow().values().sum();
    let (calls, connections) = (soak.calls.get(), soak.connections.get());
    println!(
        "{calls} calls, {connections} connections; failed {failed}: {:?}",
        soak.failed.borrow()
    );
    let mut is_good = true;
    let mut demand = |is: bool, what: String| {
        if !is {
            println!("WRONG {what}");
            is_good = false;
        }
    };
    demand(
        failed * CALLS_PER_FAILURE <= calls,
        "too many calls failed".to_owned(),
    );
    #[allow(clippy::cast_precision_loss, reason = "there are not that many")]
    let least = options.clients as f64 * options.hours * 3600.0 / 4.0;
    #[allow(clippy::cast_precision_loss, reason = "there are not that many")]
    demand(
        calls as f64 > least,
        format!("too little happened: at least {least:.0} calls say something"),
    );
    let promised = options.max_mib * 3 / 2 + OVERHEAD_MIB;
    let server = &census.all()["server"];
    let curve = server.iter().map(|(_, holds)| holds.rss_kib / 1024);
    let most = curve.clone().max().unwrap_or_default();
    println!(
        "resident memory of the server in MiB, each minute: {}",
        curve
            .step_by(6)
            .map(|it| it.to_string())
            .collect::<Vec<_>>()
            .join(" ")
    );
    println!("at most {most} MiB of {promised} that are promised");
    demand(
        most <= promised,
        "the server has more memory than promised".to_owned(),
    );
    for (name, all) in census.all() {
        let from = all.last().map_or(0.0, |(at, _)| at.as_secs_f64() * WARM_UP);
        #[allow(clippy::cast_precision_loss, reason = "memories are not that large")]
        let points = |of: fn(&chaos::resource_monitor::ResourceUsage) -> u64| -> Vec<(f64, f64)> {
            let counted = all
                .iter()
                .map(|(at, holds)| (at.as_secs_f64() / 3600.0, of(holds) as f64));
            counted.filter(|(at, _)| at * 3600.0 >= from).collect()
        };
        let (memory, files) = (
            LinearFit::fit(&points(|holds| holds.rss_kib)),
            LinearFit::fit(&points(|holds| holds.fds)),
        );
        let (Some(memory), Some(files)) = (memory, files) else {
            demand(false, format!("{name}: too few looks"));
            continue;
        };
        let may = memory.mean * MAX_GROWTH_RATIO + MAX_GROWTH_KIB;
        println!(
            "{name}: {} looks, {:.0} KiB, {:+.0} ± {:.0} KiB an hour (at most {may:.0}); {:.0} file descriptors, {:+.1} ± {:.1} an hour",
            all.len(),
            memory.mean,
            memory.slope,
            memory.standard_error,
            files.mean,
            files.slope,
            files.standard_error,
        );
        demand(
            memory.slope - 2.0 * memory.standard_error <= may,
            format!("{name} grows"),
        );
        // File descriptors come and go with the clients.
        let may = files.mean * MAX_GROWTH_RATIO + 1.0;
        demand(
            files.slope - 2.0 * files.standard_error <= may,
            format!("{name} has more and more file descriptors"),
        );
    }
    is_good
}
