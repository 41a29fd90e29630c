//! `/events`: the figures of every second, for all viewers at the same time (server-sent events).
use super::body::Content;
use super::gate::Rights;
use super::reply::{self, Reply};
use super::routes::Room;
use bytes::Bytes;
use hyper::StatusCode;
use std::cell::RefCell;
use std::io;
use std::time::Duration;
use tokio::sync::mpsc::{Sender, channel, error::TrySendError};
use tokio::time::{MissedTickBehavior, interval};

/// Maximum number of viewers. Beyond it, a viewer with the token takes the place of the first one without.
const MOST_VIEWERS: usize = 16;
/// Number of events that a slow viewer may be behind. Beyond it, the viewer misses events.
const MOST_BEHIND: usize = 2;
/// Interval of events.
const EVERY: Duration = Duration::from_secs(1);

/// A viewer whose stream is open.
#[derive(Debug)]
struct Viewer {
    parts: Sender<io::Result<Bytes>>,
    has_token: bool,
}

/// All viewers, oldest first.
#[derive(Debug, Default)]
pub(super) struct Viewers(RefCell<Vec<Viewer>>);

impl Room {
    /// Returns a stream of all figures from now on.
    pub(super) fn events(&self, rights: Rights) -> Reply {
        let has_token = rights == Rights::Everything;
        let mut viewers = self.viewers.0.borrow_mut();
        viewers.retain(|viewer| !viewer.parts.is_closed());
        if viewers.len() >= MOST_VIEWERS {
            let replaced = viewers.iter().position(|viewer| !viewer.has_token);
            let Some(replaced) = replaced.filter(|_| has_token) else {
                let why = "there are too many viewers: close another page, or give the token\n";
                return reply::text(StatusCode::SERVICE_UNAVAILABLE, why);
            };
            // The stream ends with its sender.
            viewers.remove(replaced);
        }
        let (sender, parts) = channel(MOST_BEHIND);
        viewers.push(Viewer {
            parts: sender,
            has_token,
        });
        reply::content(StatusCode::OK, "text/event-stream", Content::Parts(parts))
    }

    /// Sends the status to all viewers once a second, as long as there are any.
    pub(super) async fn tell_viewers(&self) {
        let mut seconds = interval(EVERY);
        seconds.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            seconds.tick().await;
            self.viewers
                .0
                .borrow_mut()
                .retain(|it| !it.parts.is_closed());
            if self.viewers.0.borrow().is_empty() {
                continue;
            }
            let event = Bytes::from(format!("data: {}\n\n", self.status().await));
            self.viewers.0.borrow_mut().retain(|viewer| {
                let told = viewer.parts.try_send(Ok(event.clone()));
                !matches!(told, Err(TrySendError::Closed(_)))
            });
        }
    }
}
