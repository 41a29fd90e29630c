//! Connections to members of etcd, and the errors of requests over them.
use super::{EtcdConfig, MAX_MESSAGE_BYTES, REQUEST_TIMEOUT};
use etcd_client::{Certificate, Client, ConnectOptions, Error, Identity, KvClient, TlsOptions};
use statestored_link::EngineTls;
use statestored_link::tls::may_lack_a_certificate;
use std::error::Error as StdError;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tonic::{Code, ConnectError};

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

/// Connects to one member. The password and the certificates are read again.
pub(super) async fn connect(
    config: &EtcdConfig,
    endpoint: &str,
) -> Result<Client, MemberConnectError> {
    let options = options(config)?;
    Ok(Client::connect([endpoint], Some(options)).await?)
}

/// Returns a client that accepts answers of up to [`MAX_MESSAGE_BYTES`]. The limit of requests is that of etcd.
pub(super) fn kv(client: &Client) -> KvClient {
    client
        .kv_client()
        .max_decoding_message_size(MAX_MESSAGE_BYTES)
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
pub(super) fn may_be_transient(error: &Error) -> bool {
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

/// Returns the error of a request whose answer is no longer awaited.
pub(super) fn timed_out() -> Error {
    Error::IoError(std::io::ErrorKind::TimedOut.into())
}

/// Returns whether the answer to the request is no longer awaited.
pub(super) fn is_timed_out(error: &Error) -> bool {
    matches!(error, Error::IoError(error) if error.kind() == std::io::ErrorKind::TimedOut)
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
