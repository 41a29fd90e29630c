//! How long a guard may believe that it holds its lease.
use crate::LostReason;
use crate::client::Timers;
use crate::error::Error;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// Until when a lease is held for certain, shared by the guard and the task that renews it.
///
/// Once it has been over at any moment it stays over, whoever looked first.
#[derive(Debug)]
pub(super) struct Validity {
    state: watch::Sender<State>,
    timers: Timers,
}

#[derive(Debug, Clone)]
struct State {
    until: Instant,
    /// Nobody may rely on it any more, for this reason.
    lost_reason: Option<LostReason>,
    /// What happened, or would have if it ended now.
    reason: Option<Error>,
}

impl State {
    fn is_valid(&self) -> bool {
        // The clock is read under the lock of the state, so that an extension comes before or after, never between.
        self.lost_reason.is_none() && Instant::now() < self.until
    }

    fn lost_reason(&self) -> Option<LostReason> {
        (!self.is_valid()).then(|| self.lost_reason.unwrap_or(LostReason::Expired))
    }
}

impl Validity {
    pub(super) fn new(until: Instant, timers: Timers) -> Self {
        Self {
            state: watch::Sender::new(State {
                until,
                lost_reason: None,
                reason: None,
            }),
            timers,
        }
    }

    pub(super) fn is_valid(&self) -> bool {
        self.state.borrow().is_valid()
    }

    pub(super) fn until(&self) -> Instant {
        self.state.borrow().until
    }

    /// What is left of it; `None` if it is over.
    pub(super) fn left(&self) -> Option<Duration> {
        let state = self.state.borrow();
        let left = state.until.saturating_duration_since(Instant::now());
        (state.lost_reason.is_none() && !left.is_zero()).then_some(left)
    }

    /// The lease was renewed. Whether that came in time.
    pub(super) fn extend(&self, until: Instant) -> bool {
        self.state.send_if_modified(|state| {
            let is_valid = state.is_valid();
            if is_valid {
                state.until = state.until.max(until);
                state.reason = None;
            } else {
                state.lost_reason.get_or_insert(LostReason::Expired);
            }
            is_valid
        })
    }

    /// What is going to be the reason if it ends by its time.
    pub(super) fn in_danger(&self, reason: Error) {
        self.state.send_modify(|state| {
            if state.lost_reason.is_none() {
                state.reason = Some(reason);
            }
        });
    }

    /// Ends it at once, if its time is not over already.
    pub(super) fn end(&self, lost_reason: LostReason, reason: Option<Error>) {
        self.state.send_modify(|state| {
            let lost_reason = state.lost_reason().unwrap_or(lost_reason);
            state.lost_reason = Some(lost_reason);
            state.reason = reason.or(state.reason.take());
        });
    }

    pub(super) fn reason(&self) -> Option<Error> {
        self.state.borrow().reason.clone()
    }

    /// Why it is over, if it is.
    pub(super) fn lost_reason(&self) -> Option<LostReason> {
        self.state.borrow().lost_reason()
    }

    /// Ready when it is over: why that is so.
    pub(super) fn over(&self) -> impl Future<Output = LostReason> + Send + 'static + use<> {
        let (mut state, timers) = (self.state.subscribe(), self.timers.clone());
        async move {
            loop {
                let until = {
                    let state = state.borrow_and_update();
                    if let Some(lost_reason) = state.lost_reason() {
                        return lost_reason;
                    }
                    state.until
                };
                tokio::select! {
                    () = timers.sleep_until(until) => {}
                    // Its task says why it is over before it goes, unless its runtime is shut down.
                    changed = state.changed() => if changed.is_err() {
                        return state.borrow().lost_reason().unwrap_or(LostReason::Closed);
                    },
                }
            }
        }
    }
}
