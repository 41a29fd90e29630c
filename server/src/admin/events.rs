//! `/events`: the figures of every second, for all who look at the same time (server-sent events).
use super::body::Content;
use super::reply::{self, Reply};
use super::routes::Room;
use bytes::Bytes;
use hyper::StatusCode;
use std::cell::RefCell;
use std::io;
use std::time::Duration;
use tokio::sync::mpsc::{Sender, channel, error::TrySendError};
use tokio::time::{MissedTickBehavior, interval};

/// More do not get any.
const MOST_VIEWERS: usize = 16;
/// How many a slow viewer may be behind; then it misses some.
const MOST_BEHIND: usize = 2;
/// How often there are new ones.
const EVERY: Duration = Duration::from_secs(1);

/// Who looks.
#[derive(Debug, Default)]
pub(super) struct Viewers(RefCell<Vec<Sender<io::Result<Bytes>>>>);

impl Room {
    /// Everything from now on.
    pub(super) fn events(&self) -> Reply {
        let mut viewers = self.viewers.0.borrow_mut();
        viewers.retain(|viewer| !viewer.is_closed());
        if viewers.len() >= MOST_VIEWERS {
            let why = "there are too many viewers: close another page\n";
            return reply::text(StatusCode::SERVICE_UNAVAILABLE, why);
        }
        let (viewer, parts) = channel(MOST_BEHIND);
        viewers.push(viewer);
        reply::content(StatusCode::OK, "text/event-stream", Content::Parts(parts))
    }

    /// Looks for all viewers once a second, as long as there are any.
    pub(super) async fn tell_viewers(&self) {
        let mut seconds = interval(EVERY);
        seconds.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            seconds.tick().await;
            self.viewers.0.borrow_mut().retain(|it| !it.is_closed());
            if self.viewers.0.borrow().is_empty() {
                continue;
            }
            let event = Bytes::from(format!("data: {}\n\n", self.status().await));
            self.viewers.0.borrow_mut().retain(|viewer| {
                let told = viewer.try_send(Ok(event.clone()));
                !matches!(told, Err(TrySendError::Closed(_)))
            });
        }
    }
}
