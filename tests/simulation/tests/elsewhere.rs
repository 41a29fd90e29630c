//! Nodes over one engine elsewhere. `docs/testing.md` says how to run other seeds.
use simulation::shared::{Mutation, RunMetrics, run, run_aging, run_reverting, run_skewed};

fn setting(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().expect("a number"))
}

/// Returns how many seeds to run: `SIMULATION_ENGINE_SEEDS`, which concerns these tests alone, `SIMULATION_SEEDS`, or `usual`.
fn seed_count(usual: u64) -> u64 {
    let own = setting("SIMULATION_ENGINE_SEEDS");
    own.or_else(|| setting("SIMULATION_SEEDS")).unwrap_or(usual)
}

#[test]
fn every_seed_holds() {
    if let Some(seed) = setting("SIMULATION_SEED") {
        let report = run(seed, None);
        println!("{report:#?}");
        assert_eq!(report.violation, None);
        return;
    }
    let first = setting("SIMULATION_FIRST_SEED").unwrap_or(0);
    let seeds = seed_count(150);
    let mut total = RunMetrics::default();
    let mut failed = 0;
    for seed in first..first + seeds {
        let report = run(seed, None);
        total += report.metrics;
        if let Some(violation) = report.violation {
            println!("seed {seed}: {violation}");
            failed += 1;
        }
        assert!(failed < 10, "too many seeds fail");
    }
    println!("{seeds} seeds: {total:?}");
    assert!(
        total.eventual_cache_hits as u64 >= seeds,
        "hardly any read was eventual"
    );
    assert!(
        total.confirmed_cache_hits >= seeds,
        "hardly any read was confirmed"
    );
    for (what, count) in [
        ("question or answer was lost", total.lost),
        ("commit came twice", total.doubled),
        ("engine was full", total.full),
        ("watch was lost", total.gaps),
        ("watch was interrupted", total.interruptions),
        ("node was restarted", total.restarts),
        ("request was delivered again", total.redelivered),
        ("outcome was unknown", total.unknown),
    ] {
        assert!(count as u64 > seeds / 10, "hardly any {what}: {count}");
    }
    assert_eq!(failed, 0);
}

#[test]
fn all_nodes_continue_when_the_engine_loses_changes() {
    if let Some(seed) = setting("SIMULATION_SEED") {
        assert_eq!(run_reverting(seed, None).err(), None);
        return;
    }
    let mut reversions = 0;
    let seeds = seed_count(150);
    for seed in 0..seeds {
        let run = run_reverting(seed, None);
        reversions += run.unwrap_or_else(|violation| panic!("seed {seed}: {violation}"));
    }
    assert!(reversions as u64 > seeds * 2 / 3, "{reversions}");
}

#[test]
fn a_node_with_a_wrong_clock_violates_no_invariant() {
    if let Some(seed) = setting("SIMULATION_SEED") {
        let report = run_skewed(seed, None);
        println!("{report:#?}");
        assert_eq!(report.violation, None);
        return;
    }
    let seeds = seed_count(150);
    let mut total = RunMetrics::default();
    for seed in 0..seeds {
        let report = run_skewed(seed, None);
        total += report.metrics;
        if let Some(violation) = report.violation {
            println!("seed {seed}: {violation}");
            panic!("a clock that is far off is not borne");
        }
    }
    println!("{seeds} seeds: {total:?}");
    assert!(
        total.clock_rejections as u64 > seeds,
        "hardly anything was refused"
    );
}

#[test]
fn long_entries_expire_in_time_with_any_clock() {
    if let Some(seed) = setting("SIMULATION_SEED") {
        let report = run_aging(seed);
        println!("{report:#?}");
        assert_eq!(report.violation, None);
        return;
    }
    let first = setting("SIMULATION_FIRST_SEED").unwrap_or(0);
    let seeds = seed_count(60);
    let mut total = RunMetrics::default();
    for seed in first..first + seeds {
        let report = run_aging(seed);
        total += report.metrics;
        if let Some(violation) = report.violation {
            println!("seed {seed}: {violation}");
            panic!("an entry does not end in time");
        }
    }
    println!("{seeds} seeds: {total:?}");
    assert!(
        total.expired_entries as u64 > seeds && total.restarts as u64 > seeds,
        "hardly anything ended, or nobody began anew"
    );
}

/// Within how many seeds the absence of a rule is noticed.
#[test]
fn every_mutation_is_detected() {
    for fault in Mutation::ALL {
        let is_noticed = |seed: &u64| match fault {
            Mutation::ReversionReportedAsGap => run_reverting(*seed, Some(fault)).is_err(),
            Mutation::WrongClockTrusted | Mutation::ClocksNotReported => {
                run_skewed(*seed, Some(fault)).violation.is_some()
            }
            _ => run(*seed, Some(fault)).violation.is_some(),
        };
        let found = (0..2_000).find(is_noticed);
        let seed = found.unwrap_or_else(|| panic!("{fault:?} is not noticed"));
        println!("{fault:?}: noticed in seed {seed}");
    }
}
