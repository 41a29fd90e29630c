//! The real process: command line, sockets, signals, and what is left after a kill.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::float_cmp, reason = "counts are whole")]
mod audit;
mod clock;
mod command_line;
mod disk;
mod exports;
mod fairness;
mod health;
mod hostile;
mod kill;
mod open_files;
mod peer;
mod serving;
mod starting;
mod stopping;
mod storage;
mod tools;
mod waiting;
