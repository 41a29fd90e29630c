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
const FRESH: Duration = Duration::from_secs(30);

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
        let under_way = self.place().take();
        if let Some(result) = under_way {
            let (result, complete) = self.wait(result).await?;
            if complete.elapsed() < FRESH {
                return Ok(result);
            }
        }
        let (sender, result) = oneshot::channel();
        platform.run_blocking(Box::new(move || {
            let result = work();
            // The client may be gone.
            drop(sender.send((result, Instant::now())));
        }))?;
        self.wait(result).await.map(|(result, _)| result)
    }

    fn wait(&self, result: Pending<T>) -> Waiting<'_, T> {
        Waiting {
            slot: self,
            result: Some(result),
        }
    }

    fn place(&self) -> std::sync::MutexGuard<'_, Option<Pending<T>>> {
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
struct Waiting<'a, T: Send + 'static> {
    slot: &'a BlockingSlot<T>,
    /// Receiver of the result; present until the result arrives.
    result: Option<Pending<T>>,
}

impl<T: Send + 'static> Future for Waiting<'_, T> {
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

impl<T: Send + 'static> Drop for Waiting<'_, T> {
    fn drop(&mut self) {
        if let Some(result) = self.result.take() {
            *self.slot.place() = Some(result);
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
    async fn work_that_was_given_up_is_waited_for_by_the_next_caller() {
        let slot = BlockingSlot::default();
        abandoned(&slot).await.send(()).unwrap();
        assert_eq!(slot.run(&System, || 2).await.unwrap(), 1);
        assert_eq!(slot.run(&System, || 3).await.unwrap(), 3);
    }

    #[tokio::test]
    async fn an_old_result_is_not_used() {
        let slot = BlockingSlot::default();
        let (sender, result) = oneshot::channel();
        let complete = Instant::now().checked_sub(FRESH).unwrap();
        sender.send((1, complete)).unwrap();
        *slot.place() = Some(result);
        assert_eq!(slot.run(&System, || 2).await.unwrap(), 2);
    }
}
