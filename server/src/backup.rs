//! Backups of a running server, as a stream.
use crate::storage::{Image, StorageError, backup};
use bytes::Bytes;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::mpsc;

/// Number of pieces produced in advance: about a megabyte.
const AHEAD: usize = 4;

/// A backup in progress, on a thread of its own. It is cancelled when this is dropped.
#[derive(Debug)]
pub struct Backup {
    pieces: mpsc::Receiver<Piece>,
    is_over: bool,
    /// Number of steps of reading, including those before the first piece.
    steps: Arc<AtomicU64>,
}

/// The next piece; `None` after the last one.
type Piece = Result<Option<Bytes>, StorageError>;

impl Backup {
    pub(crate) fn start(mut image: Box<dyn Image>) -> Result<Self, StorageError> {
        let (to, pieces) = mpsc::channel(AHEAD);
        let steps = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&steps);
        let write = move || {
            let mut pieces = Pieces(&to);
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
            pieces,
            is_over: false,
            steps,
        })
    }

    /// Returns a number that grows while the store is read, also before the first piece.
    pub(crate) fn steps(&self) -> u64 {
        self.steps.load(Ordering::Relaxed)
    }

    /// Returns the next piece. Most have some hundred kilobytes, more if a single value is larger.
    ///
    /// Returns `None` at the end, after which the backup is complete. After an error no piece follows, and the pieces so far are
    /// no backup.
    ///
    /// Cancel safe.
    pub async fn next(&mut self) -> Option<Result<Bytes, StorageError>> {
        if self.is_over {
            return None;
        }
        let piece = self.pieces.recv().await.unwrap_or_else(|| {
            Err(StorageError::Io {
                what: "cannot go on with the backup".into(),
                source: io::Error::other("its thread stopped unexpectedly"),
            })
        });
        self.is_over = !matches!(piece, Ok(Some(_)));
        piece.transpose()
    }
}

/// A writer that makes a piece of each write.
struct Pieces<'a>(&'a mpsc::Sender<Piece>);

impl io::Write for Pieces<'_> {
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
