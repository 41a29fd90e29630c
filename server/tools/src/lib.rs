//! The subcommands of `statestored` that work without a server, and what they have in common with it: storages and their options,
//! errors of a configuration, and files that define access.
#![forbid(unsafe_code)]

pub mod access_files;
pub mod config_error;
pub mod engines;
pub mod storage_config;
pub mod tools;
