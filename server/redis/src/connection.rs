//! Connection to a master, check that it is suitable, and creation of the store at the first start.
use super::key_names::{KeyNames, SHELVES, number};
use super::unfinished_store;
use super::{REQUEST_TIMEOUT, RedisConfig};
use ::redis::aio::MultiplexedConnection;
use ::redis::{
    AsyncConnectionConfig, Client, ClientTlsConfig, ConnectionAddr, ErrorKind, IntoConnectionInfo,
    RedisConnectionInfo, ServerErrorKind, TlsCertificates, Value,
};
use statestored_link::restoring::{EXISTS, UNFINISHED, UNFINISHED_OBJECTION};
use statestored_link::thread_link::StoreSecret;
use statestored_link::tls::may_lack_a_certificate;
use statestored_shared::BUCKETS;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::watch;

/// The format in the manifest. The first format, with a hash for each bucket, was in no release.
pub(super) const FORMAT: &str = "libstatestore 2";

/// Jump of the revisions when the engine restarts: more than any number of changes that may have been lost.
const REVISION_JUMP: u64 = 1 << 32;

/// Maximum revision: scripts count in floating point numbers, which are exact up to here.
const MAX_REVISION: u64 = 1 << 52;

const BEGIN: &str = include_str!("begin.lua");
const COMMIT: &str = include_str!("commit.lua");
const READ: &str = include_str!("read.lua");

/// Host and port.
pub(super) type Address = (String, u16);

/// The purpose of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ConnectPurpose {
    /// The server starts.
    Start,
    /// The server starts and has found no store at any address, so it creates one.
    Create,
    /// A restore begins a store.
    Restore,
    /// A restore has found no store at any address, so it creates an unfinished one.
    CreateUnfinished,
    /// The server had a connection before.
    Reconnect,
}

impl ConnectPurpose {
    /// Returns the purpose of a connection that creates the store if there is none at any address.
    pub(super) fn creating(self) -> Option<Self> {
        match self {
            Self::Start => Some(Self::Create),
            Self::Restore => Some(Self::CreateUnfinished),
            Self::Create | Self::CreateUnfinished | Self::Reconnect => None,
        }
    }
}

/// A master that has the store.
pub(super) struct MasterConnection {
    pub(super) connection: MultiplexedConnection,
    pub(super) session: Arc<Session>,
}

impl StoreSecret for MasterConnection {
    /// Returns the id of the store, which is random and known to servers only.
    fn store_secret(&self) -> &[u8] {
        self.session.store.as_bytes()
    }
}

/// Properties of a connection that hold for all its requests.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) names: KeyNames,
    pub(super) address: Address,
    /// The id of the store.
    pub(super) store: String,
    /// The id of the current history of the store.
    pub(super) history: String,
    /// The digests of the scripts that commit and read.
    pub(super) commit: String,
    pub(super) read: String,
    pub(super) replicas: u32,
    /// Whether the server has left the master for another one.
    has_left: watch::Sender<bool>,
}

impl Session {
    /// Records that the server leaves the master for another one.
    pub(super) fn leave(&self) {
        self.has_left.send_replace(true);
    }

    /// Completes once the server leaves the master for another one.
    pub(super) async fn left(&self) {
        let mut has_left = self.has_left.subscribe();
        // The sender lives as long as the session.
        let _ = has_left.wait_for(|has_left| *has_left).await;
    }
}

/// The reason why there is no connection.
pub(super) enum ConnectError {
    Redis(::redis::RedisError),
    File(PathBuf, std::io::Error),
    Foreign(String),
    Unsuitable(String),
    /// The store no longer exists.
    StoreMissing,
    /// The server is no master, or no master is known.
    NoMaster(String),
    TimedOut,
}

impl From<::redis::RedisError> for ConnectError {
    fn from(error: ::redis::RedisError) -> Self {
        Self::Redis(error)
    }
}

pub(super) fn location(config: &RedisConfig) -> String {
    let addresses = config.addresses.iter();
    let addresses: Vec<_> = addresses
        .map(|(host, port)| format!("{host}:{port}"))
        .collect();
    addresses.join(",")
}

impl ConnectError {
    pub(super) fn describe(&self) -> String {
        match self {
            Self::Redis(error) => error.to_string(),
            Self::File(path, error) => format!("cannot read {}: {error}", path.display()),
            Self::Foreign(what) | Self::Unsuitable(what) | Self::NoMaster(what) => what.clone(),
            Self::StoreMissing => "its manifest was removed".into(),
            Self::TimedOut => format!("it does not answer within {REQUEST_TIMEOUT:?}"),
        }
    }
}

/// Opens one more connection, as the configured user.
pub(super) async fn connect(
    config: &RedisConfig,
    address: &Address,
) -> Result<MultiplexedConnection, ConnectError> {
    let mut settings = RedisConnectionInfo::default().set_db(i64::from(config.database));
    if let Some(user) = &config.user {
        settings = settings.set_username(user);
    }
    if let Some(file) = &config.password {
        let password = String::from_utf8(read(file)?).map_err(|error| {
            let error = std::io::Error::new(std::io::ErrorKind::InvalidData, error);
            ConnectError::File(file.clone(), error)
        })?;
        // Other programs write such files with a line end.
        settings = settings.set_password(password.trim_end_matches(['\r', '\n']));
    }
    connect_as(config, address, settings).await
}

