//! Filling the embedded keyspace with what the storage holds.
use crate::clock::Now;
use crate::keyspace::Embedded;
use crate::storage::{LoadProgress, RecordView, Restore, Storage, StorageError};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often a load that takes long says how far it is.
const REPORT_EVERY: Duration = Duration::from_secs(5);

/// Hands everything that the storage holds over to the keyspace, which is empty. Blocks for seconds if there is much.
///
/// # Errors
/// [`StorageError::Stopped`] soon after `is_stopped` has become true. The keyspace is of no use then.
pub(crate) fn load(
    storage: &mut dyn Storage,
    keyspace: &mut Embedded,
    now: Now,
    is_stopped: &AtomicBool,
) -> Result<(), StorageError> {
    let begin = Instant::now();
    let mut loading = Loading {
        keyspace,
        now,
        is_stopped,
        next_report: begin + REPORT_EVERY,
    };
    if let Some((wall_ms, counter)) = storage.load(&mut loading)? {
        keyspace.restore_clock(wall_ms, counter);
    }
    tracing::info!(
        keys = keyspace.len(),
        seconds = format_args!("{:.1}", begin.elapsed().as_secs_f64()),
        "the state is loaded"
    );
    if keyspace.is_full() {
        tracing::warn!(
            bytes = keyspace.bytes(),
            "there is more than the quota allows: entries can be read and deleted, but not made or enlarged; \
             delete some, or raise --max-bytes or --max-keys"
        );
    }
    Ok(())
}

/// A load under way.
struct Loading<'a> {
    keyspace: &'a mut Embedded,
    now: Now,
    is_stopped: &'a AtomicBool,
    next_report: Instant,
}

impl Restore for Loading<'_> {
    fn ahead(&mut self, keys: &mut dyn Iterator<Item = &[u8]>) {
        self.keyspace.restore_soon(keys);
    }

    fn put(&mut self, record: &RecordView<'_>) {
        self.keyspace.restore(record, self.now);
    }

    fn delete(&mut self, key: &[u8]) {
        self.keyspace.restore_deletion(key);
    }

    fn progressed(&mut self, progress: LoadProgress) -> ControlFlow<()> {
        if self.is_stopped.load(Ordering::Relaxed) {
            return ControlFlow::Break(());
        }
        if Instant::now() >= self.next_report {
            self.next_report += REPORT_EVERY;
            let percent = progress.done * 100 / progress.total.max(1);
            tracing::info!(keys = self.keyspace.len(), "loading the state: {percent} %");
        }
        ControlFlow::Continue(())
    }
}
