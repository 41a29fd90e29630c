//! Options of the HTTP port for operators.
use super::{AdminConfig, MetricNames, Token};
use crate::config_error::ConfigError;
use crate::http_address::HttpAddress;
use clap::Args;
use std::path::PathBuf;

/// Default address of `--http` without a value.
const DEFAULT: &str = "http://127.0.0.1:9883";

/// The HTTP port for those who look after the server.
#[derive(Debug, Args)]
pub(super) struct AdminOptions {
    /// Serve metrics, health and a web page over HTTP, without a URL on http://127.0.0.1:9883. An address that other machines can
    /// reach needs --http-token-file
    #[arg(long, value_name = "URL", num_args = 0..=1, default_missing_value = DEFAULT)]
    #[allow(clippy::doc_markdown, reason = "help is plain text")]
    http: Option<HttpAddress>,

    /// File with the token that changes over HTTP need, and all requests to an address that other machines can reach
    #[arg(long, value_name = "FILE")]
    http_token_file: Option<PathBuf>,

    /// Additional host name of the HTTP port, besides its address and localhost; repeatable
    #[arg(long, value_name = "NAME")]
    http_host: Vec<String>,

    /// Names of the metrics
    #[arg(long, value_name = "NAMES", value_enum, default_value_t)]
    metrics_names: MetricNames,

    /// Label `namespace` of metrics with `deployed` names
    #[arg(long, value_name = "NAME", default_value = "default")]
    metrics_namespace: String,

    /// Label `backend_chain` of metrics with `deployed` names
    #[arg(long, value_name = "NAME", default_value = "0")]
    metrics_backend_chain: String,
}

impl AdminOptions {
    /// Reads the token, and returns the configuration; `None` without an HTTP port.
    pub(super) fn into_config(self) -> Result<Option<AdminConfig>, ConfigError> {
        let Some(address) = self.http else {
            return if self.http_token_file.is_some() || !self.http_host.is_empty() {
                Err(ConfigError::Options(
                    "--http-token-file and --http-host need --http".into(),
                ))
            } else {
                Ok(None)
            };
        };
        let token = self
            .http_token_file
            .as_deref()
            .map(Token::read)
            .transpose()?;
        let mut config = AdminConfig::new(address, token)?;
        config.hosts = self.http_host;
        config.names = self.metrics_names;
        config.namespace = self.metrics_namespace;
        config.backend_chain = self.metrics_backend_chain;
        Ok(Some(config))
    }
}
