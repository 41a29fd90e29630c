//! Runs seeds. `docs/testing.md` says how to run others, longer, or one with its trace.
use std::time::{Duration, Instant};

fn setting(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name} is not a number: {text}")),
    )
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
    let seeds = setting("SIMULATION_SEEDS").unwrap_or(1_000);
    let until = setting("SIMULATION_SECONDS").map(|s| Instant::now() + Duration::from_secs(s));
    let mut failed = Vec::new();
    let mut counts = simulation::Counts::default();
    let mut runs = 0;
    for seed in first.. {
        if until.map_or(runs >= seeds, |until| Instant::now() >= until) || failed.len() >= 10 {
            break;
        }
        let report = simulation::run(seed, false);
        runs += 1;
        counts += report.counts;
        if report.violation.is_some() {
            println!("{report}\n");
            failed.push(seed);
        }
    }
    println!("{runs} seeds: {counts:?}");
    assert!(failed.is_empty(), "these seeds failed: {failed:?}");
    assert!(
        counts.undecided as u64 <= runs / 50,
        "too many histories are not decided"
    );
}

#[test]
fn a_seed_gives_the_same_run_again() {
    for seed in 0..5 {
        let (once, again) = (simulation::run(seed, true), simulation::run(seed, true));
        assert!(once.trace.len() > 50, "seed {seed} is idle");
        assert_eq!(once.trace, again.trace, "seed {seed}");
    }
}
