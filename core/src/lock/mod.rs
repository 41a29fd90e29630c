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
mod compare_and_set;
mod contended_locks;
mod election;
mod guard;
mod guarded_write;
mod holder;
mod if_version;
mod lease;
mod lease_tracker;
mod lease_validity;
#[allow(clippy::module_inception, reason = "the file holds what its name says")]
mod lock_waiter;
mod observer;
mod options;
mod renewal_task;
mod update;

pub use compare_and_set::{CompareAndSet, Progress, Step, StepOutcome, token_above};
pub(crate) use contended_locks::ContendedLocks;
pub use election::{Election, Leader, Leadership};
pub use guard::{Guard, Release};
pub use holder::Holder;
pub(crate) use if_version::set_if_version;
pub use lease::{Acquisition, Holding, Lease};
pub(crate) use lease_tracker::LeaseTracker;
pub use observer::{HolderObserver, LeaderObserver, Observable};
pub use options::{LeaseOptions, LockOptions, Renewal};
pub use update::{UpdateOptions, UpdateOutcome};

use crate::error::{Error, ErrorKind, Outcome};

/// Description of a write by a guard, for messages.
const WRITE_ACTION: &str = "writing under the lease";

/// Describes an action on a lock for messages, with a long name shortened.
fn action(verb: &str, name: &[u8]) -> String {
    const SHOWN: usize = 64;
    let dots = if name.len() > SHOWN { "…" } else { "" };
    let name = name.get(..SHOWN).unwrap_or(name).escape_ascii();
    format!("{verb} \"{name}{dots}\"")
}

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

/// Returns whether the same request may succeed later, so that a waiting caller continues to wait.
fn is_transient(error: &Error) -> bool {
    error.is_retryable()
        || error.outcome() == Outcome::Unknown
            && !matches!(error.kind(), ErrorKind::Closed | ErrorKind::InvalidResponse)
}
