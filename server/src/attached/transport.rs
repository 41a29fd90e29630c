//! A connection to the broker, before anything is said on it.
use super::{AttachConfig, AttachError};
use crate::access::read_password;
use crate::hub::IdentityKey;
use crate::listeners::client_tls;
use bytes::Bytes;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use std::io;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// Bytes in both directions.
pub(crate) trait Duplex: AsyncRead + AsyncWrite + Unpin {}

impl<S: AsyncRead + AsyncWrite + Unpin> Duplex for S {}

/// A connection, and who this server is on it.
pub(crate) struct Transport {
    pub(crate) stream: Box<dyn Duplex>,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<Bytes>,
    pub(crate) identity_key: Option<IdentityKey>,
}

/// What the files say now.
struct Files {
    tls: Option<Arc<ClientConfig>>,
    password: Option<Bytes>,
    identity_key: Option<IdentityKey>,
}

impl Files {
    /// Blocks as long as the files take.
    fn read(config: &AttachConfig) -> Result<Self, AttachError> {
        let tls = match &config.ca {
            Some(ca) if config.address.has_tls => {
                let identity = config.identity.as_ref();
                let identity = identity.map(|(chain, key)| (chain.as_path(), key.as_path()));
                Some(Arc::new(client_tls(ca, identity)?))
            }
            _ => None,
        };
        let file = config.user.as_ref().map(|(_, file)| file);
        let password = file.map(|file| read_password(file)).transpose()?;
        let identity_key = config.identity_key.as_deref().map(|file| {
            let key = read_password(file)?;
            IdentityKey::new(key.as_bytes()).ok_or_else(|| AttachError::Key(file.into()))
        });
        Ok(Self {
            tls,
            identity_key: identity_key.transpose()?,
            password: password.map(|password| Bytes::copy_from_slice(password.as_bytes())),
        })
    }
}

impl Transport {
    /// Connects. The files are read anew each time, so that a certificate or a password that was renewed counts from the next
    /// connection on.
    pub(crate) async fn connect(config: &AttachConfig) -> Result<Self, AttachError> {
        let of_files = config.clone();
        let files = tokio::task::spawn_blocking(move || Files::read(&of_files));
        let files = files.await.map_err(io::Error::other)??;
        let address = &config.address;
        let stream = TcpStream::connect((address.host.as_str(), address.port)).await?;
        stream.set_nodelay(true)?;
        let stream: Box<dyn Duplex> = match files.tls {
            None => Box::new(stream),
            Some(tls) => {
                let name = ServerName::try_from(address.host.clone()).map_err(io::Error::other)?;
                Box::new(TlsConnector::from(tls).connect(name, stream).await?)
            }
        };
        Ok(Self {
            stream,
            user: config.user.as_ref().map(|(name, _)| name.clone()),
            password: files.password,
            identity_key: files.identity_key,
        })
    }

    /// Whether the files can be used.
    pub(crate) fn check(config: &AttachConfig) -> Result<(), AttachError> {
        Files::read(config).map(drop)
    }
}
