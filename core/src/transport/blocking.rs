//! Work that blocks, on threads of its own.
use crate::platform::Platform;
use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll};
use tokio::sync::oneshot;

/// A place for one piece of work that blocks.
///
/// A caller that gives up waiting leaves the work under way, and the next caller waits for that. So a resolver or a file system that
/// hangs costs one thread, however often the work is tried again.
pub(crate) struct BlockingSlot<T>(Mutex<Option<oneshot::Receiver<T>>>);

impl<T: Send + 'static> BlockingSlot<T> {
    /// Returns the result of the work that is under way, or else that of `work`.
    ///
    /// # Errors
    /// The system refuses a thread, or the work panicked.
    pub(crate) async fn run(
        &self,
        platform: &dyn Platform,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<T> {
        let under_way = self.place().take();
        let result = if let Some(result) = under_way {
            result
        } else {
            let (sender, result) = oneshot::channel();
            platform.run_blocking(Box::new(move || {
                // The client may be gone.
                drop(sender.send(work()));
            }))?;
            result
        };
        Waiting {
            slot: self,
            result: Some(result),
        }
        .await
    }

    fn place(&self) -> std::sync::MutexGuard<'_, Option<oneshot::Receiver<T>>> {
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
    /// Present until the result is there.
    result: Option<oneshot::Receiver<T>>,
}

impl<T: Send + 'static> Future for Waiting<'_, T> {
    type Output = io::Result<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<T>> {
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
