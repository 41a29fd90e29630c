//! Types that all crates of the server use: readings of the clocks, histograms, and the file that a thread reads.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

mod clock_reading;
pub mod histogram;
pub mod read_tracker;

pub use clock_reading::ClockReading;
