//! `scripts/chaos`: everything around the store breaks, and its promises still hold.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
use chaos::census::Census;
use chaos::disk::Disk;
use chaos::interrupted::or_interrupted;
use chaos::observers::Following;
use chaos::programs::{LANGUAGES, Programs};
use chaos::seat::{CLIENTS, Seat};
use chaos::server::{Certificate, Server};
use chaos::storm::Storm;
use chaos::troubles::Deck;
use chaos::world::{COUNTERS, World};
use chaos::{calls, counts, locks};
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
const CALM: Duration = Duration::from_secs(60);

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
    LocalSet::new().block_on(&runtime, or_interrupted(run(&options)))
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
        seats.push(Seat::new(number, language, &options.programs, server, authority).await);
    }
    let world = Rc::new(World::new(seats));
    let followings = follow(&world).await;
    let workers = work(&world, &mut chance);
    let mut storm = Storm {
        world: &world,
        servers,
        chance: chance.fork(),
        deck: Deck::new(options.storage == Storage::Durable),
        settled: 0,
    };
    let census = Rc::new(RefCell::new(Census::default()));
    let pids: Rc<RefCell<Option<Pid>>> = Rc::default();
    pids.replace(storm.servers[0].pid());
    let counting = count(Rc::clone(&census), Rc::clone(&world), Rc::clone(&pids));
    let minutes = Duration::from_secs_f64(options.minutes * 60.0);
    let begun = Instant::now();
    while begun.elapsed() < minutes && world.findings.is_empty() {
        let part = minutes
            .saturating_sub(begun.elapsed())
            .min(Duration::from_secs(5));
        storm.rage(part).await;
        pids.replace(storm.servers[0].pid());
    }
    if world.findings.is_empty() {
        calm(&world, &mut storm, workers, &followings).await;
    }
    if world.findings.is_empty() {
        pids.replace(storm.servers[0].pid());
        flat(&world, &census, &pids).await;
    }
    counting.abort();
    if world.findings.is_empty() {
        end(&world, &mut storm).await;
    }
    report(options, &world, &storm, &census.borrow());
    let found = world.findings.all();
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
async fn follow(world: &Rc<World>) -> Vec<Rc<Following>> {
    let mut followings = Vec::new();
    for seat in 0..world.seats.len() {
        for client in 0..CLIENTS {
            for counter in 0..COUNTERS.len() {
                let following = Following::new(seat, client, counter);
                spawn_local(Rc::clone(&following).run(Rc::clone(world)));
                followings.push(following);
            }
        }
    }
    while !followings.iter().all(|following| following.is_following()) {
        sleep(Duration::from_millis(10)).await;
    }
    followings
}

/// Starts the work of all clients.
fn work(world: &Rc<World>, chance: &mut fastrand::Rng) -> JoinSet<()> {
    let mut workers = JoinSet::new();
    for seat in 0..world.seats.len() {
        for client in [0, 0, 1] {
            workers.spawn_local(calls::call(Rc::clone(world), seat, client, chance.fork()));
        }
        workers.spawn_local(counts::count(
            Rc::clone(world),
            seat,
            seat % CLIENTS,
            chance.fork(),
        ));
        workers.spawn_local(locks::hold(
            Rc::clone(world),
            seat,
            (seat + 1) % CLIENTS,
            chance.fork(),
        ));
    }
    workers
}

/// Returns the running processes.
fn processes(world: &World, server: Option<Pid>) -> impl Iterator<Item = (String, Pid)> {
    let clients = world
        .seats
        .iter()
        .map(|seat| (format!("{:?}", seat.language), seat.peer().pid()));
    let clients: Vec<_> = clients.collect();
    server
        .map(|pid| ("server".to_owned(), pid))
        .into_iter()
        .chain(clients)
}

fn count(
    census: Rc<RefCell<Census>>,
    world: Rc<World>,
    server: Rc<RefCell<Option<Pid>>>,
) -> AbortHandle {
    let counting = async move {
        loop {
            let who = processes(&world, *server.borrow());
            census.borrow_mut().count(who);
            sleep(Duration::from_secs(1)).await;
        }
    };
    spawn_local(counting).abort_handle()
}

/// Ends the faults and checks the final state.
async fn calm(
    world: &World,
    storm: &mut Storm<'_>,
    mut workers: JoinSet<()>,
    followings: &[Rc<Following>],
) {
    world.is_over.set(true);
    let ended = timeout(CALM, async { while workers.join_next().await.is_some() {} }).await;
    if ended.is_err() {
        world.findings.add(format!(
            "calls have not ended {CALM:?} after everything was in order again"
        ));
    }
    for seat in 0..world.seats.len() {
        for client in 0..CLIENTS {
            counts::once_more(world, seat, client, CALM).await;
        }
    }
    storm.look();
    if !world.findings.is_empty() {
        return;
    }
    let counted = counts::check(world).await;
    for (number, following) in followings.iter().enumerate() {
        following
            .reaches(world, counted[number % COUNTERS.len()], CALM)
            .await;
    }
    storm.settled += world.check(|_| true);
}

/// Checks the memory and the file descriptors.
async fn flat(world: &World, census: &RefCell<Census>, server: &RefCell<Option<Pid>>) {
    let end = Instant::now() + CALM;
    loop {
        let excess = census.borrow().excess(processes(world, *server.borrow()));
        if excess.is_empty() {
            break;
        }
        if Instant::now() > end {
            return world.findings.add(excess.join("; "));
        }
        sleep(Duration::from_millis(200)).await;
    }
    for (name, before, after, is_flat) in census.borrow().growth() {
        if !is_flat {
            world.findings.add(format!(
                "{name} has {after} KiB of memory, after {before} KiB"
            ));
        }
    }
}

/// Ends all processes in good order.
async fn end(world: &World, storm: &mut Storm<'_>) {
    for server in &mut storm.servers {
        if !server.terminate().await {
            world.findings.add("the server does not end");
        }
    }
}

fn report(options: &Options, world: &World, storm: &Storm<'_>, census: &Census) {
    println!("went wrong: {:?}", storm.deck.counts);
    for ((language, how), count) in world.ends() {
        println!("{language:?}: {how} {count}");
    }
    let (calls, unknown) = world.history.borrow().counts();
    println!(
        "{calls} calls in {} histories that have an order; {unknown} calls of unknown outcome",
        storm.settled
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
        let first = census.first[name].fds;
        println!(
            "{name}: {before} KiB, then {after} KiB; {first} file descriptors, then {}",
            fds.unwrap_or(0)
        );
    }
    if !world.findings.is_empty() {
        return;
    }
    for what in too_little(options, world, storm) {
        world.findings.add(format!("too little happened: {what}"));
    }
}

/// Returns the events that were too rare for the run to prove anything.
fn too_little(options: &Options, world: &World, storm: &Storm<'_>) -> Vec<String> {
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
        storm.settled as u64,
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
    let ends = world.ends();
    for language in LANGUAGES {
        for told in ["entry", "applied", "not_applied", "deleted", "held"] {
            let count = ends.get(&(language, told.to_owned())).copied().unwrap_or(0);
            demand(format!("{language:?}: {told}"), count, 2.0 * minutes);
        }
    }
    lacking
}
