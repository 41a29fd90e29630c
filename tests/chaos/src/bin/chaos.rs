//! `scripts/chaos`: everything around the store breaks, and its promises still hold.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
use chaos::client_slot::{CLIENTS, ClientSlot};
use chaos::counter_observers::CounterObserver;
use chaos::disk::Disk;
use chaos::fault_injector::FaultInjector;
use chaos::faults::FaultDeck;
use chaos::interruption::until_interrupted;
use chaos::programs::{LANGUAGES, Programs};
use chaos::resource_monitor::ResourceMonitor;
use chaos::run_state::{COUNTERS, RunState};
use chaos::server::{Certificate, Server};
use chaos::{counter_clients, key_clients, lock_clients};
use clap::{Parser, ValueEnum};
use rustix::process::Pid;
use std::cell::RefCell;
use std::path::PathBuf;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::task::{AbortHandle, JoinSet, LocalSet, spawn_local};
use tokio::time::{sleep, timeout};

/// Upper bound of any call once the faults have ended: a lease, the timeouts of the clients, and the time by which their clocks
/// were ahead.
const CALM_LIMIT: Duration = Duration::from_secs(60);

/// Servers and clients in Rust, C, Python (blocking and asyncio) and Node, all of them processes, while one thing after the other
/// breaks: processes, ways, disks, clocks. Says what happened, and what no store may have told.
#[derive(Debug, Parser)]
#[command(name = "scripts/chaos", after_help = HELP)]
struct Options {
    /// For how long things go wrong; what is checked afterwards takes up to a minute more
    #[arg(long, value_name = "N", default_value_t = 2.0)]
    minutes: f64,

    /// Decides what goes wrong in which order; what comes of that depends on the machine [default: another one each time, which is
    /// printed]
    #[arg(long, value_name = "S")]
    seed: Option<u64>,

    /// Where the entries are: on the server's own disk, or in an engine that two servers share
    #[arg(long, value_enum, default_value_t = Storage::Durable)]
    storage: Storage,

    #[command(flatten)]
    programs: Programs,
}

const HELP: &str = "\
What is checked:
  the history of each key has an order, in which each call lies between its begin and its end (a call of unknown
    outcome may have happened or not; \"not done\" did not); a key for which that cannot be decided is a failure
  no two clients hold a lock at a time, and fencing tokens rise with its holders
  certain <= count <= certain + perhaps, for counters that all clients count in
  observers are told of rising versions, and in the end of the last state
  each call ends, once; no process ends by itself; a server whose sync failed does
  memory and file descriptors of server and clients are flat
  enough of everything happened

Exit code: 0 if all of it holds, 1 if not.";

/// Where the entries are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Storage {
    /// One server with a disk of its own.
    Durable,
    /// Two servers over one etcd. The server has to be built with the feature.
    Etcd,
    /// Two servers over one Redis. The server has to be built with the feature.
    Redis,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    LocalSet::new().block_on(&runtime, until_interrupted(run(&options)))
}

/// Starts an engine, for servers that need one.
async fn engine(
    storage: Storage,
    folder: &std::path::Path,
) -> (Option<tokio::process::Child>, String) {
    match storage {
        Storage::Durable => (None, "durable".to_owned()),
        Storage::Etcd => chaos::engine::etcd(folder).await,
        Storage::Redis => chaos::engine::redis(folder).await,
    }
}

