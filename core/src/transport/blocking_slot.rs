//! Blocking work on separate threads.
use crate::platform::Platform;
use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// Time for which a result is used although its caller has given up: longer than the delay before the next connection attempt.
const RESULT_MAX_AGE: Duration = Duration::from_secs(30);

/// A slot for one piece of blocking work.
///
/// If a caller gives up, the work continues, and the next caller waits for its result. So a resolver or a file system that
/// hangs blocks only one thread, however often the work is retried. An old result is discarded: a file, or the addresses of a
/// name, may have changed since.
pub(crate) struct BlockingSlot<T>(Mutex<Option<Pending<T>>>);

/// Receiver of a result and the time at which it was complete.
type Pending<T> = oneshot::Receiver<(T, Instant)>;

impl<T: Send + 'static> BlockingSlot<T> {
    /// Returns the result of the work that is under way, or of `work` if there is none.
    ///
    /// # Errors
    /// Returns an error if the system cannot start a thread, or the work panicked.
    pub(crate) async fn run(
        &self,
        platform: &dyn Platform,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<T> {
        let under_way = self.pending().take();
        if let Some(result) = under_way {
            let (result, complete) = self.result_future(result).await?;
            if complete.elapsed() < RESULT_MAX_AGE {
                return Ok(result);
            }
        }
        let (sender, result) = oneshot::channel();
        platform.run_blocking(Box::new(move || {
            let result = work();
            // The client may be gone.
            drop(sender.send((result, Instant::now())));
        }))?;
        self.result_future(result).await.map(|(result, _)| result)
    }

    fn result_future(&self, result: Pending<T>) -> SlotFuture<'_, T> {
        SlotFuture {
            slot: self,
            result: Some(result),
        }
    }

    fn pending(&self) -> std::sync::MutexGuard<'_, Option<Pending<T>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Default for BlockingSlot<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> fmt::Debug for BlockingSlot<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockingSlot").finish_non_exhaustive()
    }
}

/// A caller that waits for the work of a slot.
struct SlotFuture<'a, T: Send + 'static> {
    slot: &'a BlockingSlot<T>,
    /// Receiver of the result; present until the result arrives.
    result: Option<Pending<T>>,
}

impl<T: Send + 'static> Future for SlotFuture<'_, T> {
    type Output = io::Result<(T, Instant)>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(result) = &mut self.result else {
            return Poll::Pending;
        };
        let polled = Pin::new(result).poll(context);
        if polled.is_ready() {
            self.result = None;
        }
        polled.map_err(|_| io::Error::other("the thread for it panicked"))
    }
}

impl<T: Send + 'static> Drop for SlotFuture<'_, T> {
    fn drop(&mut self) {
        if let Some(result) = self.result.take() {
            *self.slot.pending() = Some(result);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::System;
    use std::sync::mpsc;

    /// Starts work whose caller gives up at once, and returns the sender that completes the work.
    async fn abandoned(slot: &BlockingSlot<u8>) -> mpsc::Sender<()> {
        let (sender, go) = mpsc::channel();
        let work = move || {
            go.recv().unwrap();
            1
        };
        let run = slot.run(&System, work);
        assert!(polled_once(run).await.is_none());
        sender
    }

    /// Polls a future once.
    async fn polled_once<F: Future>(future: F) -> Option<F::Output> {
        let mut future = std::pin::pin!(future);
        std::future::poll_fn(|context| {
            Poll::Ready(match future.as_mut().poll(context) {
                Poll::Ready(output) => Some(output),
                Poll::Pending => None,
            })
        })
        .await
    }

    #[tokio::test]
    async fn the_next_caller_gets_the_result_of_abandoned_work() {
        let slot = BlockingSlot::default();
        abandoned(&slot).await.send(()).unwrap();
        assert_eq!(slot.run(&System, || 2).await.unwrap(), 1);
        assert_eq!(slot.run(&System, || 3).await.unwrap(), 3);
    }

    #[tokio::test]
    async fn an_old_result_is_not_used() {
        let slot = BlockingSlot::default();
        let (sender, result) = oneshot::channel();
        let complete = Instant::now().checked_sub(RESULT_MAX_AGE).unwrap();
        sender.send((1, complete)).unwrap();
        *slot.pending() = Some(result);
        assert_eq!(slot.run(&System, || 2).await.unwrap(), 2);
    }
}
