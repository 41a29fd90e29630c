//! Options of the storage.
use super::ConfigError;
use super::etcd::{self, EtcdOptions, EtcdUrl};
use super::redis::{self, RedisOptions, RedisUrl};
use crate::engines;
use clap::Args;
use statestored_link::{EtcdConfig, RedisConfig};
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

    /// Seconds that the last writes may take when the server stops; then it exits with an error
    #[arg(long, value_name = "SECONDS", default_value_t = STOP_TIMEOUT.as_secs(),
          value_parser = clap::value_parser!(u64).range(1..=86_400))]
    stop_timeout: u64,

    /// Seconds by which the clock of this machine may be ahead of the clocks of most other servers and of Redis; beyond it, the server
    /// rejects changes [default: 60]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(30..))]
    max_clock_ahead: Option<u64>,

    #[command(flatten)]
    etcd: EtcdOptions,

    #[command(flatten)]
    redis: RedisOptions,
}

/// Options of a shared engine, for tools.
#[derive(Debug, Args)]
pub(crate) struct EngineOptions {
    /// Shared storage to fill: `etcd://HOST:PORT[,HOST:PORT…][/PREFIX]` or
    /// `redis://HOST:PORT[,HOST:PORT…][/DATABASE][?prefix=PREFIX]`, with a prefix that has no keys
    #[arg(long, value_name = "URL", value_parser = parse_engine)]
    storage: Option<StorageKind>,

    #[command(flatten)]
    etcd: EtcdOptions,

    #[command(flatten)]
    redis: RedisOptions,
}

impl EngineOptions {
    /// Returns the storage; `None` if it is not in an engine.
    pub(crate) fn into_config(self) -> Result<Option<StorageConfig>, ConfigError> {
        let (etcd, redis) = match self.storage {
            Some(StorageKind::Etcd(url)) => (Some(url), None),
            Some(StorageKind::Redis(url)) => (None, Some(url)),
            _ => (None, None),
        };
        let etcd = self.etcd.into_config(etcd)?.map(StorageConfig::Etcd);
        let redis = self.redis.into_config(redis)?.map(StorageConfig::Redis);
        Ok(etcd.or(redis))
    }
}

fn parse_engine(text: &str) -> Result<StorageKind, String> {
    parse_shared(text)
        .unwrap_or_else(|| Err("expected etcd://HOST:PORT or redis://HOST:PORT".into()))
}

/// Value of `--storage`.
#[derive(Debug, Clone, PartialEq, Eq)]
enum StorageKind {
    Durable,
    Memory,
    Etcd(EtcdUrl),
    Redis(RedisUrl),
}

fn parse_kind(text: &str) -> Result<StorageKind, String> {
    match text {
        "durable" => Ok(StorageKind::Durable),
        "memory" => Ok(StorageKind::Memory),
        _ => parse_shared(text).unwrap_or_else(|| {
            Err("expected durable, memory, etcd://HOST:PORT or redis://HOST:PORT".into())
        }),
    }
}

/// Parses the URL of an engine; `None` if the text is no such URL.
fn parse_shared(text: &str) -> Option<Result<StorageKind, String>> {
    let (scheme, _) = text.split_once("://")?;
    match scheme {
        "etcd" | "etcds" => Some(etcd_kind(text)),
        "redis" | "rediss" | "redis-sentinel" | "rediss-sentinel" => Some(redis_kind(text)),
        _ => None,
    }
}

fn etcd_kind(text: &str) -> Result<StorageKind, String> {
    engines::require_etcd()?;
    etcd::parse(text)
        .unwrap_or_else(|| Err("expected etcd://HOST:PORT".into()))
        .map(StorageKind::Etcd)
}

fn redis_kind(text: &str) -> Result<StorageKind, String> {
    engines::require_redis()?;
    redis::parse(text)
        .unwrap_or_else(|| Err("expected redis://HOST:PORT".into()))
        .map(StorageKind::Redis)
}

/// Storage of the entries.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum StorageConfig {
    /// In memory, until the process ends.
    Memory,
    /// On disk, in this folder, which is created if it does not exist.
    Durable(PathBuf),
    /// In an etcd, which other servers may use as well.
    Etcd(EtcdConfig),
    /// In a Redis or Valkey, which other servers may use as well.
    Redis(RedisConfig),
}

impl StorageConfig {
    /// Returns whether this server alone has the entries.
    pub(super) fn is_local(&self) -> bool {
        matches!(self, Self::Memory | Self::Durable(_))
    }
}

impl StorageOptions {
    /// Returns the time that the disk has at shutdown.
    pub(super) fn stop_timeout(&self) -> Duration {
        Duration::from_secs(self.stop_timeout)
    }

    /// Returns the storage, and the maximum time that the clock may be ahead of others.
    pub(super) fn into_config(self) -> Result<(StorageConfig, Duration), ConfigError> {
        let said = self.max_clock_ahead;
        let storage = self.into_storage_config()?;
        if said.is_some() && storage.is_local() {
            let problem = "--max-clock-ahead is for servers that share a storage (--storage etcd://… or redis://…): there are no other \
                           clocks to compare with";
            return Err(ConfigError::Options(problem.into()));
        }
        Ok((storage, said.map_or(MAX_CLOCK_AHEAD, Duration::from_secs)))
    }

    fn into_storage_config(self) -> Result<StorageConfig, ConfigError> {
        let engine = EngineOptions {
            storage: Some(self.storage.clone()),
            etcd: self.etcd,
            redis: self.redis,
        };
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
