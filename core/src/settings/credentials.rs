//! Sources of credentials: a user name and password, or a Kubernetes service account token.
use super::{Endpoint, Settings};
use bytes::Bytes;
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;

/// Sources of the credentials.
#[derive(Clone, Default)]
pub(crate) struct CredentialSources {
    pub(crate) user_name: Option<String>,
    pub(crate) password: Option<Bytes>,
    pub(crate) password_file: Option<PathBuf>,
    pub(crate) sat_file: Option<PathBuf>,
}

impl Settings {
    /// Sets the user name.
    #[must_use]
    pub fn user_name(mut self, user_name: impl Into<String>) -> Self {
        self.credentials.user_name = Some(user_name.into());
        self
    }

    /// Sets the password, which may be any bytes.
    #[must_use]
    pub fn password(mut self, password: impl Into<Bytes>) -> Self {
        self.credentials.password = Some(password.into());
        self
    }

    /// Sets a file that contains the password. The file is read for each connection. One line end at its end is not part of the
    /// password; all other bytes are.
    #[must_use]
    pub fn password_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.credentials.password_file = Some(path.into());
        self
    }

    /// Sets a file that contains a Kubernetes service account token. The client authenticates with the method `K8S-SAT` (MQTT
    /// 5, section 4.12), and with the token, without one line end at its end, as the data. The setting excludes a user name and
    /// a password.
    ///
    /// The file is read for each connection, and watched. When the token changes, the client reauthenticates over the open
    /// connection. On Linux, a change is noticed at once; elsewhere, within 30 seconds.
    ///
    /// The token requires TLS or a Unix domain socket. Over plain TCP the client refuses to connect, unless
    /// [`allow_plaintext_credentials`](Self::allow_plaintext_credentials) is set.
    #[must_use]
    pub fn sat_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.credentials.sat_file = Some(path.into());
        self
    }

    /// Sets whether credentials may be sent over plain TCP, where they can be read on the network (default: no). Without it, a
    /// service account token is rejected there, and a password for another machine is sent with a warning in the log.
    #[must_use]
    pub fn allow_plaintext_credentials(mut self, allow: bool) -> Self {
        self.allow_plaintext_credentials = allow;
        self
    }

    /// Rejects settings that would send a token in plain text.
    pub(super) fn check_secrecy(&self) -> Result<(), &'static str> {
        if self.credentials.sat_file.is_some() && self.unprotected().next().is_some() {
            return Err(
                "the service account token would be sent in plain text, readable for every machine on the way; use TLS \
                 (`mqtts`), or set `allow_plaintext_credentials` if the network can be trusted",
            );
        }
        Ok(())
    }

    /// Logs a warning for a password that would be sent in plain text to another machine.
    pub(crate) fn warn_about_plaintext(&self) {
        if !self.credentials.has_password() {
            return;
        }
        for (endpoint, _) in self.unprotected().filter(|it| !is_local(it.1)) {
            tracing::warn!(
                address = %endpoint,
                "the password is sent in plain text, readable for every machine on the way; use TLS (`mqtts`), or set \
                 `allow_plaintext_credentials` if the network can be trusted"
            );
        }
    }

    /// Returns the brokers, with their hosts, that would receive credentials in plain text, unless that is allowed.
    fn unprotected(&self) -> impl Iterator<Item = (&Endpoint, &str)> {
        let is_allowed = self.tls_enabled || self.allow_plaintext_credentials;
        let hosts = self.endpoints.iter().filter_map(|endpoint| match endpoint {
            Endpoint::Tcp { host, .. } => Some((endpoint, host.as_str())),
            Endpoint::Unix(_) => None,
        });
        hosts.filter(move |_| !is_allowed)
    }
}

/// Returns whether packets to this host stay on the machine.
fn is_local(host: &str) -> bool {
    if let Ok(address) = host.parse::<IpAddr>() {
        return address.to_canonical().is_loopback();
    }
    // RFC 6761, section 6.3.
    let name = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    name == "localhost" || name.ends_with(".localhost")
}

impl CredentialSources {
    /// Checks that the sources do not exclude each other.
    pub(super) fn check(&self) -> Result<(), &'static str> {
        if self.password.is_some() && self.password_file.is_some() {
            return Err("there is a password and a password file; give one of them");
        }
        if self.sat_file.is_some() && (self.user_name.is_some() || self.has_password()) {
            return Err(
                "there is a service account token file and a user name or password; give one of them",
            );
        }
        Ok(())
    }

    fn has_password(&self) -> bool {
        self.password.is_some() || self.password_file.is_some()
    }

    /// Returns whether the credentials are in files.
    pub(crate) fn has_files(&self) -> bool {
        self.password_file.is_some() || self.sat_file.is_some()
    }
}

impl fmt::Debug for CredentialSources {
    /// Omits the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CredentialSources")
            .field("user_name", &self.user_name)
            .field("password", &self.password.is_some())
            .field("password_file", &self.password_file)
            .field("sat_file", &self.sat_file)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::log_capture::capture_log;

    fn warning(settings: &Settings) -> String {
        settings.check().unwrap();
        capture_log(|| settings.warn_about_plaintext())
    }

    #[test]
    fn a_plaintext_password_for_another_machine_is_logged_as_a_warning() {
        for host in ["broker", "10.0.0.1", "fe80::1", "localhost.example.com"] {
            let plain = Settings::new(host, 1883).user_name("user");
            assert_eq!(warning(&plain), "", "there is nothing to be kept secret");
            for secret in [plain.clone().password("JZ"), plain.password_file("/file")] {
                let logged = warning(&secret);
                assert!(logged.contains("WARN") && logged.contains(host), "{logged}");
                assert!(!logged.contains("JZ"), "{logged}");
                assert_eq!(warning(&secret.clone().tls(true)), "");
                assert_eq!(warning(&secret.allow_plaintext_credentials(true)), "");
            }
        }
    }

    #[test]
    fn a_password_on_the_local_machine_is_not_logged() {
        for host in [
            "localhost",
            "Broker.LOCALHOST.",
            "127.0.0.9",
            "::1",
            "::ffff:127.0.0.1",
        ] {
            assert_eq!(warning(&Settings::new(host, 1883).password("JZ")), "");
        }
        assert_eq!(warning(&Settings::unix("/socket").password("JZ")), "");
    }

    #[test]
    fn a_token_is_not_sent_in_plaintext() {
        for host in ["broker", "127.0.0.1"] {
            let plain = Settings::new(host, 1883).sat_file("/token");
            let error = plain.check().unwrap_err().to_string();
            assert!(error.contains("allow_plaintext_credentials"), "{error}");
            plain.clone().tls(true).check().unwrap();
            plain.allow_plaintext_credentials(true).check().unwrap();
        }
        Settings::unix("/socket")
            .sat_file("/token")
            .check()
            .unwrap();
    }
}
