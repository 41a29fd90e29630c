//! Which of several brokers is tried next, and what each of them said.
use crate::error::{Error, Outcome};
use crate::settings::Endpoint;
use crate::transport::EndpointWork;

/// The brokers of a client, tried in rounds. A round begins at the one that was connected last.
#[derive(Debug)]
pub(super) struct Addresses<'a> {
    all: &'a [Endpoint],
    /// The one to be tried, or that is connected.
    at: usize,
    /// What this round has brought so far.
    failures: Vec<(String, Error)>,
    /// Which session each of them had last, by its number; 0 for none.
    sessions: Vec<u64>,
    /// Work of each that blocks.
    work: Vec<EndpointWork>,
}

impl<'a> Addresses<'a> {
    /// `all` is not empty.
    pub(super) fn new(all: &'a [Endpoint]) -> Self {
        Self {
            all,
            at: 0,
            failures: Vec::new(),
            sessions: vec![0; all.len()],
            work: all.iter().map(|_| EndpointWork::default()).collect(),
        }
    }

    /// The one to be tried, or that is connected.
    pub(super) fn current(&self) -> &'a Endpoint {
        &self.all[self.at]
    }

    /// The work of that one that blocks.
    pub(super) fn work(&self) -> &EndpointWork {
        &self.work[self.at]
    }

    /// Whether what this broker may still have is an older session than the one with this number. To go on with that would be to
    /// wait for answers that went elsewhere.
    pub(super) fn is_outdated(&self, session: u64) -> bool {
        let known = self.sessions[self.at];
        known != 0 && known != session
    }

    /// This broker has the session with this number.
    pub(super) fn has_session(&mut self, session: u64) {
        self.sessions[self.at] = session;
    }

    /// The connection held: the next round begins at this broker.
    pub(super) fn held(&mut self) {
        self.failures.clear();
    }

    /// This broker cannot be had: goes on to the next one. When all were tried, what they said, and the round is over.
    pub(super) fn failed(&mut self, error: Error) -> Option<Error> {
        self.failures.push((self.current().to_string(), error));
        // After the last one it is the turn of the one that was connected last again.
        self.at = (self.at + 1) % self.all.len();
        if self.failures.len() < self.all.len() {
            return None;
        }
        together(std::mem::take(&mut self.failures))
    }
}

/// One error of several. It is of the kind of the first that may end by itself, if there is one, so that nobody gives up who
/// need not.
fn together(mut failures: Vec<(String, Error)>) -> Option<Error> {
    if failures.len() == 1 {
        return failures.pop().map(|(_, error)| error);
    }
    let (_, first) = failures.first()?;
    let told = failures.iter().map(|(_, error)| error);
    let told = told.clone().find(|it| it.is_retryable()).unwrap_or(first);
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
    let error = Error::new(told.kind(), Outcome::NotDone, action, reason)
        .with_mqtt_reason(told.mqtt_reason())
        .with_source(told.clone());
    Some(error)
}
