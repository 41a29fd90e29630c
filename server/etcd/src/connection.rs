//! Connections to etcd, and creation of the store at the first start.
use super::key_names::KeyNames;
use super::members::Members;
use super::store::{OpenError, Store};
use super::{EtcdConfig, EtcdError, REQUEST_TIMEOUT, releases};
use etcd_client::{Certificate, Client, ConnectOptions, Error, Identity, TlsOptions};
use statestored_link::EngineTls;
use statestored_link::thread_link::StoreSecret;
use statestored_link::tls::may_lack_a_certificate;
use std::error::Error as StdError;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tonic::{Code, ConnectError};

/// Time for which connecting is retried at the start while etcd does not answer yet.
const START_TIMEOUT: Duration = Duration::from_secs(10);

/// Pause between two attempts.
const RETRY_PAUSE: Duration = Duration::from_millis(250);

/// The reason why there is no connection to a member.
pub(super) enum MemberConnectError {
    File(PathBuf, std::io::Error),
    Etcd(Error),
}

impl From<Error> for MemberConnectError {
    fn from(error: Error) -> Self {
        Self::Etcd(error)
    }
}

/// A store that was found or created, and the members that have it.
pub(super) struct OpenedStore {
    pub(super) members: Arc<Members>,
    pub(super) store: Arc<Store>,
}

impl StoreSecret for OpenedStore {
    fn store_secret(&self) -> &[u8] {
        self.store.secret()
    }
}

/// The purpose of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// A server starts. It creates the store if there is none.
    Start,
    /// A backup reads the store.
    Snapshot,
    /// A restore begins a store.
    Restore,
}

/// Connects, and finds or creates the store.
pub(super) async fn begin(config: &EtcdConfig, purpose: Purpose) -> Result<OpenedStore, EtcdError> {
    let place = config.endpoints.join(",");
    let end = Instant::now() + START_TIMEOUT;
    let mut is_told = false;
    loop {
        let error = match connect_once(config, end, purpose).await {
            Ok((members, store)) => {
                return Ok(OpenedStore {
                    members: Arc::new(members),
                    store: Arc::new(store),
                });
            }
            Err(StartError::TimedOut) => None,
            Err(StartError::File(file, error)) => return Err(EtcdError::File(file, error)),
            Err(StartError::Store(OpenError::Foreign(what))) => {
                return Err(EtcdError::Foreign(place, what));
            }
            Err(StartError::Store(OpenError::Release(place, release, objection))) => {
                return Err(EtcdError::Release(place, release, objection));
            }
            Err(StartError::Store(OpenError::Etcd(error))) if !may_be_transient(&error) => {
                let text = describe_with_advice(&error, config);
                return Err(EtcdError::Refused(place, text));
            }
            Err(StartError::Store(OpenError::Etcd(error))) => {
                Some(describe_with_advice(&error, config))
            }
        };
        if end <= Instant::now() + RETRY_PAUSE {
            return Err(match error {
                Some(error) => EtcdError::Unreachable(place, error),
                None => EtcdError::TimedOut(place, START_TIMEOUT),
            });
        }
        if !is_told {
            is_told = true;
            let error = error.as_deref().unwrap_or("no answer in time");
            tracing::warn!(error, "etcd is not there yet: trying for {START_TIMEOUT:?}");
        }
        sleep(RETRY_PAUSE).await;
    }
}

/// The reason why the start failed.
enum StartError {
    TimedOut,
    File(PathBuf, std::io::Error),
    Store(OpenError),
}

