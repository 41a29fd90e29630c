//! TLS 1.2 and 1.3 with rustls.
mod crypto_provider;
#[cfg_attr(not(feature = "encrypted-keys"), path = "no_encrypted.rs")]
mod encrypted_key;
mod failure;
mod identity;
mod pem_source;
mod root_store;
mod socket;

use super::error::TransportError;
use crate::error::ErrorKind;
use crate::settings::{TlsSettings, without_zone};
use failure::Context;
use rustls::ClientConfig;
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::pki_types::ServerName;
use socket::Socket;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{self, Poll, ready};
use tokio::io::AsyncWrite;
use tokio::net::TcpStream;
use tokio_rustls::{TlsConnector, client};

/// Description of the file with the private key, for errors.
const KEY_FILE: &str = "key file";

/// State of one handshake: the certificates and keys are read and checked, but no byte is sent yet.
pub(crate) struct Tls {
    connector: TlsConnector,
    server_name: ServerName<'static>,
    context: Context,
}

impl Tls {
    /// Reads the files. They are read for each connection, and TLS sessions are not resumed, so that a renewed certificate
    /// applies from the next connection on. Blocks.
    pub(crate) fn load(settings: &TlsSettings, host: &str) -> Result<Self, TransportError> {
        let name = settings.server_name.as_deref();
        let name = name.unwrap_or_else(|| without_zone(host));
        let server_name = ServerName::try_from(name.to_owned()).map_err(|_| {
            let reason = format!("`{name}` is neither a host name nor an IP address");
            TransportError::new(ErrorKind::InvalidSettings, reason)
        })?;
        Ok(Self {
            connector: match &settings.config {
                Some(config) => TlsConnector::from(config.clone()),
                None => TlsConnector::from(Arc::new(configuration(settings)?)),
            },
            server_name,
            context: Context {
                server_name: name.to_owned(),
                authorities: settings.authorities().map(pem_source::authorities),
                certificate: settings.certificate().map(pem_source::name),
            },
        })
    }

    /// Performs the handshake over `transport`.
    pub(crate) async fn handshake(self, transport: TcpStream) -> Result<TlsStream, TransportError> {
        let most_in_record = match self.connector.config().max_fragment_size {
            Some(bytes) => bytes.saturating_sub(RECORD_OVERHEAD),
            None => MAX_RECORD_LEN,
        };
        match self
            .connector
            .connect(self.server_name, Socket(transport))
            .await
        {
            Ok(bytes) => Ok(TlsStream {
                bytes,
                max_record_len: most_in_record,
                context: self.context,
            }),
            Err(error) => Err(self.context.explain(&error).with_source(error)),
        }
    }
}

/// Creates the configuration of rustls from the files and PEM texts of the settings.
fn configuration(settings: &TlsSettings) -> Result<ClientConfig, TransportError> {
    let provider = crypto_provider::current()?;
    let roots = root_store::load(settings.authorities())?;
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone())
        .build()
        .map_err(internal)?;
    let identity = identity::load(settings, &provider)?;
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(internal)?
        .with_webpki_verifier(verifier);
    let mut config = match identity {
        Some(identity) => builder.with_client_cert_resolver(Arc::new(identity)),
        None => builder.with_no_client_auth(),
    };
    config.resumption = Resumption::disabled();
    Ok(config)
}

fn internal(error: impl std::fmt::Display) -> TransportError {
    let reason = format!("TLS cannot be set up: {error}");
    TransportError::new(ErrorKind::InvalidSettings, reason)
}

/// Maximum payload of a TLS record, and its overhead, as counted by rustls.
const MAX_RECORD_LEN: usize = 1 << 14;
const RECORD_OVERHEAD: usize = 5;

/// A TLS connection to the broker.
#[derive(Debug)]
pub(crate) struct TlsStream {
    pub(crate) bytes: client::TlsStream<Socket>,
    /// Maximum number of bytes in one record.
    max_record_len: usize,
    context: Context,
}

impl TlsStream {
    /// Writes at most one record, after the previous ones are flushed. So an error means that the broker received nothing of
    /// it, since it cannot decode a part of a record. With several records, it might have received the first ones.
    pub(super) fn poll_write(
        &mut self,
        context: &mut task::Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let mut stream = Pin::new(&mut self.bytes);
        ready!(stream.as_mut().poll_flush(context))?;
        stream.poll_write(context, &bytes[..bytes.len().min(self.max_record_len)])
    }

    /// Explains an error of a read or write. Since TLS 1.3, the broker's verdict on the client's certificate arrives only after
    /// the handshake, with the first read.
    pub(crate) fn explain(&self, error: &io::Error) -> Option<TransportError> {
        failure::tls_error(error).map(|error| self.context.explain_tls(error))
    }
}
