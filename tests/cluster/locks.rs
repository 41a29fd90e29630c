//! Clients that hold a lock one after the other.
use crate::calls::Shared;
use histories::{LockHolding, LockHoldings};
use statestore::{Client, LeaseOptions, LockOptions};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// How long a holder that is gone keeps the others out.
const LEASE: Duration = Duration::from_secs(2);

/// Holds the lock again and again until the test is over.
pub(crate) async fn hold(
    number: usize,
    client: Client,
    shared: Rc<Shared>,
    holdings: Rc<RefCell<LockHoldings>>,
) {
    let lease = LeaseOptions::new().duration(LEASE);
    let options = LockOptions::new().lease(lease).wait(Duration::from_secs(5));
    while !shared.is_over.get() {
        let Ok(guard) = client.lock_with("press", &options).await else {
            continue;
        };
        let from = shared.now();
        let mut until = from;
        let end = Instant::now() + Duration::from_millis(60);
        while guard.is_valid() && Instant::now() < end {
            until = shared.now();
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        let token = guard.token().clone();
        holdings.borrow_mut().add(LockHolding {
            client: number,
            token,
            from,
            until,
        });
        // If it cannot be released, its lease ends.
        let _ = guard.release().await;
    }
}
