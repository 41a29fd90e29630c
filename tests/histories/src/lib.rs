//! The results that clients of real processes got, and whether a single store could have produced them. The results are the
//! [history](History) of each key, the [holders](Holdings) of a lock, and the [counts](Tally).
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
