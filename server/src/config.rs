//! The command line, and what it means.
use crate::access::{Authenticator, Users, UsersError};
use crate::available_memory::available_memory;
use crate::hub::HubLimits;
use crate::service::ServiceConfig;
use clap::Parser;
use std::fmt;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::str::FromStr;
use tracing::level_filters::LevelFilter;

const EXAMPLES: &str = "\
Examples:
  statestored
      keep the state in the user's data folder and serve this machine on port 1883
  statestored --storage memory --listen tcp://127.0.0.1:0
      forget everything at the end; take a free port and print it
  statestored --data-dir /var/lib/statestored --listen tcp://0.0.0.0:1883 --users-file /etc/statestored/users
      serve the network to the users of a file with one NAME:PASSWORD per line

When it is ready, it prints `listening on tcp://ADDRESS:PORT` for each listener to standard output;
logs go to standard error. SIGTERM and SIGINT end it cleanly. SIGHUP reads the file of users, or of the password, again.

It speaks MQTT 5 with QoS 0 and 1, without retained messages and shared subscriptions.";

/// The command line of `statestored`.
#[derive(Debug, Parser)]
#[command(
    name = "statestored",
    version,
    about = "A state store for MQTT 5 clients: keys, versions, leases and notifications in one process",
    after_help = EXAMPLES
)]
pub struct Arguments {
    /// Address to listen on; repeat it for more than one. Port 0 takes a free port
    #[arg(long, value_name = "URL", default_value = "tcp://127.0.0.1:1883")]
    listen: Vec<ListenAddress>,

    /// Where the state lives: `durable` on disk, or `memory` until the process ends
    #[arg(long, value_name = "KIND", value_enum, default_value_t)]
    storage: StorageKind,

    /// Folder of the durable storage [default: statestored in the user's data folder]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,

    /// Most keys that the store holds
    #[arg(long, value_name = "N", default_value_t = 10_000_000)]
    max_keys: u64,

    /// Most bytes of memory that the entries take [default: half of the memory that the process may use]
    #[arg(long, value_name = "N")]
    max_bytes: Option<u64>,

    /// Most bytes of memory that all sessions and connections hold together; beyond it, whoever holds most gives way
    /// [default: a quarter of the memory that the process may use]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1024 * 1024..))]
    max_session_bytes: Option<u64>,

    /// Largest MQTT packet accepted, in bytes; it bounds the size of values
    #[arg(long, value_name = "N", default_value_t = HubLimits::default().max_packet_bytes,
          value_parser = clap::value_parser!(u32).range(1024..=268_435_460))]
    max_packet_bytes: u32,

    /// The one user who may connect; with --password-file
    #[arg(long, value_name = "NAME", requires = "password_file")]
    user: Option<String>,

    /// File that holds the password of --user
    #[arg(long, value_name = "FILE", requires = "user")]
    password_file: Option<PathBuf>,

    /// File of the users who may connect, one NAME:PASSWORD per line
    #[arg(long, value_name = "FILE", conflicts_with = "user")]
    users_file: Option<PathBuf>,

    /// Allow core dumps and debuggers, which show keys, values and passwords
    #[arg(long)]
    core_dumps: bool,

    /// What is logged: off, error, warn, info, debug or trace
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    log: LevelFilter,
}

/// The kinds of storage on the command line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
enum StorageKind {
    #[default]
    Durable,
    Memory,
}

/// All that a server needs to know.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where it listens; at least one.
    pub listeners: Vec<ListenAddress>,
    /// Where the state lives.
    pub storage: StorageConfig,
    /// Limits of the store.
    pub service: ServiceConfig,
    /// Limits of connections and sessions.
    pub limits: HubLimits,
    /// Who may connect.
    pub authenticator: Authenticator,
}

/// Where the state lives.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum StorageConfig {
    /// In memory, until the process ends.
    Memory,
    /// On disk, in this folder, which is made if it does not exist.
    Durable(PathBuf),
}

/// Why the command line is not usable.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// No place for the data is known.
    #[error(
        "no home folder is known for the data: give one with --data-dir DIR, or use --storage memory"
    )]
    NoDataFolder,
    /// Contradiction.
    #[error("--storage memory keeps nothing on disk: leave out --data-dir, or --storage memory")]
    MemoryWithFolder,
    /// A file of users is not usable.
    #[error(transparent)]
    Users(#[from] UsersError),
}

