//! Items that the crates of the server have in common: readings of the clocks, histograms, the file that a thread reads, limits of log
//! lines, and sizes and durations in options.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

pub mod byte_size;
mod clock_reading;
pub mod duration;
pub mod histogram;
pub mod line_limiter;
pub mod read_tracker;

pub use clock_reading::ClockReading;
