//! Leases, locks and elections that detect their loss, and compare-and-set by version ("Locking and fencing tokens").
//!
//! A [`Lease`] is taken in one attempt, a lock is [waited for](crate::Client::lock); both return a [`Guard`]. The guard renews
//! the lease automatically, and ends *before* the store can give the lease to another client. It sends its fencing token with
//! every write, so that the store rejects a write that arrives too late. An [`Election`] is a lock whose holder publishes a
//! value. [`Client::update`](crate::Client::update) changes one key without any lock.
//!
//! ```no_run
//! # async fn example(client: statestore::Client) -> Result<(), statestore::Error> {
//! let guard = client.lock("pump/owner").await?;
//! guard.set("pump/state", "running").await?;
//! tokio::select! {
//!     reason = guard.lost() => println!("the lock is lost: {reason}"),
//!     () = pump(&guard) => {}
//! }
//! guard.release().await?;
//! # Ok(())
//! # }
//! # async fn pump(guard: &statestore::Guard) {}
//! ```
//!
//! # How long a guard is valid
//!
//! The validity starts just before the request that took or last renewed the lease is sent. It lasts for the duration of the
//! lease less a [safety margin](LeaseOptions::validity). The store starts to count when the request arrives, which is later, so
//! its lease ends later. Time is measured on the monotonic clock, so jumps of the wall clock have no effect. A response that
//! arrives after the end does not make the guard valid again.
//!
//! See `docs/locks.md` for the reasoning and the limits.

mod client;
mod election;
mod guard;
mod guarded_write;
mod holder;
mod increment;
mod lease;
mod lease_validity;
#[allow(clippy::module_inception, reason = "the file holds what its name says")]
mod lock_waiter;
mod observer;
mod options;
mod renewal_task;
mod touch;
mod update;

pub use crate::client::{CompareAndSet, Progress, Step, StepOutcome, token_above};
pub use election::{Election, Leader, Leadership};
pub use guard::{Guard, Release};
pub use holder::Holder;
pub use lease::{Acquisition, Holding, Lease};
pub use observer::{HolderObserver, LeaderObserver, Observable};
pub use options::{LeaseOptions, LockOptions, Renewal};
pub use update::{UpdateOptions, UpdateOutcome};

use crate::client::key_action as action;
use crate::error::{Error, ErrorKind, Outcome};

fn invalid(verb: &str, name: &[u8], reason: impl Into<String>) -> Error {
    Error::new(
        ErrorKind::InvalidArgument,
        Outcome::NotDone,
        action(verb, name),
        reason,
    )
}

/// Returns the error for a lease whose key holds ordinary data.
fn not_a_lock(name: &[u8], reason: impl Into<String>) -> Error {
    Error::new(
        ErrorKind::NotALock,
        Outcome::NotDone,
        action("the lease", name),
        reason,
    )
}
