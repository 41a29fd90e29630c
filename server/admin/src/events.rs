//! `/events`: the figures of every second, for all viewers at the same time (server-sent events).
use super::reply::{self, Reply};
use super::request_authorizer::AccessLevel;
use super::response_body::ResponseBody;
use bytes::Bytes;
use hyper::StatusCode;
use serde_json::Value;
use std::cell::RefCell;
use std::io;
use std::time::Duration;
use tokio::sync::mpsc::{Sender, channel, error::TrySendError};
use tokio::time::{MissedTickBehavior, interval};

/// Maximum number of viewers. Beyond it, a viewer takes the place of the first one with fewer rights.
const MAX_SUBSCRIBERS: usize = 16;
/// Number of events that a slow viewer may be behind. Beyond it, the viewer misses events.
const MAX_LAG: usize = 2;
/// Interval of events.
const EVENT_INTERVAL: Duration = Duration::from_secs(1);

/// A viewer whose stream is open.
#[derive(Debug)]
struct EventSubscriber {
    sender: Sender<io::Result<Bytes>>,
    rights: AccessLevel,
}

/// All viewers, oldest first.
#[derive(Debug, Default)]
pub(super) struct EventSubscribers(RefCell<Vec<EventSubscriber>>);

impl EventSubscribers {
    /// Returns a stream of all figures from now on.
    pub(super) fn subscribe(&self, rights: AccessLevel) -> Reply {
        let mut viewers = self.0.borrow_mut();
        viewers.retain(|viewer| !viewer.sender.is_closed());
        if viewers.len() >= MAX_SUBSCRIBERS {
            let replaced = viewers.iter().position(|viewer| viewer.rights < rights);
            let Some(replaced) = replaced else {
                let why = "there are too many viewers: close another page, or give the token\n";
                return reply::text(StatusCode::SERVICE_UNAVAILABLE, why);
            };
            // The stream ends with its sender.
            viewers.remove(replaced);
        }
        let (sender, parts) = channel(MAX_LAG);
        viewers.push(EventSubscriber { sender, rights });
        reply::content(
            StatusCode::OK,
            "text/event-stream",
            ResponseBody::Stream(parts),
        )
    }

    /// Sends the result of `status` to all viewers once a second, as long as there are any.
    pub(super) async fn publish(&self, status: impl AsyncFn() -> Value) {
        let mut seconds = interval(EVENT_INTERVAL);
        seconds.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            seconds.tick().await;
            self.0.borrow_mut().retain(|it| !it.sender.is_closed());
            if self.0.borrow().is_empty() {
                continue;
            }
            let event = Bytes::from(format!("data: {}\n\n", status().await));
            self.0.borrow_mut().retain(|viewer| {
                let result = viewer.sender.try_send(Ok(event.clone()));
                !matches!(result, Err(TrySendError::Closed(_)))
            });
        }
    }
}
