//! The progress bar.
use indicatif::{ProgressBar, ProgressStyle};
use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// Counter of the finished operations of a phase. Clones share the count. Each adds its operations in batches, so that threads do
/// not contend for one cache line.
#[derive(Debug, Clone, Default)]
pub(crate) struct Progress {
    pending_count: u64,
    total: Arc<AtomicU64>,
}

impl Progress {
    /// Counts an operation.
    pub(crate) fn advance(&mut self) {
        const BATCH: u64 = 64;
        self.pending_count += 1;
        if self.pending_count == BATCH {
            self.total.fetch_add(BATCH, Ordering::Relaxed);
            self.pending_count = 0;
        }
    }

    /// Starts a phase.
    pub(crate) fn reset(&self) {
        self.total.store(0, Ordering::Relaxed);
    }

    /// Returns the approximate number of finished operations.
    pub(crate) fn count(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }
}

/// Time between two updates of the progress line.
const PERIOD: Duration = Duration::from_millis(100);

/// Shows a bar on standard error, if that is a terminal, until `work` ends.
pub(crate) async fn show<T>(
    title: &'static str,
    total: u64,
    position: impl Fn() -> u64,
    work: impl Future<Output = T>,
) -> T {
    let style = ProgressStyle::with_template("{msg} {wide_bar} {human_pos}/{human_len} {eta}")
        .expect("the template is valid");
    let bar = ProgressBar::new(total)
        .with_message(title)
        .with_style(style);
    let mut ticks = tokio::time::interval(PERIOD);
    let mut work = pin!(work);
    let result = loop {
        tokio::select! {
            biased;
            result = &mut work => break result,
            _ = ticks.tick() => bar.set_position(position()),
        }
    };
    bar.finish_and_clear();
    result
}
