//! What clients of real processes were told, and whether one store could have told that: the [history](History) of each key, who
//! [held](Holdings) a lock, and how far was [counted](Tally).
//!
//! Times are nanoseconds of one clock that all clients share.
#![forbid(unsafe_code)]

mod history;
mod holdings;
mod register;
mod tally;

pub use history::{Asked, Call, Condition, History, Told};
pub use holdings::{Holding, Holdings};
pub use tally::Tally;
