//! Selection of the next of several brokers, and the error of each.
use crate::error::{Error, Outcome};
use crate::settings::Endpoint;
use crate::transport::EndpointWork;

/// The brokers of a client, tried in rounds. A round starts at the broker that was connected last.
#[derive(Debug)]
pub(super) struct EndpointSelector<'a> {
    endpoints: &'a [Endpoint],
    /// Index of the broker that is tried next or is connected.
    index: usize,
    /// Errors of this round, with the address of each broker.
    failures: Vec<(String, Error)>,
    /// Number of the session that each broker had last; 0 for none.
    sessions: Vec<u64>,
    /// Blocking work of each broker.
    work: Vec<EndpointWork>,
}

impl<'a> EndpointSelector<'a> {
    /// Starts the first round at the first broker. `all` must not be empty.
    pub(super) fn new(all: &'a [Endpoint]) -> Self {
        Self {
            endpoints: all,
            index: 0,
            failures: Vec::new(),
            sessions: vec![0; all.len()],
            work: all.iter().map(|_| EndpointWork::default()).collect(),
        }
    }

    /// Returns the broker that is tried next or is connected.
    pub(super) fn current(&self) -> &'a Endpoint {
        &self.endpoints[self.index]
    }

    /// Returns the blocking work of the current broker.
    pub(super) fn work(&self) -> &EndpointWork {
        &self.work[self.index]
    }

    /// Returns whether the current broker may only have an older session than `session`. Resuming that session would wait for
    /// responses that another broker received.
    pub(super) fn is_outdated(&self, session: u64) -> bool {
        let known = self.sessions[self.index];
        known != 0 && known != session
    }

    /// Records that the current broker has the session with this number.
    pub(super) fn set_session(&mut self, session: u64) {
        self.sessions[self.index] = session;
    }

    /// Records that the connection held. The next round starts at this broker.
    pub(super) fn record_success(&mut self) {
        self.failures.clear();
    }

    /// Records the failure of the current broker and selects the next one. Returns the combined error once every broker has
    /// failed, which ends the round.
    pub(super) fn record_failure(&mut self, error: Error) -> Option<Error> {
        self.failures.push((self.current().to_string(), error));
        // After the last one, the round is back at the broker that was connected last.
        self.index = (self.index + 1) % self.endpoints.len();
        if self.failures.len() < self.endpoints.len() {
            return None;
        }
        combine_errors(std::mem::take(&mut self.failures))
    }
}

/// Combines the errors of a round. The kind is that of the first retryable error, if there is one, so that callers do not give
/// up too early.
fn combine_errors(mut failures: Vec<(String, Error)>) -> Option<Error> {
    if failures.len() == 1 {
        return failures.pop().map(|(_, error)| error);
    }
    let (_, first) = failures.first()?;
    let mut errors = failures.iter().map(|(_, error)| error);
    let source = errors.find(|it| it.is_retryable()).unwrap_or(first);
    let is_same = failures.iter().all(|(_, it)| it.reason() == first.reason());
    let reason = if is_same {
        first.reason().to_owned()
    } else {
        let each = failures.iter();
        let each = each.map(|(address, error)| format!("{address}: {}", error.reason()));
        each.collect::<Vec<_>>().join("; ")
    };
    let addresses: Vec<_> = failures.iter().map(|it| it.0.as_str()).collect();
    let action = format!("connecting to {}", addresses.join(","));
    let error = Error::new(source.kind(), Outcome::NotDone, action, reason)
        .with_mqtt_reason(source.mqtt_reason())
        .with_source(source.clone());
    Some(error)
}
