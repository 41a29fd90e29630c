//! The options of `statestored`. Each group of them is in a file of its own, with its conversion.
use super::access::AccessOptions;
use super::admin::AdminOptions;
use super::attach::AttachOptions;
use super::limits::LimitOptions;
use super::listener::ListenerOptions;
use super::persistence::PersistenceOptions;
use super::storage::StorageOptions;
use super::{Config, LogFilter, Options};
use crate::config_error::ConfigError;
use crate::tools::ToolCommand;
use clap::{Parser, ValueEnum};
use statestored_store::service::ServiceConfig;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  statestored
      store the data in the user's data folder and serve this machine on port 1883
  statestored --storage memory --listen tcp://127.0.0.1:0
      store the data in memory only; choose a free port and print it
  statestored --data-dir /var/lib/statestored --listen tcp://0.0.0.0:1883 --users-file /etc/statestored/users
      serve the users of a file over the network
  statestored passwd /etc/statestored/users ann
      set the password of a user in this file
  statestored --config /etc/statestored/statestored.toml --check
      check a configuration file and exit

You can set each option on the command line, in the environment (STATESTORED_MAX_KEYS=1000; commas separate several values) and in the \
TOML file that --config names (max-keys = 1000; a list for several values). The command line takes precedence over the environment, \
and the environment over the file.

When the server is ready, it prints `listening on tcp://ADDRESS:PORT` for each listener to standard output; logs go to standard error. \
SIGTERM and SIGINT stop it cleanly, and with --stop-with-stdin also the end of standard input. SIGHUP reloads the configuration and its files.

The server supports MQTT 5 with QoS 0 and 1, but no retained messages or shared subscriptions.";

/// The command line of `statestored`, with what the environment and the configuration file say.
#[derive(Debug, Parser)]
#[command(
    name = "statestored",
    version,
    about = "A state store for MQTT 5 clients: keys, versions, leases and notifications in one process",
    after_help = EXAMPLES,
    args_conflicts_with_subcommands = true
)]
pub struct Arguments {
    #[command(subcommand)]
    subcommand: Option<ToolCommand>,

    /// File with options, in TOML
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Check the configuration with all files that it names, and exit
    #[arg(long)]
    check: bool,

    #[command(flatten, next_help_heading = "Listeners")]
    listener: ListenerOptions,

    #[command(flatten, next_help_heading = "Broker")]
    attach: AttachOptions,

    #[command(flatten, next_help_heading = "Storage")]
    storage: StorageOptions,

    #[command(flatten, next_help_heading = "Persistence")]
    persistence: PersistenceOptions,

    #[command(flatten, next_help_heading = "Limits")]
    limits: LimitOptions,

    #[command(flatten, next_help_heading = "Access")]
    access: AccessOptions,

    #[command(flatten, next_help_heading = "Operation")]
    admin: AdminOptions,

    /// Allow core dumps and debuggers, which show keys, values and passwords
    #[arg(long)]
    core_dumps: bool,

    /// Stop when standard input ends, as when the parent process exits
    #[arg(long)]
    stop_with_stdin: bool,

    /// Level of the log: off, error, warn, info, debug or trace; other levels for targets, such as
    /// info,statestored::audit::connection=warn
    #[arg(long, value_name = "FILTER", default_value = "info")]
    #[allow(clippy::doc_markdown, reason = "help is plain text")]
    log: LogFilter,

    /// Format of the log
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    log_format: LogFormat,

    /// The values of all options.
    #[arg(skip)]
    options: Options,
}

/// The form of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Lines of text with the time.
    Text,
    /// One JSON object per line.
    Json,
    /// For systemd: entries with fields if standard error is the journal, else lines without the time, beginning with the priority, as
    /// `<4>`.
    Journal,
}

impl Arguments {
    pub(super) fn with_options(self, options: Options) -> Self {
        Self { options, ..self }
    }

    /// Returns whether the configuration should only be read and checked.
    pub fn is_check(&self) -> bool {
        self.check
    }

    /// Returns whether core dumps of the process are wanted, with the contents of its memory.
    pub fn allows_core_dumps(&self) -> bool {
        self.core_dumps
    }

    /// Returns whether the end of standard input stops the server.
    pub fn stops_with_stdin(&self) -> bool {
        self.stop_with_stdin
    }

    /// Returns the filter of the log.
    pub fn log_filter(&self) -> &LogFilter {
        &self.log
    }

    /// Returns the format of the log.
    pub fn log_format(&self) -> LogFormat {
        self.log_format
    }

    /// Takes the tool to execute instead of serving, if there is one.
    pub fn take_subcommand(&mut self) -> Option<ToolCommand> {
        self.subcommand.take()
    }

