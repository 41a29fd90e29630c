//! Connections of TCP, whatever is in them.
use super::stream::{Socket, Transport};
use super::{Arrival, Places, Stream};
use crate::access::Peer;
use crate::config::ListenAddress;
use socket2::{SockRef, TcpKeepalive};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::mpsc;

/// How long accepting pauses after a failure, such as too many open files.
pub(super) const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How many connections may wait to be accepted.
pub(super) const BACKLOG: u32 = 1024;

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

/// Takes the first address of the name that can be taken.
pub(super) fn bind(address: &ListenAddress) -> io::Result<TcpSocket> {
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

/// The next connection, with the options that all of them have.
pub(super) async fn next(listener: &TcpListener) -> (TcpStream, SocketAddr) {
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                if let Err(error) = prepare(&stream) {
                    tracing::debug!(%error, "cannot set the options of a connection");
                }
                return (stream, peer);
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Accepts connections for as long as somebody takes them.
pub(super) async fn accept(
    listener: TcpListener,
    name: Arc<str>,
    places: Places,
    accepted: mpsc::Sender<Arrival<Stream>>,
) {
    loop {
        let (stream, peer) = next(&listener).await;
        let arrival = Arrival {
            stream: Stream::Plain(Transport::Tcp(Socket::new(stream))),
            peer: Peer {
                listener: Arc::clone(&name),
                ..peer.into()
            },
            place: places.take(),
        };
        if accepted.send(arrival).await.is_err() {
            return;
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

    #[tokio::test]
    async fn a_peer_that_is_gone_without_a_word_is_noticed_by_the_system() {
        let socket = bind(&"tcp://127.0.0.1:0".parse().unwrap()).unwrap();
        let address = socket.local_addr().unwrap();
        let listener = socket.listen(BACKLOG).unwrap();
        let client = TcpStream::connect(address).await.unwrap();
        let (stream, peer) = next(&listener).await;
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
    }
}
