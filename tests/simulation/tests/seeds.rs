//! Runs seeds. `docs/testing.md` says how to run others, longer, or one with its trace.
use simulation::{Mishap, Report, RunMetrics, ServerPlacement};
use std::io::Write;
use std::num::NonZero;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Number of failures after which no more seeds are run, unless `SIMULATION_MOST_FAILED` is another number.
const MAX_FAILED: u64 = 10;

/// As many as a usual run has: what happens in them is known.
const DEFAULT_SEEDS: u64 = 3_000;

/// The same of servers behind a broker.
const DEFAULT_BROKER_SEEDS: u64 = 400;

/// The same of clients that observe patterns.
const DEFAULT_PATTERN_SEEDS: u64 = 400;

/// Minimum number of faults of each kind in a usual run. Even the rarest kinds happen ten times as often.
const MIN_FAULTS: u64 = 30;

/// Minimum number of faults of each kind in a run behind a broker.
const MIN_BROKER_FAULTS: u64 = 5;

/// How many seeds there are for each day, and the first of the day 0.
const DAILY_SEEDS: u64 = 500;
const FIRST_DAILY_SEED: u64 = 1_000_000;

/// Totals of all runs.
#[derive(Default)]
struct RunTotals {
    runs: u64,
    counts: RunMetrics,
    /// Runs in which the server ended, and its data files were merged.
    eventful: u64,
    /// Histories that took long to decide, and those of them that were not.
    slow_histories: Vec<String>,
    undecided: Vec<u64>,
    failed: Vec<u64>,
}

impl RunTotals {
    fn add(&mut self, report: &Report) {
        self.runs += 1;
        self.counts += report.metrics;
        self.eventful += u64::from(report.metrics.crashes > 0 && report.metrics.merges > 0);
        let keys = report.slow_histories.iter();
        self.slow_histories
            .extend(keys.map(|key| format!("seed {} {}", report.seed, key.escape_ascii())));
        if report.metrics.undecided > 0 {
            self.undecided.push(report.seed);
        }
        if report.violation.is_some() {
            println!("{report}\n");
            self.failed.push(report.seed);
        }
    }

    /// Says what happened, and that nothing was violated.
    fn check(&self) {
        let Self {
            runs,
            counts,
            eventful,
            slow_histories: hard,
            undecided,
            failed,
        } = self;
        println!("{runs} seeds, {eventful} of them with crashes and merges: {counts:#?}");
        println!(
            "histories that took long to decide: {hard:?}; seeds in which one was not: {undecided:?}"
        );
        assert!(failed.is_empty(), "these seeds failed: {failed:?}");
        assert!(undecided.is_empty(), "not decided: {undecided:?}");
    }
}

fn setting(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name} is not a number: {text}")),
    )
}

/// Names the seed in which something panicked.
struct SeedGuard(u64);

impl Drop for SeedGuard {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("seed {}: a panic", self.0);
        }
    }
}

/// Runs these seeds, or from the first of them on until a time.
fn run(seeds: &Range<u64>, place: ServerPlacement, until: Option<Instant>) -> RunTotals {
    let most_failed = setting("SIMULATION_MOST_FAILED").unwrap_or(MAX_FAILED);
    let next = AtomicU64::new(seeds.start);
    let total = Mutex::new(RunTotals::default());
    // Seeds have nothing in common, so each processor takes its own.
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, NonZero::get) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    let has_failed =
                        total.lock().expect("no panic").failed.len() as u64 >= most_failed;
                    let is_over = match until {
                        Some(until) => Instant::now() >= until,
                        None => seed >= seeds.end,
                    };
                    if has_failed || is_over {
                        return;
                    }
                    let _guard = SeedGuard(seed);
                    let report = simulation::run(seed, place, false);
                    total.lock().expect("no panic").add(&report);
                }
            });
        }
    });
    total.into_inner().expect("no panic")
}

/// Runs the seed that `SIMULATION_SEED` names and prints its events, or else the requested seeds, by default `usual`. Returns the totals
/// if there are enough seeds to judge them.
fn run_requested(place: ServerPlacement, usual: u64) -> Option<RunTotals> {
    if let Some(seed) = setting("SIMULATION_SEED") {
        let report = simulation::run(seed, place, true);
        println!("{report}");
        assert_eq!(report.violation, None);
        return None;
    }
    let first = setting("SIMULATION_FIRST_SEED").unwrap_or(0);
    let seeds = setting("SIMULATION_SEEDS").unwrap_or(usual);
    let until = setting("SIMULATION_SECONDS").map(|s| Instant::now() + Duration::from_secs(s));
    let total = run(&(first..first + seeds), place, until);
    total.check();
    (total.runs >= usual).then_some(total)
}

#[test]
fn every_seed_holds() {
    let Some(total) = run_requested(ServerPlacement::Direct, DEFAULT_SEEDS) else {
        return;
    };
    assert!(
        total.eventful >= 100,
        "too few runs have crashes and merges"
    );
    for kind in Mishap::ALL {
        let times = total.counts.faults.of(*kind);
        assert!(times >= MIN_FAULTS, "only {times} {}", kind.text());
    }
}

#[test]
fn every_seed_behind_a_broker_holds() {
    let Some(total) = run_requested(ServerPlacement::BehindBroker, DEFAULT_BROKER_SEEDS) else {
        return;
    };
    let RunMetrics {
        broker_losses,
        detachments,
        crashes,
        ..
    } = total.counts;
    for (times, what) in [
        (broker_losses, "ends of the broker"),
        (detachments, "cuts between it and the server"),
        (crashes, "ends of the server"),
    ] {
        assert!(times as u64 >= MIN_FAULTS, "only {times} {what}");
    }
    for kind in Mishap::ALL {
        // The broker has the sessions and connections of clients, and ends none early.
        let is_of_server = !matches!(kind, Mishap::Overlapping | Mishap::ShortSession);
        let times = total.counts.faults.of(*kind);
        assert!(
            !is_of_server || times >= MIN_BROKER_FAULTS,
            "only {times} {}",
            kind.text()
        );
    }
}

#[test]
fn every_seed_with_patterns_holds() {
    let Some(total) = run_requested(ServerPlacement::WithPatterns, DEFAULT_PATTERN_SEEDS) else {
        return;
    };
    let observations = total.counts.observations;
    assert!(observations >= 4_000, "only {observations} observations");
}

/// Others each day, so that what no usual seed finds is found some day.
#[test]
fn the_daily_seeds_hold() {
    let days = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |time| time.as_secs() / 86_400);
    let first = FIRST_DAILY_SEED + days * DAILY_SEEDS;
    // Not as a test prints, of which nothing is seen unless it fails.
    writeln!(
        std::io::stderr(),
        "the seeds of the day; again: SIMULATION_FIRST_SEED={first} SIMULATION_SEEDS={DAILY_SEEDS} \
         cargo test -p simulation --test seeds every"
    )
    .expect("somebody reads this");
    run(&(first..first + DAILY_SEEDS), ServerPlacement::Direct, None).check();
}

#[test]
fn a_seed_is_reproducible() {
    for seed in 0..12 {
        for place in [
            ServerPlacement::Direct,
            ServerPlacement::BehindBroker,
            ServerPlacement::WithPatterns,
        ] {
            let (once, again) = (
                simulation::run(seed, place, true),
                simulation::run(seed, place, true),
            );
            assert!(once.trace.len() > 50, "seed {seed} is idle");
            assert_eq!(once.trace, again.trace, "seed {seed}");
        }
    }
}
