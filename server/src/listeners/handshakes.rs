//! PROXY protocol headers, and TLS and WebSocket handshakes, on a thread of their own.
use super::crowd::{Crowd, Ticket};
use super::stream::{Leaving, Socket, Stream, Transport};
use super::tls::{InForce, explained, identity, renew};
use super::websocket::{WebSocket, upgrade};
use super::{Accepted, Arrival, HandshakeLimits, Place, Places, bound, proxy_protocol, tcp};
use crate::access::{ClientCertificate, Peer};
use crate::audit::{self, EndCounts, EndReason, LeftOut, Line, LineLimiter};
use crate::config::{Scheme, Subnet};
use crate::runtime::single_threaded_runtime;
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
const REPORT_EVERY: Duration = Duration::from_secs(10);

/// Time that a refused client has to read the reason.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Settings that all handshakes share.
#[derive(Debug)]
pub(crate) struct Rules {
    pub(crate) tls: InForce,
    pub(crate) web_origins: Vec<String>,
    /// Addresses of proxies, whose connections begin with a header of the PROXY protocol.
    pub(crate) trusted_proxies: Vec<Subnet>,
    /// Time limit of a whole handshake.
    pub(crate) deadline: Duration,
    pub(crate) limits: HandshakeLimits,
    pub(crate) places: Places,
    /// Numbers of ended connections.
    pub(crate) ends: EndCounts,
}

/// The thread of the handshakes; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Handshakes {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Handshakes {
    /// Accepts connections at these addresses. The second value receives the connections whose handshakes have succeeded.
    pub(crate) fn start(
        listeners: Vec<(Scheme, std::net::TcpListener)>,
        rules: Rules,
    ) -> io::Result<(Self, Moved)> {
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
        Ok((this, Moved(arrivals)))
    }
}

