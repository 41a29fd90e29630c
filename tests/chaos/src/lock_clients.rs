//! Clients that hold locks one after the other.
use crate::client_slot::CLIENTS;
use crate::peer_line::PeerLine;
use crate::run_state::{LOCKS, RunState};
use histories::LockHolding;
use statestore::Hlc;
use std::rc::Rc;
use std::time::Duration;
use tokio::time::sleep;

/// Lease of a lock: the time for which a killed holder keeps the others out.
pub const LEASE: Duration = Duration::from_secs(2);

/// Holds locks until the run ends. A client that is killed while it holds a lock does not report that holding.
pub async fn hold_locks(
    world: Rc<RunState>,
    seat: usize,
    client: usize,
    mut chance: fastrand::Rng,
) {
    while world.is_running() {
        let lock = chance.usize(..LOCKS.len());
        // Some locks are held for so long that they have to be renewed.
        let hold_ms = if chance.u32(0..8) == 0 {
            1_500
        } else {
            chance.u64(5..80)
        };
        let arguments = format!("{} {} 3000 {hold_ms}", LOCKS[lock], LEASE.as_millis());
        let place = &world.slots[seat];
        let end = place
            .call(&world.failures, "hold", client, &arguments)
            .await;
        if let Ok(line) = &end
            && line.told != "error"
        {
            match parse_holding(line, seat * CLIENTS + client) {
                Some(holding) => world.holdings[lock].borrow_mut().add(holding),
                None => world.failures.add(format!("a hold was answered {line:?}")),
            }
        }
        world.record_result(place, &end).await;
        sleep(Duration::from_millis(chance.u64(1..20))).await;
    }
}

fn parse_holding(line: &PeerLine, client: usize) -> Option<LockHolding> {
    Some(LockHolding {
        client,
        token: Hlc::parse(line.token.as_ref()?.as_bytes()).ok()?,
        from: line.held_from?,
        until: line.held_until?,
    })
}
