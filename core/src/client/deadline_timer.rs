//! Timer of the driver, with and without a connection.
use super::connection_error::ConnectionError;
use super::shared::Shared;
use crate::request::MAX_ACK_DELAY_MS;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use tokio::time::{Sleep, sleep_until};

/// Timer that advances the deadlines of requests, independent of the connection.
#[derive(Debug)]
pub(super) struct DeadlineTimer {
    sleep: Pin<Box<Sleep>>,
    /// Time at which `sleep` ends, in milliseconds of the session.
    at_ms: u64,
    wakers: Vec<Waker>,
}

impl DeadlineTimer {
    pub(super) fn new(shared: &Shared) -> Self {
        Self {
            sleep: Box::pin(sleep_until(shared.instant(0))),
            at_ms: 0,
            wakers: Vec::new(),
        }
    }

    /// Ends requests that timed out, then registers the task for the next deadline and for callers. `is_idle` is whether output
    /// would be written at once. Returns ready if an idle driver has output, if the session failed, or if the client is
    /// closing.
    pub(super) fn poll(
        &mut self,
        shared: &Shared,
        is_idle: bool,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), ConnectionError>> {
        loop {
            let now_ms = shared.now_ms();
            let wake_at_ms = {
                let mut core = shared.lock_state();
                if core.closing {
                    return Poll::Ready(Err(ConnectionError::Closing));
                }
                let advanced = core.exchange.advance(now_ms, &mut self.wakers);
                let has_output = core.exchange.has_output();
                // Work that is due now was done just now.
                let wake_at_ms = core.exchange.wake_at_ms().unwrap_or(u64::MAX);
                let wake_at_ms = wake_at_ms.max(now_ms + 1);
                if advanced.is_ok() && !(is_idle && has_output) {
                    core.driver.is_idle = is_idle;
                    match &mut core.driver.waker {
                        Some(waker) => waker.clone_from(context.waker()),
                        none => *none = Some(context.waker().clone()),
                    }
                    core.driver.wakes_at_ms = self.timer_end_ms(now_ms, wake_at_ms);
                }
                drop(core);
                self.wakers.drain(..).for_each(Waker::wake);
                match advanced {
                    Err(error) => return Poll::Ready(Err(ConnectionError::Session(error))),
                    Ok(()) if is_idle && has_output => return Poll::Ready(Ok(())),
                    Ok(()) => wake_at_ms,
                }
            };
            let at_ms = self.timer_end_ms(now_ms, wake_at_ms);
            if self.at_ms != at_ms {
                self.at_ms = at_ms;
                self.sleep.as_mut().reset(shared.instant(at_ms));
            }
            if self.sleep.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
            // The timer ended: check again, and set a new one.
            self.at_ms = 0;
        }
    }

    /// Returns the time at which the timer should end. A timer that ends soon, or only a little too early, is kept. A new timer
    /// for each request would cost more than an occasional early end.
    fn timer_end_ms(&self, now_ms: u64, wake_at_ms: u64) -> u64 {
        const EARLY_MS: u64 = 1000;
        let is_good = self.at_ms > now_ms
            && wake_at_ms
                .checked_sub(self.at_ms)
                .is_some_and(|early| early < EARLY_MS || self.at_ms - now_ms <= MAX_ACK_DELAY_MS);
        if is_good { self.at_ms } else { wake_at_ms }
    }

    /// Awaits a future while the client is not connected. Returns `None` if the client is closing.
    pub(super) async fn run_while_offline<F: Future>(
        &mut self,
        shared: &Shared,
        future: F,
    ) -> Option<F::Output> {
        let mut future = pin!(future);
        poll_fn(|context| {
            if let Poll::Ready(output) = future.as_mut().poll(context) {
                return Poll::Ready(Some(output));
            }
            match self.poll(shared, false, context) {
                Poll::Pending => Poll::Pending,
                Poll::Ready(_) => Poll::Ready(None),
            }
        })
        .await
    }
}
