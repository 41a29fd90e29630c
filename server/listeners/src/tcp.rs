//! TCP connections with any content.
use super::stream::{Socket, Transport};
use super::{AcceptResult, AcceptedConnection, ConnectionLimiter, Stream};
use socket2::{SockRef, TcpKeepalive};
use statestored_access::Peer;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::mpsc;

/// Pause of accepting after a failure, such as too many open files.
pub(super) const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Number of connections that may wait to be accepted.
pub(super) const BACKLOG: u32 = 1024;

/// Idle time after which the system sends keep-alive probes.
const KEEP_ALIVE_IDLE: Duration = Duration::from_secs(60);
/// Interval of the probes.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);
/// Number of probes without a response after which the connection is closed, regardless of the keep-alive of its client.
const KEEP_ALIVE_PROBES: u32 = 4;

/// Time that sent bytes may stay unacknowledged, or the peer's receive window closed, before the connection is closed.
const USER_TIMEOUT: Duration = Duration::from_secs(120);

/// Maximum number of bytes that the system buffers for a connection without having sent them.
///
/// A client counts as alive while bytes move. With buffers of megabytes, a client on a slow link would not seem alive for many
/// seconds. The value is two seconds of a link of 1 Mbit/s.
#[cfg(target_os = "linux")]
const MAX_UNSENT_BYTES: u32 = 256 * 1024;

/// Number of attempts to find a port that is free at all addresses of a name.
const PORT_ATTEMPTS: usize = 16;

/// Binds all addresses of a name, to the same port if they ask for any.
///
/// Addresses that this machine does not have are left out if it has another address of the name. A single address that was given as
/// such is bound in advance: clients can connect once the machine has it.
///
/// # Errors
/// An address is in use, or none of them can be bound.
pub fn bind(addresses: &[SocketAddr], is_name: bool) -> io::Result<Vec<TcpSocket>> {
    let asks_for_any_port = addresses.iter().all(|address| address.port() == 0);
    let attempts = if asks_for_any_port && addresses.len() > 1 {
        PORT_ATTEMPTS
    } else {
        1
    };
    let mut bound = bind_all(addresses, is_name);
    for _ in 1..attempts {
        match &bound {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                bound = bind_all(addresses, is_name);
            }
            _ => break,
        }
    }
    bound
}

fn bind_all(addresses: &[SocketAddr], is_name: bool) -> io::Result<Vec<TcpSocket>> {
    let mut sockets: Vec<TcpSocket> = Vec::new();
    let mut absent = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for (at, address) in addresses.iter().enumerate() {
        if addresses[..at].contains(address) {
            continue;
        }
        let mut address = *address;
        if let Some(first) = sockets.first().filter(|_| address.port() == 0) {
            address.set_port(first.local_addr()?.port());
        }
        match bind_one(address, false) {
            Ok(socket) => sockets.push(socket),
            Err(error) if is_absent(&error) && is_name => absent = error,
            Err(error) if is_absent(&error) => {
                let socket = bind_one(address, true)?;
                tracing::warn!(
                    "{address} is not an address of this machine yet: clients can connect once it is"
                );
                sockets.push(socket);
            }
            Err(error) if is_name => {
                return Err(io::Error::new(error.kind(), format!("{address}: {error}")));
            }
            Err(error) => return Err(error),
        }
    }
    if sockets.is_empty() {
        return Err(absent);
    }
    Ok(sockets)
}

/// Returns whether an address cannot be bound because this machine does not have it.
fn is_absent(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::AddrNotAvailable
        || error.raw_os_error() == Some(rustix::io::Errno::AFNOSUPPORT.raw_os_error())
}

/// Binds an address. `in_advance` allows an address that this machine does not have.
fn bind_one(address: SocketAddr, in_advance: bool) -> io::Result<TcpSocket> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4(),
        SocketAddr::V6(_) => TcpSocket::new_v6(),
    }?;
    // Lets this process use the port although connections of a former process are still closing.
    socket.set_reuseaddr(true)?;
    #[cfg(target_os = "linux")]
    if in_advance {
        let socket = SockRef::from(&socket);
        match address {
            SocketAddr::V4(_) => socket.set_freebind_v4(true)?,
            SocketAddr::V6(_) => socket.set_freebind_v6(true)?,
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = in_advance;
    socket.bind(address)?;
    Ok(socket)
}

/// Accepts the next connection, and sets the options of all connections.
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

/// Accepts connections until their receiver is dropped.
pub(super) async fn accept(
    listener: TcpListener,
    name: Arc<str>,
    limiter: ConnectionLimiter,
    accepted: mpsc::Sender<AcceptResult<Stream>>,
) {
    loop {
        let (stream, address) = next(&listener).await;
        let peer = Peer {
            listener: Arc::clone(&name),
            ..address.into()
        };
        // A connection without a place is closed here, so that no queue holds its descriptor.
        let arrival = limiter.try_acquire().map(|permit| AcceptedConnection {
            stream: Stream::plain(Transport::Tcp(Socket::new(stream))),
            peer: peer.clone(),
            permit,
        });
        let arrival = arrival.ok_or(peer);
        if accepted.send(arrival).await.is_err() {
            return;
        }
    }
}

fn prepare(stream: &TcpStream) -> io::Result<()> {
    // Otherwise, small responses would wait for the acknowledgement of earlier ones.
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
        socket.set_tcp_notsent_lowat(MAX_UNSENT_BYTES)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[tokio::test]
    async fn all_addresses_of_a_name_are_bound_with_one_port_or_none() {
        // Several loopback addresses stand for a name with several addresses.
        let [one, other] = [[127, 0, 0, 1], [127, 0, 0, 2]];
        let both = |port| [one, other].map(|ip| SocketAddr::from((ip, port)));
        let sockets = bind(&both(0), true).unwrap();
        let bound: Vec<_> = sockets.iter().map(|it| it.local_addr().unwrap()).collect();
        assert_eq!(bound, both(bound[0].port()));
        drop(sockets);
        let (error, taken) = loop {
            let holder = std::net::TcpListener::bind((Ipv4Addr::from(other), 0)).unwrap();
            let taken = holder.local_addr().unwrap();
            let error = bind(&both(taken.port()), true).unwrap_err();
            // Another process may have this port of the first address.
            if !error
                .to_string()
                .starts_with(&both(taken.port())[0].to_string())
            {
                break (error, taken);
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        assert!(error.to_string().starts_with(&taken.to_string()), "{error}");
        let absent = SocketAddr::from(([192, 0, 2, 1], 0));
        let sockets = bind(&[absent, SocketAddr::from((one, 0))], true).unwrap();
        assert_eq!(sockets.len(), 1);
        assert!(bind(&[absent], true).is_err());
    }

    #[tokio::test]
    async fn a_vanished_peer_is_detected_by_keep_alive() {
        let socket = bind(&["127.0.0.1:0".parse().unwrap()], false);
        let socket = socket.unwrap().remove(0);
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
            assert_eq!(socket.tcp_notsent_lowat().unwrap(), MAX_UNSENT_BYTES);
        }
    }
}
