//! Connection URLs.
use super::{Endpoint, Settings, text};
use crate::error::{Error, ErrorKind, Outcome};
use fluent_uri::Uri;
use fluent_uri::component::{Authority, Host};
use fluent_uri::pct_enc::{EStr, Encoder};

const DEFAULT_PORT: u16 = 1883;
const DEFAULT_TLS_PORT: u16 = 8883;

/// Changes the settings; the error completes the sentence "`name` is `value`, ...".
type Apply = fn(Settings, String) -> Result<Settings, &'static str>;

/// What may stand behind the `?`. The names are those of the methods of [`Settings`].
const PARAMETERS: [(&str, Apply); 11] = [
    ("ca_file", |settings, path| Ok(settings.ca_file(path))),
    ("cert_file", |settings, path| Ok(settings.cert_file(path))),
    ("clean_start", |settings, value| {
        Ok(settings.clean_start(text::boolean(&value)?))
    }),
    ("client_id", |settings, id| Ok(settings.client_id(id))),
    ("keep_alive", |settings, value| {
        Ok(settings.keep_alive(text::keep_alive(&value)?))
    }),
    ("key_file", |settings, path| Ok(settings.key_file(path))),
    ("key_password_file", |settings, path| {
        Ok(settings.key_password_file(path))
    }),
    ("password_file", |settings, path| {
        Ok(settings.password_file(path))
    }),
    ("sat_file", |settings, path| Ok(settings.sat_file(path))),
    ("server_name", |settings, name| {
        Ok(settings.server_name(name))
    }),
    ("session_expiry", |settings, value| {
        Ok(settings.session_expiry(text::session_expiry(&value)?))
    }),
];

/// Reads a connection URL. Its parts are percent-encoded UTF-8.
pub(super) fn parse(text: &str) -> Result<Settings, Error> {
    let uri = Uri::parse(text).map_err(|error| invalid(format!("it is not a URL: {error}")))?;
    let scheme = uri.scheme().as_str().to_ascii_lowercase();
    let mut settings = match scheme.as_str() {
        "mqtt" => broker(&uri, DEFAULT_PORT)?,
        "mqtts" => broker(&uri, DEFAULT_TLS_PORT)?.tls(true),
        "unix" => socket(&uri)?,
        scheme => {
            return Err(invalid(format!(
                "the scheme is `{scheme}`; `mqtt`, `mqtts` and `unix` are supported"
            )));
        }
    };
    if uri.fragment().is_some() {
        return Err(invalid("`#` and what follows it have no meaning"));
    }
    let mut seen = Vec::new();
    for pair in uri.query().into_iter().flat_map(|query| query.split('&')) {
        if pair.is_empty() {
            continue;
        }
        let (name, value) = match pair.split_once('=') {
            Some((name, value)) => (name.as_str(), Some(value)),
            None => (pair.as_str(), None),
        };
        let Some((name, apply)) = PARAMETERS.iter().find(|(known, _)| *known == name) else {
            let known = PARAMETERS.map(|(name, _)| format!("`{name}`")).join(", ");
            return Err(invalid(format!(
                "`{name}` is not a parameter; known are {known}"
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
        // An empty client id asks the broker for one.
        if value.is_empty() && *name != "client_id" {
            return Err(invalid(format!("`{name}` has no value")));
        }
        let shown = value.clone();
        settings = apply(settings, value).map_err(|problem| {
            invalid(format!("`{name}` is `{}`, {problem}", shown.escape_debug()))
        })?;
    }
    Ok(settings)
}

/// `//[user[:password]@]host[:port]`
fn broker(uri: &Uri<&str>, default_port: u16) -> Result<Settings, Error> {
    let no_host = || {
        let scheme = uri.scheme();
        invalid(format!("it names no host; write {scheme}://host:port"))
    };
    let authority = uri.authority().ok_or_else(no_host)?;
    let host = match authority.host_parsed() {
        Host::RegName(name) => decoded("the host name", name)?,
        // The brackets of an IPv6 address belong to the URL, not to the address.
        _ => authority.host().trim_matches(['[', ']']).to_owned(),
    };
    if host.is_empty() {
        return Err(no_host());
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
    user(
        Settings::new(host, port.unwrap_or(default_port)),
        &authority,
    )
}

/// `//[user[:password]@]/path`
fn socket(uri: &Uri<&str>) -> Result<Settings, Error> {
    let no_path = || invalid("it names no absolute path of a socket; write unix:///path");
    let authority = uri.authority().ok_or_else(no_path)?;
    if !authority.host().is_empty() || authority.port().is_some() {
        return Err(no_path());
    }
    let path = decoded("the path", uri.path())?;
    if path.len() < 2 {
        return Err(no_path());
    }
    let settings = Settings::at(Endpoint::Unix(path.into()));
    user(settings, &authority)
}

fn user(mut settings: Settings, authority: &Authority<'_>) -> Result<Settings, Error> {
    let Some(userinfo) = authority.userinfo() else {
        return Ok(settings);
    };
    let (user, password) = match userinfo.split_once(':') {
        Some((user, password)) => (user, Some(password)),
        None => (userinfo, None),
    };
    settings = settings.user_name(decoded("the user name", user)?);
    if let Some(password) = password {
        settings = settings.password(decoded("the password", password)?);
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
