//! The configuration that a server runs with, and the change of it by a reload.
use crate::config::{Config, HttpTokens, Options, ProcessSettings};
use crate::config_error::ConfigError;
use statestored_access::{Authenticator, Policy, Users};
use statestored_broker::hub::HubLimits;
use statestored_listeners::{ActiveTls, BoundAddress, ListenerConfig, Tls, anonymous_exposure};
use statestored_store::service::ServiceConfig;
use std::sync::Arc;

/// Settings of a running server that only a restart changes, as far as a reload depends on them.
#[derive(Debug)]
pub(crate) struct RunningConfig {
    pub(crate) options: Options,
    pub(crate) listening: Vec<BoundAddress>,
    pub(crate) unix_mode: u32,
    pub(crate) tls: ActiveTls,
}

impl RunningConfig {
    /// Returns the change of the server to this configuration. Changes nothing itself.
    ///
    /// # Errors
    /// A server would not start with the configuration, or would serve a network without credentials on the listeners that it has.
    pub(crate) fn change_to(&self, config: Config) -> Result<ReloadedConfig, ConfigError> {
        let authenticator = &config.authenticator;
        let addresses = anonymous_exposure::resolve(&config.listeners);
        anonymous_exposure::check(&addresses, &config.listener_config, authenticator)?;
        let needs_restart = self.options.needing_restart(&config.options);
        // The users change at once, the listeners at the next start only.
        let listener_config = ListenerConfig {
            tls: config
                .listener_config
                .tls
                .clone()
                .or_else(|| self.tls.get()),
            unix_mode: self.unix_mode,
            ..config.listener_config
        };
        anonymous_exposure::check(&self.listening, &listener_config, authenticator).map_err(
            |error| {
                if needs_restart.iter().any(|name| name == "listen") {
                    let problem = format!("{error}; another --listen takes effect at a restart");
                    ConfigError::Options(problem)
                } else {
                    error.into()
                }
            },
        )?;
        // A policy that has to wait for the options on which it depends.
        let is_deferred = self.options.is_deferred(&config.options, "policy-file");
        let policy = if is_deferred {
            PolicyUpdate::Keep
        } else {
            PolicyUpdate::Replace(config.policy)
        };
        Ok(ReloadedConfig {
            authenticator: config.authenticator,
            policy,
            tls: config.listener_config.tls,
            admin: config.admin.map(|admin| (admin.tokens(), admin.tls)),
            process: config.process,
            limits: (config.limits, config.service),
            options: config.options,
            needs_restart,
        })
    }
}

/// Settings that can change while the server runs.
#[derive(Debug)]
pub(crate) struct ReloadedConfig {
    /// Authentication of clients.
    pub(crate) authenticator: Authenticator,
    /// Rights of clients.
    pub(crate) policy: PolicyUpdate,
    /// Certificates of TLS; `None` if they do not change.
    pub(crate) tls: Option<Tls>,
    /// Tokens and certificates of the HTTP port; `None` if they do not change.
    pub(crate) admin: Option<(HttpTokens, Option<Tls>)>,
    /// Settings of the process; `None` if they do not change.
    pub(crate) process: Option<ProcessSettings>,
    /// Limits of clients and of the store.
    pub(crate) limits: (HubLimits, ServiceConfig),
    /// Values of all options.
    pub(crate) options: Options,
    /// Names of options that were changed and need a restart.
    pub(crate) needs_restart: Vec<String>,
}

/// Change of the rights of clients by a reload.
#[derive(Debug)]
pub(crate) enum PolicyUpdate {
    /// The rights do not change.
    Keep,
    /// The rights are those of this policy; `None` allows everything.
    Replace(Option<Arc<Policy>>),
}

impl ReloadedConfig {
    /// Returns the number of users, if any are known.
    pub(crate) fn users(&self) -> Option<usize> {
        self.authenticator.users().map(Users::len)
    }
}
