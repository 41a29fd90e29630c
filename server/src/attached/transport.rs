//! A connection to the broker, before any packet is sent on it.
use super::{AttachConfig, AttachError};
use crate::access_files::read_password;
use bytes::Bytes;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use statestored_broker::hub::IdentityKey;
use statestored_common::read_tracker::ReadTracker;
use statestored_listeners::client_tls;
use std::fmt::Display;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};
use tokio::task::{JoinHandle, spawn_blocking};
use tokio_rustls::TlsConnector;

/// A byte stream in both directions.
pub(crate) trait Duplex: AsyncRead + AsyncWrite + Unpin {}

impl<S: AsyncRead + AsyncWrite + Unpin> Duplex for S {}

/// A connection, and the credentials of this server on it.
pub(crate) struct Transport {
    pub(crate) stream: Box<dyn Duplex>,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<Bytes>,
    pub(crate) identity_key: Option<IdentityKey>,
}

/// A connector to the broker.
pub(crate) trait Connector {
    /// Returns the broker's address for messages.
    fn broker(&self) -> impl Display;
    async fn connect(&mut self) -> Result<Transport, AttachError>;
    /// Returns the reason why connecting takes long, if it is known.
    fn stall_reason(&self) -> Option<AttachError>;
}

/// A connector with the configured address, files and credentials.
pub(crate) struct Dialer {
    config: AttachConfig,
    credentials: CredentialReader,
    /// Address of the latest attempt.
    last_address: Option<SocketAddr>,
}

impl Dialer {
    pub(crate) fn new(config: AttachConfig) -> Self {
        Self {
            config,
            credentials: CredentialReader::default(),
            last_address: None,
        }
    }
}

impl Connector for Dialer {
    fn broker(&self) -> impl Display {
        &self.config.address
    }

    /// Connects to the broker. The files are read each time, so that a renewed certificate or password takes effect with the next
    /// connection.
    async fn connect(&mut self) -> Result<Transport, AttachError> {
        let files = self.credentials.read(&self.config).await?;
        let address = &self.config.address;
        let addresses = lookup_host((address.host.as_str(), address.port)).await?;
        let addresses = rotate_after(addresses.collect(), self.last_address);
        let stream = connect_any(addresses, &mut self.last_address).await?;
        stream.set_nodelay(true)?;
        let stream: Box<dyn Duplex> = match files.tls {
            None => Box::new(stream),
            Some(tls) => {
                let name = ServerName::try_from(address.host.clone()).map_err(io::Error::other)?;
                Box::new(TlsConnector::from(tls).connect(name, stream).await?)
            }
        };
        Ok(Transport {
            stream,
            user: self.config.user.as_ref().map(|(name, _)| name.clone()),
            password: files.password,
            identity_key: files.identity_key,
        })
    }

    fn stall_reason(&self) -> Option<AttachError> {
        self.credentials.stalled_file()
    }
}

/// Contents of the files.
struct BrokerCredentials {
    tls: Option<Arc<ClientConfig>>,
    password: Option<Bytes>,
    identity_key: Option<IdentityKey>,
}

impl BrokerCredentials {
    /// Reads the files. Blocks until they are read.
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
            IdentityKey::new(key.as_bytes()).ok_or_else(|| AttachError::InvalidKey(file.into()))
        });
        Ok(Self {
            tls,
            identity_key: identity_key.transpose()?,
            password: password.map(|password| Bytes::copy_from_slice(password.as_bytes())),
        })
    }
}

/// A reader of the files. It has one thread at a time, since a file may never end. A caller that gives up waiting waits for the same
/// read the next time.
#[derive(Default)]
struct CredentialReader(
    Option<(
        ReadTracker,
        JoinHandle<Result<BrokerCredentials, AttachError>>,
    )>,
);

impl CredentialReader {
    async fn read(&mut self, config: &AttachConfig) -> Result<BrokerCredentials, AttachError> {
        let (_, read) = self.0.get_or_insert_with(|| {
            let (config, reading) = (config.clone(), ReadTracker::default());
            let observed = reading.clone();
            let read = spawn_blocking(move || observed.track(|| BrokerCredentials::read(&config)));
            (reading, read)
        });
        let read = read.await;
        self.0 = None;
        read.map_err(io::Error::other)?
    }

    /// Returns the file that is being read, if a read is running.
    fn stalled_file(&self) -> Option<AttachError> {
        let (reading, _) = self.0.as_ref()?;
        Some(AttachError::StalledFile(reading.to_string()))
    }
}

