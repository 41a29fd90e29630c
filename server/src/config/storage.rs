//! Options: where the state lives.
use super::ConfigError;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// Where the state lives.
#[derive(Debug, Args)]
pub(super) struct StorageOptions {
    /// Where the state lives: `durable` on disk, or `memory` until the process ends
    #[arg(long, value_name = "KIND", value_enum, default_value_t)]
    storage: StorageKind,

    /// Folder of the durable storage [default: statestored in the user's data folder]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

/// The kinds of storage on the command line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum StorageKind {
    #[default]
    Durable,
    Memory,
}

/// Where the state lives.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum StorageConfig {
    /// In memory, until the process ends.
    Memory,
    /// On disk, in this folder, which is made if it does not exist.
    Durable(PathBuf),
}

impl StorageOptions {
    pub(super) fn into_config(self) -> Result<StorageConfig, ConfigError> {
        Ok(match (self.storage, self.data_dir) {
            (StorageKind::Memory, Some(_)) => return Err(ConfigError::MemoryWithFolder),
            (StorageKind::Memory, None) => StorageConfig::Memory,
            (StorageKind::Durable, Some(folder)) => StorageConfig::Durable(folder),
            (StorageKind::Durable, None) => {
                StorageConfig::Durable(default_data_dir().ok_or(ConfigError::NoDataFolder)?)
            }
        })
    }
}

/// `$XDG_DATA_HOME/statestored`, by default `~/.local/share/statestored`.
fn default_data_dir() -> Option<PathBuf> {
    let absolute = |name| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    let base = absolute("XDG_DATA_HOME").or_else(|| Some(absolute("HOME")?.join(".local/share")));
    Some(base?.join("statestored"))
}
