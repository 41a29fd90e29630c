//! Clients that hold a lock one after the other.
use crate::calls::Shared;
use statestore::{Client, Hlc, LeaseOptions, LockOptions};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// How long a holder that is gone keeps the others out.
const LEASE: Duration = Duration::from_secs(2);

/// From when until when somebody could believe that it held the lock.
#[derive(Debug)]
struct Holding {
    client: usize,
    token: Hlc,
    from: Instant,
    until: Instant,
}

/// Who held the lock.
#[derive(Debug, Default)]
pub(crate) struct Holdings(RefCell<Vec<Holding>>);

impl Holdings {
    pub(crate) fn count(&self) -> usize {
        self.0.borrow().len()
    }

    /// Panics if two held it at a time, or a later one had a lower fencing token.
    pub(crate) fn check(&self) {
        let mut holdings = self.0.borrow_mut();
        holdings.sort_by_key(|holding| holding.from);
        for pair in holdings.windows(2) {
            let is_apart = pair[0].until <= pair[1].from && pair[0].token < pair[1].token;
            let clients = [pair[0].client, pair[1].client];
            assert!(is_apart, "{clients:?} hold the lock: {pair:#?}");
        }
    }
}

/// Holds the lock again and again until it is over.
pub(crate) async fn hold(
    number: usize,
    client: Client,
    shared: Rc<Shared>,
    holdings: Rc<Holdings>,
) {
    let lease = LeaseOptions::new().duration(LEASE);
    let options = LockOptions::new().lease(lease).wait(Duration::from_secs(5));
    while !shared.is_over.get() {
        let Ok(guard) = client.lock_with("press", &options).await else {
            continue;
        };
        let from = Instant::now();
        let mut until = from;
        let end = from + Duration::from_millis(60);
        while guard.is_valid() && Instant::now() < end {
            until = Instant::now();
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        let token = guard.token().clone();
        holdings.0.borrow_mut().push(Holding {
            client: number,
            token,
            from,
            until,
        });
        // If it cannot be released, its lease ends.
        let _ = guard.release().await;
    }
}
