//! PROXY protocol headers, and TLS and WebSocket handshakes, on a thread of their own.
use super::handshake_limiter::{HandshakeKey, HandshakeLimiter};
use super::stream::{DetachedStream, Socket, Stream, Transport};
use super::tls::{ActiveTls, identity, renew, with_advice};
use super::tls_failure::{TlsFailure, TlsFailureCounts};
use super::websocket::{WebSocket, upgrade};
use super::{
    AcceptResult, AcceptedConnection, ConnectionLimiter, ConnectionPermit, HandshakeLimits, Scheme,
    Subnet, bound_sockets, proxy_protocol, tcp,
};
use statestored_access::{ClientCertificate, Peer, TlsParameters};
use statestored_broker::audit::{self, EndCounts, EndReason, LineKind, LineLimiter, OmittedLines};
use statestored_link::single_threaded_runtime;
use std::cell::RefCell;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{AbortHandle, JoinSet, LocalSet, spawn_local, yield_now};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

/// Interval at which omitted lines are reported.
const REPORT_INTERVAL: Duration = Duration::from_secs(10);

/// Time that a refused client has to read the reason.
const REFUSAL_LINGER: Duration = Duration::from_secs(1);

/// Settings that all handshakes share.
#[derive(Debug)]
pub struct HandshakeConfig {
    /// Certificates.
    pub tls: ActiveTls,
    /// Origins that a browser may connect from.
    pub web_origins: Vec<String>,
    /// Addresses of proxies, whose connections begin with a header of the PROXY protocol.
    pub trusted_proxies: Vec<Subnet>,
    /// Time limit of a whole handshake.
    pub timeout: Duration,
    /// Limits that a reload changes.
    pub limits: HandshakeLimits,
    /// Limit of connections.
    pub connection_limiter: ConnectionLimiter,
    /// Numbers of ended connections.
    pub end_counts: EndCounts,
    /// Numbers of failed TLS handshakes.
    pub tls_failures: TlsFailureCounts,
}

/// The thread of the handshakes; it ends when this is dropped.
#[derive(Debug)]
pub struct HandshakeThread {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl HandshakeThread {
    /// Accepts connections at these addresses. The second value receives the connections whose handshakes have succeeded.
    pub fn start(
        listeners: Vec<(Scheme, std::net::TcpListener)>,
        rules: HandshakeConfig,
    ) -> io::Result<(Self, CompletedHandshakes)> {
        let runtime = single_threaded_runtime()?;
        let (stop, stopped) = oneshot::channel::<()>();
        let (moved, arrivals) = mpsc::channel(64);
        let thread = std::thread::Builder::new()
            .name("handshakes".into())
            .spawn(move || {
                let local = LocalSet::new();
                let serve = serve(listeners, Rc::new(rules), moved);
                runtime.block_on(local.run_until(async {
                    tokio::select! {
                        _ = stopped => {}
                        () = serve => {}
                    }
                }));
                // Dropped within the runtime.
                let guard = runtime.enter();
                drop(local);
                drop(guard);
                // A blocking call for a file may be running, for any length of time.
                runtime.shutdown_background();
            })?;
        let this = Self {
            stop: Some(stop),
            thread: Some(thread),
        };
        Ok((this, CompletedHandshakes(arrivals)))
    }
}

impl Drop for HandshakeThread {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(Err(_)) = self.thread.take().map(JoinHandle::join) {
            tracing::error!(
                "the thread of the handshakes panicked: this is a bug, please report it"
            );
        }
    }
}

/// Connections that move from the thread of the handshakes to that of the engine.
#[derive(Debug)]
pub struct CompletedHandshakes(mpsc::Receiver<AcceptedConnection<DetachedStream>>);

impl CompletedHandshakes {
    /// Passes the connections to `accepted` until its receiver is dropped. Call it on the thread of the engine.
    pub async fn forward_to(mut self, accepted: mpsc::Sender<AcceptResult<Stream>>) {
        while let Some(arrival) = self.0.recv().await {
            let stream = match arrival.stream.attach() {
                Ok(stream) => stream,
                Err(error) => {
                    tracing::warn!(%error, "cannot take over a connection");
                    continue;
                }
            };
            let arrival = AcceptedConnection {
                stream,
                peer: arrival.peer,
                permit: arrival.permit,
            };
            if accepted.send(Ok(arrival)).await.is_err() {
                return;
            }
        }
    }
}

/// State that the tasks of the thread share.
struct HandshakeContext {
    config: Rc<HandshakeConfig>,
    limiter: RefCell<HandshakeLimiter<PendingHandshake>>,
    completed: mpsc::Sender<AcceptedConnection<DetachedStream>>,
    line_limiter: RefCell<LineLimiter>,
    started: Instant,
}

/// A handle to end a handshake.
struct PendingHandshake {
    handshake: AbortHandle,
    /// Peer of the connection, updated by a proxy's header.
    peer: Rc<RefCell<Peer>>,
}

