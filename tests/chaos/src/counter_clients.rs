//! Clients that count with `update`.
use crate::run_state::{COUNTERS, RunState};
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// Increments a counter. Returns whether that certainly succeeded.
async fn increment(world: &RunState, seat: usize, client: usize, counter: usize) -> bool {
    let place = &world.slots[seat];
    let end = place
        .call(&world.failures, "count", client, COUNTERS[counter])
        .await;
    let mut tally = world.tallies[counter].get();
    let is_certain = end.as_ref().is_ok_and(|line| line.told == "applied");
    match &end {
        Ok(line) if line.told == "applied" => tally.certain += 1,
        Ok(line) if line.is_not_done() => {}
        Ok(line) if line.is_unknown() => tally.uncertain += 1,
        Ok(line) => world.failures.add(format!("a count was answered {line:?}")),
        Err(_) => tally.uncertain += 1,
    }
    world.tallies[counter].set(tally);
    world.record_result(place, &end).await;
    is_certain
}

/// Counts until the run ends.
pub async fn run_increments(
    world: Rc<RunState>,
    seat: usize,
    client: usize,
    mut chance: fastrand::Rng,
) {
    while world.is_running() {
        increment(&world, seat, client, chance.usize(..COUNTERS.len())).await;
        sleep(Duration::from_millis(chance.u64(1..60))).await;
    }
}

/// Counts once more in each counter, with as many attempts as necessary. There are no faults any more, so it takes at most
/// `limit`.
pub async fn increment_all(world: &RunState, seat: usize, client: usize, limit: Duration) {
    let end = Instant::now() + limit;
    for counter in 0..COUNTERS.len() {
        while !increment(world, seat, client, counter).await {
            if Instant::now() > end {
                let language = world.slots[seat].language;
                let state = world.results();
                world.failures.add(format!(
                    "{language:?}, client {client}: no count within {limit:?} although nothing breaks any more; {state:?}"
                ));
                return;
            }
        }
    }
}

/// Reads each counter, and checks whether its value is possible.
pub async fn check(world: &RunState) -> [u64; 2] {
    let mut counted = [0; 2];
    for (counter, key) in COUNTERS.iter().enumerate() {
        let end = world.slots[0].call(&world.failures, "get", 0, key).await;
        match end.as_ref().map(crate::peer_line::PeerLine::number) {
            Ok(Some(count)) => {
                counted[counter] = count;
                let checked = world.tallies[counter].get().check(count);
                world
                    .failures
                    .check(checked.map_err(|problem| format!("{key}: {problem}")));
            }
            _ => world.failures.add(format!("{key} is {end:?}")),
        }
    }
    counted
}
