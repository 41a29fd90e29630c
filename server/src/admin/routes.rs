//! The paths of the HTTP port, and the rights that they need.
use super::ServerState;
use super::audit::AuditTrail;
use super::blocking_limiter::BlockingLimiter;
use super::config::{AdminConfig, MetricNames};
use super::connection_limiter::ResponseGuard;
use super::events::EventSubscribers;
use super::page::PageAsset;
use super::query::Query;
use super::reply::{self, Reply};
use super::request_authorizer::{AccessLevel, RequestRefusal};
use crate::config::LogControl;
use crate::server_handle::ServerHandle;
use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::{Body, Incoming};
use hyper::header::{ACCEPT, ALLOW};
use hyper::http::HeaderValue;
use hyper::http::request::Parts;
use hyper::{Method, StatusCode};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::sync::watch;

/// Maximum length of the body of a request: a key in hexadecimal digits, and some more.
const MAX_BODY_BYTES: usize = 256 * 1024;
/// Time limit for the body.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// Time limit for a query of the file system.
const DISK_TIMEOUT: Duration = Duration::from_secs(1);

/// State that the handlers of requests share.
#[derive(Debug)]
pub(super) struct AppState {
    server_handle: ServerHandle,
    server_state: watch::Receiver<ServerState>,
    data_dir: Option<PathBuf>,
    pub(super) names: MetricNaming,
    /// Numbers of responses by path and status.
    pub(super) responses: RefCell<BTreeMap<(&'static str, u16), u64>>,
    /// Whether there is a token.
    pub(super) has_token: bool,
    pub(super) event_subscribers: EventSubscribers,
    pub(super) disk_limiter: BlockingLimiter,
    /// Number of connections closed because of their limit, whether new or existing ones.
    pub(super) refused_connections: Cell<u64>,
    /// Filter of the log.
    pub(super) log: Option<LogControl>,
    pub(super) audit_trail: AuditTrail,
}

/// Names of the metrics.
#[derive(Debug)]
pub(super) struct MetricNaming {
    pub(super) kind: MetricNames,
    pub(super) namespace: String,
    pub(super) backend_chain: String,
}

impl AppState {
    pub(super) fn new(
        control: ServerHandle,
        stages: watch::Receiver<ServerState>,
        data_dir: Option<PathBuf>,
        config: &AdminConfig,
    ) -> Self {
        Self {
            server_handle: control,
            server_state: stages,
            data_dir,
            names: MetricNaming {
                kind: config.names,
                namespace: config.namespace.clone(),
                backend_chain: config.backend_chain.clone(),
            },
            has_token: config.token.is_some(),
            event_subscribers: EventSubscribers::default(),
            disk_limiter: BlockingLimiter::with_timeout(DISK_TIMEOUT),
            responses: RefCell::default(),
            refused_connections: Cell::new(0),
            log: config.log.clone(),
            audit_trail: AuditTrail::new(),
        }
    }

    pub(super) fn server_handle(&self) -> &ServerHandle {
        &self.server_handle
    }

    pub(super) fn server_state(&self) -> ServerState {
        self.server_state.borrow().clone()
    }

    /// Returns the folder of the data, if it is on disk.
    pub(super) fn data_dir(&self) -> Option<&Path> {
        self.data_dir.as_deref()
    }

    /// Waits until the server has stopped.
    pub(super) async fn stopped(&self) {
        let mut stages = self.server_state.clone();
        while stages.changed().await.is_ok() {}
    }

    /// Returns whether keys, values and clients may be shown: with the token, or if any local user may connect and read all keys over
    /// MQTT.
    async fn may_read_entries(&self, rights: AccessLevel) -> bool {
        rights >= AccessLevel::Full
            || self
                .read_metrics()
                .await
                .is_ok_and(|figures| figures.allows_anonymous)
    }

