//! The handles of an input, valid and freed.
use crate::header::KINDS;
use std::ffi::c_void;
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};

/// Lock that is held while a handle is freed whose bytes another thread could read.
pub(crate) static DATA: RwLock<()> = RwLock::new(());

static HANDLES: Mutex<HandleSet> = Mutex::new(HandleSet {
    live: Vec::new(),
    freed: Vec::new(),
});

/// The handles, each with its kind.
pub(crate) struct HandleSet {
    pub(crate) live: Vec<(usize, usize)>,
    pub(crate) freed: Vec<(usize, usize)>,
}

pub(crate) fn handles() -> MutexGuard<'static, HandleSet> {
    HANDLES.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn kind(name: &str) -> usize {
    let found = KINDS.iter().position(|kind| *kind == name);
    found.expect("a type of the header")
}

impl HandleSet {
    /// Adds a handle that the library returned.
    pub(crate) fn insert(&mut self, kind: usize, handle: *mut c_void) {
        let handle = (kind, handle.addr());
        assert!(handle.1 != 0 && !self.live.contains(&handle), "given twice");
        assert!(!self.freed.contains(&handle), "freed, and given again");
        self.live.push(handle);
    }

    pub(crate) fn of_kind(&self, kind: usize) -> impl Iterator<Item = usize> {
        let all = self.live.iter().filter(move |known| known.0 == kind);
        all.map(|known| known.1)
    }

    pub(crate) fn is_live(&self, kind: usize, handle: usize) -> bool {
        self.live.contains(&(kind, handle))
    }

    /// Removes a handle before it is freed. Returns whether it was valid.
    pub(crate) fn remove(&mut self, kind: usize, handle: usize) -> bool {
        let before = self.live.len();
        self.live.retain(|known| *known != (kind, handle));
        self.live.len() < before
    }
}
