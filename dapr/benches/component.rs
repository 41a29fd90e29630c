//! What a call through the component takes, with the library's own calls on the same store in turns:
//!
//! ```sh
//! cargo bench -p statestore-dapr --bench component
//! ```
//!
//! The store and the caller are in this process, each on a thread of its own, the component is another one. There is no daprd.
#![allow(clippy::unwrap_used, reason = "a benchmark fails by panicking")]
#![allow(clippy::cast_precision_loss, reason = "rates are read by people")]
#[path = "../tests/component/harness.rs"]
#[allow(dead_code, reason = "the tests need more of it")]
mod harness;

use futures_util::future::join_all;
use harness::{Fixture, Sidecar, UNSPECIFIED, set, set_if};
use statestore::Client;
use statestore_dapr::proto::transactional_state_operation::Request as Operation;
use std::cell::RefCell;
use std::time::{Duration, Instant};

const ROUNDS: usize = 9;
const ROUND: Duration = Duration::from_secs(1);
const AT_ONCE: usize = 64;
const OPERATIONS: usize = 5;

/// Values are as long as this.
const VALUE: &str = "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789";

/// What a round has measured: calls per second, and the times of single calls in µs.
struct RoundMetrics {
    rate: f64,
    p50: f64,
    p99: f64,
}

/// Makes calls without pause, so many at a time.
async fn round(at_once: usize, call: impl AsyncFn(usize)) -> RoundMetrics {
    let times = RefCell::new(Vec::new());
    let begun = Instant::now();
    let lanes = (0..at_once).map(async |lane| {
        while begun.elapsed() < ROUND {
            let start = Instant::now();
            call(lane).await;
            times.borrow_mut().push(start.elapsed());
        }
    });
    join_all(lanes).await;
    let took = begun.elapsed().as_secs_f64();
    let mut times = times.into_inner();
    times.sort_unstable();
    let at = |part: usize| times[(times.len() - 1) * part / 100].as_secs_f64() * 1e6;
    RoundMetrics {
        rate: times.len() as f64 / took,
        p50: at(50),
        p99: at(99),
    }
}

/// The middle one, the least and the most.
fn spread(rounds: &[RoundMetrics], of: impl Fn(&RoundMetrics) -> f64) -> String {
    let mut values: Vec<f64> = rounds.iter().map(of).collect();
    values.sort_by(f64::total_cmp);
    let [least, most] = [values[0], values[values.len() - 1]];
    format!("{:.0} ({least:.0} to {most:.0})", values[values.len() / 2])
}

fn print(name: &str, rounds: &[RoundMetrics]) {
    println!(
        "{name}: {} calls/s, p50 {} µs, p99 {} µs",
        spread(rounds, |it| it.rate),
        spread(rounds, |it| it.p50),
        spread(rounds, |it| it.p99),
    );
}

/// A save of what was read, as whoever counts something makes it.
async fn save_again(sidecar: &Sidecar, key: &str) {
    let mut sidecar = sidecar.clone();
    let etag = sidecar.etag(key).await;
    let saved = set_if(key, VALUE, Some(&etag), UNSPECIFIED);
    sidecar.set(saved).await.unwrap();
}

async fn transact(sidecar: &Sidecar, lane: usize) {
    let writes = (0..OPERATIONS).map(|number| set(&format!("t-{lane}-{number}"), VALUE));
    let operations = writes.map(Operation::Set).collect();
    sidecar.clone().transact(operations).await.unwrap();
}

/// Each in turn, so that a machine that is slow for a while is so for all of them.
async fn measure(sidecar: &Sidecar, client: &Client) {
    let key = |lane: usize| format!("key-{lane}");
    for lane in 0..AT_ONCE {
        client.set(key(lane), VALUE).await.unwrap();
    }
    let [
        mut library,
        mut component,
        mut many,
        mut saves,
        mut transactions,
    ] = [(); 5].map(|()| Vec::new());
    for _ in 0..ROUNDS {
        let get = async |lane| drop(client.get(key(lane)).await.unwrap());
        library.push(round(1, get).await);
        let get = async |lane| drop(sidecar.clone().get(&key(lane)).await);
        component.push(round(1, get).await);
        many.push(round(AT_ONCE, get).await);
        saves.push(round(AT_ONCE, async |lane| save_again(sidecar, &key(lane)).await).await);
        transactions.push(round(AT_ONCE, async |lane| transact(sidecar, lane).await).await);
    }
    print("get, one after the other, the library", &library);
    print("get, one after the other, the component", &component);
    print("get, 64 at a time, the component", &many);
    print(
        "get and save with its ETag (two calls), 64 at a time, the component",
        &saves,
    );
    print(
        "transactions of 5 saves, 64 at a time, the component",
        &transactions,
    );
}

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let fixture = Fixture::start().await;
        let client = fixture.client().await;
        measure(&fixture.sidecar, &client).await;
        // Before its store, which it would miss loudly.
        fixture.process.kill();
    });
}
