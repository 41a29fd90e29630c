//! Validity of a guard.
use crate::LostReason;
use crate::client::RuntimeHandle;
use crate::error::Error;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// Time until which a lease is certainly held, shared by the guard and the renewal task.
///
/// Once the validity has ended, it stays ended, whichever task noticed first.
#[derive(Debug)]
pub(super) struct LeaseValidity {
    state: watch::Sender<State>,
    timers: RuntimeHandle,
}

#[derive(Debug, Clone)]
struct State {
    until: Instant,
    /// Reason for the loss, if the validity was ended.
    lost_reason: Option<LostReason>,
    /// Error behind the loss, or behind a loss that would occur now.
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

impl LeaseValidity {
    pub(super) fn new(until: Instant, timers: RuntimeHandle) -> Self {
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

    /// Returns the remaining time; `None` if the validity has ended.
    pub(super) fn remaining(&self) -> Option<Duration> {
        let state = self.state.borrow();
        let left = state.until.saturating_duration_since(Instant::now());
        (state.lost_reason.is_none() && !left.is_zero()).then_some(left)
    }

    /// Extends the validity after a renewal. Returns whether the renewal came in time.
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

    /// Sets the error to report if the validity expires.
    pub(super) fn set_reason(&self, reason: Error) {
        self.state.send_modify(|state| {
            if state.lost_reason.is_none() {
                state.reason = Some(reason);
            }
        });
    }

    /// Ends the validity at once, unless it has expired.
    pub(super) fn invalidate(&self, lost_reason: LostReason, reason: Option<Error>) {
        self.state.send_modify(|state| {
            let lost_reason = state.lost_reason().unwrap_or(lost_reason);
            state.lost_reason = Some(lost_reason);
            state.reason = reason.or(state.reason.take());
        });
    }

    pub(super) fn reason(&self) -> Option<Error> {
        self.state.borrow().reason.clone()
    }

    /// Returns the reason for the loss, if the validity has ended.
    pub(super) fn lost_reason(&self) -> Option<LostReason> {
        self.state.borrow().lost_reason()
    }

    /// Waits until the validity has ended, and returns the reason.
    pub(super) fn ended(&self) -> impl Future<Output = LostReason> + Send + 'static + use<> {
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
                    // The task sets the reason before it drops the sender, unless its runtime is shut down.
                    changed = state.changed() => if changed.is_err() {
                        return state.borrow().lost_reason().unwrap_or(LostReason::Closed);
                    },
                }
            }
        }
    }
}
