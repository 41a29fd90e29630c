//! Clients that hold locks one after the other.
use crate::line::Line;
use crate::seat::CLIENTS;
use crate::world::{LOCKS, World};
use histories::Holding;
use statestore::Hlc;
use std::rc::Rc;
use std::time::Duration;
use tokio::time::sleep;

/// Lease of a lock: the time for which a killed holder keeps the others out.
pub const LEASE: Duration = Duration::from_secs(2);

/// Holds locks until the run ends. A client that is killed while it holds a lock does not report that holding.
pub async fn hold(world: Rc<World>, seat: usize, client: usize, mut chance: fastrand::Rng) {
    while world.goes_on() {
        let lock = chance.usize(..LOCKS.len());
        // Some locks are held for so long that they have to be renewed.
        let hold_ms = if chance.u32(0..8) == 0 {
            1_500
        } else {
            chance.u64(5..80)
        };
        let arguments = format!("{} {} 3000 {hold_ms}", LOCKS[lock], LEASE.as_millis());
        let place = &world.seats[seat];
        let end = place
            .call(&world.findings, "hold", client, &arguments)
            .await;
        if let Ok(line) = &end
            && line.told != "error"
        {
            match holding(line, seat * CLIENTS + client) {
                Some(holding) => world.holdings[lock].borrow_mut().add(holding),
                None => world.findings.add(format!("a hold was answered {line:?}")),
            }
        }
        world.ended(place, &end).await;
        sleep(Duration::from_millis(chance.u64(1..20))).await;
    }
}

fn holding(line: &Line, client: usize) -> Option<Holding> {
    Some(Holding {
        client,
        token: Hlc::parse(line.token.as_ref()?.as_bytes()).ok()?,
        from: line.held_from?,
        until: line.held_until?,
    })
}
