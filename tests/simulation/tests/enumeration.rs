//! Every end of a process and every failure of a call, on the simulated disk. `docs/testing.md` says what is enumerated.
use simulation::enumeration::{
    EnumerationReport, enumerate_ends, enumerate_ends_of_the_next_process, enumerate_failures,
};

/// Number of commits before a job continues: a merge ends at once, or after commits in between.
const PACES: [usize; 3] = [0, 1, 3];

fn each_pace(enumerate: fn(usize) -> Result<EnumerationReport, String>) -> EnumerationReport {
    let mut all = EnumerationReport::default();
    for pace in PACES {
        match enumerate(pace) {
            Ok(more) => {
                println!("a job goes on after {pace} commits: {more:?}");
                all.prefixes += more.prefixes;
                all.disks += more.disks;
                all.failures += more.failures;
                all.files = (all.files.0 + more.files.0, all.files.1 + more.files.1);
            }
            Err(why) => panic!("{why}\nwhere a job goes on after {pace} commits"),
        }
    }
    all
}

#[test]
fn acknowledged_commits_survive_every_crash() {
    let all = each_pace(enumerate_ends);
    assert!(all.prefixes > 300 && all.disks > 1_500, "{all:?}");
    let (logs, bases) = all.files;
    assert!(logs > 10 && bases > 4, "{all:?}");
}

#[test]
fn records_found_at_start_are_durable_before_the_first_acknowledgement() {
    let all = each_pace(enumerate_ends_of_the_next_process);
    assert!(all.prefixes > 300 && all.disks > 10_000, "{all:?}");
}

#[test]
fn acknowledged_commits_survive_every_failed_call() {
    let all = each_pace(enumerate_failures);
    assert!(all.failures > 2_000 && all.disks > 10_000, "{all:?}");
}
