//! The end of a call that takes more than one request.
use std::time::Duration;
use tokio::time::Instant;

/// A time for messages: in whole milliseconds, since the further digits of what is left of a time-out mean nothing.
pub(crate) fn shown(time: Duration) -> Duration {
    let rounded = time.saturating_add(Duration::from_micros(500)).as_millis();
    match u64::try_from(rounded) {
        Ok(0) | Err(_) => time,
        Ok(ms) => Duration::from_millis(ms),
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadline {
    /// How long the call may take.
    pub(crate) timeout: Duration,
    /// None if it is too far away to be counted.
    at: Option<Instant>,
}

impl Deadline {
    /// Of a call that begins now.
    pub(crate) fn after(timeout: Duration) -> Self {
        Self {
            timeout,
            at: Instant::now().checked_add(timeout),
        }
    }

    /// How long the next request may take; zero if none may be sent any more.
    pub(crate) fn left(&self) -> Duration {
        match self.at {
            Some(at) => at.saturating_duration_since(Instant::now()),
            None => Duration::MAX,
        }
    }
}
