//! Options of access: users, certificates, tokens and the policy.
use crate::access_files::{KeyFile, read_policy, read_single_user, read_users};
use crate::config_error::ConfigError;
use clap::Args;
use statestored_access::{Authenticator, CertificateName, MAX_LEEWAY_S, Policy, TokenVerifier};
use statestored_common::duration::parse_seconds;
use std::path::PathBuf;
use std::sync::Arc;

/// Options of users, tokens and the policy.
#[derive(Debug, Args)]
pub(super) struct AccessOptions {
    /// Name of the only user; with --password-file
    #[arg(long, value_name = "NAME", requires = "password_file")]
    user: Option<String>,

    /// File with the password of --user
    #[arg(long, value_name = "FILE", requires = "user")]
    password_file: Option<PathBuf>,

    /// File of users, one per line; `statestored passwd` writes it
    #[arg(long, value_name = "FILE", conflicts_with = "user")]
    users_file: Option<PathBuf>,

    /// File of keys that sign service account tokens (K8S-SAT), a JSON Web Key Set; read again when it changes
    #[arg(
        long,
        value_name = "FILE",
        requires = "jwt_issuer",
        requires = "jwt_audience"
    )]
    jwks_file: Option<PathBuf>,

    /// Issuer of accepted tokens
    #[arg(long, value_name = "URL", requires = "jwks_file")]
    jwt_issuer: Option<String>,

    /// Audience of accepted tokens; repeatable
    #[arg(long, value_name = "NAME", requires = "jwks_file")]
    jwt_audience: Vec<String>,

    /// Maximum difference between the clocks of the issuer and of the server, such as 30s
    #[arg(
        long,
        value_name = "DURATION",
        default_value_t = 10,
        value_parser = parse_seconds::<0, { MAX_LEEWAY_S }>
    )]
    jwt_leeway: u64,

    /// Accept clients by their certificate alone, with this part of it as user name
    #[arg(long, value_name = "PART", requires = "tls_client_ca")]
    tls_user: Option<CertificateName>,

    /// File of authorization rules, in YAML, in the format of `BrokerAuthorization`; requests that no rule allows are rejected
    #[arg(long, value_name = "FILE")]
    policy_file: Option<PathBuf>,
}

impl AccessOptions {
    /// Returns whether there is a policy.
    pub(super) fn has_policy(&self) -> bool {
        self.policy_file.is_some()
    }

    /// Returns whether a certificate alone is accepted.
    pub(super) fn accepts_certificates(&self) -> bool {
        self.tls_user.is_some()
    }

    /// Reads the policy, if there is one.
    pub(super) fn policy(&self) -> Result<Option<Arc<Policy>>, ConfigError> {
        let policy = self.policy_file.as_deref().map(read_policy).transpose()?;
        Ok(policy.map(Arc::new))
    }

    /// Reads the files of users and of keys.
    pub(super) fn into_authenticator(self) -> Result<Authenticator, ConfigError> {
        let mut authenticator = match (self.user, self.password_file, self.users_file) {
            (Some(name), Some(file), _) => read_single_user(&name, &file)?.into(),
            (_, _, Some(file)) => read_users(&file)?.into(),
            _ => Authenticator::anonymous(),
        };
        if let (Some(file), Some(issuer)) = (self.jwks_file, self.jwt_issuer) {
            let keys = KeyFile::read(&file)?;
            let tokens = TokenVerifier::new(keys, &issuer, self.jwt_audience, self.jwt_leeway);
            authenticator = authenticator.with_tokens(tokens);
        }
        Ok(match self.tls_user {
            Some(name) => authenticator.with_certificates(name),
            None => authenticator,
        })
    }
}
