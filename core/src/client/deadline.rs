//! The deadline of a call that takes several requests.
use std::time::Duration;
use tokio::time::Instant;

/// Rounds a time for messages to whole milliseconds. Further digits of a remaining time-out mean nothing.
fn rounded_to_ms(time: Duration) -> Duration {
    let rounded = time.saturating_add(Duration::from_micros(500)).as_millis();
    match u64::try_from(rounded) {
        Ok(0) | Err(_) => time,
        Ok(ms) => Duration::from_millis(ms),
    }
}

/// Returns a time limit for messages, such as `within 2s`.
pub(crate) fn within(limit: Duration) -> String {
    if limit.is_zero() {
        return "at once".to_owned();
    }
    format!("within {:?}", rounded_to_ms(limit))
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadline {
    /// Maximum duration of the call.
    pub(crate) timeout: Duration,
    /// The deadline; `None` if it is too far in the future for an `Instant`.
    at: Option<Instant>,
}

impl Deadline {
    /// Returns the deadline of a call that starts now.
    pub(crate) fn after(timeout: Duration) -> Self {
        Self {
            timeout,
            at: Instant::now().checked_add(timeout),
        }
    }

    /// Returns the time that is left for the next request; zero once the deadline has passed.
    pub(crate) fn remaining(&self) -> Duration {
        match self.at {
            Some(at) => at.saturating_duration_since(Instant::now()),
            None => Duration::MAX,
        }
    }
}
