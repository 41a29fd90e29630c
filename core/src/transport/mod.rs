//! Byte streams to the broker.
mod blocking_slot;
mod credentials;
mod error;
mod file;
mod stream;
mod tcp;
#[cfg(feature = "tls")]
mod tls;
mod watch;

pub(crate) use blocking_slot::BlockingSlot;
pub(crate) use credentials::{Credentials, read_token};
pub(crate) use error::TransportError;
pub(crate) use stream::Stream;
pub(crate) use watch::FileWatch;

use crate::Settings;
use crate::error::ErrorKind;
use crate::settings::Endpoint;
#[cfg(feature = "ws")]
use crate::settings::without_zone;
use std::io;
use std::net::SocketAddr;

/// Blocking work of one broker, which may continue from one connection attempt to the next.
#[derive(Debug, Default)]
pub(crate) struct EndpointWork {
    files: BlockingSlot<Result<LoadedFiles, TransportError>>,
    addresses: BlockingSlot<io::Result<Vec<SocketAddr>>>,
}

/// Connects to one of the brokers; the caller limits the time. All files of the settings are read before any byte is sent. The
/// credentials are for the CONNECT of this connection.
pub(crate) async fn connect(
    settings: &Settings,
    endpoint: &Endpoint,
    work: &EndpointWork,
) -> Result<(Stream, Credentials), TransportError> {
    let files = LoadedFiles::read(settings, endpoint, &work.files).await?;
    let unreachable = |error: io::Error| {
        TransportError::new(ErrorKind::Unreachable, error.to_string()).with_source(error)
    };
    if let Some(connecting) = settings.platform.connect() {
        let stream = connecting.await.map_err(unreachable)?;
        return Ok((Stream::Other(stream), files.credentials));
    }
    let stream = match endpoint {
        Endpoint::Tcp { host, port } => {
            let platform = &*settings.platform;
            let addresses = tcp::resolve(host, *port, platform, &work.addresses).await;
            let tcp = tcp::connect(addresses.map_err(unreachable)?, settings.ping_timeout);
            let tcp = tcp.await.map_err(unreachable)?;
            let stream = match files.tls {
                #[cfg(feature = "tls")]
                Some(tls) => Stream::Tls(Box::new(tls.handshake(tcp).await?)),
                _ => Stream::Tcp(tcp),
            };
            match &settings.websocket {
                #[cfg(feature = "ws")]
                Some(path) => {
                    let host = without_zone(host).to_owned();
                    let host = Endpoint::Tcp { host, port: *port }.to_string();
                    let socket = stream::WebSocket::connect(stream, &host, path);
                    Stream::WebSocket(Box::new(socket.await?))
                }
                _ => stream,
            }
        }
        #[cfg(unix)]
        Endpoint::Unix(path) => {
            let unix = tokio::net::UnixStream::connect(path);
            Stream::Unix(unix.await.map_err(unreachable)?)
        }
        #[cfg(not(unix))]
        Endpoint::Unix(_) => return Err(unreachable(io::ErrorKind::Unsupported.into())),
    };
    Ok((stream, files.credentials))
}

#[cfg(feature = "tls")]
use tls::Tls;
#[cfg(not(feature = "tls"))]
type Tls = std::convert::Infallible;

/// Contents of the files of the settings.
struct LoadedFiles {
    credentials: Credentials,
    tls: Option<Tls>,
}

impl LoadedFiles {
    async fn read(
        settings: &Settings,
        endpoint: &Endpoint,
        slot: &BlockingSlot<Result<Self, TransportError>>,
    ) -> Result<Self, TransportError> {
        if !settings.tls_enabled && !settings.credentials.has_files() {
            return Self::read_now(settings, endpoint);
        }
        // Files can be slow, and the password of a key is slow by design.
        let platform = settings.platform.clone();
        let (settings, endpoint) = (settings.clone(), endpoint.clone());
        let read = slot.run(&*platform, move || Self::read_now(&settings, &endpoint));
        read.await.unwrap_or_else(|error| {
            let reason = format!("the files of the settings cannot be read now: {error}");
            Err(TransportError::new(ErrorKind::Unreachable, reason).with_source(error))
        })
    }

    fn read_now(settings: &Settings, endpoint: &Endpoint) -> Result<Self, TransportError> {
        let tls = match endpoint {
            #[cfg(feature = "tls")]
            Endpoint::Tcp { host, .. } if settings.tls_enabled => {
                Some(Tls::load(&settings.tls, host)?)
            }
            _ => None,
        };
        Ok(Self {
            credentials: settings.credentials.read()?,
            tls,
        })
    }
}
