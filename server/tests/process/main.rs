//! The real process: command line, sockets, signals, and what is left after a kill.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::float_cmp, reason = "counts are whole")]
mod audit;
mod client_ids;
mod clock;
mod command_line;
mod disk;
mod exports;
mod fairness;
mod file_size;
mod foreign_hashes;
mod guessing;
mod hashing;
mod health;
mod hostile;
mod kill;
mod limited_memory;
mod memory;
mod open_files;
mod operators;
mod peer;
mod salvage;
mod scram_salts;
mod serving;
mod sighup;
mod starting;
mod stopping;
mod storage;
mod threads;
mod tools;
mod users_file;
mod write_delay;
