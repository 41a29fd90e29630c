//! Peers for the tests: a `statestored` process and the vendor's client, each ended when dropped.

mod server;
mod vendor;

pub use server::Server;
pub use vendor::{Vendor, next, order};

use std::time::Duration;

/// A time-out that no healthy step comes near; it turns a hang into a failure.
pub const GUARD: Duration = Duration::from_secs(20);

/// Whether this test finds something else behind the broker of `TESTED_BROKER`, as `tests/vectors/attached.json` says.
pub fn differs(test: &str) -> bool {
    const DIFFERENCES: &str = include_str!("../../vectors/attached.json");
    std::env::var_os("TESTED_BROKER").is_some() && DIFFERENCES.contains(&format!("\"{test}\""))
}

/// Awaits `step`, and panics if it takes longer than [`GUARD`].
pub async fn within<F: Future>(what: &str, step: F) -> F::Output {
    tokio::time::timeout(GUARD, step)
        .await
        .unwrap_or_else(|_| panic!("{what}: nothing within {GUARD:?}"))
}
