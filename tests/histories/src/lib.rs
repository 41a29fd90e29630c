//! The results that clients of real processes got, and whether a single store could have produced them. The results are the
//! [history](CallHistory) of each key, the [holders](LockHoldings) of a lock, and the [counts](CounterTally).
//!
//! Times are nanoseconds of one clock that all clients share.
#![forbid(unsafe_code)]

mod call;
mod counter_tally;
mod history;
mod lock_holdings;
mod register;

pub use call::{Call, CallResult, Condition, Invocation};
pub use counter_tally::CounterTally;
pub use history::CallHistory;
pub use lock_holdings::{LockHolding, LockHoldings};
