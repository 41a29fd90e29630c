//! Connections, sessions and refusals of clients.
use super::{describe_bytes, list};
use crate::app_state::AppState;
use crate::audit::AuditDetails;
use crate::failure::failure;
use crate::query::Query;
use crate::reply::{self, Reply};
use hyper::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};
use statestored_broker::audit::truncate;
use statestored_broker::hub::inspect::SessionView;
use statestored_broker::hub::inspect_clients::{
    ClientView, ConnectionFilter, ConnectionOrder, ConnectionView,
};
use statestored_broker::hub::{Hub, RefusalEntry};

/// Maximum number of connections that one question to the thread of the clients changes.
const MAX_PER_QUESTION: usize = 200;

/// Body of a request to disconnect a client, or all clients of a user.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct DisconnectRequest {
    client: Option<String>,
    /// User; `client` is the alternative.
    user: Option<String>,
}

impl AppState {
    pub(crate) async fn connections(&self, query: Query<'_>) -> Reply {
        let filter = ConnectionFilter {
            client: query.filter("client"),
            user: query.filter("user"),
            address: query.filter("address"),
        };
        let order = match query.filter("sort").as_deref() {
            None => None,
            Some("rate") => Some(ConnectionOrder::RequestRate),
            Some("held") => Some(ConnectionOrder::HeldBytes),
            Some("outstanding") => Some(ConnectionOrder::OutstandingBytes),
            Some(_) => {
                let why = "sort is rate, held or outstanding";
                return failure(StatusCode::BAD_REQUEST, &why);
            }
        };
        let Some(order) = order else {
            let first = query.number("cursor").unwrap_or(0);
            let page = self.inspect(move |hub, now| hub.connections_from(&filter, first, now));
            return list(page.await, |it| describe_connection(&it));
        };
        let found = self.inspect(move |hub, now| hub.top_connections(&filter, order, now));
        match found.await {
            Ok((items, is_complete)) => {
                let items = items.iter().map(describe_connection).collect::<Value>();
                let document = json!({ "items": items, "next": null, "is_complete": is_complete });
                reply::json(StatusCode::OK, &document)
            }
            Err(failure) => failure,
        }
    }

    pub(crate) async fn sessions(&self, query: Query<'_>) -> Reply {
        let first = query.number("cursor").unwrap_or(0);
        let listed = self.inspect(move |hub, _| hub.sessions_from(first)).await;
        list(listed, |it| describe_session(&it))
    }

    /// Returns one client, with its connection and session.
    pub(crate) async fn client(&self, query: Query<'_>) -> Reply {
        let Some(client) = query.filter("client") else {
            let why = "say which: ?client=ID, percent-encoded";
            return failure(StatusCode::BAD_REQUEST, &why);
        };
        let id = client.clone();
        let found = self.inspect(move |hub, now| hub.client_view(&id, now));
        match found.await {
            Ok(Some(view)) => reply::json(StatusCode::OK, &describe_client(&client, &view)),
            Ok(None) => failure(StatusCode::NOT_FOUND, &"no such client is known"),
            Err(failure) => failure,
        }
    }

    /// Returns the most recent refusals that pass the filters.
    pub(crate) async fn refusals(&self, query: Query<'_>) -> Reply {
        let metrics = match self.inspect(Hub::metrics_snapshot).await {
            Ok(metrics) => metrics,
            Err(failure) => return failure,
        };
        let filter = RefusalFilter {
            client: query.filter("client"),
            user: query.filter("user"),
            cause: query.filter("cause"),
            key: query.filter("key"),
        };
        let recent = metrics.refusals.recent();
        let items = recent.filter(|it| filter.selects(it)).map(describe_refusal);
        let items = items.collect::<Value>();
        reply::json(StatusCode::OK, &json!({ "items": items }))
    }

    pub(crate) async fn disconnect(&self, body: &[u8]) -> Reply {
        let request = match serde_json::from_slice::<DisconnectRequest>(body) {
            Ok(request) => request,
            Err(error) => return failure(StatusCode::BAD_REQUEST, &error),
        };
        match (request.client, request.user) {
            (Some(client), None) => self.disconnect_client(client).await,
            (None, Some(user)) => self.disconnect_user(user).await,
            _ => {
                let why = "say which: {\"client\": ID}, or {\"user\": NAME}";
                failure(StatusCode::BAD_REQUEST, &why)
            }
        }
    }

    async fn disconnect_client(&self, client: String) -> Reply {
        let mut details = AuditDetails {
            client: Some(truncate(&client).into_owned()),
            ..AuditDetails::default()
        };
        let done = self.inspect(move |hub, now| hub.disconnect_client(&client, now));
        let reply = match done.await {
            Ok(true) => {
                details.disconnected = Some(1);
                disconnected(1)
            }
            Ok(false) => failure(StatusCode::NOT_FOUND, &"no such client is connected"),
            Err(failure) => failure,
        };
        details.attach_to(reply)
    }