async fn run(options: &Options) -> ExitCode {
    let seed = options.seed.unwrap_or_else(|| fastrand::u64(..1_000_000));
    println!(
        "seed {seed}, {} minutes, {:?}",
        options.minutes, options.storage
    );
    let mut chance = fastrand::Rng::with_seed(seed);
    let scratch = tempfile::tempdir().unwrap();
    let certificate = Certificate::new(scratch.path());
    let (_engine, storage) = engine(options.storage, scratch.path()).await;
    let mut servers = Vec::new();
    for number in 0..if options.storage == Storage::Durable {
        1
    } else {
        2
    } {
        let disk = Disk::new(&options.programs.disk);
        let log = scratch.path().join(format!("server-{number}.log"));
        let certificate = certificate.clone();
        servers.push(
            Server::start(
                &options.programs.server,
                &storage,
                &[],
                certificate,
                log,
                disk,
            )
            .await,
        );
    }
    let mut seats = Vec::new();
    for (number, language) in LANGUAGES.into_iter().enumerate() {
        let server = &servers[number % servers.len()];
        let authority: PathBuf = certificate.cert.clone();
        seats.push(ClientSlot::new(number, language, &options.programs, server, authority).await);
    }
    let world = Rc::new(RunState::new(seats));
    let followings = start_observers(&world).await;
    let workers = start_workers(&world, &mut chance);
    let mut storm = FaultInjector {
        world: &world,
        servers,
        chance: chance.fork(),
        deck: FaultDeck::new(options.storage == Storage::Durable),
        checked_keys: 0,
    };
    let census = Rc::new(RefCell::new(ResourceMonitor::default()));
    let pids: Rc<RefCell<Option<Pid>>> = Rc::default();
    pids.replace(storm.servers[0].pid());
    let counting = start_monitor(Rc::clone(&census), Rc::clone(&world), Rc::clone(&pids));
    let minutes = Duration::from_secs_f64(options.minutes * 60.0);
    let begun = Instant::now();
    while begun.elapsed() < minutes && world.failures.is_empty() {
        let part = minutes
            .saturating_sub(begun.elapsed())
            .min(Duration::from_secs(5));
        storm.run(part).await;
        pids.replace(storm.servers[0].pid());
    }
    if world.failures.is_empty() {
        check_after_faults(&world, &mut storm, workers, &followings).await;
    }
    if world.failures.is_empty() {
        pids.replace(storm.servers[0].pid());
        check_resources(&world, &census, &pids).await;
    }
    counting.abort();
    if world.failures.is_empty() {
        stop_processes(&world, &mut storm).await;
    }
    report(options, &world, &storm, &census.borrow());
    let found = world.failures.all();
    for finding in &found {
        println!("WRONG {finding}");
    }
    if found.is_empty() {
        println!("everything that was promised holds");
        return ExitCode::SUCCESS;
    }
    let kept = scratch.keep();
    println!(
        "seed {seed}; the logs of the servers are in {}",
        kept.display()
    );
    ExitCode::FAILURE
}

/// Starts an observer for each client, and waits until all of them are active.
async fn start_observers(world: &Rc<RunState>) -> Vec<Rc<CounterObserver>> {
    let mut followings = Vec::new();
    for seat in 0..world.slots.len() {
        for client in 0..CLIENTS {
            for counter in 0..COUNTERS.len() {
                let following = CounterObserver::new(seat, client, counter);
                spawn_local(Rc::clone(&following).run(Rc::clone(world)));
                followings.push(following);
            }
        }
    }
    while !followings.iter().all(|following| following.is_observing()) {
        sleep(Duration::from_millis(10)).await;
    }
    followings
}

/// Starts the work of all clients.
fn start_workers(world: &Rc<RunState>, chance: &mut fastrand::Rng) -> JoinSet<()> {
    let mut workers = JoinSet::new();
    for seat in 0..world.slots.len() {
        for client in [0, 0, 1] {
            workers.spawn_local(key_clients::run_calls(
                Rc::clone(world),
                seat,
                client,
                chance.fork(),
            ));
        }
        workers.spawn_local(counter_clients::run_increments(
            Rc::clone(world),
            seat,
            seat % CLIENTS,
            chance.fork(),
        ));
        workers.spawn_local(lock_clients::hold_locks(
            Rc::clone(world),
            seat,
            (seat + 1) % CLIENTS,
            chance.fork(),
        ));
    }
    workers
}

/// Returns the running processes.
fn processes(world: &RunState, server: Option<Pid>) -> impl Iterator<Item = (String, Pid)> {
    let clients = world
        .slots
        .iter()
        .map(|seat| (format!("{:?}", seat.language), seat.peer().pid()));
    let clients: Vec<_> = clients.collect();
    server
        .map(|pid| ("server".to_owned(), pid))
        .into_iter()
        .chain(clients)
}

fn start_monitor(
    census: Rc<RefCell<ResourceMonitor>>,
    world: Rc<RunState>,
    server: Rc<RefCell<Option<Pid>>>,
) -> AbortHandle {
    let counting = async move {
        loop {
            let who = processes(&world, *server.borrow());
            census.borrow_mut().measure(who);
            sleep(Duration::from_secs(1)).await;
        }
    };
    spawn_local(counting).abort_handle()
}

/// Ends the faults and checks the final state.
async fn check_after_faults(
    world: &RunState,
    storm: &mut FaultInjector<'_>,
    mut workers: JoinSet<()>,
    followings: &[Rc<CounterObserver>],
) {
    world.is_finishing.set(true);
    let ended = timeout(CALM_LIMIT, async {
        while workers.join_next().await.is_some() {}
    })
    .await;
    if ended.is_err() {
        world.failures.add(format!(
            "calls have not ended {CALM_LIMIT:?} after everything was in order again"
        ));
    }
    for seat in 0..world.slots.len() {
        for client in 0..CLIENTS {
            counter_clients::increment_all(world, seat, client, CALM_LIMIT).await;
        }
    }
    storm.check_results();
    if !world.failures.is_empty() {
        return;
    }
    let counted = counter_clients::check(world).await;
    for (number, following) in followings.iter().enumerate() {
        following
            .wait_for(world, counted[number % COUNTERS.len()], CALM_LIMIT)
            .await;
    }
    storm.checked_keys += world.check(|_| true);
}

