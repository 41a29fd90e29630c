//! Types that all crates of the server use: readings of the clocks, and histograms.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

mod clock_reading;
pub mod histogram;

pub use clock_reading::ClockReading;
