//! Blocking calls that may never return, such as to a disk: one at a time.
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

/// A guard of blocking calls. A call that never ends occupies a thread forever, so the next call waits for it.
#[derive(Debug)]
pub(super) struct BlockingLimiter {
    lock: Arc<Mutex<()>>,
    time_limit: Duration,
}

impl BlockingLimiter {
    /// Creates the guard. `time_limit` limits the time of each call, including its wait.
    pub(super) fn with_timeout(time_limit: Duration) -> Self {
        Self {
            lock: Arc::default(),
            time_limit,
        }
    }

    /// Returns the result of a call that may block. Returns `None` if it does not end in time, or an earlier one has
    /// not ended.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        call: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let running = async {
            let turn = Arc::clone(&self.lock).lock_owned().await;
            let running = spawn_blocking(move || {
                let found = call();
                drop(turn);
                found
            });
            running.await
        };
        timeout(self.time_limit, running).await.ok()?.ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc::channel;

    #[tokio::test]
    async fn a_blocked_call_is_not_started_again() {
        let looks = BlockingLimiter::with_timeout(Duration::from_millis(20));
        let begun = Arc::new(AtomicUsize::new(0));
        let (answer, hangs) = channel::<()>();
        let hangs = Arc::new(std::sync::Mutex::new(hangs));
        for _ in 0..10 {
            let (begun, hangs) = (Arc::clone(&begun), Arc::clone(&hangs));
            let look = move || {
                begun.fetch_add(1, Ordering::SeqCst);
                // The call ends with the test.
                let _ = hangs.lock().unwrap().recv();
            };
            assert_eq!(looks.run(look).await, None);
        }
        assert_eq!(begun.load(Ordering::SeqCst), 1);
        drop(answer);
        let mut found = None;
        while found.is_none() {
            found = looks.run(|| 2).await;
        }
        assert_eq!(found, Some(2));
    }
}
