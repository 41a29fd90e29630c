//! Configuration of the HTTP port.
use super::{ActiveTokens, AdminConfigError, HttpAddress, HttpTokens, LogControl, Token};
use crate::audit_log::AuditLog;
use clap::ValueEnum;
use statestored_listeners::Tls;

/// Names of metrics.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum MetricNames {
    /// Names of this server.
    #[default]
    Own,
    /// Names of the state store of Azure IoT Operations, for the metrics that it has.
    Deployed,
    /// Both.
    Both,
}

/// Configuration of the HTTP port.
#[derive(Debug, Clone)]
pub struct AdminConfig {
    pub(crate) address: HttpAddress,
    /// Tokens in force, which the running server shares.
    pub(crate) tokens: ActiveTokens,
    /// Certificate of an `https` address, which the address needs.
    pub tls: Option<Tls>,
    /// Names that `Host` may have, besides the address and `localhost`.
    pub hosts: Vec<String>,
    /// Naming scheme of the metrics.
    pub names: MetricNames,
    /// Value of the label `namespace` in metrics with the deployed store's names.
    pub namespace: String,
    /// Value of the label `backend_chain` in metrics with the deployed store's names.
    pub backend_chain: String,
    /// Filter of the log, if it can be changed over HTTP.
    pub log: Option<LogControl>,
    /// The last lines of the audit trail, if they are shown over HTTP. A program that includes the server adds the
    /// [layer](AuditLog::layer) to the subscriber of its log.
    pub audit: Option<AuditLog>,
}

impl AdminConfig {
    /// Creates the configuration with a token for everything. The token is needed for changes, and for all requests if the address is
    /// no loopback address.
    ///
    /// # Errors
    /// The address is no loopback address, or the name has no address, and there is no token.
    pub fn new(address: HttpAddress, token: Option<Token>) -> Result<Self, AdminConfigError> {
        Self::with_tokens(
            address,
            HttpTokens {
                operate: token,
                ..HttpTokens::default()
            },
        )
    }

    /// Creates the configuration with tokens by role.
    ///
    /// # Errors
    /// Two roles have the same token. Or the address is no loopback address, or the name has no address, and there is no token.
    pub fn with_tokens(address: HttpAddress, tokens: HttpTokens) -> Result<Self, AdminConfigError> {
        tokens.check()?;
        if tokens.is_empty() {
            let addresses = address.resolve().map_err(|error| {
                AdminConfigError::Options(format!("cannot use {address}: {error}"))
            })?;
            if !addresses.iter().all(|address| address.ip().is_loopback()) {
                return Err(AdminConfigError::Options(format!(
                    "{address} can be reached by others: give a token with --http-token-file FILE, \
                     or use an address of this machine, such as http://127.0.0.1:9883"
                )));
            }
        }
        Ok(Self {
            address,
            tokens: ActiveTokens::new(tokens),
            tls: None,
            hosts: Vec::new(),
            names: MetricNames::default(),
            namespace: "default".into(),
            backend_chain: "0".into(),
            log: None,
            audit: None,
        })
    }

    /// Returns the tokens in force.
    pub fn tokens(&self) -> HttpTokens {
        self.tokens.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_non_loopback_address_requires_a_token() {
        let config = |address: &str, token: Option<&str>| {
            let token = token.map(|text| Token::new(text).unwrap());
            AdminConfig::new(address.parse().unwrap(), token)
        };
        let open = config("http://0.0.0.0:0", None).unwrap_err().to_string();
        assert!(open.contains("--http-token-file"), "{open}");
        assert!(config("http://[::]:0", None).is_err());
        assert!(config("http://127.0.0.1:0", None).is_ok());
        assert!(config("http://[::1]:0", None).is_ok());
        assert!(config("http://0.0.0.0:0", Some("0123456789abcdef")).is_ok());
    }
}
