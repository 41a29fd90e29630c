//! The paths of the HTTP port, and the rights that they need.
use super::app_state::AppState;
use super::connection_limiter::ResponseGuard;
use super::media_type::accepts;
use super::openapi;
use super::page::PageAsset;
use super::query::Query;
use super::reply::{self, Reply};
use super::request_authorizer::{AccessLevel, RequestRefusal};
use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::{Body, Incoming};
use hyper::header::ALLOW;
use hyper::http::HeaderValue;
use hyper::http::request::Parts;
use hyper::{Method, StatusCode};
use std::net::SocketAddr;
use std::time::Duration;

/// Maximum length of the body of a request: a key in hexadecimal digits, and some more.
const MAX_BODY_BYTES: usize = 256 * 1024;
/// Time limit for the body.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// Handler of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Route {
    Page(&'static PageAsset),
    Metrics,
    Health,
    Readiness,
    Events,
    Status,
    History,
    Connections,
    Sessions,
    Refusals,
    Keys,
    Prefixes,
    BigKeys,
    NextExpiries,
    Entry,
    Locks,
    Set,
    Expire,
    Delete,
    Unlock,
    Disconnect,
    Reload,
    Backup,
    Log,
    Client,
    Audit,
    Options,
    Limits,
    CheckPolicy,
    Drain,
    Description,
    Monitor,
    SlowRequests,
    HotKeys,
}

/// Handlers by path, except those of the page.
const ROUTES: [(&str, Route); 33] = [
    ("/metrics", Route::Metrics),
    ("/healthz", Route::Health),
    ("/readyz", Route::Readiness),
    ("/events", Route::Events),
    ("/api/status", Route::Status),
    ("/api/history", Route::History),
    ("/api/connections", Route::Connections),
    ("/api/sessions", Route::Sessions),
    ("/api/refusals", Route::Refusals),
    ("/api/keys", Route::Keys),
    ("/api/prefixes", Route::Prefixes),
    ("/api/bigkeys", Route::BigKeys),
    ("/api/ttl", Route::NextExpiries),
    ("/api/key", Route::Entry),
    ("/api/locks", Route::Locks),
    ("/api/set", Route::Set),
    ("/api/expire", Route::Expire),
    ("/api/delete", Route::Delete),
    ("/api/unlock", Route::Unlock),
    ("/api/disconnect", Route::Disconnect),
    ("/api/reload", Route::Reload),
    ("/api/backup", Route::Backup),
    ("/api/log", Route::Log),
    ("/api/client", Route::Client),
    ("/api/audit", Route::Audit),
    ("/api/config", Route::Options),
    ("/api/limits", Route::Limits),
    ("/api/policy/check", Route::CheckPolicy),
    ("/api/drain", Route::Drain),
    ("/api/openapi.json", Route::Description),
    ("/api/monitor", Route::Monitor),
    ("/api/slowlog", Route::SlowRequests),
    ("/api/hotkeys", Route::HotKeys),
];

impl Route {
    /// Returns whether a request changes something, or is expensive.
    fn is_mutation(self, method: &Method) -> bool {
        match self {
            Self::Set
            | Self::Expire
            | Self::Delete
            | Self::Unlock
            | Self::Disconnect
            | Self::Drain
            | Self::Reload
            | Self::Backup => true,
            Self::Log => method == Method::POST,
            _ => false,
        }
    }

    /// Returns whether a request has a body: a mutation, or a question that is too large for the path.
    fn takes_body(self, method: &Method) -> bool {
        self.is_mutation(method) || self == Self::CheckPolicy
    }

    /// Returns whether the response contains keys or clients.
    fn shows_entries(self) -> bool {
        matches!(
            self,
            Self::Keys
                | Self::Prefixes
                | Self::BigKeys
                | Self::NextExpiries
                | Self::Entry
                | Self::Locks
                | Self::Connections
                | Self::Sessions
                | Self::Refusals
                | Self::Client
                | Self::Audit
                | Self::Options
                | Self::Limits
                | Self::CheckPolicy
                | Self::Monitor
                | Self::SlowRequests
                | Self::HotKeys
        )
    }

    /// Returns the rights that a request needs.
    fn required_access(self, method: &Method) -> AccessLevel {
        match self {
            Self::Page(_) | Self::Health | Self::Readiness => AccessLevel::Liveness,
            Self::Metrics | Self::Status => AccessLevel::Metrics,
            _ if self.is_mutation(method) => AccessLevel::Full,
            _ => AccessLevel::Read,
        }
    }
}

/// Returns the path and its handler.
fn find_route(path: &str) -> Option<(&'static str, Route)> {
    let asset = PageAsset::find(path).map(|asset| (asset.path, Route::Page(asset)));
    asset.or_else(|| ROUTES.iter().find(|(known, _)| *known == path).copied())
}

/// Answers a request, or refuses it, according to `authorization`.
pub(super) async fn respond(
    peer: SocketAddr,
    parts: &Parts,
    body: Incoming,
    (authorization, response_guard): (Result<AccessLevel, RequestRefusal>, &ResponseGuard),
    app: &AppState,
) -> Reply {
    let found = find_route(parts.uri.path());
    let (name, reply) = match (found, authorization) {
        (Some((name, route)), Ok(rights)) => (
            name,
            check_and_dispatch(route, parts, body, (peer, rights, response_guard), app).await,
        ),
        (Some((name, _)), Err(refusal)) => (name, refusal.into()),
        (None, Ok(_)) => ("other", not_found()),
        (None, Err(refusal)) => ("other", refusal.into()),
    };
    let changes = found.is_some_and(|(_, route)| route.is_mutation(&parts.method));
    app.audit_trail
        .log_request(peer, name, changes, authorization, &reply);
    let key = (name, reply.status().as_u16());
    *app.responses.borrow_mut().entry(key).or_default() += 1;
    reply
}