async fn connect_once(
    config: &EtcdConfig,
    end: Instant,
    purpose: Purpose,
) -> Result<(Members, Store), StartError> {
    let manifest = KeyNames::new(&config.prefix).manifest();
    let mut asked = JoinSet::new();
    for index in 0..config.endpoints.len() {
        let (config, manifest) = (config.clone(), manifest.clone());
        asked.spawn(async move {
            let meeting = connect_and_probe(&config, &config.endpoints[index], manifest);
            (index, timeout(REQUEST_TIMEOUT, meeting).await)
        });
    }
    let mut clients = vec![None; config.endpoints.len()];
    // The member whose answer comes first creates the store: another one may not answer at all.
    let mut first = None;
    let mut failure = StartError::TimedOut;
    while let Some(met) = asked.join_next().await {
        let Ok((index, met)) = met else { continue };
        match met {
            Ok(Ok((client, release))) => {
                if let Some(release) = release
                    && let Some(objection) = releases::incompatibility(&release)
                {
                    let endpoint = config.endpoints[index].clone();
                    let release = OpenError::Release(endpoint, release, objection);
                    return Err(StartError::Store(release));
                }
                first.get_or_insert_with(|| client.clone());
                clients[index] = Some(client);
            }
            Ok(Err(MemberConnectError::File(file, error))) => {
                return Err(StartError::File(file, error));
            }
            Ok(Err(MemberConnectError::Etcd(error))) => {
                // A permanent error is more informative.
                let is_better = match &failure {
                    StartError::Store(OpenError::Etcd(other)) => {
                        may_be_transient(other) && !may_be_transient(&error)
                    }
                    _ => true,
                };
                if is_better {
                    failure = StartError::Store(OpenError::Etcd(error));
                }
            }
            Err(_) => {}
        }
    }
    let Some(mut client) = first else {
        return Err(failure);
    };
    let left = end.saturating_duration_since(Instant::now());
    let prefix = &config.prefix;
    let store = async {
        match purpose {
            Purpose::Start => Store::open_or_create(&mut client, prefix, true).await,
            Purpose::Snapshot => Store::open_or_create(&mut client, prefix, false).await,
            Purpose::Restore => Store::begin_unfinished(&mut client, prefix).await,
        }
    };
    match timeout(left.max(REQUEST_TIMEOUT), store).await {
        Ok(Ok(store)) => Ok((Members::new(config.clone(), manifest, clients), store)),
        Ok(Err(error)) => Err(StartError::Store(error)),
        Err(_) => Err(StartError::TimedOut),
    }
}

/// Returns a client of a member that has answered a read, and the release of the member if it reports one.
async fn connect_and_probe(
    config: &EtcdConfig,
    endpoint: &str,
    manifest: Vec<u8>,
) -> Result<(Client, Option<String>), MemberConnectError> {
    let mut client = connect(config, endpoint).await?;
    client.get(manifest, None).await?;
    let release = match client.status().await {
        Ok(status) => Some(status.version().to_owned()),
        // The user may not be allowed to see the release.
        Err(error) => {
            let error = describe(&error);
            tracing::debug!(endpoint, error, "the release of a member is not known");
            None
        }
    };
    Ok((client, release))
}

/// Connects to one member. The password and the certificates are read again.
pub(super) async fn connect(
    config: &EtcdConfig,
    endpoint: &str,
) -> Result<Client, MemberConnectError> {
    let options = options(config)?;
    Ok(Client::connect([endpoint], Some(options)).await?)
}

fn options(config: &EtcdConfig) -> Result<ConnectOptions, MemberConnectError> {
    let mut options = ConnectOptions::new()
        .with_connect_timeout(REQUEST_TIMEOUT)
        .with_keep_alive(Duration::from_secs(5), Duration::from_secs(5))
        .with_keep_alive_while_idle(true)
        .with_require_leader(true);
    if let Some(tls) = &config.tls {
        options = options.with_tls(tls_options(tls)?);
    }
    if let Some((user, file)) = &config.user {
        let password = String::from_utf8(read(file)?).map_err(|error| {
            let error = std::io::Error::new(std::io::ErrorKind::InvalidData, error);
            MemberConnectError::File(file.clone(), error)
        })?;
        // Other programs write such files with a line end.
        let password = password.trim_end_matches(['\r', '\n']);
        options = options
            .with_user(user, password)
            .with_auto_token_refresh(true);
    }
    Ok(options)
}

