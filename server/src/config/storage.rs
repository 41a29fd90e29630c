//! Options: where the state lives.
use super::ConfigError;
#[cfg(feature = "etcd")]
use crate::keyspace::remote::etcd::EtcdConfig;
use clap::Args;
use std::path::PathBuf;

/// Where the state lives.
#[derive(Debug, Args)]
pub(super) struct StorageOptions {
    /// Where the state lives: `durable` on disk, `memory` until the process ends, or
    /// `etcd://HOST:PORT[,HOST:PORT…][/PREFIX]`, which other servers use as well
    #[arg(long, value_name = "KIND", value_parser = parse_kind, default_value = "durable")]
    storage: StorageKind,

    /// Folder of the durable storage [default: statestored in the user's data folder]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

/// What `--storage` says.
#[derive(Debug, Clone, PartialEq, Eq)]
enum StorageKind {
    Durable,
    Memory,
    #[cfg(feature = "etcd")]
    Etcd(EtcdConfig),
}

fn parse_kind(text: &str) -> Result<StorageKind, String> {
    match text {
        "durable" => Ok(StorageKind::Durable),
        "memory" => Ok(StorageKind::Memory),
        _ => match text.strip_prefix("etcd://") {
            Some(place) => parse_etcd(place),
            None => Err("expected durable, memory or etcd://HOST:PORT".into()),
        },
    }
}

#[cfg(not(feature = "etcd"))]
fn parse_etcd(_place: &str) -> Result<StorageKind, String> {
    Err("this statestored was built without etcd: build it with the cargo feature `etcd`".into())
}

#[cfg(feature = "etcd")]
fn parse_etcd(place: &str) -> Result<StorageKind, String> {
    /// What keys begin with if nothing else is said.
    const PREFIX: &str = "statestore";
    let (members, prefix) = place.split_once('/').unwrap_or((place, PREFIX));
    let endpoints: Vec<_> = members
        .split(',')
        .map(|member| {
            let (host, port) = member.rsplit_once(':')?;
            let is_port = port.parse::<u16>().is_ok_and(|port| port > 0);
            (!host.is_empty() && is_port).then(|| format!("http://{member}"))
        })
        .collect::<Option<_>>()
        .ok_or("expected etcd://HOST:PORT[,HOST:PORT…][/PREFIX]")?;
    Ok(StorageKind::Etcd(EtcdConfig {
        endpoints,
        prefix: if prefix.is_empty() { PREFIX } else { prefix }.to_owned(),
    }))
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

impl StorageOptions {
    pub(super) fn into_config(self) -> Result<StorageConfig, ConfigError> {
        Ok(match (self.storage, self.data_dir) {
            (StorageKind::Memory, Some(_)) => return Err(ConfigError::MemoryWithFolder),
            #[cfg(feature = "etcd")]
            (StorageKind::Etcd(_), Some(_)) => return Err(ConfigError::ElsewhereWithFolder),
            #[cfg(feature = "etcd")]
            (StorageKind::Etcd(etcd), None) => StorageConfig::Etcd(etcd),
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
