//! Settings from the environment variables of pods of Azure IoT Operations.
use super::{Settings, parsers};
use crate::error::{Error, ErrorKind, Outcome};
use std::env;
use std::ffi::OsString;
use std::path::PathBuf;

const HOST_NAME: &str = "AIO_BROKER_HOSTNAME";
const TCP_PORT: &str = "AIO_BROKER_TCP_PORT";
const USE_TLS: &str = "AIO_MQTT_USE_TLS";
const CLIENT_ID: &str = "AIO_MQTT_CLIENT_ID";
const CLEAN_START: &str = "AIO_MQTT_CLEAN_START";
const KEEP_ALIVE: &str = "AIO_MQTT_KEEP_ALIVE";
const SESSION_EXPIRY: &str = "AIO_MQTT_SESSION_EXPIRY";
const USER_NAME: &str = "AIO_MQTT_USERNAME";
const PASSWORD_FILE: &str = "AIO_MQTT_PASSWORD_FILE";
const CA_FILE: &str = "AIO_TLS_CA_FILE";
const CERT_FILE: &str = "AIO_TLS_CERT_FILE";
const KEY_FILE: &str = "AIO_TLS_KEY_FILE";
const KEY_PASSWORD_FILE: &str = "AIO_TLS_KEY_PASSWORD_FILE";
const SAT_FILE: &str = "AIO_SAT_FILE";

const DEFAULT_PORT: u16 = 8883;

impl Settings {
    /// Reads the environment variables of pods of Azure IoT Operations:
    ///
    /// | variable | default | meaning |
    /// |---|---|---|
    /// | `AIO_BROKER_HOSTNAME` | required | host name or address; several, as for [`add_address`](Self::add_address), with `,` between them |
    /// | `AIO_BROKER_TCP_PORT` | `8883` | port of each of them |
    /// | `AIO_MQTT_USE_TLS` | `true` | whether the connection is TLS |
    /// | `AIO_MQTT_CLIENT_ID` | random | client id |
    /// | `AIO_MQTT_CLEAN_START` | `false` | whether the first connection ends an older session |
    /// | `AIO_MQTT_KEEP_ALIVE` | `60` | seconds; 0 disables it |
    /// | `AIO_MQTT_SESSION_EXPIRY` | `3600` | seconds |
    /// | `AIO_MQTT_USERNAME`, `AIO_MQTT_PASSWORD_FILE` | none | credentials |
    /// | `AIO_SAT_FILE` | none | service account token; excludes the previous two |
    /// | `AIO_TLS_CA_FILE` | the system's authorities | trusted authorities |
    /// | `AIO_TLS_CERT_FILE`, `AIO_TLS_KEY_FILE` | none | client certificate and its key |
    /// | `AIO_TLS_KEY_PASSWORD_FILE` | none | password of the key |
    ///
    /// A variable with an empty value counts as absent. The `AIO_TLS_` variables apply only while TLS is on; otherwise a
    /// warning is logged. The files are read at each connect, because they may be replaced at any time.
    ///
    /// Without `AIO_MQTT_CLIENT_ID`, no client could resume the session, so `AIO_MQTT_CLEAN_START` has no effect; see
    /// [`clean_start`](Self::clean_start).
    ///
    /// # Errors
    /// Returns [`ErrorKind::InvalidSettings`], which names the variable and the problem with its value.
    pub fn from_environment() -> Result<Self, Error> {
        from_lookup(|name| env::var_os(name))
    }
}

fn from_lookup(lookup: impl Fn(&str) -> Option<OsString>) -> Result<Settings, Error> {
    let environment = EnvironmentReader { lookup };
    let hosts = environment
        .text(HOST_NAME)?
        .ok_or_else(|| invalid(format!("`{HOST_NAME}` is not set")))?;
    let port = environment.parsed(TCP_PORT, parsers::port)?;
    let port = port.unwrap_or(DEFAULT_PORT);
    let tls = environment
        .parsed(USE_TLS, parsers::boolean)?
        .unwrap_or(true);
    let mut hosts = hosts.split(',');
    let first = Settings::new(hosts.next().unwrap_or_default(), port);
    let mut settings = hosts.fold(first, |settings, host| settings.add_address(host, port));
    settings = settings.tls(tls).clean_start(false);
    if let Some(client_id) = environment.text(CLIENT_ID)? {
        settings = settings.client_id(client_id);
    }
    if let Some(clean_start) = environment.parsed(CLEAN_START, parsers::boolean)? {
        settings = settings.clean_start(clean_start);
    }
    if let Some(interval) = environment.parsed(KEEP_ALIVE, parsers::keep_alive)? {
        settings = settings.keep_alive(interval);
    }
    if let Some(expiry) = environment.parsed(SESSION_EXPIRY, parsers::session_expiry)? {
        settings = settings.session_expiry(expiry);
    }
    settings = environment.credentials(settings)?;
    if tls {
        settings = environment.tls_files(settings)?;
    } else {
        environment.warn_of_ignored_tls_files();
    }
    Ok(settings)
}

