//! Options of limits of the store and its clients.
use crate::available_memory::available_memory;
use clap::Args;
use statestored_access::{RateLimits, UserLimits, UserLimitsMap};
use statestored_broker::audit::AuditOptions;
use statestored_broker::hub::HubLimits;
use statestored_common::byte_size::parse_size;
use statestored_common::duration::parse_millis;
use statestored_store::keyspace::PrefixLimit;
use statestored_store::service::ServiceConfig;

/// Limits of the store and its clients.
#[derive(Debug, Args)]
pub(super) struct LimitOptions {
    /// Maximum number of keys [default: 10000000]
    #[arg(long, value_name = "N")]
    max_keys: Option<u64>,

    /// Maximum memory of the entries, such as 2GiB [default: half of the available memory]
    #[arg(long, value_name = "SIZE", value_parser = parse_size::<0, { u64::MAX }>)]
    max_bytes: Option<u64>,

    /// Maximum memory of all sessions and connections, such as 512MiB; beyond it, the largest are evicted [default: a quarter of
    /// the available memory]
    #[arg(long, value_name = "SIZE", value_parser = parse_size::<{ 1024 * 1024 }, { u64::MAX }>)]
    max_session_bytes: Option<u64>,

    /// Maximum number of connections
    #[arg(long, value_name = "N", default_value_t = HubLimits::default().max_connections)]
    max_connections: usize,

    /// Maximum number of sessions, connected or not
    #[arg(long, value_name = "N", default_value_t = HubLimits::default().max_sessions)]
    max_sessions: usize,

    /// Maximum number of watches
    #[arg(long, value_name = "N", default_value_t = 10_000_000)]
    max_watches: u64,

    /// Maximum PUBLISH packets of all clients, per second; beyond it, the server pauses reading
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_request_rate: Option<u32>,

    /// Maximum bytes from all clients, per second, such as 10MiB; beyond it, the server pauses reading
    #[arg(long, value_name = "SIZE", value_parser = parse_size::<1, { u64::MAX }>)]
    max_byte_rate: Option<u64>,

    /// Limits of a user, such as `ann connections=5 requests=100`; `*` is each user without own limits. Limits: connections,
    /// sessions, watches, subscriptions (with wildcards), held (bytes that wait for the user), requests and bytes (per second);
    /// repeatable
    #[arg(long, value_name = "USER LIMITS", value_parser = user_limit)]
    limit_user: Vec<(String, UserLimits)>,

    /// Limits of the keys with a prefix, such as `machines/ keys=1000 bytes=1MiB`; repeatable
    #[arg(long, value_name = "PREFIX LIMITS", value_parser = PrefixLimit::parse)]
    limit_prefix: Vec<PrefixLimit>,

    /// Show keys in the audit trail and in the list of rejected requests
    #[arg(long)]
    audit_keys: bool,

    /// Maximum lines of the audit trail about clients, per second; further ones are counted. 0: no limit
    #[arg(long, value_name = "N", default_value_t = AuditOptions::default().max_lines_per_second)]
    audit_rate: u32,

    /// Time from which on a request is listed as slow over HTTP, in milliseconds or with a unit. 0: all requests
    #[arg(long, value_name = "DURATION", default_value_t = HubLimits::default().slow_request_ms, value_parser = parse_millis)]
    slow_request: u64,

    /// Maximum size of an MQTT packet, and so of a value, such as 1MiB
    #[arg(long, value_name = "SIZE", default_value_t = HubLimits::default().max_packet_bytes, value_parser = packet_size)]
    max_packet_bytes: u32,
}

impl LimitOptions {
    /// Returns the limits of connections and sessions.
    pub(super) fn client_limits(&self) -> HubLimits {
        HubLimits {
            max_packet_bytes: self.max_packet_bytes,
            max_session_bytes: session_bytes(self.max_session_bytes),
            max_connections: self.max_connections,
            max_sessions: self.max_sessions,
            rates: RateLimits {
                requests: self.max_request_rate,
                bytes: self.max_byte_rate,
            },
            users: self.user_limits(),
            audit: AuditOptions {
                logs_keys: self.audit_keys,
                max_lines_per_second: self.audit_rate,
            },
            slow_request_ms: self.slow_request,
            ..HubLimits::default()
        }
    }

    /// Returns the limits of the store.
    pub(super) fn store_limits(&self, limits: &HubLimits) -> ServiceConfig {
        ServiceConfig {
            max_watches: self.max_watches,
            users: self.user_limits(),
            prefixes: self.limit_prefix.clone(),
            ..service_config(self.max_keys.unwrap_or(MAX_KEYS), self.max_bytes, limits)
        }
    }

    /// Returns an option that limits the entries, if one was given.
    pub(super) fn entry_limit_option(&self) -> Option<&'static str> {
        let given = [
            (self.max_keys.is_some(), "--max-keys"),
            (self.max_bytes.is_some(), "--max-bytes"),
            (!self.limit_prefix.is_empty(), "--limit-prefix"),
        ];
        let mut given = given.into_iter().filter(|(is_given, _)| *is_given);
        given.next().map(|(_, option)| option)
    }

    fn user_limits(&self) -> UserLimitsMap {
        let mut users = UserLimitsMap::default();
        for (name, limits) in &self.limit_user {
            if name == ALL_USERS {
                users.default_limits = *limits;
            } else {
                users.named.insert(name.clone(), *limits);
            }
        }
        users
    }
}

/// Parses the size of an MQTT packet, which the protocol limits.
fn packet_size(text: &str) -> Result<u32, String> {
    let bytes = parse_size::<1024, 268_435_460>(text)?;
    u32::try_from(bytes).map_err(|error| error.to_string())
}

/// Default maximum number of keys.
const MAX_KEYS: u64 = 10_000_000;

/// Name of all users without limits of their own.
const ALL_USERS: &str = "*";

/// Parses a user and the user's limits.
fn user_limit(text: &str) -> Result<(String, UserLimits), String> {
    let (name, limits) = text
        .split_once(char::is_whitespace)
        .ok_or("expected USER LIMITS, such as `ann connections=5`")?;
    Ok((name.into(), UserLimits::parse(limits)?))
}

/// Derives the limits of the service: responses are remembered for all requests that a client can redeliver.
pub(super) fn service_config(
    max_keys: u64,
    max_bytes: Option<u64>,
    limits: &HubLimits,
) -> ServiceConfig {
    ServiceConfig {
        max_keys,
        max_bytes: max_bytes.unwrap_or_else(|| available_memory() / 2),
        replay_per_client: limits.receive_maximum.into(),
        ..ServiceConfig::default()
    }
}

/// Returns the configured number of bytes, by default a quarter of the memory.
pub(super) fn session_bytes(configured: Option<u64>) -> usize {
    let bytes = configured.unwrap_or_else(|| available_memory() / 4);
    usize::try_from(bytes).unwrap_or(usize::MAX)
}
