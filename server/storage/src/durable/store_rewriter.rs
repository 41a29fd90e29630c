//! Rewriting a store while no client uses it.
use super::base_writer::BaseWriter;
use super::live_index::LiveIndex;
use super::{DiscardRecords, DurableStorage};
use crate::record::{LogChange, Version};
use crate::{RecordView, Storage, StorageError};
use std::io;

/// A rewrite of a store: its records, and the base for those that are kept.
#[derive(Debug)]
pub struct StoreRewriter<'a> {
    live: LiveIndex,
    base: &'a mut BaseWriter,
}

impl StoreRewriter<'_> {
    /// Reads all records of the store, keeps those for which `is_wanted` returns `true`, and returns the clock. `read` receives the
    /// number of bytes read since the last call, and can stop the rewrite with an error.
    pub fn retain(
        &mut self,
        is_wanted: &mut dyn FnMut(&RecordView<'_>) -> bool,
        read: &mut dyn FnMut(u64) -> Result<(), StorageError>,
    ) -> Result<Option<Version>, StorageError> {
        let base = &mut *self.base;
        self.live.visit_live(&mut |change: LogChange<'_>| {
            if let LogChange::Put(put) = change
                && is_wanted(&put.record)
            {
                let bytes = put.encoded.len() as u64;
                base.add_encoded(put.encoded)?;
                read(bytes)?;
            }
            Ok(())
        })
    }

    /// Adds a record whose key none of the kept records has.
    pub fn add(&mut self, record: &RecordView<'_>) -> Result<(), StorageError> {
        self.base.add(record).map(drop)
    }
}

impl DurableStorage {
    /// Replaces the whole store with a new base, in one durable step. `content` adds the records of the base and returns the clock.
    ///
    /// # Errors
    /// A file cannot be read or written, or `content` returns an error. The store is unchanged then.
    pub fn rewrite(
        &mut self,
        content: &mut dyn FnMut(&mut StoreRewriter<'_>) -> Result<Option<Version>, StorageError>,
    ) -> Result<(), StorageError> {
        if self.active.is_none() {
            self.load(&mut DiscardRecords)?;
        }
        if let Some(merge) = self.merge.take() {
            merge.cancel();
        }
        if self.active.as_ref().is_some_and(|log| !log.is_empty()) {
            self.try_prepare()?;
            self.try_roll()?;
            if let Some(merge) = self.merge.take() {
                merge.cancel();
            }
        }
        if self.active.as_ref().is_some_and(|log| !log.is_empty()) {
            return Err(StorageError::Io {
                what: format!("cannot begin a log in {}", self.directory.path().display()),
                source: io::ErrorKind::Other.into(),
            });
        }
        let replaced = self.replace_base(content);
        // Removes the new files if that failed, and the old ones otherwise.
        self.remove_leftovers(self.spare.as_ref().map(|spare| spare.id));
        replaced
    }

    fn replace_base(
        &mut self,
        content: &mut dyn FnMut(&mut StoreRewriter<'_>) -> Result<Option<Version>, StorageError>,
    ) -> Result<(), StorageError> {
        let disk = &**self.directory.disk();
        let salt = self.manifest.salt;
        let live = LiveIndex::new(&self.contents().files(), &mut |_| Ok(()))?;
        // The former base may have been created with the same log.
        let mut id = self.manifest.active + 1;
        while !self.directory.is_unused(&self.directory.base(id)) {
            id += 2;
        }
        let mut base = BaseWriter::create(disk, self.directory.base(id), salt, id)?;
        let clock = content(&mut StoreRewriter {
            live,
            base: &mut base,
        })?;
        let mut manifest = self.manifest.clone();
        manifest.base = Some(base.finish(clock, self.manifest.first - 1)?);
        manifest.sealed.clear();
        self.directory.sync()?;
        self.directory.write_manifest(&manifest)?;
        self.manifest = manifest;
        Ok(())
    }
}
