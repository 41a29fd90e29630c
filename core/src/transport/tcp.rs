//! Plain TCP.
//!
//! The addresses of a name are tried in turn. Each attempt starts a quarter of a second after the previous one, or as soon as
//! that one has failed. The first connection wins (Happy Eyeballs, RFC 8305). An address that drops packets thus costs a
//! quarter of a second instead of the whole connect time-out.
use super::BlockingSlot;
use crate::platform::Platform;
use crate::settings::without_zone;
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, SocketAddrV6, ToSocketAddrs};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

/// Head start of an attempt ("Connection Attempt Delay", RFC 8305, section 5).
const CONNECTION_ATTEMPT_DELAY: Duration = Duration::from_millis(250);

/// Returns the addresses of `host`. A numeric address needs no lookup, and so no thread.
pub(super) async fn resolve(
    host: &str,
    port: u16,
    platform: &dyn Platform,
    slot: &BlockingSlot<io::Result<Vec<SocketAddr>>>,
) -> io::Result<Vec<SocketAddr>> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(address, port)]);
    }
    // An IPv6 address with a zone: the number of a network interface, or its name, which the system resolves.
    let has_zone = without_zone(host) != host;
    if has_zone && let Ok(address) = format!("[{host}]:{port}").parse::<SocketAddrV6>() {
        return Ok(vec![address.into()]);
    }
    let name = host.to_owned();
    let look_up = move || {
        (name.as_str(), port)
            .to_socket_addrs()
            .map(Iterator::collect)
    };
    let addresses = slot.run(platform, look_up).await.flatten();
    addresses.map_err(|error| {
        let reason = if has_zone {
            format!(
                "the zone after `%` in `{host}` is not a network interface of this machine: {error}"
            )
        } else {
            format!("the name `{host}` cannot be resolved: {error}")
        };
        io::Error::new(
            error.kind(),
            UnreachableError {
                reason,
                source: error,
            },
        )
    })
}

/// Connects to the address that accepts first. Nagle's algorithm is disabled. On Linux, the connection ends if bytes stay
/// unacknowledged for `silence`, which is at least five seconds.
pub(super) async fn connect(
    addresses: Vec<SocketAddr>,
    silence: Duration,
) -> io::Result<TcpStream> {
    let stream = race(interleave(addresses.into_iter())).await?;
    stream.set_nodelay(true)?;
    #[cfg(target_os = "linux")]
    if let Err(error) = configure(&stream, silence) {
        // Some systems that are compatible with Linux lack these options. The keep-alive has the same effect, but is slower.
        tracing::debug!(%error, "the system does not watch the connection");
    }
    #[cfg(not(target_os = "linux"))]
    let _ = silence;
    Ok(stream)
}

/// Maximum number of unsent bytes in the system, besides those on the network. With the usual buffers of megabytes, a slow link
/// would seem blocked for many seconds, and a PINGREQ would wait behind all of these bytes. This limit equals two seconds on a
/// link of 1 Mbit/s.
#[cfg(target_os = "linux")]
const MAX_UNSENT_BYTES: u32 = 256 * 1024;

/// Configures the socket so that the system reports lost bytes soon.
#[cfg(target_os = "linux")]
fn configure(stream: &TcpStream, silence: Duration) -> io::Result<()> {
    /// A lower limit would end connections after a few lost packets, since each retransmission waits longer than the previous
    /// one.
    const MIN_TIMEOUT: Duration = Duration::from_secs(5);
    let socket = socket2::SockRef::from(stream);
    socket.set_tcp_notsent_lowat(MAX_UNSENT_BYTES)?;
    let silence = silence.max(MIN_TIMEOUT);
    if u32::try_from(silence.as_millis()).is_ok() {
        socket.set_tcp_user_timeout(Some(silence))?;
    }
    Ok(())
}

