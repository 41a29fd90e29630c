//! Runs seeds. `docs/testing.md` says how to run others, longer, or one with its trace.
use std::num::NonZero;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// No more seeds are run after so many failures.
const MAX_FAILED: usize = 10;

/// What all runs came to.
#[derive(Default)]
struct Total {
    runs: u64,
    counts: simulation::Counts,
    /// Runs in which the server ended, and its data files were merged.
    eventful: u64,
    failed: Vec<u64>,
}

impl Total {
    fn add(&mut self, report: &simulation::Report) {
        self.runs += 1;
        self.counts += report.counts;
        self.eventful += u64::from(report.counts.crashes > 0 && report.counts.merges > 0);
        if report.violation.is_some() {
            println!("{report}\n");
            self.failed.push(report.seed);
        }
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
struct Running(u64);

impl Drop for Running {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("seed {}: a panic", self.0);
        }
    }
}

#[test]
fn every_seed_holds() {
    if let Some(seed) = setting("SIMULATION_SEED") {
        let report = simulation::run(seed, true);
        println!("{report}");
        assert_eq!(report.violation, None);
        return;
    }
    let first = setting("SIMULATION_FIRST_SEED").unwrap_or(0);
    let seeds = setting("SIMULATION_SEEDS").unwrap_or(3_000);
    let until = setting("SIMULATION_SECONDS").map(|s| Instant::now() + Duration::from_secs(s));
    let next = AtomicU64::new(0);
    let total = Mutex::new(Total::default());
    // Seeds have nothing in common, so each processor takes its own.
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, NonZero::get) {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let has_failed = total.lock().unwrap().failed.len() >= MAX_FAILED;
                    if has_failed || until.map_or(number >= seeds, |until| Instant::now() >= until)
                    {
                        return;
                    }
                    let _guard = Running(first + number);
                    let report = simulation::run(first + number, false);
                    total.lock().unwrap().add(&report);
                }
            });
        }
    });
    let Total {
        runs,
        counts,
        eventful,
        failed,
    } = total.into_inner().unwrap();
    println!("{runs} seeds, {eventful} of them with crashes and merges: {counts:?}");
    assert!(failed.is_empty(), "these seeds failed: {failed:?}");
    let undecided = counts.undecided as u64;
    assert!(
        undecided <= 1 + runs / 50,
        "too many histories are not decided"
    );
    // As in a usual run; a few seeds need not have any.
    assert!(
        runs < 3_000 || eventful >= 100,
        "too few runs have crashes and merges"
    );
}

#[test]
fn a_seed_gives_the_same_run_again() {
    for seed in 0..12 {
        let (once, again) = (simulation::run(seed, true), simulation::run(seed, true));
        assert!(once.trace.len() > 50, "seed {seed} is idle");
        assert_eq!(once.trace, again.trace, "seed {seed}");
    }
}
