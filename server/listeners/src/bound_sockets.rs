//! Bound addresses and their listeners.
use super::tcp::{self, BACKLOG};
use super::unix::{self, SocketFile};
use super::{AcceptResult, ConnectionLimiter, ListenAddress, Scheme, Stream};
use crate::error::ListenError;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::net::{TcpListener, TcpSocket, UnixListener};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// An address where a server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BoundAddress(BoundEndpoint);

#[derive(Debug, Clone, PartialEq, Eq)]
enum BoundEndpoint {
    Network(Scheme, SocketAddr),
    File(PathBuf),
}

impl BoundAddress {
    pub(super) fn network(scheme: Scheme, address: SocketAddr) -> Self {
        Self(BoundEndpoint::Network(scheme, address))
    }

    /// Returns the address and port of a network; `None` for a socket file.
    pub fn address(&self) -> Option<SocketAddr> {
        match self.0 {
            BoundEndpoint::Network(_, address) => Some(address),
            BoundEndpoint::File(_) => None,
        }
    }

    /// Returns the scheme of a network address; `None` for a socket file.
    pub(super) fn scheme(&self) -> Option<Scheme> {
        match self.0 {
            BoundEndpoint::Network(scheme, _) => Some(scheme),
            BoundEndpoint::File(_) => None,
        }
    }

    /// Returns whether connections to it are encrypted.
    pub fn has_tls(&self) -> bool {
        self.scheme().is_some_and(Scheme::has_tls)
    }

    /// Returns the path of a socket file; `None` for a network.
    pub(super) fn path(&self) -> Option<&Path> {
        match &self.0 {
            BoundEndpoint::Network(..) => None,
            BoundEndpoint::File(path) => Some(path),
        }
    }

    /// Returns the URL for clients: `mqtt://`, `mqtts://`, `ws://`, `wss://` or `unix://`.
    pub fn url(&self) -> String {
        match &self.0 {
            BoundEndpoint::Network(scheme, address) => {
                format!("{}://{address}", scheme.client_scheme())
            }
            BoundEndpoint::File(path) => path
                .as_os_str()
                .as_bytes()
                .iter()
                .map(|byte| match byte {
                    b'/' | b'-' | b'.' | b'_' | b'~' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => {
                        char::from(*byte).to_string()
                    }
                    other => format!("%{other:02X}"),
                })
                .fold("unix://".into(), |url, part| url + &part),
        }
    }
}

/// Writes the address in the form of `--listen`.
impl fmt::Display for BoundAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            BoundEndpoint::Network(scheme, address) => write!(f, "{}://{address}", scheme.name()),
            BoundEndpoint::File(path) => write!(f, "unix://{}", path.display()),
        }
    }
}

#[derive(Debug)]
enum BoundSocket {
    Network(Scheme, TcpSocket),
    File(socket2::Socket, SocketFile),
}

/// Bound addresses, to which no client can connect before [`listen`](Self::listen).
#[derive(Debug)]
pub struct BoundSockets {
    sockets: Vec<(ListenAddress, BoundSocket)>,
    addresses: Vec<BoundAddress>,
}

impl BoundSockets {
    /// Binds the addresses; socket files get these permissions.
    pub fn new(requested: Vec<ListenAddress>, unix_mode: u32) -> Result<Self, ListenError> {
        let mut sockets = Vec::new();
        let mut addresses = Vec::new();
        for address in requested {
            let bound = bind(&address, unix_mode, &addresses);
            for (at, socket) in bound.map_err(|source| bind_error(&address, source))? {
                addresses.push(BoundAddress(at));
                sockets.push((address.clone(), socket));
            }
        }
        Ok(Self { sockets, addresses })
    }

    /// Returns the addresses, with ports resolved.
    pub fn addresses(&self) -> &[BoundAddress] {
        &self.addresses
    }

    /// Listens on the sockets.
    ///
    /// # Errors
    /// The system refuses to listen.
    pub fn listen(self) -> Result<Listeners, ListenError> {
        let mut listeners = Listeners::default();
        for (address, socket) in self.sockets {
            listeners
                .add(socket)
                .map_err(|source| bind_error(&address, source))?;
        }
        Ok(listeners)
    }
}

fn bind(
    address: &ListenAddress,
    unix_mode: u32,
    former: &[BoundAddress],
) -> io::Result<Vec<(BoundEndpoint, BoundSocket)>> {
    match (address.scheme(), address.path()) {
        (None, Some(path)) => {
            let (socket, file) = unix::bind(path, unix_mode)?;
            Ok(vec![(
                BoundEndpoint::File(path.into()),
                BoundSocket::File(socket, file),
            )])
        }
        (scheme, _) => {
            let scheme = scheme.unwrap_or(Scheme::Tcp);
            let resolved = address.resolve()?;
            check_free(&resolved, former)?;
            let sockets = tcp::bind(&resolved, address.is_host_name())?;
            let bound = sockets.into_iter().map(|socket| {
                let at = BoundEndpoint::Network(scheme, socket.local_addr()?);
                Ok((at, BoundSocket::Network(scheme, socket)))
            });
            bound.collect()
        }
    }
}

/// Checks that no listener of this server accepts connections at one of these addresses already.
///
/// The system notices a conflict only when both listen, and does not report with which address.
pub fn check_free(addresses: &[SocketAddr], former: &[BoundAddress]) -> io::Result<()> {
    let is_in_the_way = |listening: &&BoundAddress| {
        let address = listening.address();
        address.is_some_and(|address| addresses.iter().any(|it| overlap(*it, address)))
    };
    match former.iter().find(is_in_the_way) {
        Some(other) => Err(io::Error::other(format!(
            "{other} of this server accepts connections at this address already; leave out one of the two"
        ))),
        None => Ok(()),
    }
}