/// Returns each address once, with alternating families, starting with the family that the system prefers (RFC 8305, section
/// 4).
fn interleave(addresses: impl Iterator<Item = SocketAddr>) -> VecDeque<SocketAddr> {
    let mut ordered: Vec<SocketAddr> = Vec::new();
    for address in addresses {
        if !ordered.contains(&address) {
            ordered.push(address);
        }
    }
    let begins_with_v6 = ordered.first().is_some_and(SocketAddr::is_ipv6);
    let (first, second): (Vec<_>, Vec<_>) = ordered
        .into_iter()
        .partition(|address| address.is_ipv6() == begins_with_v6);
    let mut second = second.into_iter();
    let mut interleaved = VecDeque::new();
    for address in first {
        interleaved.push_back(address);
        interleaved.extend(second.next());
    }
    interleaved.extend(second);
    interleaved
}

/// Returns the first connection that succeeds. Slower attempts are dropped.
async fn race(mut waiting: VecDeque<SocketAddr>) -> io::Result<TcpStream> {
    let mut attempts = JoinSet::new();
    let mut failures = Vec::new();
    loop {
        if let Some(address) = waiting.pop_front() {
            attempts.spawn(async move { (address, TcpStream::connect(address).await) });
        }
        tokio::select! {
            ended = attempts.join_next() => match ended {
                Some(Ok((_, Ok(stream)))) => return Ok(stream),
                Some(Ok((address, Err(error)))) => {
                    tracing::debug!(%address, %error, "no connection to one address of the broker");
                    failures.push((address, error));
                }
                Some(Err(error)) => return Err(io::Error::other(error)),
                None => return Err(all_failed(failures)),
            },
            () = tokio::time::sleep(CONNECTION_ATTEMPT_DELAY), if !waiting.is_empty() => {}
        }
    }
}

/// Error of an unreachable host, whose reason contains the text of its source.
#[derive(Debug)]
struct UnreachableError {
    reason: String,
    source: io::Error,
}

impl fmt::Display for UnreachableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl std::error::Error for UnreachableError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

/// Combines the errors of all addresses.
fn all_failed(mut failures: Vec<(SocketAddr, io::Error)>) -> io::Error {
    if failures.len() == 1
        && let Some((_, error)) = failures.pop()
    {
        return error;
    }
    if failures.is_empty() {
        return io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    }
    let reasons: Vec<_> = failures
        .iter()
        .map(|(address, error)| format!("{}: {error}", address.ip()))
        .collect();
    let reason = reasons.join("; ");
    let (_, first) = failures.swap_remove(0);
    io::Error::new(
        first.kind(),
        UnreachableError {
            reason,
            source: first,
        },
    )
}

#[cfg(test)]
mod tests {
    #[cfg(target_os = "linux")]
    use super::{MAX_UNSENT_BYTES, connect};
    use super::{interleave, race};
    use std::io;
    use std::net::{Ipv4Addr, SocketAddr};
    use std::time::{Duration, Instant};
    use tokio::net::{TcpListener, TcpSocket, TcpStream};
    use tokio::time::timeout;

    const TEST_TIMEOUT: Duration = Duration::from_secs(60);

    #[test]
    fn address_families_alternate_without_duplicates() {
        for (resolved, expected) in [
            (
                &[
                    "[::1]:1",
                    "[::2]:1",
                    "[::3]:1",
                    "1.0.0.1:1",
                    "[::1]:1",
                    "1.0.0.2:1",
                ][..],
                &["[::1]:1", "1.0.0.1:1", "[::2]:1", "1.0.0.2:1", "[::3]:1"][..],
            ),
            (
                &["1.0.0.1:1", "[::1]:1", "[::2]:1", "[::3]:1"],
                &["1.0.0.1:1", "[::1]:1", "[::2]:1", "[::3]:1"],
            ),
            (&["1.0.0.1:1", "1.0.0.1:1"], &["1.0.0.1:1"]),
            (&[], &[]),
        ] {
            let parsed = resolved.iter().map(|text| text.parse().unwrap());
            let expected: Vec<SocketAddr> =
                expected.iter().map(|text| text.parse().unwrap()).collect();
            assert_eq!(interleave(parsed), expected);
        }
    }

