//! Options of the storage.
use crate::config_error::ConfigError;
use crate::storage_config::{
    EngineOptions, EtcdOptions, RedisOptions, StorageConfig, StorageKind, parse_kind,
};
use clap::Args;
use statestored_common::duration::parse_seconds;
use std::path::PathBuf;
use std::time::Duration;

/// Default maximum time that the clock may be ahead: as much as the protocol allows the clock of a client.
pub(super) const MAX_CLOCK_AHEAD: Duration = Duration::from_secs(60);

/// Default time that the disk has at shutdown: less than the 90 seconds after which systemd kills.
pub(super) const STOP_TIMEOUT: Duration = Duration::from_secs(60);

/// Options of the storage.
#[derive(Debug, Args)]
pub(super) struct StorageOptions {
    /// Storage of the entries: `durable` (on disk), `memory`, or shared by several servers:
    /// `etcd://HOST:PORT[,HOST:PORT…][/PREFIX]`, `redis://HOST:PORT[,HOST:PORT…][/DATABASE][?prefix=PREFIX]` or
    /// `redis-sentinel://HOST:PORT[,…]/MASTER`; with TLS: `etcds`, `rediss` and `rediss-sentinel`
    #[arg(long, value_name = "KIND", value_parser = parse_kind, default_value = "durable")]
    storage: StorageKind,

    /// Folder of the durable storage [default: ~/.local/share/statestored]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,

    /// Time that the last writes may take when the server stops, such as 90s; then it exits with an error
    #[arg(long, value_name = "DURATION", default_value_t = STOP_TIMEOUT.as_secs(), value_parser = parse_seconds::<1, 86_400>)]
    stop_timeout: u64,

    /// Time by which the clock of this machine may be ahead of the clocks of most other servers and of Redis, such as 30s; beyond it,
    /// the server rejects changes [default: 60]
    #[arg(long, value_name = "DURATION", value_parser = parse_seconds::<30, { u64::MAX }>)]
    max_clock_ahead: Option<u64>,

    #[command(flatten)]
    etcd: EtcdOptions,

    #[command(flatten)]
    redis: RedisOptions,
}

impl StorageOptions {
    /// Returns the time that the disk has at shutdown.
    pub(super) fn stop_timeout(&self) -> Duration {
        Duration::from_secs(self.stop_timeout)
    }

    /// Returns the storage, and the maximum time that the clock may be ahead of others.
    pub(super) fn into_config(self) -> Result<(StorageConfig, Duration), ConfigError> {
        let max_clock_ahead = self.max_clock_ahead;
        let storage = self.into_storage_config()?;
        if max_clock_ahead.is_some() && storage.is_local() {
            let problem = "--max-clock-ahead is for servers that share a storage (--storage etcd://… or redis://…): there are no other \
                           clocks to compare with";
            return Err(ConfigError::Options(problem.into()));
        }
        Ok((
            storage,
            max_clock_ahead.map_or(MAX_CLOCK_AHEAD, Duration::from_secs),
        ))
    }

    fn into_storage_config(self) -> Result<StorageConfig, ConfigError> {
        let engine = EngineOptions::new(self.storage.clone(), self.etcd, self.redis);
        match (engine.into_config()?, &self.data_dir) {
            (Some(_), Some(_)) => return Err(ConfigError::SharedWithFolder),
            (Some(engine), None) => return Ok(engine),
            (None, _) => {}
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

/// Returns `$XDG_DATA_HOME/statestored`, by default `~/.local/share/statestored`.
fn default_data_dir() -> Option<PathBuf> {
    let absolute = |name| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    let base = absolute("XDG_DATA_HOME").or_else(|| Some(absolute("HOME")?.join(".local/share")));
    Some(base?.join("statestored"))
}
