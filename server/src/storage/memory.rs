//! The storage that stores nothing: the entries exist in the engine only, until the process ends.
use super::{Batch, Restore, Storage, StorageError};

/// Accepts every commit and keeps nothing.
///
/// The records are in the engine already; a second copy would double the memory per key. So
/// [`load`](Storage::load) always hands over nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct MemoryStorage;

impl Storage for MemoryStorage {
    fn load(&mut self, _into: &mut dyn Restore) -> Result<Option<(u64, u64)>, StorageError> {
        Ok(None)
    }

    fn commit(&mut self, _batches: &[Batch]) -> Result<(), StorageError> {
        Ok(())
    }

    fn is_durable(&self) -> bool {
        false
    }
}