fn tls_options(tls: &EngineTls) -> Result<TlsOptions, MemberConnectError> {
    let options = match &tls.ca {
        Some(file) => TlsOptions::new().ca_certificate(Certificate::from_pem(read(file)?)),
        None => TlsOptions::new().with_native_roots(),
    };
    Ok(match &tls.identity {
        Some((certificate, key)) => {
            options.identity(Identity::from_pem(read(certificate)?, read(key)?))
        }
        None => options,
    })
}

fn read(file: &Path) -> Result<Vec<u8>, MemberConnectError> {
    std::fs::read(file).map_err(|error| MemberConnectError::File(file.to_owned(), error))
}

/// Returns whether the error may be temporary.
fn may_be_transient(error: &Error) -> bool {
    match error {
        Error::GRpcStatus(status) => {
            // Errors on the way of the connection have other causes than etcd.
            let passing = [
                Code::Cancelled,
                Code::Unavailable,
                Code::DeadlineExceeded,
                Code::Unknown,
            ];
            passing.contains(&status.code())
        }
        Error::TransportError(_) | Error::IoError(_) => true,
        _ => false,
    }
}

/// Returns whether the same request may succeed in a moment.
pub(super) fn is_transient(error: &Error) -> bool {
    may_be_transient(error) || is_leader_change(error) || is_login_rejected(error)
}

/// Returns whether etcd has just changed its leader, which all members report.
pub(super) fn is_leader_change(error: &Error) -> bool {
    matches!(error, Error::GRpcStatus(status) if status.message().contains("leader changed"))
}

/// Returns whether the member cannot serve other requests either.
pub(super) fn is_member_failure(error: &Error) -> bool {
    !is_leader_change(error) && (may_be_transient(error) || is_login_rejected(error))
}

/// Returns whether etcd rejects the user, or no longer accepts its token.
fn is_login_rejected(error: &Error) -> bool {
    let Error::GRpcStatus(status) = error else {
        return false;
    };
    let texts = [
        "authentication failed",
        "invalid auth token",
        "revision in header is old",
    ];
    status.code() == Code::Unauthenticated
        || texts.iter().any(|text| status.message().contains(text))
}

/// Returns whether the request was sent to no member, because there was no connection.
pub(super) fn is_unsent(error: &Error) -> bool {
    match error {
        Error::IoError(error) => error.kind() == std::io::ErrorKind::NotConnected,
        Error::GRpcStatus(status) => is_from_connecting(status),
        Error::TransportError(error) => is_from_connecting(error),
        _ => false,
    }
}

fn is_from_connecting(error: &(dyn StdError + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if error.is::<ConnectError>() {
            return true;
        }
        cause = error.source();
    }
    false
}

/// Returns the text of the error and its root cause.
pub(super) fn describe(error: &Error) -> String {
    let (text, source) = match error {
        Error::GRpcStatus(status) => (status.message().to_owned(), status.source()),
        Error::TransportError(error) => (error.to_string(), error.source()),
        other => (other.to_string(), None),
    };
    let mut last = source;
    while let Some(behind) = last.and_then(StdError::source) {
        last = Some(behind);
    }
    match last.map(ToString::to_string) {
        Some(cause) if !text.contains(&cause) => format!("{text}: {cause}"),
        _ => text,
    }
}

/// Returns the text of the error with advice.
pub(super) fn describe_with_advice(error: &Error, config: &EtcdConfig) -> String {
    let text = describe(error);
    let advice = if text.contains("user name is empty") {
        "it asks for a user: say who with --etcd-user and --etcd-password-file".to_owned()
    } else if text.contains("authentication failed") {
        "look at --etcd-user and --etcd-password-file".to_owned()
    } else if text.contains("permission denied") {
        let prefix = &config.prefix;
        format!(
            "the user (of --etcd-user, or in the certificate) needs a role that may read and write: etcdctl role grant-permission ROLE readwrite --prefix=true {prefix}/"
        )
    } else if may_lack_a_certificate(&text)
        && config.tls.as_ref().is_some_and(|it| it.identity.is_none())
    {
        "it may ask for a certificate: name one with --etcd-cert and --etcd-key".to_owned()
    } else {
        return text;
    };
    format!("{text}; {advice}")
}
