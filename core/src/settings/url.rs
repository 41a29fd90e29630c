//! Connection URLs.
//!
//! No error shows any text of the URL. In a URL that is not well-formed, a password can be anywhere: one with a `/` in it
//! ends the host early, and goes on in the path or in the name of a parameter.
use super::{Endpoint, Settings, text};
use crate::error::{Error, ErrorKind, Outcome};
use bytes::Bytes;
use fluent_uri::component::{Authority, Host};
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
const NO_PATH: &str = "it names no absolute path of a socket; write unix:///path";

/// Changes the settings; the error completes the sentence "`name` has a value ...".
type Apply = fn(Settings, String) -> Result<Settings, &'static str>;

/// What may stand behind the `?`. The names are those of the methods of [`Settings`].
const PARAMETERS: [(&str, Apply); 13] = [
    ("allow_plaintext_credentials", |settings, value| {
        Ok(settings.allow_plaintext_credentials(text::boolean(&value)?))
    }),
    ("ca_file", |settings, path| Ok(settings.ca_file(path))),
    ("cert_file", |settings, path| Ok(settings.cert_file(path))),
    ("clean_start", |settings, value| {
        Ok(settings.clean_start(text::boolean(&value)?))
    }),
    ("client_id", |settings, id| Ok(settings.client_id(id))),
    ("fail_fast", |settings, value| {
        Ok(settings.fail_fast(text::boolean(&value)?))
    }),
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
    let has_scheme = text.contains("://");
    let (text, others) = first_and_others(text);
    let uri = Uri::parse(&*text).map_err(|error| {
        if has_scheme {
            invalid(format!("it is not a URL: {error}"))
        } else {
            invalid(NO_SCHEME)
        }
    })?;
    let scheme = uri.scheme().as_str().to_ascii_lowercase();
    let mut settings = match scheme.as_str() {
        "mqtt" => no_path(&uri, brokers(&uri, &others, DEFAULT_PORT)?)?,
        "mqtts" => no_path(&uri, brokers(&uri, &others, DEFAULT_TLS_PORT)?)?.tls(true),
        "ws" => with_path(&uri, brokers(&uri, &others, DEFAULT_WS_PORT)?)?,
        "wss" => with_path(&uri, brokers(&uri, &others, DEFAULT_WSS_PORT)?)?.tls(true),
        "unix" if others.is_empty() => socket(&uri)?,
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
        // An empty client id asks the broker for one.
        if value.is_empty() && *name != "client_id" {
            return Err(invalid(format!("`{name}` has no value")));
        }
        settings = apply(settings, value)
            .map_err(|problem| invalid(format!("`{name}` has a value {problem}")))?;
    }
    Ok(settings)
}

