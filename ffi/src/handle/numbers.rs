//! Names of 32 bits: ascending numbers, which say nothing else. Each comes back only after four thousand million others.
use super::Object;
use statestore_embed::PerProcess;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockWriteGuard};

/// The next number, for whatever type. A forked child goes on where its parent was.
static NEXT: AtomicUsize = AtomicUsize::new(1);
/// The first number that this process has given.
static FIRST: PerProcess<usize> = PerProcess::new(1, || NEXT.load(Ordering::Relaxed));

/// The objects of one type.
#[derive(Debug)]
pub(crate) struct Table<T>(RwLock<Numbers<T>>);

#[derive(Debug)]
struct Numbers<T> {
    /// `None` for an object that is yet to be made.
    all: BTreeMap<usize, Option<Arc<T>>>,
    /// How many there may be.
    most: usize,
}

impl<T> Table<T> {
    /// More than anybody has a use for.
    #[cfg(target_pointer_width = "32")]
    pub(crate) const fn new() -> Self {
        Self::holding(1 << 24)
    }

    /// No more than `most`.
    pub(crate) const fn holding(most: usize) -> Self {
        Self(RwLock::new(Numbers {
            all: BTreeMap::new(),
            most,
        }))
    }

    fn write(&self) -> RwLockWriteGuard<'_, Numbers<T>> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Object> Table<T> {
    /// Names an object; `None` if there are too many.
    pub(super) fn insert(&self, object: Arc<T>) -> Option<usize> {
        self.write().put(Some(object))
    }

    /// A name for an object that is yet to be made; `None` if there are too many.
    pub(super) fn reserve(&self) -> Option<usize> {
        self.write().put(None)
    }

    /// Gives a reserved name to its object.
    pub(super) fn fill(&self, name: usize, object: Arc<T>) {
        self.write().all.insert(name, Some(object));
    }

    /// A reserved name has no object.
    pub(super) fn give_back(&self, name: usize) {
        self.write().all.remove(&name);
    }

    pub(super) fn get(&self, name: usize) -> Option<Arc<T>> {
        let numbers = self.0.read().unwrap_or_else(PoisonError::into_inner);
        numbers.all.get(&name)?.clone()
    }

    pub(super) fn remove(&self, name: usize) -> Option<Arc<T>> {
        let mut numbers = self.write();
        // One that is reserved stays so.
        numbers.all.get(&name)?.as_ref()?;
        numbers.all.remove(&name)?
    }

    /// Whether a name may be one of this type: it does not say.
    pub(super) fn is_of_type(_name: usize) -> bool {
        true
    }

    /// Whether a name was given by a process that this one was forked of.
    pub(super) fn is_inherited(name: usize) -> bool {
        name < *FIRST.get()
    }
}

impl<T> Numbers<T> {
    fn put(&mut self, object: Option<Arc<T>>) -> Option<usize> {
        if self.all.len() >= self.most {
            return None;
        }
        // Before any is given, so that a child knows which are its own.
        FIRST.get();
        loop {
            let name = NEXT.fetch_add(1, Ordering::Relaxed);
            // After all others, the first ones may still be there. NULL is none.
            if name != 0 && !self.all.contains_key(&name) {
                self.all.insert(name, object);
                return Some(name);
            }
        }
    }
}
