//! Connection URLs.
use super::Settings;
use crate::error::{Error, ErrorKind, Outcome};
use fluent_uri::Uri;
use fluent_uri::component::Host;
use fluent_uri::pct_enc::{EStr, Encoder};

const DEFAULT_PORT: u16 = 1883;

/// Reads a connection URL. Its parts are percent-encoded UTF-8.
pub(super) fn parse(text: &str) -> Result<Settings, Error> {
    let uri = Uri::parse(text).map_err(|error| invalid(format!("it is not a URL: {error}")))?;
    match uri.scheme().as_str().to_ascii_lowercase().as_str() {
        "mqtt" | "tcp" => {}
        scheme @ ("mqtts" | "ssl" | "tls" | "ws" | "wss" | "unix") => {
            return Err(invalid(format!(
                "`{scheme}` connections are not supported yet; use `mqtt`"
            )));
        }
        scheme => {
            return Err(invalid(format!(
                "the scheme is `{scheme}`; `mqtt` is expected"
            )));
        }
    }
    let authority = uri
        .authority()
        .ok_or_else(|| invalid("it names no host; write mqtt://host:port"))?;
    let host = match authority.host_parsed() {
        Host::RegName(name) => decoded("the host name", name)?,
        // The brackets of an IPv6 address belong to the URL, not to the address.
        _ => authority.host().trim_matches(['[', ']']).to_owned(),
    };
    if host.is_empty() {
        return Err(invalid("it names no host; write mqtt://host:port"));
    }
    let port = authority
        .port_to_u16()
        .map_err(|_| invalid("the port is not a number up to 65535"))?;
    if !matches!(uri.path().as_str(), "" | "/") {
        return Err(invalid(format!(
            "`{}` after the host has no meaning",
            uri.path()
        )));
    }
    if uri.fragment().is_some() {
        return Err(invalid("`#` and what follows it have no meaning"));
    }
    let mut settings = Settings::new(host, port.unwrap_or(DEFAULT_PORT));
    if let Some(userinfo) = authority.userinfo() {
        let (user, password) = match userinfo.split_once(':') {
            Some((user, password)) => (user, Some(password)),
            None => (userinfo, None),
        };
        settings = settings.user_name(decoded("the user name", user)?);
        if let Some(password) = password {
            settings = settings.password(decoded("the password", password)?);
        }
    }
    for pair in uri.query().into_iter().flat_map(|query| query.split('&')) {
        match pair.split_once('=') {
            Some((name, value)) if name.as_str() == "client_id" => {
                settings = settings.client_id(decoded("client_id", value)?);
            }
            _ if pair.is_empty() => {}
            _ => {
                let name = pair.as_str().split('=').next().unwrap_or_default();
                return Err(invalid(format!(
                    "`{name}` is not a parameter with a value; `client_id` is"
                )));
            }
        }
    }
    Ok(settings)
}

/// Takes percent-encoding away.
fn decoded<E: Encoder>(what: &str, text: &EStr<E>) -> Result<String, Error> {
    match text.decode().to_string() {
        Ok(text) => Ok(text.into_owned()),
        Err(_) => Err(invalid(format!("{what} is not UTF-8"))),
    }
}

/// The URL itself stays out of the message: it may hold a password.
fn invalid(reason: impl Into<String>) -> Error {
    Error::new(
        ErrorKind::InvalidSettings,
        Outcome::NotDone,
        "reading the connection URL",
        reason,
    )
}
