//! Transactions on stores that have none, as sequences of requests without I/O.
//!
//! [`Client::transact_with`](crate::Client::transact_with) and the verbs that read do all of this; these are the parts for programs that
//! bring their own transport, and for checking them against a model of the store: whoever implements [`Store`] decides what
//! becomes of each request, and when.
//!
//! A transaction puts an [`Intent`] in the place of each value, one key after the other in the order of their bytes, each by a
//! compare-and-set. Then it decides: a register of its own, which can be set once, says that it is carried out. From that
//! moment on each of its keys holds the new value for every reader, whatever stands there. At last the intents are replaced
//! by their values. Who meets the intent of another transaction looks at its register. There it can be aborted by anybody as long as it has
//! not decided.
//!
//! `docs/intents.md` has the promises, what they rest on, and what it costs.
mod attempt;
mod calls;
mod local;
mod read;
mod record;
mod settle;
mod transact;

pub(crate) use local::Local;
pub use read::read;
pub(crate) use record::is_marked;
pub use record::{Decision, Intent, REGISTERS, Record, TransactionId};
pub use settle::{Settled, settle};
pub use transact::transact;

use crate::{Condition, Entry, Error, Hlc, SetOutcome};
use std::time::Duration;

/// How long reading a key and everything that is written because of what was read may take. It is checked when a request is
/// sent, and the request is not executed after that: its message expires.
pub const WINDOW: Duration = Duration::from_secs(10);

/// How long a transaction waits for another one that has not decided.
pub const PATIENCE: Duration = Duration::from_secs(3);

/// How long others wait for a transaction that has decided to put its values in place.
const GRACE: Duration = Duration::from_millis(100);

/// How old what stands in the way has to be, by the clock, before one who only reads clears it away.
const OLD_MS: u64 = 15_000;

/// How long a deleted key keeps its fence: longer than a request that somebody sent before may be on its way.
pub const TOMBSTONE: Duration = Duration::from_secs(60);

/// The shortest time after which a key that a transaction sets may expire, for the same reason.
pub const LEAST_EXPIRY: Duration = Duration::from_secs(30);

/// The longest time that a transaction may take.
pub const LONGEST: Duration = Duration::from_secs(600);

/// How long a register says that its transaction was aborted, or that others have finished it: longer than the transaction may
/// take.
pub const REMEMBERED: Duration = Duration::from_secs(3600);

/// How long a register says so if the transaction itself knows.
const FORGOTTEN: Duration = Duration::from_secs(60);

/// The most operations of a transaction.
pub const MOST_OPERATIONS: usize = 1_000;

/// A SET.
#[derive(Debug, Clone)]
pub struct Set<'a> {
    /// Of what.
    pub key: &'a [u8],
    /// To what.
    pub value: &'a [u8],
    /// When it applies: never a version.
    pub condition: Condition,
    /// The fencing token to send with it.
    pub token: Option<Hlc>,
    /// After what time the key expires.
    pub expires_in: Option<Duration>,
}

/// A store as a transaction uses it, with a clock and chance.
pub trait Store: Sync {
    /// Sends a GET. It ends after `timeout` at the latest, with an error that says that it came too late, and at once if that is
    /// zero. The store must not execute it more than a second after that.
    fn get(
        &self,
        key: &[u8],
        timeout: Duration,
    ) -> impl Future<Output = Result<Option<Entry>, Error>> + Send;

    /// Sends a SET, with the same promises. A fencing token that is too low is an error of that
    /// [kind](crate::ErrorKind::FencingTokenLower).
    fn set(
        &self,
        set: Set<'_>,
        timeout: Duration,
    ) -> impl Future<Output = Result<SetOutcome, Error>> + Send;

    /// Waits.
    fn pause(&self, time: Duration) -> impl Future<Output = ()> + Send;

    /// The time of a clock that only goes forward.
    fn now(&self) -> Duration;

    /// The wall clock, in milliseconds since the Unix epoch.
    fn wall_ms(&self) -> u64;

    /// A timestamp whose node id nobody else uses and that was not given before.
    fn timestamp(&self) -> Hlc;

    /// The number of a transaction, which no other one has.
    fn transaction_id(&self) -> TransactionId;

    /// A number by chance, spread over all values, for delays.
    fn random(&self) -> u64;
}