impl Config {
    /// A store in memory on a free loopback port, for everybody on this machine.
    pub fn in_memory() -> Self {
        let limits = HubLimits {
            max_session_bytes: session_bytes(None),
            ..HubLimits::default()
        };
        Self {
            listeners: vec![ListenAddress {
                host: "127.0.0.1".into(),
                port: 0,
            }],
            storage: StorageConfig::Memory,
            service: service_config(ServiceConfig::default().max_keys, None, &limits),
            limits,
            authenticator: Authenticator::default(),
        }
    }

    /// The same, but durable in the folder `data_dir`.
    pub fn durable(data_dir: impl Into<PathBuf>) -> Self {
        Self {
            storage: StorageConfig::Durable(data_dir.into()),
            ..Self::in_memory()
        }
    }
}

impl Arguments {
    /// Whether core dumps of the process are wanted, with all that is in its memory.
    pub fn keeps_core_dumps(&self) -> bool {
        self.core_dumps
    }

    /// What is logged.
    pub fn log_level(&self) -> LevelFilter {
        self.log
    }

    /// Reads the files that the command line names.
    pub fn into_config(self) -> Result<Config, ConfigError> {
        let storage = match (self.storage, self.data_dir) {
            (StorageKind::Memory, Some(_)) => return Err(ConfigError::MemoryWithFolder),
            (StorageKind::Memory, None) => StorageConfig::Memory,
            (StorageKind::Durable, Some(folder)) => StorageConfig::Durable(folder),
            (StorageKind::Durable, None) => {
                StorageConfig::Durable(default_data_dir().ok_or(ConfigError::NoDataFolder)?)
            }
        };
        let authenticator = match (self.user, self.password_file, self.users_file) {
            (Some(name), Some(file), _) => {
                Authenticator::Users(Users::with_password_file(&name, &file)?)
            }
            (_, _, Some(file)) => Authenticator::Users(Users::read(&file)?),
            _ => Authenticator::Anonymous,
        };
        let limits = HubLimits {
            max_packet_bytes: self.max_packet_bytes,
            max_session_bytes: session_bytes(self.max_session_bytes),
            ..HubLimits::default()
        };
        Ok(Config {
            listeners: self.listen,
            storage,
            service: service_config(self.max_keys, self.max_bytes, &limits),
            limits,
            authenticator,
        })
    }
}

/// What follows for the service: answers are remembered for all requests that a client can redeliver.
fn service_config(max_keys: u64, max_bytes: Option<u64>, limits: &HubLimits) -> ServiceConfig {
    ServiceConfig {
        max_keys,
        max_bytes: max_bytes.unwrap_or_else(|| available_memory() / 2),
        replay_per_client: limits.receive_maximum.into(),
        ..ServiceConfig::default()
    }
}

/// The bytes asked for, or a quarter of the memory.
fn session_bytes(asked: Option<u64>) -> usize {
    let bytes = asked.unwrap_or_else(|| available_memory() / 4);
    usize::try_from(bytes).unwrap_or(usize::MAX)
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

/// An address to listen on: `tcp://HOST:PORT`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenAddress {
    host: String,
    port: u16,
}

impl ListenAddress {
    /// The socket addresses that it stands for; a name may have several.
    pub(crate) fn resolve(&self) -> std::io::Result<Vec<SocketAddr>> {
        Ok((self.host.as_str(), self.port).to_socket_addrs()?.collect())
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.parse() {
            Ok(IpAddr::V6(address)) => write!(f, "tcp://[{address}]:{}", self.port),
            _ => write!(f, "tcp://{}:{}", self.host, self.port),
        }
    }
}

impl FromStr for ListenAddress {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const FORM: &str = "expected tcp://HOST:PORT, such as tcp://127.0.0.1:1883";
        let rest = text.strip_prefix("tcp://").ok_or(FORM)?;
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let (host, port) = rest.rsplit_once(':').ok_or(FORM)?;
        let bare = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'));
        if host.is_empty() || (bare.is_none() && host.contains(['[', ']', ':', '/', '@'])) {
            return Err(FORM);
        }
        let port = port
            .parse()
            .map_err(|_| "the port is a number from 0 to 65535")?;
        Ok(Self {
            host: bare.unwrap_or(host).into(),
            port,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn listen_addresses_are_read_and_written() {
        for text in [
            "tcp://127.0.0.1:1883",
            "tcp://[::1]:0",
            "tcp://localhost:80",
        ] {
            assert_eq!(text.parse::<ListenAddress>().unwrap().to_string(), text);
        }
        for text in [
            "127.0.0.1:1883",
            "tcp://127.0.0.1",
            "tcp://:1",
            "tcp://a:65536",
            "tcp://::1:1",
            "tcp://a@b:1",
        ] {
            assert!(text.parse::<ListenAddress>().is_err(), "{text}");
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
