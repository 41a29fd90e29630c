//! Connection URLs.
//!
//! Errors contain no text of the URL. In a malformed URL, a password can be anywhere. A `/` in it ends the host early, and the
//! rest becomes part of the path or of a parameter name.
use super::{Endpoint, Settings, parsers};
use crate::error::{Error, ErrorKind, Outcome};
use bytes::Bytes;
use fluent_uri::component::{Authority, Host};
use fluent_uri::pct_enc::encoder::RegName;
use fluent_uri::pct_enc::{EStr, Encoder};
use fluent_uri::{Uri, UriRef};
use std::borrow::Cow;
use zeroize::Zeroizing;

const DEFAULT_PORT: u16 = 1883;
const DEFAULT_TLS_PORT: u16 = 8883;
const DEFAULT_WS_PORT: u16 = 80;
const DEFAULT_WSS_PORT: u16 = 443;
const DEFAULT_PATH: &str = "/mqtt";

const NO_SCHEME: &str = "it has no scheme; write mqtt://host:port, or mqtts://host:port for TLS";
const NO_HOST: &str = "it names no host; write mqtt://host:port, or mqtts://host:port for TLS";
const NO_ZONE: &str =
    "the zone of an IPv6 address stands behind `%25`, as in mqtt://[fe80::1%25eth0]";
const NO_PATH: &str = "it names no absolute path of a socket; write unix:///path";

/// Function that applies a parameter; its error completes the sentence "`name` has a value ...".
type ApplyParameter = fn(Settings, String) -> Result<Settings, &'static str>;

/// The parameters after the `?`. Their names are those of the methods of [`Settings`].
const PARAMETERS: [(&str, ApplyParameter); 14] = [
    ("allow_plaintext_credentials", |settings, value| {
        Ok(settings.allow_plaintext_credentials(parsers::boolean(&value)?))
    }),
    ("ca_file", |settings, path| Ok(settings.ca_file(path))),
    ("cert_file", |settings, path| Ok(settings.cert_file(path))),
    ("clean_start", |settings, value| {
        Ok(settings.clean_start(parsers::boolean(&value)?))
    }),
    ("client_id", |settings, id| Ok(settings.client_id(id))),
    ("fail_fast", |settings, value| {
        Ok(settings.fail_fast(parsers::boolean(&value)?))
    }),
    ("keep_alive", |settings, value| {
        Ok(settings.keep_alive(parsers::keep_alive(&value)?))
    }),
    ("key_file", |settings, path| Ok(settings.key_file(path))),
    ("key_password_file", |settings, path| {
        Ok(settings.key_password_file(path))
    }),
    ("lazy", |settings, value| {
        Ok(settings.lazy(parsers::boolean(&value)?))
    }),
    ("password_file", |settings, path| {
        Ok(settings.password_file(path))
    }),
    ("sat_file", |settings, path| Ok(settings.sat_file(path))),
    ("server_name", |settings, name| {
        Ok(settings.server_name(name))
    }),
    ("session_expiry", |settings, value| {
        Ok(settings.session_expiry(parsers::session_expiry(&value)?))
    }),
];