struct EnvironmentReader<F> {
    lookup: F,
}

impl<F: Fn(&str) -> Option<OsString>> EnvironmentReader<F> {
    fn credentials(&self, mut settings: Settings) -> Result<Settings, Error> {
        let user_name = self.text(USER_NAME)?;
        let password_file = self.path(PASSWORD_FILE);
        let sat_file = self.path(SAT_FILE);
        if sat_file.is_some() {
            let other = match (&user_name, &password_file) {
                (Some(_), _) => Some(USER_NAME),
                (None, Some(_)) => Some(PASSWORD_FILE),
                (None, None) => None,
            };
            if let Some(other) = other {
                return Err(invalid(format!(
                    "`{SAT_FILE}` and `{other}` are both set; a client authenticates in one of these ways"
                )));
            }
        }
        settings.credentials.user_name = user_name;
        settings.credentials.password_file = password_file;
        settings.credentials.sat_file = sat_file;
        Ok(settings)
    }

    fn tls_files(&self, mut settings: Settings) -> Result<Settings, Error> {
        let tls = &mut settings.tls;
        tls.ca_file = self.path(CA_FILE);
        tls.cert_file = self.path(CERT_FILE);
        tls.key_file = self.path(KEY_FILE);
        tls.key_password_file = self.path(KEY_PASSWORD_FILE);
        let lacks = |given, needed| Err(invalid(format!("`{given}` is set and `{needed}` is not")));
        match (&tls.cert_file, &tls.key_file) {
            (Some(_), None) => lacks(CERT_FILE, KEY_FILE),
            (None, Some(_)) => lacks(KEY_FILE, CERT_FILE),
            (None, None) if tls.key_password_file.is_some() => lacks(KEY_PASSWORD_FILE, KEY_FILE),
            _ => Ok(settings),
        }
    }

    fn warn_of_ignored_tls_files(&self) {
        let ignored: Vec<_> = [CA_FILE, CERT_FILE, KEY_FILE, KEY_PASSWORD_FILE]
            .into_iter()
            .filter(|name| self.path(name).is_some())
            .collect();
        if !ignored.is_empty() {
            tracing::warn!(
                "{} do not count, because `{USE_TLS}` is `false`: the connection does not use TLS",
                ignored.join(", ")
            );
        }
    }

