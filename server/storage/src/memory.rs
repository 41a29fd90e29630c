//! The storage that stores nothing: the entries exist in the engine only, until the process ends.
use super::{Batch, Restore, Storage, StorageError};

/// A storage that accepts every commit and stores nothing.
///
/// The engine holds the records already; a second copy would double the memory per key. [`load`](Storage::load)
/// therefore always returns no records.
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
