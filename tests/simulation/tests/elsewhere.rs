//! Nodes over one engine elsewhere. `docs/testing.md` says how to run other seeds.
use simulation::elsewhere::{Counts, Fault, run};

fn setting(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().expect("a number"))
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
    let seeds = setting("SIMULATION_SEEDS").unwrap_or(150);
    let mut total = Counts::default();
    let mut failed = 0;
    for seed in first..first + seeds {
        let report = run(seed, None);
        total += report.counts;
        if let Some(violation) = report.violation {
            println!("seed {seed}: {violation}");
            failed += 1;
        }
        assert!(failed < 10, "too many seeds fail");
    }
    println!("{seeds} seeds: {total:?}");
    assert!(
        total.remembered as u64 >= seeds,
        "hardly any read was eventual"
    );
    assert_eq!(failed, 0);
}

/// Within how many seeds the absence of a rule is noticed.
#[test]
fn the_absence_of_a_rule_is_noticed() {
    for fault in Fault::ALL {
        let seeds = 0..2_000;
        let found = seeds
            .into_iter()
            .find(|seed| run(*seed, Some(fault)).violation.is_some());
        let seed = found.unwrap_or_else(|| panic!("{fault:?} is not noticed"));
        println!("{fault:?}: noticed in seed {seed}");
    }
}
