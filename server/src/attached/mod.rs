//! The connection to an existing broker: its address, and the credentials of this server.
//!
//! The protocol on it is in [`hub::broker`](statestored_broker::hub), and the transfer of its bytes in the driver.
mod backoff;
mod broker_address;
mod transport;

pub(crate) use backoff::Backoff;
pub use broker_address::BrokerAddress;
pub(crate) use transport::{Connector, Dialer, Transport};

use crate::access_files::AccessFileError;
use statestored_broker::hub::{BrokerConfig, BrokerError};
use statestored_listeners::TlsError;
use std::path::PathBuf;

/// A broker, and the credentials and terms of this server as its client.
#[derive(Debug, Clone)]
pub struct AttachConfig {
    /// Address of the broker.
    pub address: BrokerAddress,
    /// Terms agreed on with the operators of the broker.
    pub terms: BrokerConfig,
    /// User name at the broker, and the file with its password.
    pub user: Option<(String, PathBuf)>,
    /// Authorities that sign the broker's certificate, in PEM; needed for `mqtts`.
    pub ca: Option<PathBuf>,
    /// Certificate that this server shows, and its private key, in PEM.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// File with the key by which the broker signs the sender of a request, if it does.
    pub identity_key: Option<PathBuf>,
}

/// Reason why there is no connection to the broker.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AttachError {
    /// An error of the network, or of TLS.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// An error of the files of TLS.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// An error of the file with the password.
    #[error(transparent)]
    Password(#[from] AccessFileError),
    /// A file that can be read but never ends: a pipe, or a file on a network that does not respond.
    #[error("cannot read {0}: it has no end, or its file system does not answer")]
    StalledFile(String),
    /// The file of the identity key has no valid key.
    #[error(
        "{} must have the key of the broker's plugin, at least 32 bytes: openssl rand -hex 32",
        .0.display()
    )]
    InvalidKey(PathBuf),
    /// A refusal or a violation of the protocol by the broker, a lost probe, or too many waiting messages of the group.
    #[error(transparent)]
    Session(#[from] BrokerError),
    /// The broker closed the connection.
    #[error("the broker closed the connection")]
    ConnectionClosed,
    /// No response within the time limit.
    #[error("the broker does not answer in time")]
    Timeout,
}
