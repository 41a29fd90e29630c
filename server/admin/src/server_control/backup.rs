//! Backups of a running server, as a stream.
use super::ServerStopped;
use bytes::Bytes;
use statestored_storage::{StorageError, StorageImage, backup};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::mpsc;

/// Number of pieces produced in advance: about a megabyte.
const PREFETCHED_CHUNKS: usize = 4;

/// Reason why no copy was made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// The storage failed; the directory is no store.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The server has stopped.
    #[error(transparent)]
    Stopped(#[from] ServerStopped),
}

/// A backup in progress, on a thread of its own. It is cancelled when this is dropped.
#[derive(Debug)]
pub struct Backup {
    chunks: mpsc::Receiver<ChunkResult>,
    is_finished: bool,
    /// Number of steps of reading, including those before the first piece.
    progress: Arc<AtomicU64>,
}

/// The next piece; `None` after the last one.
type ChunkResult = Result<Option<Bytes>, StorageError>;

impl Backup {
    /// Starts to read `image` on a thread of its own.
    ///
    /// # Errors
    /// No thread is available.
    pub fn start(mut image: Box<dyn StorageImage>) -> Result<Self, StorageError> {
        let (to, pieces) = mpsc::channel(PREFETCHED_CHUNKS);
        let steps = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&steps);
        let write = move || {
            let mut pieces = ChunkWriter(&to);
            let is_wanted = || {
                counted.fetch_add(1, Ordering::Relaxed);
                !to.is_closed()
            };
            let written = backup::write(&mut *image, &mut pieces, &is_wanted);
            // A dropped backup has no receiver.
            let _ = to.blocking_send(written.map(|_| None));
        };
        std::thread::Builder::new()
            .name("backup".into())
            .spawn(write)
            .map_err(StorageError::io(|| "cannot start the backup thread".into()))?;
        Ok(Self {
            chunks: pieces,
            is_finished: false,
            progress: steps,
        })
    }

    /// Returns a number that grows while the store is read, also before the first piece.
    pub(crate) fn progress(&self) -> u64 {
        self.progress.load(Ordering::Relaxed)
    }

    /// Returns the next piece. Most have some hundred kilobytes, more if a single value is larger.
    ///
    /// Returns `None` at the end, after which the backup is complete. After an error no piece follows, and the pieces so far are
    /// no backup.
    ///
    /// Cancel safe.
    pub async fn next(&mut self) -> Option<Result<Bytes, StorageError>> {
        if self.is_finished {
            return None;
        }
        let piece = self.chunks.recv().await.unwrap_or_else(|| {
            Err(StorageError::Io {
                what: "cannot go on with the backup".into(),
                source: io::Error::other("its thread stopped unexpectedly"),
            })
        });
        self.is_finished = !matches!(piece, Ok(Some(_)));
        piece.transpose()
    }
}

/// A writer that makes a piece of each write.
struct ChunkWriter<'a>(&'a mpsc::Sender<ChunkResult>);

impl io::Write for ChunkWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0
            .blocking_send(Ok(Some(Bytes::copy_from_slice(bytes))))
            .map_err(|_| io::ErrorKind::BrokenPipe)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