/// Parses a connection URL. Its parts are percent-encoded UTF-8.
pub(super) fn parse(text: &str) -> Result<Settings, Error> {
    let has_scheme = text.contains("://");
    let (text, others) = first_and_others(text);
    let (text, zone) = without_zone(text)?;
    let uri = Uri::parse(&*text).map_err(|error| {
        if has_scheme {
            invalid(format!("it is not a URL: {error}"))
        } else {
            invalid(NO_SCHEME)
        }
    })?;
    let scheme = uri.scheme().as_str().to_ascii_lowercase();
    let brokers = |default_port| parse_brokers(&uri, zone.as_deref(), &others, default_port);
    let mut settings = match scheme.as_str() {
        "mqtt" | "tcp" => reject_path(&uri, brokers(DEFAULT_PORT)?)?,
        "mqtts" | "ssl" => reject_path(&uri, brokers(DEFAULT_TLS_PORT)?)?.tls(true),
        "ws" => set_websocket_path(&uri, brokers(DEFAULT_WS_PORT)?)?,
        "wss" => set_websocket_path(&uri, brokers(DEFAULT_WSS_PORT)?)?.tls(true),
        "unix" if others.is_empty() => parse_socket(&uri)?,
        "unix" => return Err(invalid(NO_PATH)),
        _ if !has_scheme => return Err(invalid(NO_SCHEME)),
        _ => {
            return Err(invalid(
                "it begins with none of `mqtt://`, `mqtts://`, `ws://`, `wss://` and `unix://`",
            ));
        }
    };
    if uri.fragment().is_some() {
        return Err(invalid("`#` and what follows it have no meaning"));
    }
    let mut seen = Vec::new();
    let pairs = uri.query().into_iter().flat_map(|query| query.split('&'));
    for (number, pair) in (1..).zip(pairs.filter(|pair| !pair.is_empty())) {
        let (name, value) = match pair.split_once('=') {
            Some((name, value)) => (name.as_str(), Some(value)),
            None => (pair.as_str(), None),
        };
        let Some((name, apply)) = PARAMETERS.iter().find(|(known, _)| *known == name) else {
            let known = PARAMETERS.map(|(name, _)| format!("`{name}`")).join(", ");
            return Err(invalid(format!(
                "its parameter number {number} is unknown; known are {known}"
            )));
        };
        if seen.contains(name) {
            return Err(invalid(format!("`{name}` is given twice")));
        }
        seen.push(name);
        let value = match value {
            Some(value) => decoded(name, value)?,
            None => return Err(invalid(format!("`{name}` has no value"))),
        };
        // An empty client id requests one from the broker.
        if value.is_empty() && *name != "client_id" {
            return Err(invalid(format!("`{name}` has no value")));
        }
        settings = apply(settings, value)
            .map_err(|problem| invalid(format!("`{name}` has a value {problem}")))?;
    }
    Ok(settings)
}

/// Splits a URL into one with only the first broker, and the other brokers.
fn first_and_others(text: &str) -> (Cow<'_, str>, Vec<&str>) {
    let brokers = || {
        let begin = text.find("://")? + 3;
        let end = text[begin..].find(['/', '?', '#']);
        let end = end.map_or(text.len(), |end| begin + end);
        // A password may contain a comma as well.
        let begin = text[begin..end]
            .rfind('@')
            .map_or(begin, |at| begin + at + 1);
        let comma = begin + text[begin..end].find(',')?;
        Some((comma, end))
    };
    match brokers() {
        None => (text.into(), Vec::new()),
        Some((comma, end)) => {
            let others = text[comma + 1..end].split(',').collect();
            ([&text[..comma], &text[end..]].concat().into(), others)
        }
    }
}

/// Splits off the zone of the first IPv6 address (`[fe80::1%25eth0]`, RFC 6874), which generic URLs do not support. The zone is
/// returned as it is written.
fn without_zone(text: Cow<'_, str>) -> Result<(Cow<'_, str>, Option<String>), Error> {
    let address = || {
        let begin = text.find("//")? + 2;
        let end = text[begin..].find(['/', '?', '#']);
        let end = end.map_or(text.len(), |end| begin + end);
        // A user name or a password may contain brackets.
        let begin = text[begin..end]
            .rfind('@')
            .map_or(begin, |at| begin + at + 1);
        let address = text[begin..end].strip_prefix('[')?;
        let (address, _) = address.split_once(']')?;
        let percent = begin + 1 + address.find('%')?;
        Some(percent..begin + 1 + address.len())
    };
    let Some(range) = address() else {
        return Ok((text, None));
    };
    let zone = text[range.clone()].strip_prefix("%25");
    let Some(zone) = zone.filter(|zone| !zone.is_empty()) else {
        return Err(invalid(NO_ZONE));
    };
    let zone = zone.to_owned();
    let text = [&text[..range.start], &text[range.end..]].concat();
    Ok((text.into(), Some(zone)))
}

