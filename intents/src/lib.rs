//! Transactions on state stores that have none, over the public client.
//!
//! An [`IntentsClient`] performs all steps. The other items are for programs with a transport of their own, and for checks
//! against a model of the store. An implementation of [`Store`] decides the result of each request, and its time.
//!
//! A transaction takes these steps:
//!
//! 1. It replaces each value by an [`Intent`] with a compare-and-set, one key after the other in the order of their bytes.
//! 2. It decides, by writing its own register, which can be set only once. From that moment on, each of its keys has the new
//!    value for every reader, whatever is stored there.
//! 3. It replaces the intents by their values.
//!
//! A client that finds the intent of another transaction reads its register. Any client can abort the transaction there as long
//! as it has not decided.
//!
//! See `docs/intents.md` for the guarantees, their preconditions, and the cost.
#![forbid(unsafe_code)]

mod calls;
mod client;
mod client_store;
mod read;
mod record;
mod settle;
mod transact;
mod transaction_attempt;

pub use client::IntentsClient;
pub use read::read;
pub use record::{Decision, Intent, REGISTERS, Record, TransactionId};
pub use settle::{SettledKey, settle};
pub use transact::transact;

use statestore::{Condition, Entry, Error, Hlc, SetOutcome};
use std::time::Duration;

/// Time limit of a read together with all writes that are based on it. The limit is checked when a request is sent. The store
/// does not execute the request later, since its message expires.
pub const READ_WRITE_WINDOW: Duration = Duration::from_secs(10);

/// Time for which a transaction waits for another one that has not decided.
pub const UNDECIDED_TIMEOUT: Duration = Duration::from_secs(3);

/// Time for which other clients wait until a committed transaction has put its values in place.
const GRACE: Duration = Duration::from_millis(100);

/// Minimum age of an intent, by the wall clock, at which a client that only reads clears it.
const ABANDONED_AFTER_MS: u64 = 15_000;

/// Time for which a deleted key keeps its fence: longer than an earlier request may be on its way.
pub const TOMBSTONE: Duration = Duration::from_secs(60);

/// Minimum expiry of a key that a transaction sets: longer than an earlier request may be on its way.
pub const MIN_EXPIRY: Duration = Duration::from_secs(30);

/// Maximum duration of a transaction.
pub const MAX_DURATION: Duration = Duration::from_secs(600);

/// Time for which a register records that its transaction was aborted, or that other clients finished it: longer than the
/// transaction may take.
pub const DECISION_RETENTION: Duration = Duration::from_secs(3600);

/// Time for which a register records the end of a transaction that finished itself.
const DONE_RETENTION: Duration = Duration::from_secs(60);

/// Maximum number of operations in a transaction.
pub const MAX_OPERATIONS: usize = 1_000;

/// A SET request.
#[derive(Debug, Clone)]
pub struct Set<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The value.
    pub value: &'a [u8],
    /// Condition under which it applies; never [`Condition::IfVersion`].
    pub condition: Condition,
    /// Fencing token of the request.
    pub token: Option<Hlc>,
    /// Time after which the key expires.
    pub expires_in: Option<Duration>,
}

/// A store as used by a transaction, with a clock and random numbers.
pub trait Store: Sync {
    /// Sends a GET. The request ends with a time-out error after `timeout` at the latest, and at once if that is zero. The
    /// store must not execute it more than a second after that.
    fn get(
        &self,
        key: &[u8],
        timeout: Duration,
    ) -> impl Future<Output = Result<Option<Entry>, Error>> + Send;

    /// Sends a SET, with the same time limit. A fencing token that is too low is an error of the kind
    /// [`FencingTokenLower`](statestore::ErrorKind::FencingTokenLower).
    fn set(
        &self,
        set: Set<'_>,
        timeout: Duration,
    ) -> impl Future<Output = Result<SetOutcome, Error>> + Send;

    /// Waits for this time.
    fn pause(&self, time: Duration) -> impl Future<Output = ()> + Send;

    /// Returns the time of a monotonic clock.
    fn now(&self) -> Duration;

    /// Returns the time of the wall clock, in milliseconds since the Unix epoch.
    fn wall_ms(&self) -> u64;

    /// Returns a timestamp that was not returned before, and whose node id no other client uses.
    fn timestamp(&self) -> Hlc;

    /// Returns the number of a transaction, which must be unique.
    fn transaction_id(&self) -> TransactionId;

    /// Returns a random number, distributed uniformly over `u64`, for delays.
    fn random(&self) -> u64;
}
