//! Connecting, and making what has to be there at the first start.
use super::store::{BeginError, Store};
use super::{EngineTls, EtcdConfig, EtcdError, REQUEST_TIMEOUT, releases};
use crate::keyspace::remote::thread::StoreSecret;
use crate::keyspace::remote::tls::may_lack_a_certificate;
use etcd_client::{Certificate, Client, ConnectOptions, Error, Identity, TlsOptions};
use std::error::Error as StdError;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

/// For how long an etcd that does not answer yet is asked again at the start.
const START_TIMEOUT: Duration = Duration::from_secs(10);

/// How long it is left in peace in between.
const AGAIN: Duration = Duration::from_millis(250);

/// Connects, and makes what has to be there.
impl StoreSecret for (Client, Arc<Store>) {
    fn store_secret(&self) -> &[u8] {
        self.1.secret()
    }
}

pub(super) async fn begin(config: &EtcdConfig) -> Result<(Client, Arc<Store>), EtcdError> {
    let place = config.endpoints.join(",");
    let options = options(config)?;
    let end = Instant::now() + START_TIMEOUT;
    let mut is_told = false;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let once = connect_once(config, &options);
        let error = match timeout(left.max(REQUEST_TIMEOUT), once).await {
            Ok(Ok((client, store))) => return Ok((client, Arc::new(store))),
            Ok(Err(BeginError::Foreign(what))) => return Err(EtcdError::Foreign(place, what)),
            Ok(Err(BeginError::Release(place, release, objection))) => {
                return Err(EtcdError::Release(place, release, objection));
            }
            Ok(Err(BeginError::Etcd(error))) if !may_pass(&error) => {
                let text = explained(&error, config);
                return Err(EtcdError::Refused(place, text));
            }
            Ok(Err(BeginError::Etcd(error))) => Some(explained(&error, config)),
            Err(_) => None,
        };
        if end <= Instant::now() + AGAIN {
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
        sleep(AGAIN).await;
    }
}

async fn connect_once(
    config: &EtcdConfig,
    options: &ConnectOptions,
) -> Result<(Client, Store), BeginError> {
    let mut client = Client::connect(&config.endpoints, Some(options.clone())).await?;
    let mut members = JoinSet::new();
    for endpoint in &config.endpoints {
        members.spawn(release_of(endpoint.clone(), options.clone()));
    }
    while let Some(member) = members.join_next().await {
        if let Ok((endpoint, Some(release))) = member
            && let Some(objection) = releases::objection(&release)
        {
            return Err(BeginError::Release(endpoint, release, objection));
        }
    }
    let store = Store::find_or_make(&mut client, &config.prefix).await?;
    Ok((client, store))
}

/// Which release a member is of, if it says so.
async fn release_of(endpoint: String, options: ConnectOptions) -> (String, Option<String>) {
    let asking = async {
        let mut client = Client::connect([&endpoint], Some(options)).await?;
        client.status().await
    };
    let release = match timeout(REQUEST_TIMEOUT, asking).await {
        Ok(Ok(status)) => Some(status.version().to_owned()),
        // It may come later, or may not say it to everybody.
        Ok(Err(error)) => {
            let error = describe(&error);
            tracing::debug!(endpoint, error, "the release of a member is not known");
            None
        }
        Err(_) => None,
    };
    (endpoint, release)
}

fn options(config: &EtcdConfig) -> Result<ConnectOptions, EtcdError> {
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
            EtcdError::File(file.clone(), error)
        })?;
        // As other programs write such files, with a line's end.
        let password = password.trim_end_matches(['\r', '\n']);
        options = options
            .with_user(user, password)
            .with_auto_token_refresh(true);
    }
    Ok(options)
}

fn tls_options(tls: &EngineTls) -> Result<TlsOptions, EtcdError> {
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

fn read(file: &Path) -> Result<Vec<u8>, EtcdError> {
    std::fs::read(file).map_err(|error| EtcdError::File(file.to_owned(), error))
}

/// Whether it may be another answer in a moment.
fn may_pass(error: &Error) -> bool {
    use tonic_code::{CANCELLED, DEADLINE_EXCEEDED, UNAVAILABLE, UNKNOWN};
    match error {
        Error::GRpcStatus(status) => {
            // What the connection met on its way has other causes than etcd.
            [CANCELLED, UNAVAILABLE, DEADLINE_EXCEEDED, UNKNOWN].contains(&i32::from(status.code()))
        }
        Error::TransportError(_) | Error::IoError(_) => true,
        _ => false,
    }
}

/// The codes of gRPC.
mod tonic_code {
    pub(super) const CANCELLED: i32 = 1;
    pub(super) const UNKNOWN: i32 = 2;
    pub(super) const DEADLINE_EXCEEDED: i32 = 4;
    pub(super) const UNAVAILABLE: i32 = 14;
}

/// What went wrong, and behind it what was at the bottom of it.
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

/// The same, with what there is to do.
fn explained(error: &Error, config: &EtcdConfig) -> String {
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