    pub(super) fn count_refused_connection(&self) {
        self.refused_connections
            .set(self.refused_connections.get() + 1);
    }
}

/// Handler of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Route {
    Page(PageAsset),
    Metrics,
    Health,
    Readiness,
    Events,
    Status,
    Connections,
    Sessions,
    Refusals,
    Keys,
    Entry,
    Locks,
    Delete,
    Disconnect,
    Reload,
    Backup,
    Log,
}

/// Handlers by path.
const ROUTES: [(&str, Route); 20] = [
    ("/", Route::Page(PageAsset::Document)),
    ("/page.css", Route::Page(PageAsset::Style)),
    ("/page.js", Route::Page(PageAsset::Script)),
    ("/icon.svg", Route::Page(PageAsset::Icon)),
    ("/metrics", Route::Metrics),
    ("/healthz", Route::Health),
    ("/readyz", Route::Readiness),
    ("/events", Route::Events),
    ("/api/status", Route::Status),
    ("/api/connections", Route::Connections),
    ("/api/sessions", Route::Sessions),
    ("/api/refusals", Route::Refusals),
    ("/api/keys", Route::Keys),
    ("/api/key", Route::Entry),
    ("/api/locks", Route::Locks),
    ("/api/delete", Route::Delete),
    ("/api/disconnect", Route::Disconnect),
    ("/api/reload", Route::Reload),
    ("/api/backup", Route::Backup),
    ("/api/log", Route::Log),
];

impl Route {
    /// Returns whether a request changes something, or is expensive.
    fn is_mutation(self, method: &Method) -> bool {
        match self {
            Self::Delete | Self::Disconnect | Self::Reload | Self::Backup => true,
            Self::Log => method == Method::POST,
            _ => false,
        }
    }

    /// Returns whether the response contains keys or clients.
    fn shows_entries(self) -> bool {
        matches!(
            self,
            Self::Keys
                | Self::Entry
                | Self::Locks
                | Self::Connections
                | Self::Sessions
                | Self::Refusals
        )
    }

    /// Returns the rights that a request needs.
    fn required_access(self, method: &Method) -> AccessLevel {
        match self {
            Self::Page(_) | Self::Health | Self::Readiness => AccessLevel::Liveness,
            _ if self.is_mutation(method) => AccessLevel::Full,
            _ => AccessLevel::Read,
        }
    }
}

/// Answers a request, or refuses it, according to `judged`.
pub(super) async fn respond(
    peer: SocketAddr,
    parts: &Parts,
    body: Incoming,
    (judged, answering): (Result<AccessLevel, RequestRefusal>, &ResponseGuard),
    room: &AppState,
) -> Reply {
    let path = parts.uri.path();
    let found = ROUTES.iter().find(|(known, _)| *known == path);
    let (name, reply) = match (found, judged) {
        (Some((name, route)), Ok(rights)) => (
            *name,
            check_and_dispatch(*route, parts, body, (peer, rights, answering), room).await,
        ),
        (Some((name, _)), Err(refusal)) => (*name, refusal.into()),
        (None, Ok(_)) => ("other", not_found()),
        (None, Err(refusal)) => ("other", refusal.into()),
    };
    let changes = found.is_some_and(|(_, route)| route.is_mutation(&parts.method));
    room.audit_trail
        .log_request(peer, name, changes, judged, &reply);
    let key = (name, reply.status().as_u16());
    *room.responses.borrow_mut().entry(key).or_default() += 1;
    reply
}

fn not_found() -> Reply {
    reply::text(StatusCode::NOT_FOUND, "there is nothing here\n")
}

