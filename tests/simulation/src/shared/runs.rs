//! The kinds of runs, from a seed to its report.
use super::aging::{AGE_MS, TTL_MS};
use super::clock_skew::ClockSkew;
use super::{Mutation, NodeSimulation, Report, STORM_MS, checks};

/// Runs one seed to its end, with a rule that is left out if one is given.
pub fn run(seed: u64, fault: Option<Mutation>) -> Report {
    let mut world = NodeSimulation::new(seed, fault);
    world.run_storm();
    world.run_calm();
    let violation = checks::check(&world).err();
    Report {
        seed,
        violation,
        metrics: world.metrics(),
    }
}

/// Runs nodes with one clock at a time that is far off, with a rule that is left out if one is given.
pub fn run_skewed(seed: u64, fault: Option<Mutation>) -> Report {
    let mut world = NodeSimulation::new(seed, fault);
    world.clock_skew = Some(ClockSkew::default());
    let has_clock = world.chance.percent(50);
    world.set_up_engine(has_clock);
    world.set_up_nodes(if has_clock { 1 } else { 3 }, fault);
    world.run_storm();
    world.set_right();
    world.run_calm();
    let violation = checks::check(&world).and_then(|()| world.check_all_nodes_write());
    Report {
        seed,
        violation: violation.err(),
        metrics: world.metrics(),
    }
}

/// Runs nodes for longer than any entry lasts.
pub fn run_aging(seed: u64) -> Report {
    let mut world = NodeSimulation::new(seed, None);
    world.clock_skew = Some(ClockSkew {
        aging_ms: Some(world.chance.between(TTL_MS.0, TTL_MS.1)),
        ..ClockSkew::default()
    });
    // A clock that is far off is detected by the engine's clock, or by those of two other nodes.
    let (has_clock, nodes) = world.chance.pick(&[(true, 1), (false, 3), (false, 1)]);
    world.set_up_engine(has_clock);
    world.set_up_nodes(nodes, None);
    world.run_storm();
    let pace_ms = world.chance.log_uniform(1_000, 100_000);
    world.run_with_faults(STORM_MS + AGE_MS, pace_ms, (1_000, 120_000));
    world.set_right();
    world.run_calm();
    Report {
        seed,
        violation: checks::check(&world).err(),
        metrics: world.metrics(),
    }
}
