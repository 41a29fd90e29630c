//! The connection to the store, and the meaning of its errors for a user of the command line.
use crate::{
    exit::Exit, failure::Failure, global_options::GlobalOptions, open_clients::DISCONNECT_TIMEOUT,
};
use statestore::rustls::{self, CertificateError};
use statestore::{Client, Error, ErrorKind, Outcome, ReasonCode, Settings};
use std::env::{self, VarError};
use std::error::Error as _;
use std::io;

/// Variable that names the store if no argument does.
pub(crate) const URL_VARIABLE: &str = "STATESTORE_URL";
const DEFAULT_URL: &str = "mqtt://127.0.0.1:1883";

/// An open connection.
#[derive(Debug)]
pub(crate) struct Connection {
    /// The client.
    pub(crate) client: Client,
}

impl Connection {
    /// Connects to the store.
    pub(crate) async fn open(global: &GlobalOptions) -> Result<Self, Failure> {
        let mut settings = settings(global)
            .map_err(|error| failure(&error))?
            .connect_timeout(global.timeout)
            .request_timeout(global.timeout)
            // long enough to receive a response after a lost connection; the session does not remain afterwards
            .session_expiry(global.timeout);
        if global.allow_plaintext_credentials {
            settings = settings.allow_plaintext_credentials(true);
        }
        if let Some(client_id) = &global.client_id {
            settings = settings.client_id(client_id);
        }
        let client = Client::connect(settings)
            .await
            .map_err(|error| failure(&error))?;
        global.clients.add(&client);
        Ok(Self { client })
    }

    /// Disconnects from the broker. The work is done, so a failure has no effect, and the wait is short.
    pub(crate) async fn close(&self) {
        let _ = tokio::time::timeout(DISCONNECT_TIMEOUT, self.client.close()).await;
    }
}

/// Returns the settings of the connection: the address of the store and the identity of the client.
fn settings(global: &GlobalOptions) -> Result<Settings, Error> {
    if global.env {
        // The client id of the pod belongs to its application, which would lose its session to a second user.
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(|error| {
            let kind = ErrorKind::Unsupported;
            Error::new(
                kind,
                Outcome::NotDone,
                "making a client id",
                error.to_string(),
            )
        })?;
        let client_id = format!("statestore-{:032x}", u128::from_ne_bytes(random));
        let settings = Settings::from_environment()?;
        return Ok(settings.client_id(client_id).clean_start(true));
    }
    if let Some(url) = &global.url {
        return Settings::from_url(url);
    }
    match env::var(URL_VARIABLE) {
        Ok(url) => Settings::from_url(&url),
        Err(VarError::NotPresent) => Settings::from_url(DEFAULT_URL),
        Err(VarError::NotUnicode(_)) => Err(Error::new(
            ErrorKind::InvalidSettings,
            Outcome::NotDone,
            format!("reading {URL_VARIABLE}"),
            "it is not UTF-8",
        )),
    }
}

/// Returns the value of the variable that names the store, for a command that this program runs. The password is removed, because
/// it is not meant for other programs. `None` if the variable is not set.
pub(crate) fn store_url_without_password() -> Option<String> {
    let url = env::var_os(URL_VARIABLE)?;
    // Text that is not UTF-8 is no URL after the conversion either.
    Some(without_password(url.to_string_lossy().into_owned()))
}

/// Removes the password from a URL.
fn without_password(url: String) -> String {
    let Some(begin) = url.find("://").map(|at| at + "://".len()) else {
        return url;
    };
    let end = match url[begin..].find(['/', '?', '#']) {
        // After it, an `@` has another meaning.
        Some(end) if Settings::from_url(&url).is_ok() => begin + end,
        // In a malformed URL the password can be anywhere.
        _ => url.len(),
    };
    let Some(user) = url[begin..end]
        .rfind('@')
        .map(|len| &url[begin..begin + len])
    else {
        return url;
    };
    match user.find(':') {
        Some(colon) => [&url[..begin + colon], &url[begin + user.len()..]].concat(),
        None => url,
    }
}

/// Returns the failure of a subcommand for an error of the client.
pub(crate) fn failure(error: &Error) -> Failure {
    failure_with_advice(error, advice(error))
}

/// Returns the failure of a watch, which counts against other quotas than an entry.
pub(crate) fn watch_failure(error: &Error) -> Failure {
    failure_with_advice(
        error,
        match error.kind() {
            ErrorKind::QuotaExceeded => {
                Some("end other watches, or raise the limit of watches of the store")
            }
            _ => advice(error),
        },
    )
}

fn failure_with_advice(error: &Error, advice: Option<&str>) -> Failure {
    let text = match advice {
        Some(advice) => format!("{error}; {advice}"),
        None => error.to_string(),
    };
    Failure::new(exit(error.kind()), text)
}