impl Drop for Handshakes {
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
pub(crate) struct Moved(mpsc::Receiver<Arrival<Leaving>>);

impl Moved {
    /// Passes the connections to `accepted` until its receiver is dropped. Call it on the thread of the engine.
    pub(crate) async fn arrive(mut self, accepted: mpsc::Sender<Accepted<Stream>>) {
        while let Some(arrival) = self.0.recv().await {
            let stream = match arrival.stream.arrive() {
                Ok(stream) => stream,
                Err(error) => {
                    tracing::warn!(%error, "cannot take over a connection");
                    continue;
                }
            };
            let arrival = Arrival {
                stream,
                peer: arrival.peer,
                place: arrival.place,
            };
            if accepted.send(Ok(arrival)).await.is_err() {
                return;
            }
        }
    }
}

/// State that the tasks of the thread share.
struct Shared {
    rules: Rc<Rules>,
    crowd: RefCell<Crowd<UnderWay>>,
    moved: mpsc::Sender<Arrival<Leaving>>,
    failures: RefCell<LineLimiter>,
    started: Instant,
}

/// A handle to end a handshake.
struct UnderWay {
    handshake: AbortHandle,
    /// Peer of the connection, updated by a proxy's header.
    peer: Rc<RefCell<Peer>>,
}

impl Shared {
    /// Counts and logs a connection that ended before its handshake succeeded.
    fn ended(&self, peer: &Peer, reason: EndReason, why: &dyn std::fmt::Display) {
        self.rules.ends.count(reason);
        // A port scan also closes the connection before the handshake ends.
        let is_probe = reason == EndReason::ClientClosed;
        let now_ms = self.now_ms();
        let rate = self.rules.limits.audit_rate();
        let address = Some(peer.address);
        let mut lines = self.failures.borrow_mut();
        if !is_probe && lines.admits(Line::Connection, "", address, rate, now_ms) {
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
    fn make_room(&self) -> Result<Option<UnderWay>, Instant> {
        let mut crowd = self.crowd.borrow_mut();
        crowd.set_most(self.rules.limits.most());
        crowd.make_room(Instant::now())
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

/// Logs the numbers of omitted lines.
async fn report_lines_left_out(shared: Rc<Shared>) {
    loop {
        tokio::time::sleep(REPORT_EVERY).await;
        let report = shared.failures.borrow_mut().take_report(shared.now_ms());
        for LeftOut { source, lines, .. } in report {
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
    rules: Rc<Rules>,
    moved: mpsc::Sender<Arrival<Leaving>>,
) {
    let mut tasks = JoinSet::new();
    tasks.spawn_local(renew(rules.tls.clone()));
    let shared = Rc::new(Shared {
        crowd: RefCell::new(Crowd::new(rules.limits.most())),
        rules,
        moved,
        failures: RefCell::default(),
        started: Instant::now(),
    });
    for (scheme, listener) in listeners {
        tasks.spawn_local(accept(scheme, listener, Rc::clone(&shared)));
    }
    tasks.spawn_local(report_lines_left_out(Rc::clone(&shared)));
    while let Some(ended) = tasks.join_next().await {
        if let Err(error) = ended {
            tracing::error!(%error, "a task of the handshakes ended: this is a bug, please report it");
            return;
        }
    }
}

async fn accept(scheme: Scheme, listener: std::net::TcpListener, shared: Rc<Shared>) {
    let listener = match TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => {
            tracing::error!(%error, "cannot listen for {}", scheme.name());
            return;
        }
    };
    let name = bound::name(scheme, &listener.local_addr());
    loop {
        let (stream, address) = tcp::next(&listener).await;
        let peer = Peer {
            listener: Arc::clone(&name),
            ..address.into()
        };
        let Some(place) = shared.rules.places.take() else {
            let why = "there are too many connections";
            shared.ended(&peer, EndReason::TooManyConnections, &why);
            continue;
        };
        loop {
            let room = shared.make_room();
            match room {
                Ok(None) => break,
                Ok(Some(gone)) => {
                    gone.handshake.abort();
                    let why = "there are too many handshakes";
                    shared.ended(&gone.peer.borrow(), EndReason::HandshakeEvicted, &why);
                    // Lets the ended handshake drop its place.
                    yield_now().await;
                }
                // Further connections wait in the backlog of the system, which is made for many.
                Err(when) => tokio::time::sleep_until(when.into()).await,
            }
        }
        let ticket = shared.crowd.borrow_mut().ticket(address.ip());
        let leave = Leave {
            shared: Rc::clone(&shared),
            ticket,
        };
        let peer = Rc::new(RefCell::new(peer));
        let of_client = Rc::clone(&peer);
        let handshake = handshake(scheme, stream, address, of_client, place, leave);
        let handshake = spawn_local(handshake);
        let under_way = UnderWay {
            handshake: handshake.abort_handle(),
            peer,
        };
        let mut crowd = shared.crowd.borrow_mut();
        crowd.come(ticket, under_way, Instant::now());
    }
}

/// A guard that removes the handshake from the limiter when it ends, for any reason.
struct Leave {
    shared: Rc<Shared>,
    ticket: Ticket,
}

impl Leave {
    /// Moves the handshake to this address.
    fn is_of(&mut self, address: IpAddr) {
        let mut crowd = self.shared.crowd.borrow_mut();
        self.ticket = crowd.change(self.ticket, address);
    }
}

impl Drop for Leave {
    fn drop(&mut self) {
        self.shared.crowd.borrow_mut().go(self.ticket);
    }
}

async fn handshake(
    scheme: Scheme,
    mut stream: TcpStream,
    address: SocketAddr,
    peer: Rc<RefCell<Peer>>,
    place: Place,
    mut leave: Leave,
) {
    let shared = Rc::clone(&leave.shared);
    let shaken = async {
        if let Some(client) = proxied(&mut stream, address, &shared.rules).await? {
            leave.is_of(client.ip());
            let listener = Arc::clone(&peer.borrow().listener);
            peer.replace(Peer {
                listener,
                ..client.into()
            });
        }
        shake(scheme, stream, &shared.rules).await
    };
    let shaken = timeout(shared.rules.deadline, shaken).await;
    let peer = peer.borrow().clone();
    let failure = match shaken {
        Ok(Ok((stream, certificate))) => match stream.leave() {
            Ok(stream) => {
                let arrival = Arrival {
                    stream,
                    peer: Peer {
                        certificate,
                        ..peer
                    },
                    place,
                };
                // The engine has no receiver when it stops.
                let _ = shared.moved.send(arrival).await;
                return;
            }
            Err(error) => error,
        },
        Ok(Err(failure)) => failure,
        Err(_) => {
            let why = "it takes too long";
            return shared.ended(&peer, EndReason::HandshakeTimeout, &why);
        }
    };
    let reason = match failure.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => EndReason::ClientClosed,
        _ => EndReason::HandshakeFailed,
    };
    shared.ended(&peer, reason, &failure);
}

/// Returns the address of the client, if a trusted proxy has made the connection and states it.
async fn proxied(
    stream: &mut TcpStream,
    address: SocketAddr,
    rules: &Rules,
) -> io::Result<Option<SocketAddr>> {
    let mut trusted = rules.trusted_proxies.iter();
    if trusted.any(|subnet| subnet.contains(address.ip())) {
        return proxy_protocol::read(stream).await;
    }
    proxy_protocol::refuse(stream).await?;
    Ok(None)
}

/// Completes the handshake of a connection. A refused client is sent the reason, if possible.
async fn shake(
    scheme: Scheme,
    stream: TcpStream,
    rules: &Rules,
) -> io::Result<(Stream, Option<Arc<ClientCertificate>>)> {
    let (mut transport, certificate) = if scheme.has_tls() {
        let (transport, certificate) = encrypt(scheme, stream, rules).await?;
        (transport, certificate)
    } else {
        (Transport::Tcp(Socket::new(stream)), None)
    };
    if !scheme.has_websocket() {
        return Ok((Stream::Plain(transport), certificate));
    }
    match upgrade(&mut transport, scheme.has_tls(), &rules.web_origins).await {
        Ok(input) => {
            let stream = WebSocket::new(transport, input);
            Ok((Stream::WebSocket(Box::new(stream)), certificate))
        }
        Err(error) => {
            linger(&mut transport).await;
            Err(error)
        }
    }
}

async fn encrypt(
    scheme: Scheme,
    stream: TcpStream,
    rules: &Rules,
) -> io::Result<(Transport, Option<Arc<ClientCertificate>>)> {
    let tls = rules.tls.get().ok_or(io::ErrorKind::Unsupported)?;
    let acceptor = TlsAcceptor::from(tls.config(scheme.has_websocket()));
    let accepting = acceptor
        .accept(Socket::reading_ahead(stream))
        .into_fallible();
    let mut stream = match accepting.await {
        Ok(stream) => stream,
        Err((error, mut socket)) => {
            linger(&mut socket).await;
            return Err(explained(error));
        }
    };
    let certificates = stream.get_ref().1.peer_certificates();
    let certificate = match certificates.and_then(|chain| chain.first()).map(identity) {
        None => None,
        Some(Ok(certificate)) => Some(Arc::new(certificate)),
        Some(Err(problem)) => {
            linger(&mut stream).await;
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, problem));
        }
    };
    Ok((Transport::Tls(Box::new(stream)), certificate))
}

/// Shuts the stream down and discards further input, since closing it with unread input would discard the last output.
async fn linger<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut S) {
    let until_closed = async {
        stream.shutdown().await?;
        let mut thrown_away = [0; 1024];
        while stream.read(&mut thrown_away).await? > 0 {}
        io::Result::Ok(())
    };
    // The peer need not answer.
    let _ = timeout(LAST_WORDS, until_closed).await;
}
