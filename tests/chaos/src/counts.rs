//! Clients that count with `update`.
use crate::world::{COUNTERS, World};
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// Increments a counter. Returns whether that certainly succeeded.
async fn one(world: &World, seat: usize, client: usize, counter: usize) -> bool {
    let place = &world.seats[seat];
    let end = place
        .call(&world.findings, "count", client, COUNTERS[counter])
        .await;
    let mut tally = world.tallies[counter].get();
    let is_certain = end.as_ref().is_ok_and(|line| line.told == "applied");
    match &end {
        Ok(line) if line.told == "applied" => tally.certain += 1,
        Ok(line) if line.is_not_done() => {}
        Ok(line) if line.is_unknown() => tally.perhaps += 1,
        Ok(line) => world.findings.add(format!("a count was answered {line:?}")),
        Err(_) => tally.perhaps += 1,
    }
    world.tallies[counter].set(tally);
    world.ended(place, &end).await;
    is_certain
}

/// Counts until the run ends.
pub async fn count(world: Rc<World>, seat: usize, client: usize, mut chance: fastrand::Rng) {
    while world.goes_on() {
        one(&world, seat, client, chance.usize(..COUNTERS.len())).await;
        sleep(Duration::from_millis(chance.u64(1..60))).await;
    }
}

/// Counts once more in each counter, with as many attempts as necessary. There are no faults any more, so it takes at most
/// `limit`.
pub async fn once_more(world: &World, seat: usize, client: usize, limit: Duration) {
    let end = Instant::now() + limit;
    for counter in 0..COUNTERS.len() {
        while !one(world, seat, client, counter).await {
            if Instant::now() > end {
                let language = world.seats[seat].language;
                let state = world.ends();
                world.findings.add(format!(
                    "{language:?}, client {client}: no count within {limit:?} although nothing breaks any more; {state:?}"
                ));
                return;
            }
        }
    }
}

/// Reads each counter, and checks whether its value is possible.
pub async fn check(world: &World) -> [u64; 2] {
    let mut counted = [0; 2];
    for (counter, key) in COUNTERS.iter().enumerate() {
        let end = world.seats[0].call(&world.findings, "get", 0, key).await;
        match end.as_ref().map(crate::line::Line::number) {
            Ok(Some(count)) => {
                counted[counter] = count;
                let checked = world.tallies[counter].get().check(count);
                world
                    .findings
                    .check(checked.map_err(|problem| format!("{key}: {problem}")));
            }
            _ => world.findings.add(format!("{key} is {end:?}")),
        }
    }
    counted
}
