//! Progress of a long operation, and its interruption.
use super::INTERRUPTED;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use statestored_storage::{RecordReceiver, RecordView, StorageError};
use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Interval at which the line is written.
const UPDATE_INTERVAL: Duration = Duration::from_millis(200);

/// A line on standard error, if that is a terminal.
#[derive(Debug)]
pub(super) struct Progress {
    operation: &'static str,
    /// Number of bytes to read, if it is known.
    total: Option<u64>,
    done: u64,
    shown: Option<Instant>,
    started: Instant,
    is_terminal: bool,
    is_stopped: Arc<AtomicBool>,
}

impl Progress {
    /// Starts to show progress. From now on, SIGINT and SIGTERM stop the operation with [`StorageError::Stopped`].
    pub(super) fn begin(what: &'static str, total: Option<u64>) -> std::io::Result<Self> {
        let is_stopped = Arc::new(AtomicBool::new(false));
        stop_at_signals(&is_stopped)?;
        Ok(Self {
            operation: what,
            total,
            done: 0,
            shown: None,
            started: Instant::now(),
            is_terminal: std::io::stderr().is_terminal(),
            is_stopped,
        })
    }

    /// Adds the number of bytes read since the last call.
    pub(super) fn advance(&mut self, bytes: u64) -> Result<(), StorageError> {
        self.done += bytes;
        if self.is_stopped.load(Ordering::Relaxed) {
            return Err(StorageError::Stopped);
        }
        let since = self.shown.unwrap_or(self.started).elapsed();
        if self.is_terminal && since >= UPDATE_INTERVAL {
            self.shown = Some(Instant::now());
            let what = self.operation;
            // The tool continues if progress cannot be shown.
            let _ = match self.total {
                Some(total) => {
                    let percent = (self.done * 100 / total.max(1)).min(100);
                    write!(std::io::stderr(), "\r{what}: {percent} %\x1b[K")
                }
                None => write!(std::io::stderr(), "\r{what}: {} MiB\x1b[K", self.done >> 20),
            };
        }
        Ok(())
    }

    /// Returns whether the operation should continue.
    pub(super) fn should_continue(&self) -> bool {
        !self.is_stopped.load(Ordering::Relaxed)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.shown.is_some() {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

/// A receiver that shows the progress of another one.
pub(super) struct ProgressReceiver<'a> {
    pub(super) inner: &'a mut dyn RecordReceiver,
    pub(super) progress: &'a mut Progress,
}

impl RecordReceiver for ProgressReceiver<'_> {
    fn record(&mut self, record: &RecordView<'_>) -> Result<(), StorageError> {
        self.inner.record(record)
    }

    fn progressed(&mut self, bytes: u64) -> Result<(), StorageError> {
        self.progress.advance(bytes)?;
        self.inner.progressed(bytes)
    }
}

/// Sets the flag at the first signal; a second one ends the process immediately.
fn stop_at_signals(is_stopped: &Arc<AtomicBool>) -> std::io::Result<()> {
    for signal in [SIGINT, SIGTERM] {
        flag::register_conditional_shutdown(signal, INTERRUPTED.into(), Arc::clone(is_stopped))?;
        flag::register(signal, Arc::clone(is_stopped))?;
    }
    Ok(())
}