/// Returns the exit code of each kind of error.
pub(crate) fn exit(kind: ErrorKind) -> Exit {
    match kind {
        ErrorKind::InvalidArgument | ErrorKind::InvalidSettings | ErrorKind::TooLarge => {
            Exit::Usage
        }
        ErrorKind::Rejected
        | ErrorKind::Rpc
        | ErrorKind::Unsupported
        | ErrorKind::NotALock
        | ErrorKind::TimestampSkew
        | ErrorKind::FencingTokenRequired
        | ErrorKind::FencingTokenSkew
        | ErrorKind::FencingTokenLower
        | ErrorKind::QuotaExceeded
        | ErrorKind::Syntax
        | ErrorKind::NotAuthorized
        | ErrorKind::UnknownCommand
        | ErrorKind::WrongArguments
        | ErrorKind::MissingTimestamp
        | ErrorKind::MalformedTimestamp
        | ErrorKind::EmptyKey
        | ErrorKind::OtherRefusal => Exit::Rejected,
        _ => Exit::NoResponse,
    }
}

/// Returns advice for the cause of an error, if its message has none.
fn advice(error: &Error) -> Option<&'static str> {
    Some(match error.kind() {
        ErrorKind::InvalidSettings => {
            "correct --url, STATESTORE_URL or --client-id, or with --env the AIO_ variables"
        }
        // A broker that sends a reason code runs, and is at this address.
        ErrorKind::Unreachable if error.mqtt_reason().is_none() => {
            "start statestored, or say where the store is with --url or STATESTORE_URL"
        }
        ErrorKind::NotAuthenticated => match error.mqtt_reason()? {
            ReasonCode::BAD_USER_NAME_OR_PASSWORD | ReasonCode::BAD_AUTHENTICATION_METHOD => {
                "name the user in the URL, and a file with the password: mqtt://USER@HOST:PORT?password_file=FILE"
            }
            ReasonCode::NOT_AUTHORIZED => {
                "connect as a user who has this right, or ask the operator of the broker for it"
            }
            _ => return None,
        },
        ErrorKind::Untrusted => return certificate_advice(error),
        ErrorKind::NoStore => {
            "check that the state store and its storage run, or try another --url"
        }
        ErrorKind::TimedOut | ErrorKind::SessionLost => "try again, or wait longer with --timeout",
        ErrorKind::TooLarge => "store it in parts, or raise the limit of the broker",
        ErrorKind::FencingTokenRequired => "give its fencing token, as with --fence TOKEN",
        ErrorKind::FencingTokenLower => "take the lease again and use its new token",
        ErrorKind::NotALock => "choose another name",
        ErrorKind::QuotaExceeded => {
            "delete keys or raise the quota of the store; if its etcd is full, compact and defragment it and disarm its alarm"
        }
        ErrorKind::NotAuthorized => "ask the operator of the store for the right",
        ErrorKind::UnknownCommand => "this store does not support the subcommand",
        _ => return None,
    })
}

/// Returns advice for a certificate of the broker that is not trusted.
fn certificate_advice(error: &Error) -> Option<&'static str> {
    let source = error.source()?.downcast_ref::<io::Error>()?.get_ref()?;
    let rustls::Error::InvalidCertificate(problem) = source.downcast_ref()? else {
        return None;
    };
    match problem {
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            Some("name the file of its authority with ?ca_file=FILE in the URL")
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            Some(
                "connect by a name in the certificate, or expect one with ?server_name=NAME in the URL",
            )
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::without_password;

    #[test]
    fn without_password_removes_only_the_password() {
        for (url, without) in [
            ("mqtt://broker:1883", "mqtt://broker:1883"),
            ("mqtt://user@broker:1883", "mqtt://user@broker:1883"),
            (
                "mqtt://user:secret@broker:1883?keep_alive=5",
                "mqtt://user@broker:1883?keep_alive=5",
            ),
            ("mqtt://:secret@[::1]", "mqtt://@[::1]"),
            (
                "unix://user:secret@/run/broker.sock",
                "unix://user@/run/broker.sock",
            ),
            ("mqtt://user:sec/r@et@broker", "mqtt://user@broker"),
            (
                "mqtt://broker?password_file=/run/secret",
                "mqtt://broker?password_file=/run/secret",
            ),
            (
                "mqtt://broker:1883?client_id=a@b",
                "mqtt://broker:1883?client_id=a@b",
            ),
            (
                "mqtts://user:secret@one:1,two:2?ca_file=/run/ca@2:1.pem",
                "mqtts://user@one:1,two:2?ca_file=/run/ca@2:1.pem",
            ),
            ("unix:///run/a:b/c@d", "unix:///run/a:b/c@d"),
            (
                "unix://user:secret@/run/a@b.sock",
                "unix://user@/run/a@b.sock",
            ),
        ] {
            assert_eq!(without_password(url.to_owned()), without);
        }
    }
}
