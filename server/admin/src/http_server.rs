//! Connections to the HTTP port: few, and none that stays silent for long or blocks others.
use super::app_state::AppState;
use super::connection_limiter::{self, ConnectionLimiter, ConnectionPermit, ResponseGuard};
use super::reply;
use super::request_authorizer::{AccessLevel, RequestAuthorizer};
use super::response_body::ResponseBody;
use super::routes;
use hyper::body::{Body, Incoming};
use hyper::header::CONNECTION;
use hyper::http::HeaderValue;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use statestored_listeners::{ActiveTls, accept_https, renew};
use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::{JoinSet, yield_now};
use tokio::time::{Instant, sleep, sleep_until, timeout};

/// Time limit for a TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Time limit for the head of a request.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
/// Time after which an idle connection is closed.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum length of the head of a request, and maximum number of its lines.
const MAX_HEADER_BYTES: usize = 16 * 1024;
const MAX_HEADERS: usize = 64;
/// Pause of accepting after a failure, such as too many open files.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// Serves the port until the server has stopped, with TLS if there are certificates.
pub(super) async fn serve(
    listeners: Vec<TcpListener>,
    tls: Option<ActiveTls>,
    authorizer: Rc<RequestAuthorizer>,
    app: Rc<AppState>,
) {
    let listeners = listeners.into_iter().map(tokio::net::TcpListener::from_std);
    let listeners = match listeners.collect::<io::Result<Vec<_>>>() {
        Ok(listeners) => listeners,
        Err(error) => return tracing::error!(%error, "the HTTP port cannot be served"),
    };
    let mut connections = JoinSet::new();
    if let Some(tls) = tls.clone() {
        connections.spawn_local(renew(tls));
    }
    let limiter = ConnectionLimiter::default();
    let mut events = std::pin::pin!(app.event_subscribers.publish(async || app.status().await));
    let mut history = std::pin::pin!(app.history.record(async || app.reading().await));
    let mut report = std::pin::pin!(app.audit_trail.report_omitted_lines());
    loop {
        tokio::select! {
            () = app.stopped() => return,
            () = &mut events => {}
            () = &mut history => {}
            () = &mut report => {}
            Some(_) = connections.join_next() => {}
            accepted = accept(&listeners) => match accepted {
                Ok((stream, address)) => {
                    let admission = limiter.admit();
                    if admission != connection_limiter::Admission::Free {
                        app.count_refused_connection();
                    }
                    if admission != connection_limiter::Admission::Full {
                        limiter.insert(address.ip(), |permit| {
                            let (authorizer, app) = (Rc::clone(&authorizer), Rc::clone(&app));
                            let tls = tls.clone();
                            connections.spawn_local(async move {
                                match tls {
                                    Some(tls) => serve_tls(stream, tls, address, permit, authorizer, app).await,
                                    None => serve_connection(stream, address, permit, authorizer, app).await,
                                }
                            })
                        });
                    }
                    if admission == connection_limiter::Admission::Evicted {
                        // Lets every accepted connection run once before another one takes its place, however many
                        // arrive.
                        yield_now().await;
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection to the HTTP port");
                    sleep(ACCEPT_RETRY_DELAY).await;
                }
            }
        }
    }
}

/// Accepts the next connection at any of the addresses.
async fn accept(listeners: &[tokio::net::TcpListener]) -> io::Result<(TcpStream, SocketAddr)> {
    poll_fn(|context| {
        let mut polled = listeners.iter().map(|it| it.poll_accept(context));
        polled.find(Poll::is_ready).unwrap_or(Poll::Pending)
    })
    .await
}

/// Completes the TLS handshake of one connection, and answers its requests. Handshakes do not wait for each other.
async fn serve_tls(
    stream: TcpStream,
    tls: ActiveTls,
    peer: SocketAddr,
    permit: Rc<ConnectionPermit>,
    authorizer: Rc<RequestAuthorizer>,
    app: Rc<AppState>,
) {
    let Some(tls) = tls.get() else {
        return tracing::error!("the HTTP port has no certificate");
    };
    let handshake = Box::pin(accept_https(&tls, stream));
    match timeout(HANDSHAKE_TIMEOUT, handshake).await {
        Ok(Ok(stream)) => {
            permit.touch();
            serve_connection(Box::new(stream), peer, permit, authorizer, app).await;
        }
        Ok(Err(error)) => app.audit_trail.log_failed_handshake(peer, &error),
        Err(_) => {
            let error = io::Error::from(io::ErrorKind::TimedOut);
            app.audit_trail.log_failed_handshake(peer, &error);
        }
    }
}

/// Answers the requests of one connection.
async fn serve_connection<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    peer: SocketAddr,
    permit: Rc<ConnectionPermit>,
    authorizer: Rc<RequestAuthorizer>,
    app: Rc<AppState>,
) {
    let answer = service_fn(|request: Request<Incoming>| {
        let (authorizer, app, permit) =
            (Rc::clone(&authorizer), Rc::clone(&app), Rc::clone(&permit));
        async move {
            let (parts, body) = request.into_parts();
            let authorization = authorizer.authorize(&parts);
            let has_token = authorization.is_ok_and(|rights| rights == AccessLevel::Full);
            let response_guard = permit.begin_response(has_token);
            let reply =
                routes::respond(peer, &parts, body, (authorization, &response_guard), &app).await;
            Ok::<_, Infallible>(track_activity(reply, response_guard))
        }
    });
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_header_size(MAX_HEADER_BYTES)
        .max_buf_size(MAX_HEADER_BYTES)
        .max_headers(MAX_HEADERS);
    let connection = builder.serve_connection(TokioIo::new(stream), answer);
    tokio::select! {
        ended = connection => if let Err(error) = ended {
            tracing::debug!(%error, "a connection to the HTTP port ended");
        },
        () = idle_timeout(&permit) => {}
    }
}

/// Waits until the connection has been idle for too long.
async fn idle_timeout(permit: &ConnectionPermit) {
    loop {
        let due = permit.last_active() + IDLE_TIMEOUT;
        if Instant::now() >= due {
            return;
        }
        sleep_until(due).await;
    }
}

/// Wraps a response, so that the connection counts as active when a part of it is taken.
fn track_activity(reply: reply::Reply, response_guard: ResponseGuard) -> Response<ActivityBody> {
    let is_refused_unread = matches!(
        reply.status(),
        StatusCode::BAD_REQUEST | StatusCode::LENGTH_REQUIRED | StatusCode::PAYLOAD_TOO_LARGE
    );
    let mut reply = reply.map(|content| ActivityBody {
        body: content,
        guard: response_guard,
    });
    if is_refused_unread {
        // The bytes that follow may be part of the refused body, so that they cannot be read as a request.
        let close = HeaderValue::from_static("close");
        reply.headers_mut().insert(CONNECTION, close);
    }
    reply
}

struct ActivityBody {
    body: ResponseBody,
    guard: ResponseGuard,
}

impl Body for ActivityBody {
    type Data = <ResponseBody as Body>::Data;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<hyper::body::Frame<Self::Data>>>> {
        let next = Pin::new(&mut self.body).poll_frame(context);
        if next.is_ready() {
            self.guard.touch();
        }
        next
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> hyper::body::SizeHint {
        self.body.size_hint()
    }
}
