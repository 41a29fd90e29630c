//! What `statestored` does instead of serving: a file for each subcommand.
//!
//! A tool has arguments of its own. The options of the server, the environment's and those of a configuration file, do not count
//! for it.
mod backup;
mod check;
mod compact;
mod export;
mod health;
mod import;
mod passwd;
mod progress;
mod restore;
mod source;

use crate::storage::StorageError;
use clap::Subcommand;
use std::error::Error;
use std::io;
use std::process::ExitCode;

/// One thing to do, then the process ends.
#[derive(Debug, Subcommand)]
#[non_exhaustive]
pub enum Tool {
    /// Set the password of a user in a file of users
    Passwd(passwd::Passwd),
    /// Write a backup of a data folder, while no server runs on it
    Backup(backup::Backup),
    /// Make a data folder of a backup
    Restore(restore::Restore),
    /// Say whether a data folder or a backup is as it was written
    Check(check::Check),
    /// Merge the files of a data folder
    Compact(compact::Compact),
    /// Write all records as text, in JSON Lines
    Export(export::Export),
    /// Make a data folder of such text, or add it to one
    Import(import::Import),
    /// Say whether a server is alive, or ready for clients: exit code 0 if so
    Health(health::Health),
}

/// Why a tool for data did not do what it should.
#[derive(Debug, thiserror::Error)]
enum ToolError {
    #[error(transparent)]
    Storage(#[from] StorageError),
    #[error(transparent)]
    System(#[from] io::Error),
}

impl Tool {
    /// Does it; blocks until it is done.
    ///
    /// # Errors
    /// What could not be done, in words for whoever called it.
    pub fn run(self) -> Result<ExitCode, Box<dyn Error>> {
        let done = match self {
            Self::Passwd(passwd) => return Ok(passwd.run().map(|()| ExitCode::SUCCESS)?),
            Self::Health(health) => return Ok(health.run().map(|()| ExitCode::SUCCESS)?),
            Self::Check(check) => check.run(),
            Self::Backup(backup) => succeeded(backup.run()),
            Self::Restore(restore) => succeeded(restore.run()),
            Self::Compact(compact) => succeeded(compact.run()),
            Self::Export(export) => succeeded(export.run()),
            Self::Import(import) => succeeded(import.run()),
        };
        match done {
            Err(ToolError::Storage(StorageError::Stopped)) => {
                eprintln!("statestored: interrupted, nothing was changed");
                Ok(INTERRUPTED.into())
            }
            Err(ToolError::Storage(error @ StorageError::InUse(_))) => {
                Err(format!("{error}: stop that first").into())
            }
            done => Ok(done?),
        }
    }
}

/// What a process ends with that was interrupted.
const INTERRUPTED: u8 = 130;

fn succeeded(done: Result<(), ToolError>) -> Result<ExitCode, ToolError> {
    done.map(|()| ExitCode::SUCCESS)
}
