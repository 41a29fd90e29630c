//! Options of the broker to which the server attaches.
use crate::attached::{AttachConfig, BrokerAddress, Transport};
use crate::config_error::ConfigError;
use clap::Args;
use statestored_broker::hub::BrokerConfig;
use statestored_common::duration::parse_seconds;
use std::path::PathBuf;

const ATTACH: &str = "Serve the clients of this broker: mqtt://HOST[:PORT], or mqtts for TLS. Without --listen, the server then has \
                      no listener";
const POLICY: &str = "--policy-file needs verified clients, and the server cannot verify the clients of a broker: have the broker sign \
                      requests (--attach-identity, docs/attached.md), or omit --policy-file and restrict access by the \
                      broker's own rules (ACLs)";

/// Maximum time after which watches end, in seconds.
const MAX_WATCH_LEASE_S: u64 = 4_294_967_295;

/// The broker behind which the server is.
#[derive(Debug, Args)]
#[allow(
    clippy::struct_field_names,
    reason = "they are the names of the options"
)]
pub(super) struct AttachOptions {
    /// Serve the clients of this broker
    #[arg(long, help = ATTACH, value_name = "URL")]
    attach: Option<BrokerAddress>,

    /// Client id of this server at the broker [default: statestored- and a random number]
    #[arg(long, value_name = "ID", requires = "attach", value_parser = client_id)]
    attach_client_id: Option<String>,

    /// Share the requests with all servers of this group; needs a shared storage
    #[arg(long, value_name = "GROUP", requires = "attach", value_parser = group)]
    attach_share: Option<String>,

    /// Time without a request after which the watches of a client end, such as 60s; 0: never
    #[arg(long, value_name = "DURATION", requires = "attach", default_value_t = 0,
          value_parser = parse_seconds::<0, MAX_WATCH_LEASE_S>)]
    attach_watch_lease: u64,

    /// Execute only requests whose sender the broker's plugin has signed in this user property
    #[arg(long, value_name = "PROPERTY", requires_all = ["attach", "attach_identity_key"], value_parser = property)]
    attach_identity: Option<String>,

    /// File with the key of the broker's plugin, for --attach-identity
    #[arg(long, value_name = "FILE", requires = "attach_identity")]
    attach_identity_key: Option<PathBuf>,

    /// User name at the broker; with --attach-password-file
    #[arg(long, value_name = "NAME", requires_all = ["attach", "attach_password_file"])]
    attach_user: Option<String>,

    /// File with the password of --attach-user
    #[arg(long, value_name = "FILE", requires = "attach_user")]
    attach_password_file: Option<PathBuf>,

    /// File with the certificate authorities of the broker, in PEM, for mqtts
    #[arg(long, value_name = "FILE", requires = "attach")]
    attach_ca: Option<PathBuf>,

    /// File with the certificate of this server for the broker, in PEM, for mqtts
    #[arg(long, value_name = "FILE", requires_all = ["attach", "attach_key"])]
    attach_cert: Option<PathBuf>,

    /// File with the private key of --attach-cert, in PEM
    #[arg(long, value_name = "FILE", requires = "attach_cert")]
    attach_key: Option<PathBuf>,
}

fn client_id(text: &str) -> Result<String, &'static str> {
    match text {
        "" => Err("a client id has at least one character"),
        text if text.len() > 65_535 || text.contains(char::is_control) => {
            Err("a client id has at most 65535 bytes, and no control characters")
        }
        text => Ok(text.to_owned()),
    }
}

fn group(text: &str) -> Result<String, &'static str> {
    if text.is_empty() || text.contains(['/', '+', '#']) || text.contains(char::is_control) {
        return Err("a name without /, + and #");
    }
    Ok(text.to_owned())
}

fn property(text: &str) -> Result<String, &'static str> {
    if text.is_empty() || text.len() > 1024 || text.contains(char::is_control) {
        return Err("a user property has a name of 1 to 1024 bytes without control characters");
    }
    if text.starts_with("__") {
        return Err("names that begin with __ are reserved for the protocol of the store");
    }
    Ok(text.to_owned())
}

impl AttachOptions {
    /// Converts the options; `has_policy` if there is a policy.
    pub(super) fn into_config(self, has_policy: bool) -> Result<Option<AttachConfig>, ConfigError> {
        let wrong = |problem: &str| Err(ConfigError::Options(problem.into()));
        let Some(address) = self.attach else {
            return Ok(None);
        };
        if has_policy && self.attach_identity.is_none() {
            return wrong(POLICY);
        }
        if address.has_tls() && self.attach_ca.is_none() {
            return wrong(
                "mqtts needs --attach-ca, the file of the trusted certificate authorities",
            );
        }
        if !address.has_tls() && (self.attach_ca.is_some() || self.attach_cert.is_some()) {
            return wrong("certificates need TLS: use mqtts:// instead of mqtt://");
        }
        let client_id = match self.attach_client_id {
            Some(client_id) => client_id,
            None => random_client_id()?,
        };
        let lease_ms = self.attach_watch_lease * 1000;
        let config = AttachConfig {
            address,
            terms: BrokerConfig {
                client_id,
                share_name: self.attach_share,
                watch_lease_ms: (lease_ms > 0).then_some(lease_ms),
                identity: self.attach_identity,
            },
            user: self.attach_user.zip(self.attach_password_file),
            ca: self.attach_ca,
            identity: self.attach_cert.zip(self.attach_key),
            identity_key: self.attach_identity_key,
        };
        match Transport::check(&config) {
            Ok(()) => Ok(Some(config)),
            Err(error) => wrong(&error.to_string()),
        }
    }
}

fn random_client_id() -> Result<String, ConfigError> {
    let mut random = [0; 8];
    getrandom::fill(&mut random)
        .map_err(|error| ConfigError::Options(format!("no random numbers: {error}")))?;
    Ok(format!("statestored-{:016x}", u64::from_ne_bytes(random)))
}
