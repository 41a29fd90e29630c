//! The handles of an input: those that are good, and those that certainly are not any more.
use crate::header::KINDS;
use std::ffi::c_void;
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};

/// Held while a handle is freed whose bytes somebody could be reading.
pub(crate) static DATA: RwLock<()> = RwLock::new(());

static HANDLES: Mutex<Handles> = Mutex::new(Handles {
    good: Vec::new(),
    freed: Vec::new(),
});

/// Each with its kind.
pub(crate) struct Handles {
    pub(crate) good: Vec<(usize, usize)>,
    pub(crate) freed: Vec<(usize, usize)>,
}

pub(crate) fn handles() -> MutexGuard<'static, Handles> {
    HANDLES.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn kind(name: &str) -> usize {
    let found = KINDS.iter().position(|kind| *kind == name);
    found.expect("a type of the header")
}

impl Handles {
    /// What was given belongs to the input.
    pub(crate) fn take(&mut self, kind: usize, handle: *mut c_void) {
        let handle = (kind, handle.addr());
        assert!(handle.1 != 0 && !self.good.contains(&handle), "given twice");
        assert!(!self.freed.contains(&handle), "freed, and given again");
        self.good.push(handle);
    }

    pub(crate) fn of_kind(&self, kind: usize) -> impl Iterator<Item = usize> {
        let all = self.good.iter().filter(move |known| known.0 == kind);
        all.map(|known| known.1)
    }

    pub(crate) fn is_good(&self, kind: usize, handle: usize) -> bool {
        self.good.contains(&(kind, handle))
    }

    /// It is about to be freed; whether it was good.
    pub(crate) fn give_up(&mut self, kind: usize, handle: usize) -> bool {
        let before = self.good.len();
        self.good.retain(|known| *known != (kind, handle));
        self.good.len() < before
    }
}
