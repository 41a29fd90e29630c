//! Where an engine is, and how a server logs in there.
use crate::tls::EngineTls;
use std::path::PathBuf;
use std::time::Duration;

/// The location of an etcd, and of the store in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EtcdConfig {
    /// `http://host:port` of each member.
    pub endpoints: Vec<String>,
    /// The prefix of all keys, without the last `/`.
    pub prefix: String,
    /// Files for TLS, for endpoints that begin with `https`.
    pub tls: Option<EngineTls>,
    /// The user of etcd as which the server logs in, and the file with the password.
    pub user: Option<(String, PathBuf)>,
    /// Time for which etcd keeps former values; without it, this server never compacts etcd.
    pub history: Option<Duration>,
}

/// The location of a Redis, and of the store in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedisConfig {
    /// Host and port of each server that may be the master, or of the sentinels.
    pub addresses: Vec<(String, u16)>,
    /// The name of the master at the sentinels, if the addresses are theirs.
    pub master: Option<String>,
    /// The number of the database.
    pub database: u32,
    /// The prefix of all keys, which they contain in braces.
    pub prefix: String,
    /// Files for TLS, if it is used.
    pub tls: Option<EngineTls>,
    /// The user of Redis as which the server logs in; `None` is the default user.
    pub user: Option<String>,
    /// The file with the password.
    pub password: Option<PathBuf>,
    /// Number of replicas that have to confirm data before it is answered or reported.
    pub replicas: u32,
}