/// Returns whether both addresses could accept a connection to the same address.
fn overlap(a: SocketAddr, b: SocketAddr) -> bool {
    let covers = |wide: SocketAddr, other: SocketAddr| {
        let is_of_both = wide.is_ipv6() && !is_v6_only();
        wide.ip().is_unspecified() && (wide.is_ipv4() == other.is_ipv4() || is_of_both)
    };
    a.port() == b.port() && (a.ip() == b.ip() || covers(a, b) || covers(b, a))
}

/// Returns whether `[::]` accepts no connections of IPv4 on this machine (`ipv6(7)`).
fn is_v6_only() -> bool {
    let set = std::fs::read("/proc/sys/net/ipv6/bindv6only");
    set.is_ok_and(|set| set.starts_with(b"1"))
}

fn bind_error(address: &ListenAddress, source: io::Error) -> ListenError {
    ListenError {
        address: address.to_string(),
        source,
    }
}

/// Returns the name of a listener, as `--listen` takes it.
pub(super) fn name(scheme: Scheme, address: &io::Result<SocketAddr>) -> Arc<str> {
    match address {
        Ok(address) => BoundAddress::network(scheme, *address).to_string().into(),
        Err(_) => scheme.name().into(),
    }
}

/// Sockets to which clients can connect.
#[derive(Debug, Default)]
pub struct Listeners {
    tcp: Vec<TcpListener>,
    unix: Vec<(UnixListener, SocketFile)>,
    /// Listeners whose connections begin with a handshake.
    with_handshake: Vec<(Scheme, std::net::TcpListener)>,
}

impl Listeners {
    fn add(&mut self, socket: BoundSocket) -> io::Result<()> {
        match socket {
            BoundSocket::Network(Scheme::Tcp, socket) => self.tcp.push(socket.listen(BACKLOG)?),
            BoundSocket::Network(scheme, socket) => {
                let listener = socket.listen(BACKLOG)?.into_std()?;
                self.with_handshake.push((scheme, listener));
            }
            BoundSocket::File(socket, file) => self.unix.push((unix::listen(&socket)?, file)),
        }
        Ok(())
    }

    /// Returns the listeners whose connections begin with a handshake, which another thread makes. With proxies, these are
    /// all listeners of networks, since their header comes first.
    pub fn take_with_handshake(
        &mut self,
        has_proxies: bool,
    ) -> io::Result<Vec<(Scheme, std::net::TcpListener)>> {
        let mut taken = std::mem::take(&mut self.with_handshake);
        if has_proxies {
            for listener in std::mem::take(&mut self.tcp) {
                taken.push((Scheme::Tcp, listener.into_std()?));
            }
        }
        Ok(taken)
    }

    /// Accepts connections on the other listeners. Call it within a [`LocalSet`](tokio::task::LocalSet).
    pub fn accept(
        self,
        limiter: &ConnectionLimiter,
        accepted: &mpsc::Sender<AcceptResult<Stream>>,
        acceptors: &mut JoinSet<()>,
    ) {
        for listener in self.tcp {
            let name = name(Scheme::Tcp, &listener.local_addr());
            let accept = tcp::accept(listener, name, limiter.clone(), accepted.clone());
            acceptors.spawn_local(accept);
        }
        for (listener, file) in self.unix {
            let accept = unix::accept(listener, file, limiter.clone(), accepted.clone());
            acceptors.spawn_local(accept);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpStream;

    fn bound() -> BoundSockets {
        BoundSockets::new(vec!["tcp://127.0.0.1:0".parse().unwrap()], 0o660).unwrap()
    }

    #[tokio::test]
    async fn no_client_can_connect_before_listen() {
        let bound = bound();
        let address = bound.addresses()[0].address().unwrap();
        let refused = TcpStream::connect(address).await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        let _listeners = bound.listen().unwrap();
        TcpStream::connect(address).await.unwrap();
    }

    #[tokio::test]
    async fn an_address_in_use_is_rejected_at_bind() {
        let bound = bound();
        let taken = bound.addresses()[0].to_string();
        let _listeners = bound.listen().unwrap();
        let error = BoundSockets::new(vec![taken.parse().unwrap()], 0o660).unwrap_err();
        assert!(error.to_string().contains(&taken), "{error}");
    }

    #[test]
    fn overlapping_listen_addresses_conflict() {
        let overlap = |a: &str, b: &str| overlap(a.parse().unwrap(), b.parse().unwrap());
        assert!(overlap("127.0.0.1:1", "127.0.0.1:1"));
        assert!(overlap("127.0.0.1:1", "0.0.0.0:1") && overlap("0.0.0.0:1", "127.0.0.1:1"));
        assert_eq!(overlap("[::]:1", "0.0.0.0:1"), !is_v6_only());
        assert!(overlap("[::1]:1", "[::]:1"));
        for (a, b) in [
            ("127.0.0.1:1", "127.0.0.1:2"),
            ("127.0.0.1:1", "127.0.0.2:1"),
            ("0.0.0.0:1", "[::1]:1"),
        ] {
            assert!(!overlap(a, b), "{a} {b}");
        }
    }

    #[test]
    fn a_socket_path_becomes_a_valid_url() {
        let listening = BoundAddress(BoundEndpoint::File("/run/a b%c.sock".into()));
        assert_eq!(listening.url(), "unix:///run/a%20b%25c.sock");
        assert_eq!(listening.to_string(), "unix:///run/a b%c.sock");
    }
}