    async fn disconnect_user(&self, user: String) -> Reply {
        let mut details = AuditDetails {
            user: Some(truncate(&user).into_owned()),
            ..AuditDetails::default()
        };
        let ids = self.inspect(move |hub, _| hub.connections_of_user(&user));
        let ids = match ids.await {
            Ok(ids) => ids,
            Err(failure) => return details.attach_to(failure),
        };
        let mut count = 0;
        for part in ids.chunks(MAX_PER_QUESTION) {
            let part = part.to_vec();
            let done = self.inspect(move |hub, now| hub.disconnect_connections(&part, now));
            details.disconnected = Some(count);
            match done.await {
                Ok(more) => count += more,
                Err(failure) => return details.attach_to(failure),
            }
        }
        details.disconnected = Some(count);
        details.attach_to(disconnected(count))
    }
}

fn disconnected(count: usize) -> Reply {
    reply::json(StatusCode::OK, &json!({ "disconnected": count }))
}

/// A selection of refusals. A criterion that is absent selects all.
struct RefusalFilter {
    /// Part of the client id.
    client: Option<String>,
    user: Option<String>,
    cause: Option<String>,
    /// Part of the key.
    key: Option<String>,
}

impl RefusalFilter {
    fn selects(&self, entry: &RefusalEntry) -> bool {
        let refused = &entry.details;
        let has_key = |part: &str| {
            let key = refused.key.as_deref().map(String::from_utf8_lossy);
            key.is_some_and(|key| key.contains(part))
        };
        let is = |wanted: &Option<String>, value: Option<&str>| {
            wanted.is_none() || wanted.as_deref() == value
        };
        let has_client = |part: &str| refused.client.contains(part);
        self.client.as_deref().is_none_or(has_client)
            && is(&self.user, refused.user.as_deref())
            && is(&self.cause, Some(refused.cause.name()))
            && self.key.as_deref().is_none_or(has_key)
    }
}

fn describe_connection(it: &ConnectionView) -> Value {
    // The name of a listener begins with its protocol.
    let protocol = it.peer.listener.split(':').next().unwrap_or_default();
    let rate = u32::try_from(it.requests_per_1000_s).unwrap_or(u32::MAX);
    json!({
        "peer": it.peer.to_string(),
        "listener": *it.peer.listener,
        "protocol": (!protocol.is_empty()).then_some(protocol),
        "client": *it.client,
        "user": it.user,
        "since_ms": it.since_ms,
        "requests": it.requests,
        "requests_per_s": f64::from(rate) / 1e3,
        "outstanding_bytes": it.outstanding_bytes,
        "held_bytes": it.held_bytes,
    })
}

fn describe_session(it: &SessionView) -> Value {
    json!({
        "client": *it.client,
        "user": it.user,
        "is_connected": it.is_connected,
        "subscriptions": it.subscriptions,
        "held_bytes": it.held_bytes,
        "expiry_s": it.expiry_s,
    })
}

fn describe_client(client: &str, view: &ClientView) -> Value {
    let bytes = |all: &[bytes::Bytes]| all.iter().map(|it| describe_bytes(it)).collect::<Value>();
    let refusals = view.refusals.iter().map(describe_refusal);
    let certificate = view.certificate.as_ref();
    let connection = view.connection.as_ref();
    let tls = connection.and_then(|it| it.peer.tls);
    json!({
        "client": client,
        "connection": connection.map(describe_connection),
        "tls": tls.map(|it| json!({ "version": it.version, "cipher": it.cipher })),
        "certificate": certificate.map(|it| json!({
            "subject": it.subject,
            "issuer": it.issuer,
            "fingerprint": it.fingerprint,
        })),
        "session": view.session.as_ref().map(describe_session),
        "subscriptions": view.subscriptions,
        "watch_count": view.watch_count,
        "watches": bytes(&view.watches),
        "patterns": bytes(&view.patterns),
        "refusals": refusals.collect::<Value>(),
    })
}

fn describe_refusal(it: &RefusalEntry) -> Value {
    let refused = &it.details;
    json!({
        "at_ms": it.last_ms,
        "first_ms": it.first_ms,
        "count": it.count,
        "peer": refused.peer.map(|peer| peer.to_string()),
        "client": *refused.client,
        "user": refused.user.as_deref(),
        "cause": refused.cause.name(),
        "why": *refused.reason,
        "key": refused.key.as_ref().map(|key| describe_bytes(key)),
    })
}
