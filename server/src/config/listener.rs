//! Options of the listeners.
use crate::config_error::ConfigError;
use clap::Args;
use statestored_listeners::{
    ClientCertificates, ListenAddress, ListenerConfig, Scheme, Subnet, Tls, TlsFiles,
};
use std::path::PathBuf;

const LISTEN: &str = "Address to listen on: tcp://HOST:PORT, the same with tls, ws or wss, or unix:///PATH; repeatable. Port 0 \
                      chooses a free port [default: tcp://127.0.0.1:1883, none with --attach]";
const ORIGIN: &str =
    "Origin of web pages that may connect with ws and wss, such as https://example.org; repeatable";

const PROXY: &str = "Address or network of a proxy that sends PROXY protocol headers (version 1 or 2) with the addresses of \
                     clients, such as 10.0.0.7 or 10.0.0.0/24; repeatable";

/// Options of the listeners.
#[derive(Debug, Args)]
pub(super) struct ListenerOptions {
    /// Address to listen on; repeatable. Port 0 chooses a free port
    #[arg(long, help = LISTEN, value_name = "URL")]
    listen: Vec<ListenAddress>,

    /// Allow clients of a network to connect without credentials and to read and write all keys
    #[arg(long)]
    allow_anonymous: bool,

    /// File with the server's certificate and its intermediate certificates, in PEM, for tls and wss
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,

    /// File with the private key of --tls-cert, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,

    /// File with the certificate authorities of clients, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_client_ca: Option<PathBuf>,

    /// Whether the server requests certificates of clients [default: required with --tls-client-ca]
    #[arg(long, value_name = "WHETHER", requires = "tls_client_ca")]
    tls_client_cert: Option<ClientCertificates>,

    /// File with certificate revocation lists (CRLs) of clients, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_client_ca")]
    tls_client_crl: Option<PathBuf>,

    /// Permissions of Unix sockets, in octal digits
    #[arg(long, value_name = "MODE", default_value = "0660", value_parser = mode)]
    unix_mode: u32,

    /// Origin of web pages that may connect
    #[arg(long, help = ORIGIN, value_name = "ORIGIN", value_parser = origin)]
    ws_allow_origin: Vec<String>,

    /// Address or network of a proxy that begins each connection with a PROXY protocol header (version 1 or 2)
    #[arg(long, help = PROXY, value_name = "NETWORK")]
    trusted_proxy: Vec<Subnet>,
}

fn origin(text: &str) -> Result<String, &'static str> {
    let host = text.split_once("://").map(|(_, host)| host);
    match host {
        Some(host) if !host.is_empty() && !host.contains(['/', ' ', '@', '?', '#']) => {
            Ok(text.to_ascii_lowercase())
        }
        _ => Err("expected SCHEME://HOST or SCHEME://HOST:PORT, such as https://example.org"),
    }
}

fn mode(text: &str) -> Result<u32, &'static str> {
    match u32::from_str_radix(text, 8) {
        Ok(mode @ 0..=0o777) => Ok(mode),
        _ => Err("expected permissions in octal digits, such as 0660"),
    }
}

impl ListenerOptions {
    /// Returns whether no certificate of a client is requested although authorities of clients are known.
    pub(super) fn disables_client_certificates(&self) -> bool {
        self.tls_client_cert == Some(ClientCertificates::Off)
    }

    /// Reads the certificates, and returns the settings.
    pub(super) fn into_config(
        mut self,
        is_attached: bool,
    ) -> Result<(Vec<ListenAddress>, ListenerConfig), ConfigError> {
        if self.listen.is_empty() && !is_attached {
            self.listen
                .push(ListenAddress::loopback_with_default_port());
        }
        let has_tls = self
            .listen
            .iter()
            .filter_map(ListenAddress::scheme)
            .any(Scheme::has_tls);
        let tls = match (self.tls_cert, self.tls_key) {
            (Some(certificate), Some(key)) => {
                let client_certificates = match (&self.tls_client_ca, self.tls_client_cert) {
                    (None, _) => ClientCertificates::Off,
                    (Some(_), requested) => requested.unwrap_or(ClientCertificates::Required),
                };
                Some(Tls::read(TlsFiles {
                    certificate,
                    key,
                    client_ca: self.tls_client_ca,
                    client_certificates,
                    client_crl: self.tls_client_crl,
                })?)
            }
            _ if has_tls => {
                let problem = "tls:// and wss:// need a certificate: name files with --tls-cert and --tls-key";
                return Err(ConfigError::Options(problem.into()));
            }
            _ => None,
        };
        let config = ListenerConfig {
            tls,
            unix_mode: self.unix_mode,
            web_origins: self.ws_allow_origin,
            trusted_proxies: self.trusted_proxy,
            allows_anonymous: self.allow_anonymous,
        };
        Ok((self.listen, config))
    }
}
