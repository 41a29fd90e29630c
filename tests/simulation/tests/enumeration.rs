//! Every end of a process and every failure of a call, on the simulated disk. `docs/testing.md` says what is enumerated.
use simulation::enumeration::{
    Enumerated, every_end, every_end_of_the_next_process, every_failure,
};

/// Number of commits before a job continues: a merge ends at once, or after commits in between.
const PACES: [usize; 3] = [0, 1, 3];

fn each_pace(enumerate: fn(usize) -> Result<Enumerated, String>) -> Enumerated {
    let mut all = Enumerated::default();
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
fn whenever_the_machine_ends_all_that_was_acknowledged_is_there() {
    let all = each_pace(every_end);
    assert!(all.prefixes > 300 && all.disks > 1_500, "{all:?}");
    let (logs, bases) = all.files;
    assert!(logs > 10 && bases > 4, "{all:?}");
}

#[test]
fn what_a_process_found_is_durable_before_it_tells_of_it() {
    let all = each_pace(every_end_of_the_next_process);
    assert!(all.prefixes > 300 && all.disks > 10_000, "{all:?}");
}

#[test]
fn whichever_call_fails_all_that_was_acknowledged_is_there() {
    let all = each_pace(every_failure);
    assert!(all.failures > 2_000 && all.disks > 10_000, "{all:?}");
}