impl HandshakeContext {
    /// Counts and logs a connection that ended before its handshake succeeded.
    fn record_failure(&self, peer: &Peer, reason: EndReason, why: &dyn std::fmt::Display) {
        self.config.end_counts.count(reason);
        // A port scan also closes the connection before the handshake ends.
        let is_probe = reason == EndReason::ClientClosed;
        let now_ms = self.now_ms();
        let rate = self.config.limits.audit_rate();
        let address = Some(peer.address);
        let mut lines = self.line_limiter.borrow_mut();
        if !is_probe && lines.admits(LineKind::Connection, "", address, rate, now_ms) {
            tracing::warn!(
                target: audit::CONNECTION,
                event = "disconnected",
                reason = reason.name(),
                why = %why,
                peer = %peer,
                listener = &*peer.listener,
                "a connection ended before it had a client"
            );
        } else {
            tracing::debug!(%peer, reason = reason.name(), "a handshake failed: {why}");
        }
    }

    /// Makes room for another handshake, within the current limits.
    fn make_room(&self) -> Result<Option<PendingHandshake>, Instant> {
        let mut limiter = self.limiter.borrow_mut();
        limiter.set_max_handshakes(self.config.limits.max_handshakes());
        limiter.make_room(Instant::now())
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

/// Logs the numbers of omitted lines.
async fn report_omitted_lines(shared: Rc<HandshakeContext>) {
    loop {
        tokio::time::sleep(REPORT_INTERVAL).await;
        let report = shared
            .line_limiter
            .borrow_mut()
            .take_report(shared.now_ms());
        for OmittedLines { source, lines, .. } in report {
            tracing::info!(
                target: audit::CONNECTION,
                event = "left_out",
                source,
                lines,
                "lines of the audit trail were left out"
            );
        }
    }
}

/// Accepts connections until a task panics.
async fn serve(
    listeners: Vec<(Scheme, std::net::TcpListener)>,
    rules: Rc<HandshakeConfig>,
    moved: mpsc::Sender<AcceptedConnection<DetachedStream>>,
) {
    let mut tasks = JoinSet::new();
    tasks.spawn_local(renew(rules.tls.clone()));
    let shared = Rc::new(HandshakeContext {
        limiter: RefCell::new(HandshakeLimiter::new(rules.limits.max_handshakes())),
        config: rules,
        completed: moved,
        line_limiter: RefCell::default(),
        started: Instant::now(),
    });
    for (scheme, listener) in listeners {
        tasks.spawn_local(accept(scheme, listener, Rc::clone(&shared)));
    }
    tasks.spawn_local(report_omitted_lines(Rc::clone(&shared)));
    while let Some(ended) = tasks.join_next().await {
        if let Err(error) = ended {
            tracing::error!(%error, "a task of the handshakes ended: this is a bug, please report it");
            return;
        }
    }
}

async fn accept(scheme: Scheme, listener: std::net::TcpListener, shared: Rc<HandshakeContext>) {
    let listener = match TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => {
            tracing::error!(%error, "cannot listen for {}", scheme.name());
            return;
        }
    };
    let name = bound_sockets::name(scheme, &listener.local_addr());
    loop {
        let (stream, address) = tcp::next(&listener).await;
        let peer = Peer {
            listener: Arc::clone(&name),
            ..address.into()
        };
        let Some(permit) = shared.config.connection_limiter.try_acquire() else {
            let why = "there are too many connections";
            shared.record_failure(&peer, EndReason::TooManyConnections, &why);
            continue;
        };
        loop {
            let room = shared.make_room();
            match room {
                Ok(None) => break,
                Ok(Some(gone)) => {
                    gone.handshake.abort();
                    let why = "there are too many handshakes";
                    shared.record_failure(&gone.peer.borrow(), EndReason::HandshakeEvicted, &why);
                    // Lets the ended handshake drop its place.
                    yield_now().await;
                }
                // Further connections wait in the backlog of the system, which is made for many.
                Err(when) => tokio::time::sleep_until(when.into()).await,
            }
        }
        let key = shared.limiter.borrow_mut().next_key(address.ip());
        let handshake_permit = HandshakePermit {
            context: Rc::clone(&shared),
            key,
        };
        let peer = Rc::new(RefCell::new(peer));
        let of_client = Rc::clone(&peer);
        let handshake = handshake(scheme, stream, address, of_client, permit, handshake_permit);
        let handshake = spawn_local(handshake);
        let under_way = PendingHandshake {
            handshake: handshake.abort_handle(),
            peer,
        };
        let mut limiter = shared.limiter.borrow_mut();
        limiter.insert(key, under_way, Instant::now());
    }
}

/// A guard that removes the handshake from the limiter when it ends, for any reason.
struct HandshakePermit {
    context: Rc<HandshakeContext>,
    key: HandshakeKey,
}

impl HandshakePermit {
    /// Moves the handshake to this address.
    fn move_to_address(&mut self, address: IpAddr) {
        let mut limiter = self.context.limiter.borrow_mut();
        self.key = limiter.move_to_address(self.key, address);
    }
}

impl Drop for HandshakePermit {
    fn drop(&mut self) {
        self.context.limiter.borrow_mut().remove(self.key);
    }
}

async fn handshake(
    scheme: Scheme,
    mut stream: TcpStream,
    address: SocketAddr,
    peer: Rc<RefCell<Peer>>,
    connection_permit: ConnectionPermit,
    mut handshake_permit: HandshakePermit,
) {
    let shared = Rc::clone(&handshake_permit.context);
    let result = async {
        if let Some(client) = proxied_address(&mut stream, address, &shared.config).await? {
            handshake_permit.move_to_address(client.ip());
            let listener = Arc::clone(&peer.borrow().listener);
            peer.replace(Peer {
                listener,
                ..client.into()
            });
        }
        complete_handshake(scheme, stream, &shared.config).await
    };
    let result = timeout(shared.config.timeout, result).await;
    let peer = peer.borrow().clone();
    let failure = match result {
        Ok(Ok((stream, encryption))) => match stream.detach() {
            Ok(stream) => {
                let arrival = AcceptedConnection {
                    stream,
                    peer: Peer {
                        tls: encryption.tls,
                        certificate: encryption.certificate,
                        ..peer
                    },
                    permit: connection_permit,
                };
                // The engine has no receiver when it stops.
                let _ = shared.completed.send(arrival).await;
                return;
            }
            Err(error) => error,
        },
        Ok(Err(failure)) => failure,
        Err(_) => {
            let why = "it takes too long";
            return shared.record_failure(&peer, EndReason::HandshakeTimeout, &why);
        }
    };
    let reason = match failure.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => EndReason::ClientClosed,
        _ => EndReason::HandshakeFailed,
    };
    shared.record_failure(&peer, reason, &failure);
}

