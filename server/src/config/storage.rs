//! Options: where the state lives.
use super::ConfigError;
#[cfg(feature = "etcd")]
use super::etcd::{self, EtcdOptions, EtcdUrl};
#[cfg(feature = "etcd")]
use crate::keyspace::remote::etcd::EtcdConfig;
use clap::Args;
use std::path::PathBuf;

/// Where the state lives.
#[derive(Debug, Args)]
pub(super) struct StorageOptions {
    /// Where the state lives: `durable` on disk, `memory` until the process ends, or
    /// `etcd://HOST:PORT[,HOST:PORT…][/PREFIX]`, which other servers use as well; `etcds` is the same over TLS
    #[arg(long, value_name = "KIND", value_parser = parse_kind, default_value = "durable")]
    storage: StorageKind,

    /// Folder of the durable storage [default: statestored in the user's data folder]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,

    #[cfg(feature = "etcd")]
    #[command(flatten)]
    etcd: EtcdOptions,
}

/// What `--storage` says.
#[derive(Debug, Clone, PartialEq, Eq)]
enum StorageKind {
    Durable,
    Memory,
    #[cfg(feature = "etcd")]
    Etcd(EtcdUrl),
}

fn parse_kind(text: &str) -> Result<StorageKind, String> {
    match text {
        "durable" => Ok(StorageKind::Durable),
        "memory" => Ok(StorageKind::Memory),
        _ => elsewhere(text)
            .unwrap_or_else(|| Err("expected durable, memory or etcd://HOST:PORT".into())),
    }
}

#[cfg(not(feature = "etcd"))]
fn elsewhere(text: &str) -> Option<Result<StorageKind, String>> {
    let is_etcd = text.starts_with("etcd://") || text.starts_with("etcds://");
    is_etcd.then(|| {
        Err(
            "this statestored was built without etcd: build it with the cargo feature `etcd`"
                .into(),
        )
    })
}

#[cfg(feature = "etcd")]
fn elsewhere(text: &str) -> Option<Result<StorageKind, String>> {
    Some(etcd::parse(text)?.map(StorageKind::Etcd))
}

/// Where the state lives.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum StorageConfig {
    /// In memory, until the process ends.
    Memory,
    /// On disk, in this folder, which is made if it does not exist.
    Durable(PathBuf),
    /// In an etcd, which other servers may use as well.
    #[cfg(feature = "etcd")]
    Etcd(EtcdConfig),
}

impl StorageConfig {
    /// Whether the entries are this server's alone.
    pub(super) fn is_own(&self) -> bool {
        matches!(self, Self::Memory | Self::Durable(_))
    }
}

impl StorageOptions {
    pub(super) fn into_config(self) -> Result<StorageConfig, ConfigError> {
        #[cfg(feature = "etcd")]
        {
            let url = match &self.storage {
                StorageKind::Etcd(url) => Some(url.clone()),
                StorageKind::Durable | StorageKind::Memory => None,
            };
            if let Some(etcd) = self.etcd.into_config(url)? {
                return match self.data_dir {
                    Some(_) => Err(ConfigError::ElsewhereWithFolder),
                    None => Ok(StorageConfig::Etcd(etcd)),
                };
            }
        }
        Ok(match (self.storage, self.data_dir) {
            (StorageKind::Memory, Some(_)) => return Err(ConfigError::MemoryWithFolder),
            (StorageKind::Memory, None) => StorageConfig::Memory,
            (_, Some(folder)) => StorageConfig::Durable(folder),
            (_, None) => {
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
