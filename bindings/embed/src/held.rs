//! What belongs to the process that made it.
use crate::error::Error;
use crate::process::Process;
use std::sync::Arc;

/// A value that a forked child neither uses nor drops: dropping it could wait for a lock that a thread of the parent held.
#[derive(Debug)]
pub(crate) struct Held<T> {
    /// Present until it is dropped.
    value: Option<T>,
    process: Process,
}

impl<T> Held<T> {
    pub(crate) fn new(value: T) -> Self {
        Self {
            value: Some(value),
            process: Process::current(),
        }
    }

    /// The value, unless this process is a forked child.
    pub(crate) fn get(&self) -> Result<&T, Error> {
        self.process.check()?;
        self.value.as_ref().ok_or_else(crate::client::closed)
    }
}

impl<T> Held<Arc<T>> {
    /// The same value once more.
    pub(crate) fn share(&self) -> Self {
        Self {
            value: self.value.clone(),
            process: self.process,
        }
    }
}

impl<T> Drop for Held<T> {
    fn drop(&mut self) {
        if !self.process.is_here() {
            std::mem::forget(self.value.take());
        }
    }
}
