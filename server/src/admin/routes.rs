//! The paths of the HTTP port, and the rights that they need.
use super::Stage;
use super::audit::Trail;
use super::config::{AdminConfig, MetricNames};
use super::events::Viewers;
use super::gate::{Refusal, Rights};
use super::looks::Looks;
use super::page::Part;
use super::places::Answering;
use super::query::Query;
use super::reply::{self, Reply};
use crate::config::LogControl;
use crate::control::Control;
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
const MOST_BODY_BYTES: usize = 256 * 1024;
/// Time limit for the body.
const BODY_TIME: Duration = Duration::from_secs(10);

/// Time limit for a query of the file system.
const DISK_TIME: Duration = Duration::from_secs(1);

/// State that the handlers of requests share.
#[derive(Debug)]
pub(super) struct Room {
    control: Control,
    stages: watch::Receiver<Stage>,
    data_dir: Option<PathBuf>,
    pub(super) names: Names,
    /// Numbers of responses by path and status.
    pub(super) answers: RefCell<BTreeMap<(&'static str, u16), u64>>,
    /// Whether there is a token.
    pub(super) has_token: bool,
    pub(super) viewers: Viewers,
    pub(super) disk_looks: Looks,
    /// Number of connections closed because of their limit, whether new or existing ones.
    pub(super) refused_connections: Cell<u64>,
    /// Filter of the log.
    pub(super) log: Option<LogControl>,
    pub(super) trail: Trail,
}

/// Names of the metrics.
#[derive(Debug)]
pub(super) struct Names {
    pub(super) kind: MetricNames,
    pub(super) namespace: String,
    pub(super) backend_chain: String,
}

impl Room {
    pub(super) fn new(
        control: Control,
        stages: watch::Receiver<Stage>,
        data_dir: Option<PathBuf>,
        config: &AdminConfig,
    ) -> Self {
        Self {
            control,
            stages,
            data_dir,
            names: Names {
                kind: config.names,
                namespace: config.namespace.clone(),
                backend_chain: config.backend_chain.clone(),
            },
            has_token: config.token.is_some(),
            viewers: Viewers::default(),
            disk_looks: Looks::within(DISK_TIME),
            answers: RefCell::default(),
            refused_connections: Cell::new(0),
            log: config.log.clone(),
            trail: Trail::new(),
        }
    }

    pub(super) fn control(&self) -> &Control {
        &self.control
    }

    pub(super) fn stage(&self) -> Stage {
        self.stages.borrow().clone()
    }

    /// Returns the folder of the data, if it is on disk.
    pub(super) fn data_dir(&self) -> Option<&Path> {
        self.data_dir.as_deref()
    }

    /// Waits until the server has stopped.
    pub(super) async fn ended(&self) {
        let mut stages = self.stages.clone();
        while stages.changed().await.is_ok() {}
    }

    /// Returns whether keys, values and clients may be shown: with the token, or if any local user may connect and read all keys over
    /// MQTT.
    async fn may_see_contents(&self, rights: Rights) -> bool {
        rights >= Rights::Everything || self.figures().await.is_ok_and(|figures| figures.is_open)
    }

    pub(super) fn refused_connection(&self) {
        self.refused_connections
            .set(self.refused_connections.get() + 1);
    }
}

/// Handler of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Route {
    Page(Part),
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
    ("/", Route::Page(Part::Document)),
    ("/page.css", Route::Page(Part::Style)),
    ("/page.js", Route::Page(Part::Script)),
    ("/icon.svg", Route::Page(Part::Icon)),
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
    fn changes(self, method: &Method) -> bool {
        match self {
            Self::Delete | Self::Disconnect | Self::Reload | Self::Backup => true,
            Self::Log => method == Method::POST,
            _ => false,
        }
    }

    /// Returns whether the response contains keys or clients.
    fn shows_contents(self) -> bool {
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
    fn needs(self, method: &Method) -> Rights {
        match self {
            Self::Page(_) | Self::Health | Self::Readiness => Rights::Nothing,
            _ if self.changes(method) => Rights::Everything,
            _ => Rights::Look,
        }
    }
}

/// Answers a request, or refuses it, according to `judged`.
pub(super) async fn answer(
    peer: SocketAddr,
    parts: &Parts,
    body: Incoming,
    (judged, answering): (Result<Rights, Refusal>, &Answering),
    room: &Room,
) -> Reply {
    let path = parts.uri.path();
    let found = ROUTES.iter().find(|(known, _)| *known == path);
    let (name, reply) = match (found, judged) {
        (Some((name, route)), Ok(rights)) => (
            *name,
            admit(*route, parts, body, (peer, rights, answering), room).await,
        ),
        (Some((name, _)), Err(refusal)) => (*name, refusal.into()),
        (None, Ok(_)) => ("other", nothing_here()),
        (None, Err(refusal)) => ("other", refusal.into()),
    };
    let changes = found.is_some_and(|(_, route)| route.changes(&parts.method));
    room.trail.answered(peer, name, changes, judged, &reply);
    let key = (name, reply.status().as_u16());
    *room.answers.borrow_mut().entry(key).or_default() += 1;
    reply
}

fn nothing_here() -> Reply {
    reply::text(StatusCode::NOT_FOUND, "there is nothing here\n")
}

async fn admit(
    route: Route,
    parts: &Parts,
    body: Incoming,
    (peer, rights, answering): (SocketAddr, Rights, &Answering),
    room: &Room,
) -> Reply {
    let changes = route.changes(&parts.method);
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
    if rights < route.needs(&parts.method) {
        let why = if room.has_token {
            "this needs the token\n"
        } else {
            "this needs a token, and the server has none: start it with --http-token-file\n"
        };
        return Refusal::unauthorized(why).into();
    }
    if route.shows_contents() && !room.may_see_contents(rights).await {
        let why = "keys, values and clients are shown to every local user only where each could connect without credentials: \
                   this needs the token\n";
        return Refusal::unauthorized(why).into();
    }
    match received(body).await {
        Ok(body) => perform(route, parts, &body, (peer, rights, answering), room).await,
        Err(refusal) => refusal,
    }
}

/// Receives the whole body.
async fn received(body: Incoming) -> Result<Bytes, Reply> {
    let collected = Limited::new(body, MOST_BODY_BYTES).collect();
    match tokio::time::timeout(BODY_TIME, collected).await {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            let why = "more was sent than anything here needs\n";
            Err(reply::text(StatusCode::PAYLOAD_TOO_LARGE, why))
        }
        Ok(Err(_)) => Err(reply::text(
            StatusCode::BAD_REQUEST,
            "what was sent is not whole\n",
        )),
        Err(_) => {
            let why = "what was sent did not come in time\n";
            Err(reply::text(StatusCode::REQUEST_TIMEOUT, why))
        }
    }
}

async fn perform(
    route: Route,
    parts: &Parts,
    body: &[u8],
    (peer, rights, answering): (SocketAddr, Rights, &Answering),
    room: &Room,
) -> Reply {
    let query = Query::new(parts.uri.query());
    match route {
        Route::Page(part) => part.reply(),
        Route::Metrics => room.metrics(parts).await,
        Route::Health => room.health(rights, wants_json(parts)).await,
        Route::Readiness => room.readiness(rights, wants_json(parts)).await,
        // A HEAD request would add a viewer that never ends.
        Route::Events if parts.method == Method::HEAD => nothing_here(),
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