pub(super) async fn connect_as(
    config: &RedisConfig,
    (host, port): &Address,
    settings: RedisConnectionInfo,
) -> Result<MultiplexedConnection, ConnectError> {
    let client = match &config.tls {
        None => {
            let address = ConnectionAddr::Tcp(host.clone(), *port);
            let info = address.into_connection_info()?.set_redis_settings(settings);
            Client::open(info)?
        }
        Some(tls) => {
            let address = ConnectionAddr::TcpTls {
                host: host.clone(),
                port: *port,
                insecure: false,
                tls_params: None,
            };
            let info = address.into_connection_info()?.set_redis_settings(settings);
            let client_tls = match &tls.identity {
                Some((certificate, key)) => Some(ClientTlsConfig {
                    client_cert: read(certificate)?,
                    client_key: read(key)?,
                }),
                None => None,
            };
            let root_cert = tls.ca.as_deref().map(read).transpose()?;
            let certificates = TlsCertificates {
                client_tls,
                root_cert,
            };
            Client::build_with_tls(info, certificates)?
        }
    };
    let options = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(REQUEST_TIMEOUT))
        .set_response_timeout(Some(REQUEST_TIMEOUT));
    let connecting = client.get_multiplexed_async_connection_with_config(&options);
    Ok(connecting.await?)
}

fn read(file: &Path) -> Result<Vec<u8>, ConnectError> {
    std::fs::read(file).map_err(|error| ConnectError::File(file.to_owned(), error))
}

/// Connects to a master at this address, and finds or creates the store.
pub(super) async fn connect_to_store(
    config: &RedisConfig,
    address: &Address,
    purpose: ConnectPurpose,
) -> Result<MasterConnection, ConnectError> {
    let mut connection = connect(config, address).await?;
    let info: String = ::redis::cmd("INFO").query_async(&mut connection).await?;
    check_server(&info, config, purpose)?;
    let names = KeyNames::new(&config.prefix);
    let new_id = match purpose {
        ConnectPurpose::Create | ConnectPurpose::CreateUnfinished => new_id()?,
        ConnectPurpose::Start | ConnectPurpose::Restore | ConnectPurpose::Reconnect => {
            String::new()
        }
    };
    let format = match purpose {
        ConnectPurpose::CreateUnfinished => UNFINISHED,
        _ => FORMAT,
    };
    let mut begin = ::redis::cmd("EVAL");
    begin.arg(BEGIN).arg(4 + SHELVES + BUCKETS);
    begin.arg(names.manifest()).arg(names.counter());
    begin.arg(names.floors()).arg(names.stream());
    for shelf in 0..SHELVES {
        begin.arg(names.entries(shelf));
    }
    for bucket in 0..BUCKETS {
        begin.arg(names.keys(bucket));
    }
    begin
        .arg(format)
        .arg(&new_id)
        .arg(BUCKETS)
        .arg(REVISION_JUMP);
    let found: Vec<Value> = match begin.query_async(&mut connection).await {
        Err(error) if error.code() == Some("WRONGTYPE") => {
            return Err(ConnectError::Foreign(error.to_string()));
        }
        found => found?,
    };
    let found: Vec<String> =
        ::redis::from_redis_value(Value::Array(found)).map_err(::redis::RedisError::from)?;
    let found: Vec<&str> = found.iter().map(String::as_str).collect();
    let (store, history) = match &found[..] {
        ["found", ..] if purpose == ConnectPurpose::Restore => {
            return Err(ConnectError::Foreign(EXISTS.into()));
        }
        // Another restore was faster.
        ["found", store, _] if purpose == ConnectPurpose::CreateUnfinished && *store != new_id => {
            return Err(ConnectError::Foreign(EXISTS.into()));
        }
        ["foreign", UNFINISHED] if purpose == ConnectPurpose::Restore => {
            unfinished_store::remove(&mut connection, &names.all(), "").await?;
            return Err(ConnectError::StoreMissing);
        }
        ["found", store, history] => ((*store).to_owned(), (*history).to_owned()),
        ["foreign", format] => return Err(ConnectError::Foreign(format_problem(format))),
        ["without", name] => {
            let manifest = names.manifest();
            return Err(ConnectError::Foreign(format!(
                "there is {name:?}, but no {manifest:?}: remove what is left of a former store, or restore it"
            )));
        }
        ["gone"] => return Err(ConnectError::StoreMissing),
        ["replica"] => {
            let (host, port) = address;
            return Err(ConnectError::NoMaster(format!(
                "{host}:{port} is a replica"
            )));
        }
        other => return Err(ConnectError::Unsuitable(format!("it answers {other:?}"))),
    };
    let counter: Option<Vec<u8>> = ::redis::cmd("GET")
        .arg(names.counter())
        .query_async(&mut connection)
        .await?;
    let counter = counter.and_then(|counter| number(&counter));
    if counter.is_none_or(|counter| counter >= MAX_REVISION) {
        let what = format!("its revision is {counter:?}");
        return Err(ConnectError::Foreign(what));
    }
    let mut loading = ::redis::pipe();
    for script in [COMMIT, READ] {
        loading.cmd("SCRIPT").arg("LOAD").arg(script);
    }
    let (commit, read): (String, String) = loading.query_async(&mut connection).await?;
    let session = Session {
        names,
        address: address.clone(),
        store,
        history,
        commit,
        read,
        replicas: config.replicas,
        has_left: watch::Sender::new(false),
    };
    Ok(MasterConnection {
        connection,
        session: Arc::new(session),
    })
}

