//! Requests of clients: live and slow ones, and the keys with most of them.
use super::describe_bytes;
use crate::app_state::AppState;
use crate::failure::failure;
use crate::query::Query;
use crate::reply::{self, Reply};
use crate::response_body::ResponseBody;
use crate::server_control::ServerControl;
use bytes::Bytes;
use hyper::StatusCode;
use serde_json::{Value, json};
use statestore_protocol::glob::Glob;
use statestored_broker::hub::Hub;
use statestored_broker::hub::request_trace::{ExecutedRequest, RequestFilter};
use std::fmt::Write as _;
use std::io;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::mpsc::{Sender, channel};
use tokio::task::spawn_local;
use tokio::time::{Instant, sleep};

/// Interval at which requests are taken for a viewer.
const VIEW_INTERVAL: Duration = Duration::from_millis(100);
/// Time without requests after which a comment keeps the connection alive.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(5);
/// Number of parts that a slow viewer may be behind.
const MAX_LAG: usize = 2;

impl AppState {
    /// Returns the last slow requests, newest first.
    pub(crate) async fn slow_requests(&self) -> Reply {
        match self.inspect(|hub, _| hub.slow_requests()).await {
            Ok(requests) => {
                let items = requests.iter().map(describe_request).collect::<Value>();
                reply::json(StatusCode::OK, &json!({ "items": items, "next": null }))
            }
            Err(failure) => failure,
        }
    }

    /// Returns the keys with most requests.
    pub(crate) async fn hot_keys(&self) -> Reply {
        match self.inspect(Hub::hot_keys).await {
            Ok(keys) => {
                let items = keys
                    .iter()
                    .map(|it| json!({ "key": describe_bytes(&it.key), "requests": it.requests }));
                let items = items.collect::<Value>();
                reply::json(StatusCode::OK, &json!({ "items": items }))
            }
            Err(failure) => failure,
        }
    }

    /// Returns a stream of executed requests.
    pub(crate) async fn monitor(&self, query: Query<'_>) -> Reply {
        let Some(sample) = sample(query) else {
            return failure(StatusCode::BAD_REQUEST, &"sample is a number from 0 to 1");
        };
        let pattern = query.bytes("key").filter(|pattern| !pattern.is_empty());
        let filter = RequestFilter {
            sample,
            verb: query.filter("verb").map(|verb| verb.to_lowercase()),
            client: query.filter("client"),
            user: query.filter("user"),
            key: pattern.map(|pattern| Glob::new(&pattern)),
            with_values: query.filter("values").is_some_and(|it| it == "1"),
        };
        let viewer = match self.inspect(|hub, now| hub.add_viewer(filter, now)).await {
            Ok(Some(viewer)) => viewer,
            Ok(None) => {
                let why = "there are too many viewers: close another one";
                return failure(StatusCode::SERVICE_UNAVAILABLE, &why);
            }
            Err(failure) => return failure,
        };
        let (sender, parts) = channel(MAX_LAG);
        spawn_local(forward(Rc::clone(self.server_handle()), viewer, sender));
        let parts = ResponseBody::Stream(parts);
        reply::content(StatusCode::OK, "text/event-stream", parts)
    }
}

/// Sends the requests of a viewer until it closes the stream, or the server stops.
async fn forward(server: Rc<dyn ServerControl>, viewer: u64, sender: Sender<io::Result<Bytes>>) {
    // The viewer learns at once that the stream has begun.
    let mut text = ":\n\n".to_owned();
    let mut last_sent = Instant::now();
    loop {
        if !text.is_empty() {
            last_sent = Instant::now();
            if sender
                .send(Ok(std::mem::take(&mut text).into()))
                .await
                .is_err()
            {
                break;
            }
        }
        tokio::select! {
            () = sleep(VIEW_INTERVAL) => {}
            () = sender.closed() => break,
        }
        let taken = server
            .inspect(move |hub, now| hub.take_viewed(viewer, now))
            .await;
        let Ok(Some((requests, left_out))) = taken else {
            return;
        };
        for request in &requests {
            push_event(&mut text, &describe_request(request));
        }
        if left_out > 0 {
            push_event(&mut text, &json!({ "left_out": left_out }));
        }
        if text.is_empty() && last_sent.elapsed() >= KEEP_ALIVE_INTERVAL {
            text.push_str(":\n\n");
        }
    }
    // If the server has stopped, there is no viewer any more.
    let _ = server
        .inspect(move |hub, _| hub.remove_viewer(viewer))
        .await;
}

fn push_event(text: &mut String, event: &Value) {
    // Writing to a text does not fail.
    let _ = write!(text, "data: {event}\n\n");
}

/// Returns the part of the requests that a viewer wants, in millionths.
fn sample(query: Query<'_>) -> Option<u32> {
    let Some(text) = query.filter("sample") else {
        return Some(1_000_000);
    };
    let part = text.parse::<f64>().ok()?;
    if !(0.0..=1.0).contains(&part) {
        return None;
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is from 0 to 1"
    )]
    let millionths = (part * 1e6) as u32;
    Some(millionths)
}

fn describe_request(it: &ExecutedRequest) -> Value {
    let mut described = json!({
        "at_ms": it.at_ms,
        "client": *it.client,
        "user": it.user,
        "verb": it.verb,
        "key": it.key.as_ref().map(|key| describe_bytes(key)),
        "value_bytes": it.value_bytes,
        "result": it.result,
        "duration_us": it.duration_us,
    });
    if let Some(value) = &it.value {
        described["value"] = describe_bytes(value);
    }
    described
}
