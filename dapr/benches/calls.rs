//! Calls on a component without daprd, as `scripts/train` needs them: one after the other, and many at a time.
//!
//! ```sh
//! calls SOCKET URL COUNT
//! ```
//!
//! gives the component at this socket the store of this URL, and makes so many calls of each kind.
#![allow(clippy::unwrap_used, reason = "a benchmark fails by panicking")]
#[path = "../tests/component/harness.rs"]
#[allow(dead_code, reason = "the tests need more of it")]
mod harness;

use futures_util::future::join_all;
use harness::{Sidecar, UNSPECIFIED, delete, set, set_if};
use statestore_dapr::proto::transactional_state_operation::Request as Operation;
use std::path::Path;

const CONCURRENCY: usize = 64;
const OPERATIONS: usize = 5;

/// Deletions are rarer than all else.
const UNTIL_DELETED: usize = 50;

/// Values are as long as this.
const VALUE: &str = "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789";

/// What one of several callers asks, one call after the other.
async fn run_caller(mut sidecar: Sidecar, lane: usize, count: usize) {
    let key = format!("key-{lane}");
    for number in 1..=count {
        sidecar.set(set(&key, VALUE)).await.unwrap();
        let etag = sidecar.etag(&key).await;
        let saved = set_if(&key, VALUE, Some(&etag), UNSPECIFIED);
        sidecar.set(saved).await.unwrap();
        let writes = (0..OPERATIONS).map(|number| set(&format!("{key}-{number}"), VALUE));
        let operations = writes.map(Operation::Set).collect();
        sidecar.transact(operations).await.unwrap();
        if number % UNTIL_DELETED == 0 {
            sidecar.delete(delete(&key)).await.unwrap();
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    // As cargo calls it, there is one argument more.
    let arguments: Vec<_> = std::env::args()
        .skip(1)
        .filter(|it| it != "--bench")
        .collect();
    let [socket, url, count] = arguments.as_slice() else {
        panic!("SOCKET URL COUNT; scripts/train knows them");
    };
    let count: usize = count.parse().unwrap();
    let mut sidecar = Sidecar::connect(Path::new(socket), "calls").await;
    sidecar.init(&[("url", url)]).await.unwrap();
    run_caller(sidecar.clone(), 0, count / 10).await;
    let lanes =
        (0..CONCURRENCY).map(|number| run_caller(sidecar.clone(), number, count / CONCURRENCY));
    join_all(lanes).await;
}
