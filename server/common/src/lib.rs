//! Items that all crates of the server use: readings of the clocks, histograms, the file that a thread reads, and sizes and durations in
//! options.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

pub mod byte_size;
mod clock_reading;
pub mod duration;
pub mod histogram;
pub mod read_tracker;

pub use clock_reading::ClockReading;
