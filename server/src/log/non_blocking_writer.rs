//! Lines on their way to standard error. A full pipe without a reader does not block the threads that log.
//!
//! The writer of `tracing-appender` limits the number of queued lines, not their bytes. If its queue is full at the end of the process,
//! it writes a message to standard output, which is for the addresses of the server. It counts lost lines, but does not log them.
use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tracing_subscriber::fmt::MakeWriter;

/// Maximum number of queued bytes; further lines are dropped.
const MAX_QUEUED_BYTES: usize = 1024 * 1024;

#[derive(Debug, Clone, Default)]
pub(super) struct NonBlockingWriter(Arc<LineQueue>);

#[derive(Debug, Default)]
struct LineQueue {
    state: Mutex<QueueState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct QueueState {
    text: Vec<u8>,
    /// Number of dropped lines that are not reported yet.
    dropped: u64,
    is_writing: bool,
}

impl NonBlockingWriter {
    /// Starts the thread that writes the lines to `output`.
    ///
    /// # Errors
    /// No thread is available.
    pub(super) fn spawn(output: impl Write + Send + 'static) -> io::Result<Self> {
        let lines = Self::default();
        let shared = Arc::clone(&lines.0);
        std::thread::Builder::new()
            .name("log".into())
            .spawn(move || shared.write_to(output))?;
        Ok(lines)
    }

    /// Waits until all lines are written, up to `timeout`.
    pub(super) fn flush(&self, timeout: Duration) {
        let is_busy = |waiting: &mut QueueState| waiting.is_writing || !waiting.text.is_empty();
        let changed = &self.0.changed;
        drop(changed.wait_timeout_while(self.0.lock(), timeout, is_busy));
    }

    /// Adds a line, or drops it if the queue is full.
    pub(super) fn push(&self, line: &[u8]) {
        let mut waiting = self.0.lock();
        if waiting.text.len() + line.len() > MAX_QUEUED_BYTES {
            waiting.dropped += 1;
            return;
        }
        waiting.text.extend_from_slice(line);
        drop(waiting);
        self.0.changed.notify_all();
    }
}

impl LineQueue {
    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_to(&self, mut output: impl Write) {
        let mut text = Vec::new();
        let mut waiting = self.lock();
        loop {
            if waiting.text.is_empty() {
                let changed = self.changed.wait(waiting);
                waiting = changed.unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            std::mem::swap(&mut text, &mut waiting.text);
            let lost = std::mem::take(&mut waiting.dropped);
            waiting.is_writing = true;
            drop(waiting);
            // The reader may be gone.
            let _ = output.write_all(&text);
            text.clear();
            if lost > 0 {
                tracing::error!(
                    lines = lost,
                    "standard error was not read: lines of the log are missing"
                );
            }
            waiting = self.lock();
            waiting.is_writing = false;
            self.changed.notify_all();
        }
    }
}

impl Write for &NonBlockingWriter {
    /// One event, as the formatting layer writes it.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.push(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for NonBlockingWriter {
    type Writer = &'a Self;

    fn make_writer(&'a self) -> &'a Self {
        self
    }
}
