//! Options of a Redis that stores the entries.
use crate::config_error::ConfigError;
use clap::Args;
use statestored_link::{EngineTls, RedisConfig};
use std::path::PathBuf;

/// Default prefix of keys.
const PREFIX: &str = "statestore";

/// Options of the connections to Redis.
#[derive(Debug, Args)]
#[allow(
    clippy::struct_field_names,
    reason = "they are the names of the options"
)]
pub struct RedisOptions {
    /// File with the certificate authorities of Redis, in PEM, for rediss [default: those of the system]
    #[arg(long, value_name = "FILE")]
    redis_ca: Option<PathBuf>,

    /// File with the certificate of this server for Redis, in PEM, for rediss
    #[arg(long, value_name = "FILE", requires = "redis_key")]
    redis_cert: Option<PathBuf>,

    /// File with the private key of --redis-cert, in PEM
    #[arg(long, value_name = "FILE", requires = "redis_cert")]
    redis_key: Option<PathBuf>,

    /// User name at Redis; with --redis-password-file [default: default]
    #[arg(long, value_name = "NAME", requires = "redis_password_file")]
    redis_user: Option<String>,

    /// File with the password for Redis
    #[arg(long, value_name = "FILE")]
    redis_password_file: Option<PathBuf>,

    /// Number of Redis replicas that must confirm a change before the server acknowledges it
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    redis_replicas: u32,
}

/// Settings in the URL of a Redis.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedisUrl {
    addresses: Vec<(String, u16)>,
    master: Option<String>,
    database: u32,
    prefix: String,
    has_tls: bool,
}

/// Parses `redis://HOST:PORT[,HOST:PORT…][/DATABASE][?prefix=PREFIX]`, `rediss`, or `redis-sentinel://HOST:PORT[,…]/MASTER[/DATABASE]`
/// and `rediss-sentinel`; `None` for another scheme.
pub(super) fn parse(text: &str) -> Option<Result<RedisUrl, String>> {
    let (scheme, place) = text.split_once("://")?;
    let (has_tls, has_sentinels) = match scheme {
        "redis" => (false, false),
        "rediss" => (true, false),
        "redis-sentinel" => (false, true),
        "rediss-sentinel" => (true, true),
        _ => return None,
    };
    let url = parse_location(place, has_tls, has_sentinels);
    Some(url.ok_or_else(|| {
        let master = if has_sentinels { "/MASTER" } else { "" };
        format!("expected {scheme}://HOST:PORT[,HOST:PORT…]{master}[/DATABASE][?prefix=PREFIX]")
    }))
}

fn parse_location(location: &str, has_tls: bool, has_sentinels: bool) -> Option<RedisUrl> {
    let (location, query) = location.split_once('?').unwrap_or((location, ""));
    let prefix = match query {
        "" => PREFIX,
        query => query.strip_prefix("prefix=")?,
    };
    // Braces around the prefix determine the slot of the keys in a cluster.
    if prefix.is_empty() || prefix.contains(['{', '}', '&']) {
        return None;
    }
    let mut parts = location.split('/');
    let addresses = parts.next()?.split(',').map(|address| {
        let (host, port) = address.rsplit_once(':')?;
        let port = port.parse().ok().filter(|port| *port > 0)?;
        // User names and passwords have options of their own, so that no list of processes shows a password.
        (!host.is_empty() && !host.contains('@')).then(|| (host.to_owned(), port))
    });
    let addresses = addresses.collect::<Option<_>>()?;
    let master = if has_sentinels {
        Some(parts.next().filter(|master| !master.is_empty())?.to_owned())
    } else {
        None
    };
    let database = match parts.next() {
        None | Some("") => 0,
        Some(database) => database.parse().ok()?,
    };
    parts.next().is_none().then(|| RedisUrl {
        addresses,
        master,
        database,
        prefix: prefix.to_owned(),
        has_tls,
    })
}

impl RedisOptions {
    /// Combines the options with the settings of the URL, if it is one of Redis.
    pub(super) fn into_config(
        self,
        url: Option<RedisUrl>,
    ) -> Result<Option<RedisConfig>, ConfigError> {
        let wrong = |problem: &str| Err(ConfigError::Options(problem.into()));
        let has_files = self.redis_ca.is_some() || self.redis_cert.is_some();
        let Some(url) = url else {
            if has_files || self.redis_password_file.is_some() || self.redis_replicas > 0 {
                return wrong(
                    "options that begin with --redis are for --storage redis://… and its like",
                );
            }
            return Ok(None);
        };
        if has_files && !url.has_tls {
            return wrong("certificates need TLS: write rediss:// in the place of redis://");
        }
        Ok(Some(RedisConfig {
            addresses: url.addresses,
            master: url.master,
            database: url.database,
            prefix: url.prefix,
            tls: url.has_tls.then_some(EngineTls {
                ca: self.redis_ca,
                identity: self.redis_cert.zip(self.redis_key),
            }),
            user: self.redis_user,
            password: self.redis_password_file,
            replicas: self.redis_replicas,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_parsed() {
        let url = |text: &str| parse(text).unwrap();
        let one = url("redis://h:6379").unwrap();
        assert_eq!(one.addresses, [("h".to_owned(), 6379)]);
        assert_eq!((one.database, one.prefix.as_str()), (0, PREFIX));
        assert!(!one.has_tls);
        let all = url("rediss-sentinel://a:1,b:2/m/3?prefix=p").unwrap();
        assert_eq!(all.addresses.len(), 2);
        assert_eq!(all.master.as_deref(), Some("m"));
        assert_eq!((all.database, all.prefix.as_str()), (3, "p"));
        assert!(all.has_tls);
        assert_eq!(parse("etcd://h:1"), None);
        for wrong in [
            "redis://",
            "redis://h",
            "redis://h:0",
            "redis://user:secret@h:1",
            "redis://h:1/x",
            "redis://h:1/1/2",
            "redis://h:1?prefix=",
            "redis://h:1?prefix=a{b}",
            "redis://h:1?db=1",
            "redis-sentinel://h:1",
            "redis-sentinel://h:1/",
        ] {
            let error = url(wrong).unwrap_err();
            assert!(error.starts_with("expected redis"), "{wrong}: {error}");
        }
    }
}