async fn check_and_dispatch(
    route: Route,
    parts: &Parts,
    body: Incoming,
    (peer, rights, answering): (SocketAddr, AccessLevel, &ResponseGuard),
    room: &AppState,
) -> Reply {
    let changes = route.is_mutation(&parts.method);
    let (fits, allowed) = if changes {
        (parts.method == Method::POST, "POST")
    } else {
        let is_health = matches!(route, Route::Health | Route::Readiness);
        // The method that HAProxy uses unless another one is configured.
        let is_check = is_health && parts.method == Method::OPTIONS;
        let is_read = parts.method == Method::GET || parts.method == Method::HEAD || is_check;
        let allowed = match route {
            Route::Log => "GET, HEAD, POST",
            _ if is_health => "GET, HEAD, OPTIONS",
            _ => "GET, HEAD",
        };
        (is_read, allowed)
    };
    if !fits {
        let why = format!("this is asked for with {allowed}\n");
        let mut refusal = reply::text(StatusCode::METHOD_NOT_ALLOWED, why);
        let allowed = HeaderValue::from_static(allowed);
        refusal.headers_mut().insert(ALLOW, allowed);
        return refusal;
    }
    if !changes && !body.is_end_stream() {
        return reply::text(StatusCode::BAD_REQUEST, "there is nothing to send here\n");
    }
    if rights < route.required_access(&parts.method) {
        let why = if room.has_token {
            "this needs the token\n"
        } else {
            "this needs a token, and the server has none: start it with --http-token-file\n"
        };
        return RequestRefusal::unauthorized(why).into();
    }
    if route.shows_entries() && !room.may_read_entries(rights).await {
        let why = "keys, values and clients are shown to every local user only where each could connect without credentials: \
                   this needs the token\n";
        return RequestRefusal::unauthorized(why).into();
    }
    match read_body(body).await {
        Ok(body) => dispatch(route, parts, &body, (peer, rights, answering), room).await,
        Err(refusal) => refusal,
    }
}

/// Receives the whole body.
async fn read_body(body: Incoming) -> Result<Bytes, Reply> {
    let collected = Limited::new(body, MAX_BODY_BYTES).collect();
    match tokio::time::timeout(BODY_TIMEOUT, collected).await {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            let why = "the body of the request is too large\n";
            Err(reply::text(StatusCode::PAYLOAD_TOO_LARGE, why))
        }
        Ok(Err(_)) => Err(reply::text(
            StatusCode::BAD_REQUEST,
            "the body of the request is incomplete\n",
        )),
        Err(_) => {
            let why = "the body of the request did not arrive in time\n";
            Err(reply::text(StatusCode::REQUEST_TIMEOUT, why))
        }
    }
}

async fn dispatch(
    route: Route,
    parts: &Parts,
    body: &[u8],
    (peer, rights, answering): (SocketAddr, AccessLevel, &ResponseGuard),
    room: &AppState,
) -> Reply {
    let query = Query::new(parts.uri.query());
    match route {
        Route::Page(part) => part.into_reply(),
        Route::Metrics => room.metrics(parts).await,
        Route::Health => room.health(rights, wants_json(parts)).await,
        Route::Readiness => room.readiness(rights, wants_json(parts)).await,
        // A HEAD request would add a viewer that never ends.
        Route::Events if parts.method == Method::HEAD => not_found(),
        Route::Events => room.events(rights),
        Route::Status => reply::json(StatusCode::OK, &room.status().await),
        Route::Connections => room.connections(query).await,
        Route::Sessions => room.sessions(query).await,
        Route::Refusals => room.refusals().await,
        Route::Keys => room.keys(query).await,
        Route::Entry => room.entry(query).await,
        Route::Locks => room.locks(query).await,
        Route::Delete => room.delete(body).await,
        Route::Disconnect => room.disconnect(body).await,
        Route::Reload => room.reload().await,
        Route::Backup => room.backup(peer, answering).await,
        Route::Log if parts.method == Method::POST => room.set_log_filter(body),
        Route::Log => room.log_filter(),
    }
}

fn wants_json(parts: &Parts) -> bool {
    accepts(parts, "application/json")
}

/// Returns whether the request names a media type in `Accept`.
pub(super) fn accepts(parts: &Parts, kind: &str) -> bool {
    let accepted = parts.headers.get_all(ACCEPT).iter();
    let mut accepted = accepted.filter_map(|value| value.to_str().ok());
    accepted.any(|value| value.contains(kind))
}