    /// Returns an address that drops packets: no task accepts, and the accept queue is full.
    async fn dropping_packets() -> (SocketAddr, Vec<TcpStream>, TcpListener) {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        let listener = socket.listen(0).unwrap();
        let address = listener.local_addr().unwrap();
        let mut queued = Vec::new();
        while let Ok(stream) =
            timeout(Duration::from_millis(300), TcpStream::connect(address)).await
        {
            queued.push(stream.unwrap());
        }
        (address, queued, listener)
    }

    /// Returns an address that refuses connections.
    fn refusing() -> (SocketAddr, TcpSocket) {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        (socket.local_addr().unwrap(), socket)
    }

    #[tokio::test]
    async fn an_address_that_drops_packets_does_not_block_the_next_one() {
        let (dead, _queued, _listener) = dropping_packets().await;
        let (refusing, _socket) = refusing();
        let alive = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = alive.local_addr().unwrap();
        let racing = race([dead, refusing, address].into());
        let stream = timeout(TEST_TIMEOUT, racing).await.unwrap().unwrap();
        assert_eq!(stream.peer_addr().unwrap(), address);
    }

    #[tokio::test]
    async fn an_address_that_drops_packets_delays_less_than_half_a_second() {
        let (dead, _queued, _listener) = dropping_packets().await;
        let alive = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = alive.local_addr().unwrap();
        let mut least = TEST_TIMEOUT;
        // A busy machine may delay some attempts.
        for _ in 0..5 {
            let began = Instant::now();
            race([dead, address].into()).await.unwrap();
            least = least.min(began.elapsed());
        }
        assert!(least < Duration::from_millis(500), "{least:?}");
    }

    #[tokio::test]
    async fn a_later_address_does_not_end_the_attempt_of_an_earlier_one() {
        let (slow, queued, listener) = dropping_packets().await;
        let (refusing, _socket) = refusing();
        let racing = tokio::spawn(race([slow, refusing].into()));
        // Both attempts start before the first address can accept a connection.
        tokio::time::sleep(super::CONNECTION_ATTEMPT_DELAY * 2).await;
        for _ in queued {
            listener.accept().await.unwrap();
        }
        let stream = timeout(TEST_TIMEOUT, racing)
            .await
            .unwrap()
            .unwrap()
            .unwrap();
        assert_eq!(stream.peer_addr().unwrap(), slow);
    }

    #[tokio::test]
    async fn the_error_of_each_address_is_reported() {
        let (one, _socket) = refusing();
        let error = race([one].into()).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        assert!(!error.to_string().contains("127.0.0.1"), "{error}");
        let other = SocketAddr::new([127, 0, 0, 2].into(), one.port());
        let error = race([one, other].into()).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        let text = error.to_string();
        assert!(
            text.contains("127.0.0.1: ") && text.contains("; 127.0.0.2: "),
            "{text}"
        );
        let error = race([].into()).await.unwrap_err();
        assert!(error.to_string().contains("no address"), "{error}");
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn tcp_user_timeout_and_unsent_limit_are_set() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        for (silence, timeout) in [
            (Duration::from_secs(10), Some(Duration::from_secs(10))),
            (Duration::from_millis(200), Some(Duration::from_secs(5))),
            (Duration::MAX, None),
        ] {
            let stream = connect(vec![address], silence).await.unwrap();
            let socket = socket2::SockRef::from(&stream);
            assert_eq!(socket.tcp_user_timeout().unwrap(), timeout);
            assert_eq!(socket.tcp_notsent_lowat().unwrap(), MAX_UNSENT_BYTES);
            assert!(stream.nodelay().unwrap());
        }
    }
}
