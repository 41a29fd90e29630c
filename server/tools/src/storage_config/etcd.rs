//! Options of an etcd that stores the entries.
use crate::config_error::ConfigError;
use clap::Args;
use statestored_common::duration::parse_seconds;
use statestored_link::{EngineTls, EtcdConfig};
use std::path::PathBuf;
use std::time::Duration;

/// Default prefix of keys.
const PREFIX: &str = "statestore";

/// Default time for which former values are kept.
const HISTORY: Duration = Duration::from_secs(3_600);

/// Options of the connections to etcd.
#[derive(Debug, Args)]
#[allow(
    clippy::struct_field_names,
    reason = "they are the names of the options"
)]
pub struct EtcdOptions {
    /// File with the certificate authorities of etcd, in PEM, for etcds [default: those of the system]
    #[arg(long, value_name = "FILE")]
    etcd_ca: Option<PathBuf>,

    /// File with the certificate of this server for etcd, in PEM, for etcds
    #[arg(long, value_name = "FILE", requires = "etcd_key")]
    etcd_cert: Option<PathBuf>,

    /// File with the private key of --etcd-cert, in PEM
    #[arg(long, value_name = "FILE", requires = "etcd_cert")]
    etcd_key: Option<PathBuf>,

    /// User name at etcd; with --etcd-password-file
    #[arg(long, value_name = "NAME", requires = "etcd_password_file")]
    etcd_user: Option<String>,

    /// Time for which etcd keeps former values, at most twice as long, such as 2h; 0: the server never compacts etcd [default: 3600]
    #[arg(long, value_name = "DURATION", value_parser = parse_seconds::<0, { u64::MAX }>)]
    etcd_history: Option<u64>,

    /// File with the password of --etcd-user
    #[arg(long, value_name = "FILE", requires = "etcd_user")]
    etcd_password_file: Option<PathBuf>,
}

/// Settings in the URL of an etcd.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EtcdUrl {
    members: Vec<String>,
    prefix: String,
    has_tls: bool,
}

/// Parses `etcd://HOST:PORT[,HOST:PORT…][/PREFIX]`, or `etcds`; `None` for another scheme.
pub(super) fn parse(text: &str) -> Option<Result<EtcdUrl, String>> {
    let (scheme, place) = text.split_once("://")?;
    let has_tls = match scheme {
        "etcd" => false,
        "etcds" => true,
        _ => return None,
    };
    let (members, prefix) = place.split_once('/').unwrap_or((place, PREFIX));
    let members = members.split(',').map(|member| {
        let (host, port) = member.rsplit_once(':')?;
        let is_port = port.parse::<u16>().is_ok_and(|port| port > 0);
        // User names and passwords have options of their own, so that no list of processes shows a password.
        (!host.is_empty() && !host.contains('@') && is_port).then(|| member.to_owned())
    });
    let Some(members) = members.collect() else {
        let expected = format!("expected {scheme}://HOST:PORT[,HOST:PORT…][/PREFIX]");
        return Some(Err(expected));
    };
    Some(Ok(EtcdUrl {
        members,
        prefix: if prefix.is_empty() { PREFIX } else { prefix }.to_owned(),
        has_tls,
    }))
}

impl EtcdOptions {
    /// Combines the options with the settings of the URL, if it is one of etcd.
    pub(super) fn into_config(
        self,
        url: Option<EtcdUrl>,
    ) -> Result<Option<EtcdConfig>, ConfigError> {
        let wrong = |problem: &str| Err(ConfigError::Options(problem.into()));
        let has_files = self.etcd_ca.is_some() || self.etcd_cert.is_some();
        let Some(url) = url else {
            if has_files || self.etcd_user.is_some() {
                return wrong(
                    "options that begin with --etcd are for --storage etcd://… and etcds://…",
                );
            }
            return Ok(None);
        };
        if has_files && !url.has_tls {
            return wrong("certificates need TLS: write etcds:// in the place of etcd://");
        }
        let scheme = if url.has_tls { "https" } else { "http" };
        let members = url.members.iter();
        Ok(Some(EtcdConfig {
            endpoints: members
                .map(|member| format!("{scheme}://{member}"))
                .collect(),
            history: Some(self.etcd_history.map_or(HISTORY, Duration::from_secs))
                .filter(|history| !history.is_zero()),
            prefix: url.prefix,
            tls: url.has_tls.then_some(EngineTls {
                ca: self.etcd_ca,
                identity: self.etcd_cert.zip(self.etcd_key),
            }),
            user: self.etcd_user.zip(self.etcd_password_file),
        }))
    }
}