fn format_problem(format: &str) -> String {
    if format == UNFINISHED {
        return UNFINISHED_OBJECTION.into();
    }
    let number = format
        .strip_prefix("libstatestore ")
        .and_then(|number| number.parse::<u32>().ok());
    match number {
        Some(number @ 0..2) => format!(
            "its format is {number}, older than the first release, and this statestored supports 2: use another prefix, and copy the keys through the statestored that wrote them"
        ),
        Some(number) => format!(
            "its format is {number}, and this statestored supports 2: use the release that wrote it, or a later one"
        ),
        None => format!("its manifest is {format:?}"),
    }
}

fn new_id() -> Result<String, ConnectError> {
    let mut id = [0; 16];
    getrandom::fill(&mut id).map_err(|error| {
        ConnectError::Unsuitable(format!("the system gives no random numbers: {error}"))
    })?;
    Ok(format!("{:032x}", u128::from_ne_bytes(id)))
}

/// Checks whether a server is suitable for the store, by what it reports.
fn check_server(
    info: &str,
    config: &RedisConfig,
    purpose: ConnectPurpose,
) -> Result<(), ConnectError> {
    let facts: HashMap<_, _> = info
        .lines()
        .filter_map(|line| line.split_once(':'))
        .collect();
    let fact = |name| facts.get(name).copied().unwrap_or_default();
    let release = fact("redis_version");
    let major = release
        .split('.')
        .next()
        .and_then(|major| major.parse::<u32>().ok());
    if major.is_some_and(|major| major < 7) {
        return Err(ConnectError::Unsuitable(format!(
            "its release is {release}, and 7.0 or later is required"
        )));
    }
    let policy = fact("maxmemory_policy");
    if !["", "noeviction"].contains(&policy) {
        return Err(ConnectError::Unsuitable(format!(
            "its maxmemory-policy is {policy}, which removes entries by itself: set it to noeviction"
        )));
    }
    if purpose != ConnectPurpose::Start {
        return Ok(());
    }
    if fact("aof_enabled") == "0" {
        tracing::warn!(
            "redis keeps no log on disk (appendonly no): changes acknowledged since its last snapshot are lost if its process ends"
        );
    }
    if config.replicas == 0 && fact("connected_slaves") != "0" {
        tracing::warn!(
            "redis does not wait for its replicas: the last acknowledged changes are lost if a replica takes over; see --redis-replicas"
        );
    }
    Ok(())
}

/// Returns whether the error may be temporary.
pub(super) fn may_be_transient(error: &::redis::RedisError) -> bool {
    use ServerErrorKind::{
        BusyLoading, ClusterDown, MasterDown, Moved, NoScript, ReadOnly, TryAgain,
    };
    match error.kind() {
        ErrorKind::Io | ErrorKind::Client => true,
        ErrorKind::Server(kind) => {
            let passing = [
                BusyLoading,
                ClusterDown,
                MasterDown,
                Moved,
                NoScript,
                ReadOnly,
                TryAgain,
            ];
            passing.contains(&kind)
        }
        _ => error.code() == Some("BUSY"),
    }
}

/// Returns the text of the error with advice.
pub(super) fn describe_with_advice(error: &::redis::RedisError, config: &RedisConfig) -> String {
    let text = error.to_string();
    let has = |part: &str| text.contains(part);
    let advice = if has("NOAUTH") {
        "it asks for a password: name the file that holds it with --redis-password-file".to_owned()
    } else if has("WRONGPASS") || error.kind() == ErrorKind::AuthenticationFailed {
        "look at --redis-user and --redis-password-file".to_owned()
    } else if error.kind() == ErrorKind::Server(ServerErrorKind::NoPerm) {
        let prefix = &config.prefix;
        let user = config.user.as_deref().unwrap_or("default");
        format!(
            "the user needs more rights: ACL SETUSER {user} ~{{{prefix}}}:* +@all -@dangerous +info"
        )
    } else if may_lack_a_certificate(&text)
        && config.tls.as_ref().is_some_and(|it| it.identity.is_none())
    {
        "it may ask for a certificate: name one with --redis-cert and --redis-key".to_owned()
    } else {
        return text;
    };
    format!("{text}; {advice}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_format_is_reported() {
        assert!(format_problem("libstatestore 1").contains("use another prefix"));
        assert!(format_problem("libstatestore 3").starts_with("its format is 3, and this"));
        assert_eq!(format_problem("x"), "its manifest is \"x\"");
    }
}