    /// Converts the options to a configuration. Reads the files that they name.
    pub fn into_config(self) -> Result<Config, ConfigError> {
        if self.access.accepts_certificates() && self.listener.disables_client_certificates() {
            let problem = "--tls-user needs the certificates of clients, which --tls-client-cert off does not request: omit \
                           --tls-client-cert, or set it to optional or required";
            return Err(ConfigError::Options(problem.into()));
        }
        let limits = self.limits.client_limits();
        let attach = self.attach.into_config(self.access.has_policy())?;
        let (listeners, listener_config) = self.listener.into_config(attach.is_some())?;
        let stop_timeout = self.storage.stop_timeout();
        let (storage, max_clock_ahead) = self.storage.into_config()?;
        if attach
            .as_ref()
            .is_some_and(|attach| attach.terms.share_name.is_some())
            && storage.is_local()
        {
            let problem = "--attach-share needs a shared storage (--storage etcd://… or redis://…): with a storage for each \
                           server, each would have only some of the entries";
            return Err(ConfigError::Options(problem.into()));
        }
        if attach
            .as_ref()
            .is_some_and(|attach| attach.terms.share_name.is_none())
            && !storage.is_local()
        {
            let problem = "--attach with a shared storage needs --attach-share, with the same name for all servers: otherwise \
                           each server would execute every request";
            return Err(ConfigError::Options(problem.into()));
        }
        if let Some(option) = self.limits.entry_limit_option()
            && !storage.is_local()
        {
            let problem = format!(
                "{option} needs a local storage, since no server counts the entries of a shared storage: limit the engine \
                 instead, etcd with --quota-backend-bytes, Redis with maxmemory"
            );
            return Err(ConfigError::Options(problem));
        }
        let service = ServiceConfig {
            retention: self.persistence.retention(&storage)?,
            ..self.limits.store_limits(&limits)
        };
        Ok(Config {
            listeners,
            listener_config,
            storage,
            max_clock_ahead,
            stop_timeout,
            service,
            persist_property: self.persistence.property(),
            limits,
            policy: self.access.policy()?,
            authenticator: self.access.into_authenticator()?,
            attach,
            admin: self.admin.into_config()?,
            options: self.options,
            heap: None,
            source: None,
            process: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::available_memory::available_memory;
    use crate::storage_config::StorageConfig;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[cfg(feature = "redis")]
    #[test]
    fn attach_share_requires_a_shared_storage() {
        let config = |more: &[&str]| {
            let attached = ["--attach", "mqtt://127.0.0.1"];
            let storage = ["statestored", "--storage", "redis://h:1"];
            let arguments = [&storage[..], &attached, more].concat();
            Arguments::try_parse_from(arguments).unwrap().into_config()
        };
        let error = config(&[]).unwrap_err().to_string();
        assert!(error.contains("needs --attach-share"), "{error}");
        config(&["--attach-share", "nodes"]).unwrap();
    }

    #[cfg(feature = "redis")]
    #[test]
    fn entry_limits_require_a_local_storage() {
        let config = |more: &[&str]| {
            let arguments = [&["statestored", "--storage", "redis://h:1"], more].concat();
            Arguments::try_parse_from(arguments).unwrap().into_config()
        };
        assert!(config(&[]).is_ok());
        for more in [
            ["--max-keys", "5"],
            ["--max-bytes", "5"],
            ["--limit-prefix", "p/ keys=1"],
        ] {
            let error = config(&more).unwrap_err().to_string();
            assert!(error.starts_with(more[0]), "{error}");
        }
    }

    #[test]
    fn memory_and_a_data_folder_exclude_each_other() {
        let parse = |arguments: &[&str]| {
            Arguments::try_parse_from(
                std::iter::once("statestored").chain(arguments.iter().copied()),
            )
        };
        let both = parse(&["--storage", "memory", "--data-dir", "/x"]).unwrap();
        assert!(matches!(
            both.into_config(),
            Err(ConfigError::MemoryWithFolder)
        ));
        assert!(parse(&["--user", "ann"]).is_err());
        let limits = ["--max-bytes", "7", "--max-session-bytes", "1048576"];
        assert!(parse(&["--max-session-bytes", "1048575"]).is_err());
        let config = parse(&[&["--data-dir", "/x", "--max-keys", "5"], &limits[..]].concat())
            .unwrap()
            .into_config()
            .unwrap();
        assert_eq!(config.service.max_bytes, 7);
        assert_eq!(config.limits.max_session_bytes, 1_048_576);
        assert_eq!(config.storage, StorageConfig::Durable("/x".into()));
        assert_eq!(config.service.max_keys, 5);
        assert_eq!(config.listeners[0].to_string(), "tcp://127.0.0.1:1883");
        let config = parse(&["--storage", "memory"])
            .unwrap()
            .into_config()
            .unwrap();
        let memory = available_memory();
        assert_eq!(config.service.max_bytes, memory / 2);
        assert_eq!(config.limits.max_session_bytes as u64, memory / 4);
        assert_eq!(config.storage, StorageConfig::Memory);
    }
}