/// The URL with the first broker alone, and the other brokers.
fn first_and_others(text: &str) -> (Cow<'_, str>, Vec<&str>) {
    let brokers = || {
        let begin = text.find("://")? + 3;
        let end = text[begin..].find(['/', '?', '#']);
        let end = end.map_or(text.len(), |end| begin + end);
        // A password may have a comma as well.
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

/// `//[user[:password]@]host[:port][,host[:port]]...`
fn brokers(uri: &Uri<&str>, others: &[&str], default_port: u16) -> Result<Settings, Error> {
    let authority = uri.authority().ok_or_else(|| invalid(NO_HOST))?;
    let (host, port) = host_and_port(&authority, default_port)?;
    let mut settings = user(Settings::new(host, port), &authority)?;
    for (number, other) in (2..).zip(others) {
        let other = format!("//{other}");
        let other = UriRef::parse(other.as_str()).ok();
        let other = other.as_ref().and_then(UriRef::authority);
        let Some(authority) = other else {
            let problem = format!("its broker number {number} is not written as host:port");
            return Err(invalid(problem));
        };
        let (host, port) = host_and_port(&authority, default_port)?;
        settings = settings.also(host, port);
    }
    Ok(settings)
}

fn no_path(uri: &Uri<&str>, settings: Settings) -> Result<Settings, Error> {
    if !matches!(uri.path().as_str(), "" | "/") {
        return Err(invalid(
            "a path after the host has no meaning; a `/` in a password is written `%2F`",
        ));
    }
    Ok(settings)
}

/// MQTT over WebSocket, at the path as it is written.
fn with_path(uri: &Uri<&str>, settings: Settings) -> Result<Settings, Error> {
    match uri.path().as_str() {
        "" => Ok(settings.websocket(DEFAULT_PATH)),
        path if path.contains('@') => Err(invalid(
            "the path has an `@`, which is written `%40` there; a `/` in a password is written `%2F`",
        )),
        path => Ok(settings.websocket(path)),
    }
}

fn host_and_port(authority: &Authority<'_>, default_port: u16) -> Result<(String, u16), Error> {
    let host = match authority.host_parsed() {
        Host::RegName(name) => decoded("the host name", name)?,
        // The brackets of an IPv6 address belong to the URL, not to the address.
        _ => authority.host().trim_matches(['[', ']']).to_owned(),
    };
    if host.is_empty() {
        return Err(invalid(NO_HOST));
    }
    let port = authority
        .port_to_u16()
        .map_err(|_| invalid("the port is not a number up to 65535"))?;
    Ok((host, port.unwrap_or(default_port)))
}

/// `//[user[:password]@]/path`
fn socket(uri: &Uri<&str>) -> Result<Settings, Error> {
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
        let password = Zeroizing::new(decoded("the password", password)?.into_bytes());
        settings = settings.password(Bytes::from_owner(password));
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

fn invalid(reason: impl Into<String>) -> Error {
    Error::new(
        ErrorKind::InvalidSettings,
        Outcome::NotDone,
        "reading the connection URL",
        reason,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::path::Path;

    fn address(url: &str) -> (String, bool) {
        let settings = parse(url).unwrap();
        settings.check().unwrap();
        (settings.address(), settings.tls_enabled)
    }

    #[test]
    fn the_scheme_decides_about_port_and_tls() {
        for (url, expected, tls) in [
            ("mqtt://broker", "broker:1883", false),
            ("mqtt://broker:1", "broker:1", false),
            ("mqtts://broker", "broker:8883", true),
            ("MQTTS://broker:65535/", "broker:65535", true),
            ("mqtt://10.0.0.1?", "10.0.0.1:1883", false),
            ("mqtts://[::1]", "[::1]:8883", true),
            ("mqtt://%62roker", "broker:1883", false),
            ("unix:///run/broker.sock", "/run/broker.sock", false),
            ("unix:///with%20space", "/with space", false),
        ] {
            assert_eq!(address(url), (expected.to_owned(), tls), "{url}");
        }
    }

    #[test]
    fn several_brokers_share_everything_else() {
        for (url, expected, tls) in [
            ("mqtt://one:1,two,[::1]:3", "one:1,two:1883,[::1]:3", false),
            ("mqtts://one,two:2/?client_id=a", "one:8883,two:2", true),
            ("mqtt://u,ser:p,w@one,two", "one:1883,two:1883", false),
            (
                "mqtt://one,10.0.0.1,%62,[::2]",
                "one:1883,10.0.0.1:1883,b:1883,[::2]:1883",
                false,
            ),
        ] {
            assert_eq!(address(url), (expected.to_owned(), tls), "{url}");
        }
        let credentials = parse("mqtt://u,ser:p,w@one,two").unwrap().credentials;
        assert_eq!(credentials.user_name.as_deref(), Some("u,ser"));
        assert_eq!(credentials.password.as_deref(), Some(&b"p,w"[..]));
        let socket = parse("unix:///with,comma").unwrap();
        assert_eq!(socket.address(), "/with,comma");
    }

    #[test]
    fn a_websocket_has_a_path() {
        for (url, expected, path, tls) in [
            ("ws://broker", "broker:80", "/mqtt", false),
            ("wss://one,two:1", "one:443,two:1", "/mqtt", true),
            ("ws://broker:1/?client_id=a", "broker:1", "/", false),
            (
                "WSS://u:p@broker/a/%62?client_id=a",
                "broker:443",
                "/a/%62",
                true,
            ),
        ] {
            let settings = parse(url).unwrap();
            assert_eq!(settings.address(), expected, "{url}");
            assert_eq!(settings.websocket.as_deref(), Some(path), "{url}");
            assert_eq!(settings.tls_enabled, tls, "{url}");
            assert_eq!(settings.check().is_ok(), cfg!(feature = "ws"), "{url}");
        }
        for settings in [
            parse("ws://bro%0D%0Aker").unwrap(),
            parse("ws://br%C3%B6ker").unwrap(),
            Settings::unix("/socket").websocket("/mqtt"),
            Settings::new("broker", 1).websocket("mqtt"),
            Settings::new("broker", 1).websocket("/a b"),
        ] {
            let error = settings.check().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidSettings);
        }
    }

    #[test]
    fn user_and_password_are_percent_encoded() {
        for url in [
            "mqtt://us%3Aer:p%40ss:w%2Ford@broker",
            "unix://us%3Aer:p%40ss:w%2Ford@/socket",
        ] {
            let credentials = parse(url).unwrap().credentials;
            assert_eq!(credentials.user_name.as_deref(), Some("us:er"));
            assert_eq!(credentials.password.as_deref(), Some(&b"p@ss:w/ord"[..]));
        }
        let credentials = parse("mqtt://user@broker").unwrap().credentials;
        assert_eq!(credentials.user_name.as_deref(), Some("user"));
        assert_eq!(credentials.password, None);
    }

    #[test]
    fn every_parameter_counts() {
        let settings = parse(
            "mqtts://broker?ca_file=/ca&cert_file=/cert&key_file=/key&key_password_file=/key%26password\
             &password_file=/password&server_name=inner&client_id=gate%20way&keep_alive=7\
             &session_expiry=9&clean_start=false",
        )
        .unwrap();
        let tls = &settings.tls;
        assert_eq!(tls.ca_file.as_deref(), Some(Path::new("/ca")));
        assert_eq!(tls.cert_file.as_deref(), Some(Path::new("/cert")));
        assert_eq!(tls.key_file.as_deref(), Some(Path::new("/key")));
        assert_eq!(
            tls.key_password_file.as_deref(),
            Some(Path::new("/key&password"))
        );
        assert_eq!(tls.server_name.as_deref(), Some("inner"));
        let password_file = settings.credentials.password_file.as_deref();
        assert_eq!(password_file, Some(Path::new("/password")));
        assert_eq!(settings.client_id.as_deref(), Some("gate way"));
        assert_eq!(settings.keep_alive_s, 7);
        assert_eq!(settings.session_expiry_s, 9);
        assert!(!settings.clean_start);
        settings.check().unwrap();

        let settings =
            parse("mqtt://broker?sat_file=/token&client_id=&allow_plaintext_credentials=true")
                .unwrap();
        let sat_file = settings.credentials.sat_file.as_deref();
        assert_eq!(sat_file, Some(Path::new("/token")));
        assert_eq!(settings.client_id.as_deref(), Some(""));
        settings.check().unwrap();
    }

    /// Characters that no message has, and those that a URL is made of.
    const PASSWORD: &str = "[JZ%/?#@:&=\\[\\].,]{0,12}[JZ][JZ%/?#@:&=\\[\\].,]{0,12}";

    proptest! {
        #[test]
        fn nothing_of_a_password_is_told(
            before in "(mqtts?://|wss?://|unix://|mqtt:|http://|//|)(user)?:?",
            password in PASSWORD,
            behind in "(@broker(,b:1)?(:1883)?(/|\\?client_id=JZ|\\?keep_alive=JZ)?|@/run/socket|)",
        ) {
            let url = before + &password + &behind;
            let told = match parse(&url) {
                Err(error) => error.to_string(),
                // Well-formed after all; then the host or the path is what comes before the first separator.
                Ok(settings) => match settings.check() {
                    Err(error) => error.to_string().replace(&settings.address(), ""),
                    Ok(()) => String::new(),
                },
            };
            prop_assert!(!told.to_ascii_uppercase().contains(['J', 'Z']), "{url}: {told}");
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        let no_host = "it names no host; write mqtt://host:port, or mqtts://host:port for TLS";
        let no_scheme =
            "it begins with none of `mqtt://`, `mqtts://`, `ws://`, `wss://` and `unix://`";
        let no_path = "it names no absolute path of a socket; write unix:///path";
        for (url, problem) in [
            ("http://broker", no_scheme),
            ("wss://:443", no_host),
            (
                "ws://user:1/secret@broker",
                "the path has an `@`, which is written `%40` there; a `/` in a password is written `%2F`",
            ),
            ("user:secret@broker", NO_SCHEME),
            ("mqtt:broker", no_host),
            ("mqtt://:1883", no_host),
            ("mqtt://user:secret@", no_host),
            (
                "mqtt://broker:65536",
                "the port is not a number up to 65535",
            ),
            (
                "mqtt://user:1/secret@broker",
                "a path after the host has no meaning; a `/` in a password is written `%2F`",
            ),
            (
                "mqtt://broker#part",
                "`#` and what follows it have no meaning",
            ),
            ("mqtt://%FF", "the host name is not UTF-8"),
            ("mqtt://us%FFer@broker", "the user name is not UTF-8"),
            ("mqtt://,two", no_host),
            ("mqtt://one,", no_host),
            ("mqtt://one,:2", no_host),
            (
                "mqtt://one,two:secret",
                "its broker number 2 is not written as host:port",
            ),
            (
                "mqtt://one,two:65536",
                "the port is not a number up to 65535",
            ),
            ("unix://,/socket", no_path),
            ("unix:/socket", no_path),
            ("unix://socket", no_path),
            ("unix:///", no_path),
            ("unix://", no_path),
            ("mqtt://b?ca_file", "`ca_file` has no value"),
            ("mqtt://b?ca_file=", "`ca_file` has no value"),
            (
                "mqtt://b?client_id=a&client_id=b",
                "`client_id` is given twice",
            ),
            (
                "mqtt://b?clean_start=1",
                "`clean_start` has a value which is neither `true` nor `false`",
            ),
            (
                "mqtt://b?keep_alive=65536",
                "`keep_alive` has a value which is not a number of seconds from 0 to 65535",
            ),
            (
                "mqtt://b?session_expiry=1h",
                "`session_expiry` has a value which is not a number of seconds from 0 to 4294967295",
            ),
            (
                "mqtt://user:secret@b?keep_alive=1&cafile=/ca",
                "its parameter number 2 is unknown; known are `allow_plaintext_credentials`, `ca_file`, `cert_file`, `clean_start`, `client_id`, \
                 `fail_fast`, `keep_alive`, `key_file`, `key_password_file`, `password_file`, `sat_file`, `server_name`, \
                 `session_expiry`",
            ),
        ] {
            let error = parse(url).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidSettings);
            let text = error.to_string();
            assert_eq!(
                text,
                format!("reading the connection URL: {problem}"),
                "{url}"
            );
        }
        for text in ["", "broker", "broker:1883", "//broker"] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(NO_SCHEME), "{text}: {error}");
        }
        for text in ["mqtt://bro ker", "mqtt://%zz"] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains("it is not a URL"), "{text}: {error}");
        }
    }
}
