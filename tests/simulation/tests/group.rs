//! Servers that share the requests of a broker. `docs/testing.md` says how to run other seeds.
use simulation::shared::{GroupCounts, run_group};

/// As many as a usual run has.
const DEFAULT_SEEDS: u64 = 80;

fn setting(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().expect("a number"))
}

/// Runs the seeds; `has_patterns` is whether a client watches patterns.
fn run_seeds(has_patterns: bool) {
    if let Some(seed) = setting("SIMULATION_SEED") {
        let report = run_group(seed, has_patterns, true);
        for line in &report.trace {
            println!("{line}");
        }
        println!("{:?}", report.metrics);
        assert_eq!(report.violation, None);
        return;
    }
    let first = setting("SIMULATION_FIRST_SEED").unwrap_or(0);
    // One takes as long as eight of whole clients and one server.
    let own = setting("SIMULATION_GROUP_SEEDS");
    let seeds = own
        .or_else(|| setting("SIMULATION_SEEDS"))
        .unwrap_or(DEFAULT_SEEDS);
    let mut total = GroupCounts::default();
    let mut failed = 0;
    for seed in first..first + seeds {
        let report = run_group(seed, has_patterns, false);
        total += report.metrics;
        if let Some(violation) = report.violation {
            println!("seed {seed}: {violation}");
            failed += 1;
        }
        assert!(failed < 10, "too many seeds fail");
    }
    println!("{seeds} seeds: {total:?}");
    assert_eq!(failed, 0);
    if seeds < DEFAULT_SEEDS {
        return;
    }
    for (what, count) in [
        ("request was sent again", total.repeated),
        ("request was given to another server", total.redelivered),
        ("request had no answer", total.unanswered),
        ("request was refused", total.rejected),
        ("watch lasted", total.watched),
        ("server was killed", total.kills),
        ("server stood still", total.pauses),
        ("connection was cut", total.cuts),
        ("cut was not noticed", total.unnoticed),
        ("way to the engine was cut", total.engine_cuts),
    ] {
        assert!(count > seeds / 5, "hardly any {what}: {count}");
    }
    assert!(
        total.broker_ends > seeds / 20,
        "hardly any end of the broker: {}",
        total.broker_ends
    );
    assert_eq!(total.gaps > seeds, has_patterns, "{} gaps", total.gaps);
}

#[test]
fn every_seed_holds() {
    run_seeds(false);
}

#[test]
fn every_seed_with_patterns_holds() {
    run_seeds(true);
}

#[test]
fn a_seed_is_reproducible() {
    for seed in 0..8 {
        let has_patterns = seed % 2 == 0;
        let run = || run_group(seed, has_patterns, true);
        let (once, again) = (run(), run());
        assert!(once.trace.len() > 50, "seed {seed} is idle");
        assert_eq!(once.trace, again.trace, "seed {seed}");
    }
}
