//! Options of the HTTP port for operators.
use super::ConfigError;
use crate::admin::{AdminConfig, HttpAddress, MetricNames, Token};
use clap::Args;
use std::path::PathBuf;

/// Default address of `--http` without a value.
const DEFAULT: &str = "http://127.0.0.1:9883";

/// The HTTP port for those who look after the server.
#[derive(Debug, Args)]
pub(super) struct AdminOptions {
    /// Serve metrics, health and a page for people over HTTP; alone, on http://127.0.0.1:9883. Other addresses than those of
    /// this machine need --http-token-file
    #[arg(long, value_name = "URL", num_args = 0..=1, default_missing_value = DEFAULT)]
    #[allow(clippy::doc_markdown, reason = "help is plain text")]
    http: Option<HttpAddress>,

    /// File that holds the token without which nothing can be changed over HTTP, and, from elsewhere, nothing be read
    #[arg(long, value_name = "FILE")]
    http_token_file: Option<PathBuf>,

    /// Name under which the HTTP port may be asked, besides its address and localhost; repeat it for more than one
    #[arg(long, value_name = "NAME")]
    http_host: Vec<String>,

    /// Names of the metrics: `own`, those of the `deployed` state store, or `both`
    #[arg(long, value_name = "NAMES", value_enum, default_value_t)]
    metrics_names: MetricNames,

    /// What the metrics with names of the deployed state store have as `namespace`
    #[arg(long, value_name = "NAME", default_value = "default")]
    metrics_namespace: String,

    /// What the metrics with names of the deployed state store have as `backend_chain`
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
