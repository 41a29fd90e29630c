//! The storage of the entries, and the options of an engine that stores them.
mod etcd;
mod redis;

pub use etcd::{EtcdOptions, EtcdUrl};
pub use redis::{RedisOptions, RedisUrl};

use crate::config_error::ConfigError;
use crate::engines;
use clap::Args;
use statestored_link::{EtcdConfig, RedisConfig};
use std::path::PathBuf;

/// Storage of the entries.
#[derive(Debug, Clone, PartialEq, Eq)]
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
    pub fn is_local(&self) -> bool {
        matches!(self, Self::Memory | Self::Durable(_))
    }
}

/// Options of a shared engine, for tools.
#[derive(Debug, Args)]
pub struct EngineOptions {
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
    /// Creates the options of a storage.
    pub fn new(storage: StorageKind, etcd: EtcdOptions, redis: RedisOptions) -> Self {
        Self {
            storage: Some(storage),
            etcd,
            redis,
        }
    }

    /// Returns the storage; `None` if it is not in an engine.
    pub fn into_config(self) -> Result<Option<StorageConfig>, ConfigError> {
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
pub enum StorageKind {
    /// On disk.
    Durable,
    /// In memory.
    Memory,
    /// In an etcd.
    Etcd(EtcdUrl),
    /// In a Redis or Valkey.
    Redis(RedisUrl),
}

/// Parses the value of `--storage` of a server.
pub fn parse_kind(text: &str) -> Result<StorageKind, String> {
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
    if let Some(url) = etcd::parse(text) {
        return Some(engines::require_etcd().and(url).map(StorageKind::Etcd));
    }
    let url = redis::parse(text)?;
    Some(engines::require_redis().and(url).map(StorageKind::Redis))
}