/// Returns the address of the client, if a trusted proxy has made the connection and states it.
async fn proxied_address(
    stream: &mut TcpStream,
    address: SocketAddr,
    rules: &HandshakeConfig,
) -> io::Result<Option<SocketAddr>> {
    let mut trusted = rules.trusted_proxies.iter();
    if trusted.any(|subnet| subnet.contains(address.ip())) {
        return proxy_protocol::read(stream).await;
    }
    proxy_protocol::refuse(stream).await?;
    Ok(None)
}

/// Result of a TLS handshake, empty without one.
#[derive(Default)]
struct Encryption {
    tls: Option<TlsParameters>,
    certificate: Option<Arc<ClientCertificate>>,
}

/// Completes the handshake of a connection. A refused client is sent the reason, if possible.
async fn complete_handshake(
    scheme: Scheme,
    stream: TcpStream,
    rules: &HandshakeConfig,
) -> io::Result<(Stream, Encryption)> {
    let (mut transport, encryption) = if scheme.has_tls() {
        tls_handshake(scheme, stream, rules).await?
    } else {
        (Transport::Tcp(Socket::new(stream)), Encryption::default())
    };
    if !scheme.has_websocket() {
        return Ok((Stream::plain(transport), encryption));
    }
    match upgrade(&mut transport, scheme.has_tls(), &rules.web_origins).await {
        Ok(input) => {
            let stream = WebSocket::new(transport, input);
            Ok((Stream::web_socket(stream), encryption))
        }
        Err(error) => {
            linger(&mut transport).await;
            Err(error)
        }
    }
}

async fn tls_handshake(
    scheme: Scheme,
    stream: TcpStream,
    rules: &HandshakeConfig,
) -> io::Result<(Transport, Encryption)> {
    let tls = rules.tls.get().ok_or(io::ErrorKind::Unsupported)?;
    let acceptor = TlsAcceptor::from(tls.config(scheme.has_websocket()));
    let accepting = acceptor
        .accept(Socket::with_read_ahead(stream))
        .into_fallible();
    let mut stream = match accepting.await {
        Ok(stream) => stream,
        Err((error, mut socket)) => {
            rules.tls_failures.count(TlsFailure::of(&error));
            linger(&mut socket).await;
            return Err(with_advice(error, "--tls-client-ca"));
        }
    };
    let session = stream.get_ref().1;
    let (version, suite) = (
        session.protocol_version(),
        session.negotiated_cipher_suite(),
    );
    let tls = TlsParameters {
        version: version.and_then(|it| it.as_str()).unwrap_or_default(),
        cipher: suite.and_then(|it| it.suite().as_str()).unwrap_or_default(),
    };
    let certificates = session.peer_certificates();
    let certificate = match certificates.and_then(|chain| chain.first()).map(identity) {
        None => None,
        Some(Ok(certificate)) => Some(Arc::new(certificate)),
        Some(Err(problem)) => {
            let failure = TlsFailure::ClientCertificateInvalid;
            rules.tls_failures.count(failure);
            linger(&mut stream).await;
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, problem));
        }
    };
    let encryption = Encryption {
        tls: Some(tls),
        certificate,
    };
    Ok((Transport::Tls(Box::new(stream)), encryption))
}

/// Shuts the stream down and discards further input, since closing it with unread input would discard the last output.
pub(super) async fn linger<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut S) {
    let until_closed = async {
        stream.shutdown().await?;
        let mut thrown_away = [0; 1024];
        while stream.read(&mut thrown_away).await? > 0 {}
        io::Result::Ok(())
    };
    // The peer need not answer.
    let _ = timeout(REFUSAL_LINGER, until_closed).await;
}
