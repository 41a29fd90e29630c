//! Options of the HTTP port for operators.
use super::http_tls::HttpTlsOptions;
use super::{AdminConfig, HttpTokens, MetricNames, Token};
use crate::config_error::ConfigError;
use clap::Args;
use statestored_admin::HttpAddress;
use std::path::{Path, PathBuf};

/// Default address of `--http` without a value.
const DEFAULT: &str = "http://127.0.0.1:9883";

/// The HTTP port for those who look after the server.
#[derive(Debug, Args)]
pub(super) struct AdminOptions {
    /// Serve metrics, health and a web page over HTTP, without a URL on http://127.0.0.1:9883. An address that other machines can
    /// reach needs a token. With https://HOST:PORT, it needs --http-tls-cert
    #[arg(long, value_name = "URL", num_args = 0..=1, default_missing_value = DEFAULT)]
    #[allow(clippy::doc_markdown, reason = "help is plain text")]
    http: Option<HttpAddress>,

    /// File with the token that changes over HTTP need, and all requests to an address that other machines can reach
    #[arg(long, value_name = "FILE")]
    http_token_file: Option<PathBuf>,

    /// File with another token, which allows all requests over HTTP that change nothing, including those for keys and values
    #[arg(long, value_name = "FILE")]
    http_read_token_file: Option<PathBuf>,

    /// File with another token, which allows requests for metrics, health and status over HTTP only
    #[arg(long, value_name = "FILE")]
    http_metrics_token_file: Option<PathBuf>,

    #[command(flatten)]
    tls: HttpTlsOptions,

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
    /// Reads the tokens and certificates, and returns the configuration; `None` without an HTTP port.
    pub(super) fn into_config(self) -> Result<Option<AdminConfig>, ConfigError> {
        let Some(address) = self.http else {
            let token_files = [
                &self.http_token_file,
                &self.http_read_token_file,
                &self.http_metrics_token_file,
            ];
            let is_unused = token_files.iter().all(|file| file.is_none())
                && self.http_host.is_empty()
                && self.tls.is_empty();
            return if is_unused {
                Ok(None)
            } else {
                Err(ConfigError::Options(
                    "--http-token-file, --http-read-token-file, --http-metrics-token-file, --http-tls-cert and --http-host need \
                     --http"
                        .into(),
                ))
            };
        };
        let read = |file: Option<&Path>| file.map(Token::read).transpose();
        let tokens = HttpTokens {
            metrics: read(self.http_metrics_token_file.as_deref())?,
            read: read(self.http_read_token_file.as_deref())?,
            operate: read(self.http_token_file.as_deref())?,
        };
        let tls = self.tls.into_tls(&address)?;
        let mut config = AdminConfig::with_tokens(address, tokens)?;
        config.tls = tls;
        config.hosts = self.http_host;
        config.names = self.metrics_names;
        config.namespace = self.metrics_namespace;
        config.backend_chain = self.metrics_backend_chain;
        Ok(Some(config))
    }
}