    fn path(&self, name: &str) -> Option<PathBuf> {
        (self.lookup)(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    }

    fn text(&self, name: &str) -> Result<Option<String>, Error> {
        (self.lookup)(name)
            .filter(|value| !value.is_empty())
            .map(OsString::into_string)
            .transpose()
            .map_err(|_| invalid(format!("the value of `{name}` is not UTF-8")))
    }

    fn parsed<T>(
        &self,
        name: &str,
        parse: fn(&str) -> Result<T, &'static str>,
    ) -> Result<Option<T>, Error> {
        let Some(value) = self.text(name)? else {
            return Ok(None);
        };
        match parse(&value) {
            Ok(parsed) => Ok(Some(parsed)),
            Err(problem) => {
                let value = value.escape_debug();
                Err(invalid(format!("`{name}` is `{value}`, {problem}")))
            }
        }
    }
}

fn invalid(reason: impl Into<String>) -> Error {
    Error::new(
        ErrorKind::InvalidSettings,
        Outcome::NotDone,
        "reading the settings from the environment",
        reason,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::log_capture::capture_log;
    use crate::settings::{Endpoint, TlsSettings};
    use std::path::Path;

    fn read<const N: usize>(variables: [(&str, &str); N]) -> Result<Settings, String> {
        let lookup = |name: &str| {
            let (_, value) = variables.iter().find(|(known, _)| *known == name)?;
            Some(OsString::from(value))
        };
        from_lookup(lookup).map_err(|error| {
            assert_eq!(error.kind(), ErrorKind::InvalidSettings);
            error.to_string()
        })
    }

    #[test]
    fn only_the_host_name_is_required() {
        let settings = read([("AIO_BROKER_HOSTNAME", "aio-broker")]).unwrap();
        let endpoint = Endpoint::Tcp {
            host: "aio-broker".to_owned(),
            port: 8883,
        };
        assert_eq!(settings.endpoints, [endpoint]);
        assert!(settings.tls_enabled);
        assert_eq!(settings.client_id, None);
        assert!(!settings.clean_start);
        assert!(
            settings.has_own_session(),
            "nobody could continue a session under a random name"
        );
        assert_eq!(settings.keep_alive_s, 60);
        assert_eq!(settings.session_expiry_s, 3600);
        assert_eq!(
            format!("{:?}", settings.tls),
            format!("{:?}", TlsSettings::default())
        );
        assert!(!settings.credentials.has_files());
        settings.check().unwrap();
    }

    #[test]
    fn several_hosts_have_one_port() {
        let settings = read([
            ("AIO_BROKER_HOSTNAME", "one,10.0.0.1,::1"),
            ("AIO_BROKER_TCP_PORT", "1"),
        ])
        .unwrap();
        assert_eq!(settings.address(), "one:1,10.0.0.1:1,[::1]:1");
        settings.check().unwrap();
        let lacking = read([("AIO_BROKER_HOSTNAME", "one,")]).unwrap();
        let error = lacking.check().unwrap_err().to_string();
        assert!(error.contains("the host name is empty"), "{error}");
    }

    #[test]
    fn every_variable_is_applied() {
        let settings = read([
            ("AIO_BROKER_HOSTNAME", "10.0.0.1"),
            ("AIO_BROKER_TCP_PORT", "18883"),
            ("AIO_MQTT_USE_TLS", "True"),
            ("AIO_MQTT_CLIENT_ID", "gateway"),
            ("AIO_MQTT_CLEAN_START", "false"),
            ("AIO_MQTT_KEEP_ALIVE", "0"),
            ("AIO_MQTT_SESSION_EXPIRY", "4294967295"),
            ("AIO_MQTT_USERNAME", "user"),
            ("AIO_MQTT_PASSWORD_FILE", "/password"),
            ("AIO_TLS_CA_FILE", "/ca"),
            ("AIO_TLS_CERT_FILE", "/cert"),
            ("AIO_TLS_KEY_FILE", "/key"),
            ("AIO_TLS_KEY_PASSWORD_FILE", "/key-password"),
        ])
        .unwrap();
        assert_eq!(settings.address(), "10.0.0.1:18883");
        assert!(settings.tls_enabled && !settings.has_own_session());
        assert_eq!(settings.client_id.as_deref(), Some("gateway"));
        assert_eq!(settings.keep_alive_s, 0);
        assert_eq!(settings.session_expiry_s, u32::MAX);
        let credentials = &settings.credentials;
        assert_eq!(credentials.user_name.as_deref(), Some("user"));
        assert_eq!(
            credentials.password_file.as_deref(),
            Some(Path::new("/password"))
        );
        let tls = &settings.tls;
        assert_eq!(tls.ca_file.as_deref(), Some(Path::new("/ca")));
        assert_eq!(tls.cert_file.as_deref(), Some(Path::new("/cert")));
        assert_eq!(tls.key_file.as_deref(), Some(Path::new("/key")));
        assert_eq!(
            tls.key_password_file.as_deref(),
            Some(Path::new("/key-password"))
        );
        settings.check().unwrap();

        let settings = read([("AIO_BROKER_HOSTNAME", "host"), ("AIO_SAT_FILE", "/token")]);
        let sat_file = settings.unwrap().credentials.sat_file;
        assert_eq!(sat_file.as_deref(), Some(Path::new("/token")));
    }

    #[test]
    fn clean_start_can_be_requested() {
        let settings = read([
            ("AIO_BROKER_HOSTNAME", "host"),
            ("AIO_MQTT_CLIENT_ID", "gateway"),
            ("AIO_MQTT_CLEAN_START", "true"),
        ]);
        assert!(settings.unwrap().has_own_session());
    }

    #[test]
    fn empty_variables_count_as_absent() {
        let settings = read([
            ("AIO_BROKER_HOSTNAME", "host"),
            ("AIO_BROKER_TCP_PORT", ""),
            ("AIO_MQTT_USE_TLS", ""),
            ("AIO_MQTT_CLIENT_ID", ""),
            ("AIO_MQTT_USERNAME", ""),
            ("AIO_SAT_FILE", "/token"),
            ("AIO_TLS_CERT_FILE", ""),
        ])
        .unwrap();
        assert_eq!(settings.address(), "host:8883");
        assert_eq!(settings.client_id, None);
        settings.check().unwrap();
    }

    #[test]
    fn tls_files_are_ignored_without_tls() {
        let host = ("AIO_BROKER_HOSTNAME", "host");
        let plain = ("AIO_MQTT_USE_TLS", "false");
        let ca_file = ("AIO_TLS_CA_FILE", "/ca");
        let key_file = ("AIO_TLS_KEY_FILE", "/key");
        let logged = capture_log(|| {
            let settings = read([host, plain, ca_file, key_file]).unwrap();
            assert!(!settings.tls_enabled);
            settings.check().unwrap();
        });
        let ignored = "AIO_TLS_CA_FILE, AIO_TLS_KEY_FILE do not count";
        assert!(
            logged.contains("WARN") && logged.contains(ignored),
            "{logged}"
        );
        let logged = capture_log(|| {
            read([host, plain]).unwrap();
            read([host, ca_file]).unwrap();
        });
        assert_eq!(logged, "");
    }

    #[test]
    fn errors_name_the_variable() {
        let host = ("AIO_BROKER_HOSTNAME", "host");
        let user = ("AIO_MQTT_USERNAME", "user");
        let password = ("AIO_MQTT_PASSWORD_FILE", "/password");
        let sat = ("AIO_SAT_FILE", "/token");
        let error = |result: Result<Settings, String>| {
            let text = result.unwrap_err();
            let text = text.strip_prefix("reading the settings from the environment: ");
            text.unwrap().to_owned()
        };
        assert_eq!(error(read([])), "`AIO_BROKER_HOSTNAME` is not set");
        let empty = ("AIO_BROKER_HOSTNAME", "");
        assert_eq!(error(read([empty])), "`AIO_BROKER_HOSTNAME` is not set");
        for (name, value, problem) in [
            (
                "AIO_BROKER_TCP_PORT",
                "0",
                "which is not a port from 1 to 65535",
            ),
            (
                "AIO_BROKER_TCP_PORT",
                "65536",
                "which is not a port from 1 to 65535",
            ),
            (
                "AIO_BROKER_TCP_PORT",
                "mqtts",
                "which is not a port from 1 to 65535",
            ),
            (
                "AIO_MQTT_USE_TLS",
                "yes",
                "which is neither `true` nor `false`",
            ),
            (
                "AIO_MQTT_CLEAN_START",
                "1",
                "which is neither `true` nor `false`",
            ),
            (
                "AIO_MQTT_KEEP_ALIVE",
                "65536",
                "which is not a number of seconds from 0 to 65535",
            ),
            (
                "AIO_MQTT_KEEP_ALIVE",
                "60s",
                "which is not a number of seconds from 0 to 65535",
            ),
            (
                "AIO_MQTT_SESSION_EXPIRY",
                "-1",
                "which is not a number of seconds from 0 to 4294967295",
            ),
        ] {
            let text = error(read([host, (name, value)]));
            assert_eq!(text, format!("`{name}` is `{value}`, {problem}"));
        }
        for (one, other) in [(sat, user), (sat, password)] {
            let text = error(read([host, one, other]));
            let both = format!("`AIO_SAT_FILE` and `{}` are both set;", other.0);
            assert!(text.starts_with(&both), "{text}");
        }
        for (given, needed) in [
            ("AIO_TLS_CERT_FILE", "AIO_TLS_KEY_FILE"),
            ("AIO_TLS_KEY_FILE", "AIO_TLS_CERT_FILE"),
            ("AIO_TLS_KEY_PASSWORD_FILE", "AIO_TLS_KEY_FILE"),
        ] {
            let text = error(read([host, (given, "/file")]));
            assert_eq!(text, format!("`{given}` is set and `{needed}` is not"));
        }
    }

    #[cfg(unix)]
    #[test]
    fn values_that_are_not_utf_8_are_paths_or_errors() {
        use std::os::unix::ffi::OsStringExt;
        let bytes = || OsString::from_vec(b"/\xFF".to_vec());
        let host = |name: &str| (name == "AIO_BROKER_HOSTNAME").then(|| OsString::from("host"));
        let settings =
            from_lookup(|name| host(name).or_else(|| (name == CA_FILE).then(bytes))).unwrap();
        assert_eq!(settings.tls.ca_file.unwrap().into_os_string(), bytes());
        let error =
            from_lookup(|name| host(name).or_else(|| (name == CLIENT_ID).then(bytes))).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("`AIO_MQTT_CLIENT_ID` is not UTF-8"),
            "{error}"
        );
    }
}