/// Checks the memory and the file descriptors.
async fn check_resources(
    world: &RunState,
    census: &RefCell<ResourceMonitor>,
    server: &RefCell<Option<Pid>>,
) {
    let end = Instant::now() + CALM_LIMIT;
    loop {
        let excess = census.borrow().excess(processes(world, *server.borrow()));
        if excess.is_empty() {
            break;
        }
        if Instant::now() > end {
            return world.failures.add(excess.join("; "));
        }
        sleep(Duration::from_millis(200)).await;
    }
    for (name, before, after, is_flat) in census.borrow().growth() {
        if !is_flat {
            world.failures.add(format!(
                "{name} has {after} KiB of memory, after {before} KiB"
            ));
        }
    }
}

/// Ends all processes in good order.
async fn stop_processes(world: &RunState, storm: &mut FaultInjector<'_>) {
    for server in &mut storm.servers {
        if !server.terminate().await {
            world.failures.add("the server does not end");
        }
    }
}

fn report(
    options: &Options,
    world: &RunState,
    storm: &FaultInjector<'_>,
    census: &ResourceMonitor,
) {
    println!("went wrong: {:?}", storm.deck.counts);
    for ((language, how), count) in world.results() {
        println!("{language:?}: {how} {count}");
    }
    let (calls, unknown) = world.history.borrow().counts();
    println!(
        "{calls} calls in {} histories that have an order; {unknown} calls of unknown outcome",
        storm.checked_keys
    );
    for (key, tally) in COUNTERS.iter().zip(&world.tallies) {
        println!("{key}: {:?}", tally.get());
    }
    let held: Vec<_> = world
        .holdings
        .iter()
        .map(|held| held.borrow().count())
        .collect();
    println!(
        "locks held {held:?} times; observers were told {} times",
        world.observations.get()
    );
    for (name, before, after, _) in census.growth() {
        let fds = census.all()[name].last().map(|(_, holds)| holds.fds);
        let first = census.initial[name].fds;
        println!(
            "{name}: {before} KiB, then {after} KiB; {first} file descriptors, then {}",
            fds.unwrap_or(0)
        );
    }
    if !world.failures.is_empty() {
        return;
    }
    for what in missing_events(options, world, storm) {
        world.failures.add(format!("too little happened: {what}"));
    }
}

/// Returns the events that were too rare for the run to prove anything.
fn missing_events(options: &Options, world: &RunState, storm: &FaultInjector<'_>) -> Vec<String> {
    let mut lacking = Vec::new();
    let mut demand = |what: String, count: u64, least: f64| {
        #[allow(clippy::cast_precision_loss, reason = "there are not that many")]
        if (count as f64) < least {
            lacking.push(format!("{what}: {count}, at least {least:.0}"));
        }
    };
    let minutes = options.minutes;
    for (trouble, count) in &storm.deck.counts {
        demand(
            format!("{trouble:?}"),
            *count as u64,
            (minutes / 2.0)
                .min(1.0)
                .floor()
                .max((minutes - 1.0).floor()),
        );
    }
    let (calls, unknown) = world.history.borrow().counts();
    demand("calls".to_owned(), calls as u64, 2_000.0 * minutes);
    demand(
        "calls of unknown outcome".to_owned(),
        unknown as u64,
        3.0 * minutes,
    );
    demand(
        "histories".to_owned(),
        storm.checked_keys as u64,
        100.0 * minutes,
    );
    for tally in &world.tallies {
        demand("counts".to_owned(), tally.get().certain, 50.0 * minutes);
    }
    for holdings in &world.holdings {
        demand(
            "holdings".to_owned(),
            holdings.borrow().count() as u64,
            30.0 * minutes,
        );
    }
    demand(
        "observations".to_owned(),
        world.observations.get(),
        500.0 * minutes,
    );
    let ends = world.results();
    for language in LANGUAGES {
        for told in ["entry", "applied", "not_applied", "deleted", "held"] {
            let count = ends.get(&(language, told.to_owned())).copied().unwrap_or(0);
            demand(format!("{language:?}: {told}"), count, 2.0 * minutes);
        }
    }
    lacking
}
