//! The configuration of a server, read at start and again for a reload.
//!
//! ```text
//!   command line ──┐
//!   environment ───┼─▶ layers ─▶ Arguments ─▶ Config ─▶ Server
//!   file (TOML) ───┘            (options)       ▲
//!                                               └── ConfigSource: the same once more, for a reload
//! ```
//!
//! An option is a field of one of the groups (`access`, `limits`, `storage`, ...). A field is a flag, an environment variable and a key
//! of the file, all with the same name.
mod access;
mod admin;
mod arguments;
mod attach;
mod effective_options;
mod http_tls;
mod layers;
mod limits;
mod listener;
mod options;
mod persistence;
mod storage;

pub use crate::attached::{AttachConfig, BrokerAddress};
pub use crate::config_error::ConfigError;
pub use crate::storage_config::StorageConfig;
pub use arguments::{Arguments, LogFormat};
pub use layers::ConfigLayers;
pub use options::Options;
pub use statestored_admin::{
    AdminConfig, AuditLog, HttpTokens, LogControl, LogFilter, MetricNames, Token,
};
pub use statestored_broker::hub::BrokerConfig;
pub use statestored_listeners::{
    ClientCertificates, ListenAddress, ListenerConfig, Subnet, Tls, TlsError, TlsFiles,
};

pub(crate) use effective_options::EffectiveOptions;

use crate::heap::Heap;
use limits::{service_config, session_bytes};
use statestored_access::{Authenticator, Policy};
use statestored_broker::hub::HubLimits;
use statestored_listeners::anonymous_exposure;
use statestored_store::service::ServiceConfig;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The configuration of a server.
#[derive(Debug, Clone)]
pub struct Config {
    /// Addresses to listen on; at least one, unless the server attaches to a broker.
    pub listeners: Vec<ListenAddress>,
    /// Settings of the listeners.
    pub listener_config: ListenerConfig,
    /// Storage of the entries.
    pub storage: StorageConfig,
    /// Maximum time by which the wall clock may be ahead of those of other servers of the same storage. Changes are refused beyond it.
    pub max_clock_ahead: Duration,
    /// Time that the last writes have to become durable when the server stops. If it expires, the server stops with an error.
    pub stop_timeout: Duration,
    /// Limits of the store.
    pub service: ServiceConfig,
    /// Limits of connections and sessions.
    pub limits: HubLimits,
    /// Authentication of clients.
    pub authenticator: Authenticator,
    /// Rights of clients; without a policy, every client may do everything.
    pub policy: Option<Arc<Policy>>,
    /// User property by which a SET asks for its key to be kept, with its value. `None` for `aio-persistence: true`.
    pub persist_property: Option<(String, String)>,
    /// Broker to attach to, if there is one.
    pub attach: Option<AttachConfig>,
    /// HTTP port for operators, if there is one.
    pub admin: Option<AdminConfig>,
    /// Options from which the configuration was made, if it was.
    pub options: Options,
    /// Allocator, if the process consists of this server alone.
    pub heap: Option<&'static dyn Heap>,
    /// Source for a reload of the configuration. Without it, a reload changes nothing.
    pub source: Option<ConfigSource>,
    /// Settings of the process that a reload with this configuration applies.
    pub process: Option<ProcessSettings>,
}

/// A function that reads a configuration again. It is called on a thread that may block, and must have no other effect: the reload may be
/// rejected.
#[derive(Clone)]
pub struct ConfigSource(Arc<dyn Fn() -> Result<Config, ConfigError> + Send + Sync>);

impl ConfigSource {
    /// Creates a source that calls `read`.
    pub fn new(read: impl Fn() -> Result<Config, ConfigError> + Send + Sync + 'static) -> Self {
        Self(Arc::new(read))
    }

    pub(crate) fn read(&self) -> Result<Config, ConfigError> {
        (self.0)()
    }
}

/// A function that applies settings of the process, such as the filter of its log, and adapts the limits to the process. A reload calls
/// it once it has accepted the whole configuration, on the thread that serves the clients. The function must not block.
#[derive(Clone)]
pub struct ProcessSettings(Arc<dyn Fn(&mut HubLimits) + Send + Sync>);

impl ProcessSettings {
    /// Creates settings that `apply` applies.
    pub fn new(apply: impl Fn(&mut HubLimits) + Send + Sync + 'static) -> Self {
        Self(Arc::new(apply))
    }

    pub(crate) fn apply(&self, limits: &mut HubLimits) {
        (self.0)(limits);
    }
}

impl fmt::Debug for ProcessSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ProcessSettings")
    }
}

impl fmt::Debug for ConfigSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ConfigSource")
    }
}

impl Config {
    /// Checks that a server would not refuse the configuration for its exposure.
    pub fn check(&self) -> Result<(), ConfigError> {
        let addresses = anonymous_exposure::resolve(&self.listeners);
        anonymous_exposure::check(&addresses, &self.listener_config, &self.authenticator)?;
        let (tls, unix_mode) = (
            self.listener_config.tls.as_ref(),
            self.listener_config.unix_mode,
        );
        anonymous_exposure::warn_of_anonymous(&addresses, tls, unix_mode, &self.authenticator);
        Ok(())
    }

    /// Returns the configuration of a store in memory on a free loopback port, open to all users of this machine.
    pub fn in_memory() -> Self {
        let limits = HubLimits {
            max_session_bytes: session_bytes(None),
            ..HubLimits::default()
        };
        Self {
            listeners: vec![ListenAddress::loopback_with_free_port()],
            listener_config: ListenerConfig::default(),
            storage: StorageConfig::Memory,
            max_clock_ahead: storage::MAX_CLOCK_AHEAD,
            stop_timeout: storage::STOP_TIMEOUT,
            service: service_config(ServiceConfig::default().max_keys, None, &limits),
            limits,
            authenticator: Authenticator::default(),
            policy: None,
            persist_property: None,
            attach: None,
            admin: None,
            options: Options::default(),
            heap: None,
            source: None,
            process: None,
        }
    }

    /// Returns the configuration of a durable store in the folder `data_dir`, otherwise like [`in_memory`](Self::in_memory).
    pub fn durable(data_dir: impl Into<PathBuf>) -> Self {
        Self {
            storage: StorageConfig::Durable(data_dir.into()),
            ..Self::in_memory()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(listen: &str, change: impl FnOnce(&mut Config)) -> Option<String> {
        let mut config = Config::in_memory();
        config.listeners = vec![listen.parse().unwrap()];
        change(&mut config);
        config.check().err().map(|error| error.to_string())
    }

    #[test]
    fn anonymous_network_access_needs_an_explicit_option() {
        for listen in [
            "tcp://0.0.0.0:0",
            "tcp://[::]:0",
            "ws://192.0.2.1:1",
            "tls://0.0.0.0:0",
        ] {
            let error = refused(listen, |_| ()).unwrap();
            assert!(
                error.contains(listen) && error.contains("--allow-anonymous"),
                "{error}"
            );
            assert_eq!(
                refused(listen, |config| config.listener_config.allows_anonymous =
                    true),
                None
            );
            let mut users = statestored_access::Users::default();
            users.add("ann", b"secret");
            let with_users =
                |config: &mut Config| config.authenticator = Authenticator::from(users);
            assert_eq!(refused(listen, with_users), None);
        }
        for listen in [
            "tcp://127.0.0.1:0",
            "ws://[::1]:0",
            "tcp://localhost:0",
            "unix:///x",
        ] {
            assert_eq!(refused(listen, |_| ()), None, "{listen}");
        }
    }
}
