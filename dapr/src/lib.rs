//! `statestore-dapr`: a state component for Dapr over the state store. The crate is a program. Its [`command`] line is public for
//! generated files such as the manual, and [`proto`] with its [`codec`] for its tests.
#![forbid(unsafe_code)]

mod arguments;
mod bulk;
pub mod codec;
mod connection;
mod content_type;
mod endpoint;
mod etag;
mod expiry;
mod frames;
mod instance;
mod instance_registry;
mod log;
mod peer;
pub mod proto;
mod serve;
mod service;
mod settings;
mod socket;
mod socket_folder;
mod status;
mod transaction;

use arguments::Arguments;
use clap::{CommandFactory as _, Parser as _};
use std::process::ExitCode;

/// Returns the command line as a command of clap.
pub fn command() -> clap::Command {
    Arguments::command()
}

/// Runs the program.
pub fn run() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => error.exit(),
    };
    log::init(arguments.log_level(), arguments.log_format());
    match serve::serve(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("statestore-dapr: {error}");
            ExitCode::FAILURE
        }
    }
}