/// Parses `//[user[:password]@]host[:port][,host[:port]]...`.
fn parse_brokers(
    uri: &Uri<&str>,
    zone: Option<&str>,
    others: &[&str],
    default_port: u16,
) -> Result<Settings, Error> {
    let authority = uri.authority().ok_or_else(|| invalid(NO_HOST))?;
    let (host, port) = host_and_port(&authority, zone, default_port)?;
    let mut settings = set_credentials(Settings::new(host, port), &authority)?;
    for (number, other) in (2..).zip(others) {
        let (other, zone) = without_zone(format!("//{other}").into())?;
        let other = UriRef::parse(&*other).ok();
        let other = other.as_ref().and_then(UriRef::authority);
        let Some(authority) = other else {
            let problem = format!("its broker number {number} is not written as host:port");
            return Err(invalid(problem));
        };
        let (host, port) = host_and_port(&authority, zone.as_deref(), default_port)?;
        settings = settings.add_address(host, port);
    }
    Ok(settings)
}

fn reject_path(uri: &Uri<&str>, settings: Settings) -> Result<Settings, Error> {
    if !matches!(uri.path().as_str(), "" | "/") {
        return Err(invalid(
            "a path after the host has no meaning; a `/` in a password is written `%2F`",
        ));
    }
    Ok(settings)
}

/// Sets MQTT over WebSocket, at the path as it is written.
fn set_websocket_path(uri: &Uri<&str>, settings: Settings) -> Result<Settings, Error> {
    match uri.path().as_str() {
        "" => Ok(settings.websocket(DEFAULT_PATH)),
        path if path.contains('@') => Err(invalid(
            "the path has an `@`, which is written `%40` there; a `/` in a password is written `%2F`",
        )),
        path => Ok(settings.websocket(path)),
    }
}

fn host_and_port(
    authority: &Authority<'_>,
    zone: Option<&str>,
    default_port: u16,
) -> Result<(String, u16), Error> {
    let mut host = match authority.host_parsed() {
        Host::RegName(name) => decoded("the host name", name)?,
        // The brackets of an IPv6 address belong to the URL, not to the address.
        _ => authority.host().trim_matches(['[', ']']).to_owned(),
    };
    if let Some(zone) = zone {
        let zone = EStr::<RegName>::new(zone).ok_or_else(|| invalid(NO_ZONE))?;
        host = format!("{host}%{}", decoded("the zone of the address", zone)?);
    }
    if host.is_empty() {
        return Err(invalid(NO_HOST));
    }
    let port = authority
        .port_to_u16()
        .map_err(|_| invalid("the port is not a number up to 65535"))?;
    Ok((host, port.unwrap_or(default_port)))
}

/// Parses `//[user[:password]@]/path`.
fn parse_socket(uri: &Uri<&str>) -> Result<Settings, Error> {
    let no_path = || invalid(NO_PATH);
    let authority = uri.authority().ok_or_else(no_path)?;
    if !authority.host().is_empty() || authority.port().is_some() {
        return Err(no_path());
    }
    let path = decoded("the path", uri.path())?;
    if path.len() < 2 {
        return Err(no_path());
    }
    let settings = Settings::at(Endpoint::Unix(path.into()));
    set_credentials(settings, &authority)
}

fn set_credentials(mut settings: Settings, authority: &Authority<'_>) -> Result<Settings, Error> {
    let Some(userinfo) = authority.userinfo() else {
        return Ok(settings);
    };
    let (user, password) = match userinfo.split_once(':') {
        Some((user, password)) => (user, Some(password)),
        None => (userinfo, None),
    };
    settings = settings.user_name(decoded("the user name", user)?);
    if let Some(password) = password {
        let password = Zeroizing::new(decoded("the password", password)?.into_bytes());
        settings = settings.password(Bytes::from_owner(password));
    }
    Ok(settings)
}

/// Decodes percent-encoded text.
fn decoded<E: Encoder>(part: &str, text: &EStr<E>) -> Result<String, Error> {
    match text.decode().to_string() {
        Ok(text) => Ok(text.into_owned()),
        Err(_) => Err(invalid(format!("{part} is not UTF-8"))),
    }
}

fn invalid(reason: impl Into<String>) -> Error {
    Error::new(
        ErrorKind::InvalidSettings,
        Outcome::NotDone,
        "reading the connection URL",
        reason,
    )
}

#[cfg(test)]
mod tests;
