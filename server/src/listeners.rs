//! The addresses that a server listens on, and the connections that come in there.
use crate::config::ListenAddress;
use crate::error::ServerError;
use socket2::{SockRef, TcpKeepalive};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::mpsc;

/// How long accepting pauses after a failure, such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How many connections may wait to be accepted.
const BACKLOG: u32 = 1024;

/// After so much silence the system asks the peer for a sign of life, ...
const KEEP_ALIVE_IDLE: Duration = Duration::from_secs(60);
/// ... so often ...
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);
/// ... and so many times. Then the connection is over, whatever keep-alive its client asked for.
const KEEP_ALIVE_PROBES: u32 = 4;

/// How long sent bytes may stay unacknowledged, or the peer's receive window closed, before the connection is over.
const USER_TIMEOUT: Duration = Duration::from_secs(120);

/// How much the system takes of a connection before it has sent what it took before. A client counts as alive while bytes move; with
/// buffers of megabytes none would seem to, for many seconds on a slow link. This is two seconds of a link of 1 Mbit/s.
#[cfg(target_os = "linux")]
const MOST_UNSENT_BYTES: u32 = 256 * 1024;

/// A connection with its peer's address.
pub(crate) type Accepted = (TcpStream, SocketAddr);

/// Addresses that are taken. Nobody can connect before [`listen`](Self::listen).
#[derive(Debug)]
pub(crate) struct Bound {
    sockets: Vec<(ListenAddress, TcpSocket)>,
    addresses: Vec<SocketAddr>,
}

impl Bound {
    pub(crate) fn new(wanted: Vec<ListenAddress>) -> Result<Self, ServerError> {
        let mut sockets = Vec::new();
        let mut addresses = Vec::new();
        for address in wanted {
            let bound = bind(&address).and_then(|socket| Ok((socket.local_addr()?, socket)));
            let (local, socket) = bound.map_err(|source| failure(&address, source))?;
            addresses.push(local);
            sockets.push((address, socket));
        }
        Ok(Self { sockets, addresses })
    }

    /// The addresses, ports resolved.
    pub(crate) fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    pub(crate) fn listen(self) -> Result<Vec<TcpListener>, ServerError> {
        let listen = |(address, socket): (ListenAddress, TcpSocket)| {
            let listener = socket.listen(BACKLOG);
            listener.map_err(|source| failure(&address, source))
        };
        self.sockets.into_iter().map(listen).collect()
    }
}

/// Takes the first address of the name that can be taken.
fn bind(address: &ListenAddress) -> io::Result<TcpSocket> {
    let mut failure = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in address.resolve()? {
        let socket = match address {
            SocketAddr::V4(_) => TcpSocket::new_v4(),
            SocketAddr::V6(_) => TcpSocket::new_v6(),
        }?;
        // Connections of a former process that are still ending do not keep this one from its port.
        socket.set_reuseaddr(true)?;
        match socket.bind(address) {
            Ok(()) => return Ok(socket),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

fn failure(address: &ListenAddress, source: io::Error) -> ServerError {
    ServerError::Listen {
        address: address.to_string(),
        source,
    }
}

/// Accepts connections for as long as somebody takes them.
pub(crate) async fn accept(listener: TcpListener, accepted: mpsc::Sender<Accepted>) {
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                if let Err(error) = prepare(&stream) {
                    tracing::debug!(%error, "cannot set the options of a connection");
                }
                if accepted.send((stream, peer)).await.is_err() {
                    return;
                }
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

fn prepare(stream: &TcpStream) -> io::Result<()> {
    // Without it, small answers wait for the acknowledgement of the ones before.
    stream.set_nodelay(true)?;
    let socket = SockRef::from(stream);
    let keep_alive = TcpKeepalive::new()
        .with_time(KEEP_ALIVE_IDLE)
        .with_interval(KEEP_ALIVE_INTERVAL)
        .with_retries(KEEP_ALIVE_PROBES);
    socket.set_tcp_keepalive(&keep_alive)?;
    #[cfg(target_os = "linux")]
    {
        socket.set_tcp_user_timeout(Some(USER_TIMEOUT))?;
        socket.set_tcp_notsent_lowat(MOST_UNSENT_BYTES)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bound() -> Bound {
        Bound::new(vec!["tcp://127.0.0.1:0".parse().unwrap()]).unwrap()
    }

    #[tokio::test]
    async fn nobody_can_connect_before_it_listens() {
        let bound = bound();
        let address = bound.addresses()[0];
        let refused = TcpStream::connect(address).await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        let _listeners = bound.listen().unwrap();
        TcpStream::connect(address).await.unwrap();
    }

    #[tokio::test]
    async fn an_address_in_use_is_known_at_once() {
        let bound = bound();
        let taken = format!("tcp://{}", bound.addresses()[0]);
        let _listeners = bound.listen().unwrap();
        let error = Bound::new(vec![taken.parse().unwrap()]).unwrap_err();
        assert!(error.to_string().contains(&taken), "{error}");
    }

    #[tokio::test]
    async fn a_peer_that_is_gone_without_a_word_is_noticed_by_the_system() {
        let bound = bound();
        let address = bound.addresses()[0];
        let listener = bound.listen().unwrap().remove(0);
        let (accepted, mut streams) = mpsc::channel(1);
        let acceptor = tokio::spawn(accept(listener, accepted));
        let client = TcpStream::connect(address).await.unwrap();
        let (stream, peer) = streams.recv().await.unwrap();
        assert_eq!(peer, client.local_addr().unwrap());
        assert!(stream.nodelay().unwrap());
        let socket = SockRef::from(&stream);
        assert!(socket.keepalive().unwrap());
        assert_eq!(socket.tcp_keepalive_time().unwrap(), KEEP_ALIVE_IDLE);
        assert_eq!(
            socket.tcp_keepalive_interval().unwrap(),
            KEEP_ALIVE_INTERVAL
        );
        assert_eq!(socket.tcp_keepalive_retries().unwrap(), KEEP_ALIVE_PROBES);
        #[cfg(target_os = "linux")]
        {
            assert_eq!(socket.tcp_user_timeout().unwrap(), Some(USER_TIMEOUT));
            assert_eq!(socket.tcp_notsent_lowat().unwrap(), MOST_UNSENT_BYTES);
        }
        acceptor.abort();
    }
}