fn not_found() -> Reply {
    reply::text(StatusCode::NOT_FOUND, "there is nothing here\n")
}

async fn check_and_dispatch(
    route: Route,
    parts: &Parts,
    body: Incoming,
    (peer, rights, response_guard): (SocketAddr, AccessLevel, &ResponseGuard),
    app: &AppState,
) -> Reply {
    let takes_body = route.takes_body(&parts.method);
    let (fits, allowed) = if takes_body {
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
    if !takes_body && !body.is_end_stream() {
        return reply::text(StatusCode::BAD_REQUEST, "there is nothing to send here\n");
    }
    let required = route.required_access(&parts.method);
    if rights < required {
        return insufficient_rights(rights, required, app).into();
    }
    if route.shows_entries() && !may_read_entries(app, rights).await {
        let why = "keys, values and clients are shown to every local user only where each could connect without credentials: \
                   this needs the token\n";
        return RequestRefusal::unauthorized(why).into();
    }
    match read_body(body).await {
        Ok(body) => dispatch(route, parts, &body, (peer, rights, response_guard), app).await,
        Err(refusal) => refusal,
    }
}

/// Returns the refusal of a request that needs more rights.
fn insufficient_rights(
    rights: AccessLevel,
    required: AccessLevel,
    app: &AppState,
) -> RequestRefusal {
    if rights.is_of_token() {
        return RequestRefusal::forbidden(if required == AccessLevel::Full {
            "this needs the token of --http-token-file\n"
        } else {
            "this needs the token of --http-read-token-file or --http-token-file\n"
        });
    }
    RequestRefusal::unauthorized(if app.config.tokens.is_empty() {
        "this needs a token, and the server has none: give it one with --http-token-file\n"
    } else {
        "this needs the token\n"
    })
}

/// Returns whether keys, values and clients may be shown: with a token for them, or if any local user may connect and read all keys over
/// MQTT.
async fn may_read_entries(app: &AppState, rights: AccessLevel) -> bool {
    rights >= AccessLevel::ReadAll
        || app
            .read_metrics()
            .await
            .is_ok_and(|metrics| metrics.allows_anonymous)
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
    (peer, rights, response_guard): (SocketAddr, AccessLevel, &ResponseGuard),
    app: &AppState,
) -> Reply {
    let query = Query::new(parts.uri.query());
    match route {
        Route::Page(asset) => asset.to_reply(),
        Route::Metrics => app.metrics(parts, rights).await,
        Route::Health => app.health(rights, wants_json(parts)).await,
        Route::Readiness => app.readiness(rights, wants_json(parts)).await,
        // A HEAD request would add a viewer that never ends.
        Route::Events | Route::Monitor if parts.method == Method::HEAD => not_found(),
        Route::Events => app.event_subscribers.subscribe(rights),
        Route::Status => reply::json(StatusCode::OK, &app.status().await),
        Route::History => app.history.reply(),
        Route::Connections => app.connections(query).await,
        Route::Sessions => app.sessions(query).await,
        Route::Refusals => app.refusals(query).await,
        Route::Keys => app.keys(query).await,
        Route::Prefixes => app.prefixes(query).await,
        Route::BigKeys => app.big_keys(query).await,
        Route::NextExpiries => app.next_expiries(query).await,
        Route::Entry => app.entry(query).await,
        Route::Locks => app.locks(query).await,
        Route::Set => app.set(body).await,
        Route::Expire => app.expire(body).await,
        Route::Delete => app.delete(body).await,
        Route::Unlock => app.unlock(body).await,
        Route::Disconnect => app.disconnect(body).await,
        Route::Reload => app.reload().await,
        Route::Backup => app.backup(peer, response_guard).await,
        Route::Log if parts.method == Method::POST => app.set_log_filter(body),
        Route::Log => app.log_filter(),
        Route::Client => app.client(query).await,
        Route::Audit => app.audit_lines(query),
        Route::Options => app.effective_options(),
        Route::Limits => app.limits().await,
        Route::CheckPolicy => app.check_policy(body).await,
        Route::Drain => app.drain(body).await,
        Route::Description => openapi::description(),
        Route::Monitor => app.monitor(query).await,
        Route::SlowRequests => app.slow_requests().await,
        Route::HotKeys => app.hot_keys().await,
    }
}

fn wants_json(parts: &Parts) -> bool {
    accepts(parts, "application/json")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;
    use std::collections::BTreeSet;

    #[test]
    fn the_description_has_each_path_and_method() {
        let description: Value = serde_json::from_str(openapi::DESCRIPTION).unwrap();
        let paths = description["paths"].as_object().unwrap();
        let described = paths.iter().flat_map(|(path, methods)| {
            let methods = methods.as_object().unwrap().keys();
            methods.map(move |method| (path.as_str(), method.as_str()))
        });
        let served = ROUTES.iter().flat_map(|(path, route)| {
            let get = (!route.takes_body(&Method::GET)).then_some((*path, "get"));
            let post = route.takes_body(&Method::POST);
            get.into_iter().chain(post.then_some((*path, "post")))
        });
        let is_of_api = |(path, _): &(&str, &str)| path.starts_with("/api/");
        let described: BTreeSet<_> = described.filter(is_of_api).collect();
        let served: BTreeSet<_> = served.filter(is_of_api).collect();
        assert_eq!(described, served);
    }
}