impl Transport {
    /// Checks that the files can be used.
    pub(crate) fn check(config: &AttachConfig) -> Result<(), AttachError> {
        BrokerCredentials::read(config).map(drop)
    }
}

/// Returns the addresses of a broker, beginning behind that of the latest attempt, which may accept connections without being usable.
fn rotate_after(mut addresses: Vec<SocketAddr>, tried: Option<SocketAddr>) -> Vec<SocketAddr> {
    let last = addresses.iter().position(|address| Some(*address) == tried);
    addresses.rotate_left(last.map_or(0, |last| last + 1));
    addresses
}

/// Connects to the first address that accepts. `tried` is the address of the latest attempt, even if the call is cancelled.
async fn connect_any(
    addresses: Vec<SocketAddr>,
    tried: &mut Option<SocketAddr>,
) -> io::Result<TcpStream> {
    let mut failure = None;
    for address in addresses {
        *tried = Some(address);
        match TcpStream::connect(address).await {
            Ok(stream) => return Ok(stream),
            Err(error) => failure = Some(error),
        }
    }
    Err(failure.unwrap_or_else(|| io::Error::other("the name of the broker has no address")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    use statestored_broker::hub::BrokerConfig;
    use std::net::TcpListener;
    use std::time::Duration;
    use tokio::time::timeout;

    const THREAD: &str = "of-attached";

    /// Returns the number of threads that the runtime of the test has for blocking calls.
    fn blocking_threads() -> usize {
        let names = std::fs::read_dir("/proc/self/task").unwrap();
        let names =
            names.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
        names.filter(|name| name.trim_end() == THREAD).count()
    }

    #[test]
    fn a_stalled_file_blocks_only_one_thread() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("password");
        mknodat(CWD, &file, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let config = AttachConfig {
            address: "mqtt://127.0.0.1:1".parse().unwrap(),
            terms: BrokerConfig::default(),
            user: Some(("ann".into(), file.clone())),
            ca: None,
            identity: None,
            identity_key: None,
        };
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().thread_name(THREAD).build().unwrap();
        let mut dialer = Dialer::new(config);
        let threads = runtime.block_on(async {
            for _ in 0..5 {
                let connecting = timeout(Duration::from_millis(1), dialer.connect());
                assert!(connecting.await.is_err());
            }
            while blocking_threads() == 0 {
                std::thread::yield_now();
            }
            blocking_threads()
        });
        if threads > 1 {
            runtime.shutdown_background();
            panic!("{threads} threads wait for the file");
        }
        runtime.block_on(async {
            // The final content counts, and the next call reads the file again.
            std::fs::write(&file, "secret\n").unwrap();
            let read = dialer.credentials.read(&dialer.config).await.unwrap();
            assert_eq!(read.password.as_deref(), Some(&b"secret"[..]));
            std::fs::remove_file(&file).unwrap();
            assert!(dialer.credentials.read(&dialer.config).await.is_err());
        });
        assert!(dialer.stall_reason().is_none());
    }

    #[test]
    fn each_attempt_starts_after_the_last_address() {
        let [a, b, c] = [1, 2, 3].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
        let all = vec![a, b, c];
        assert_eq!(rotate_after(all.clone(), None), [a, b, c]);
        assert_eq!(rotate_after(all.clone(), Some(a)), [b, c, a]);
        assert_eq!(rotate_after(all.clone(), Some(c)), [a, b, c]);
        assert_eq!(rotate_after(vec![b, c], Some(a)), [b, c]);
        assert_eq!(rotate_after(Vec::new(), Some(a)), []);
    }

    #[tokio::test]
    async fn the_addresses_of_a_broker_are_tried_in_turn() {
        let listen = || TcpListener::bind("127.0.0.1:0").unwrap();
        let (first, second, closed) = (listen(), listen(), listen());
        let address = |listener: &TcpListener| listener.local_addr().unwrap();
        let all = vec![address(&first), address(&closed), address(&second)];
        drop(closed);
        let mut tried = None;
        let mut reached = Vec::new();
        for _ in 0..3 {
            let addresses = rotate_after(all.clone(), tried);
            let stream = connect_any(addresses, &mut tried).await.unwrap();
            reached.push(stream.peer_addr().unwrap());
        }
        assert_eq!(reached, [all[0], all[2], all[0]]);
    }
}
