//! Subcommands of `statestored` other than serving, each in a file of its own.
//!
//! A tool has arguments of its own. Options of the server in the environment or a configuration file do not apply to it.
mod backup;
mod check;
mod compact;
mod export;
mod health;
mod import;
mod passwd;
mod progress;
mod restore;
mod salvage;
mod source;

use crate::config_error::ConfigError;
use clap::Subcommand;
use statestored_storage::StorageError;
use std::error::Error;
use std::fmt::Display;
use std::io;
use std::process::ExitCode;

/// A subcommand other than serving.
#[derive(Debug, Subcommand)]
#[non_exhaustive]
pub enum ToolCommand {
    /// Set the password of a user in a file of users
    Passwd(passwd::Passwd),
    /// Write a backup of a data folder, while no server runs on it
    Backup(backup::Backup),
    /// Create a data folder from a backup, or fill etcd or Redis with it
    Restore(Box<restore::Restore>),
    /// Check a data folder or a backup for damage
    Check(check::Check),
    /// Bring what is intact in a damaged data folder into a new one
    Salvage(salvage::Salvage),
    /// Merge the files of a data folder
    Compact(compact::Compact),
    /// Write all records as text, in JSON Lines
    Export(export::Export),
    /// Create a data folder from exported text, or add it to one
    Import(import::Import),
    /// Check whether a server is alive, or ready for clients (exit code 0)
    Health(health::Health),
}

/// Reason why a tool for data failed.
#[derive(Debug, thiserror::Error)]
enum ToolError {
    #[error(transparent)]
    Storage(#[from] StorageError),
    #[error(transparent)]
    System(#[from] io::Error),
    #[error(transparent)]
    Options(#[from] ConfigError),
}

impl ToolCommand {
    /// Executes the tool; blocks until it is done.
    ///
    /// # Errors
    /// The operation that failed, as a message for the caller.
    pub fn run(self) -> Result<ExitCode, Box<dyn Error>> {
        let done = match self {
            Self::Passwd(passwd) => return Ok(passwd.run().map(|()| ExitCode::SUCCESS)?),
            Self::Health(health) => return Ok(health.run().map(|()| ExitCode::SUCCESS)?),
            Self::Check(check) => check.run(),
            Self::Salvage(salvage) => salvage.run(),
            Self::Backup(backup) => exit_code(backup.run()),
            Self::Restore(restore) => exit_code(restore.run()),
            Self::Compact(compact) => exit_code(compact.run()),
            Self::Export(export) => exit_code(export.run()),
            Self::Import(import) => exit_code(import.run()),
        };
        match done {
            Err(ToolError::Storage(StorageError::Stopped)) => {
                eprintln!("statestored: interrupted, nothing was changed");
                Ok(INTERRUPTED.into())
            }
            Err(ToolError::Storage(error @ StorageError::InUse(_))) => {
                Err(format!("{error}: stop it first, or run `statestore admin backup` to back up a running server").into())
            }
            done => Ok(done?),
        }
    }
}

/// Exit code of an interrupted process.
const INTERRUPTED: u8 = 130;

/// Returns a number of records as text.
fn record_count(records: u64) -> String {
    format!("{records} record{}", if records == 1 { "" } else { "s" })
}

/// Prints how many records a file or a store contains.
fn print_record_count(records: u64, location: impl Display) {
    let verb = if records == 1 { "is" } else { "are" };
    println!("{} {verb} in {location}", record_count(records));
}

fn exit_code(done: Result<(), ToolError>) -> Result<ExitCode, ToolError> {
    done.map(|()| ExitCode::SUCCESS)
}
