//! Names of 32 bits: ascending numbers without further content. Each number is reused only after four thousand million
//! others.
use super::Object;
use statestore_embed::PerProcess;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockWriteGuard};

/// The next number, shared by all types. A forked child continues after its parent's numbers.
static NEXT: AtomicUsize = AtomicUsize::new(1);
/// The first number that this process has assigned.
static FIRST: PerProcess<usize> = PerProcess::new(1, || NEXT.load(Ordering::Relaxed));

/// The objects of one type.
#[derive(Debug)]
pub(crate) struct Table<T>(RwLock<Numbers<T>>);

#[derive(Debug)]
struct Numbers<T> {
    /// Objects by their names; `None` for a reserved name.
    all: BTreeMap<usize, Option<Arc<T>>>,
    /// Maximum number of objects.
    most: usize,
}

impl<T> Table<T> {
    /// Makes a table that holds more objects than any program needs.
    #[cfg(target_pointer_width = "32")]
    pub(crate) const fn new() -> Self {
        Self::holding(1 << 24)
    }

    /// Makes a table that holds at most `most` objects.
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
    /// Assigns a name to an object; `None` if there are too many.
    pub(super) fn insert(&self, object: Arc<T>) -> Option<usize> {
        self.write().put(Some(object))
    }

    /// Reserves a name for an object that is made later; `None` if there are too many.
    pub(super) fn reserve(&self) -> Option<usize> {
        self.write().put(None)
    }

    /// Stores the object of a reserved name.
    pub(super) fn fill(&self, name: usize, object: Arc<T>) {
        self.write().all.insert(name, Some(object));
    }

    /// Returns a reserved name that gets no object.
    pub(super) fn give_back(&self, name: usize) {
        self.write().all.remove(&name);
    }

    pub(super) fn get(&self, name: usize) -> Option<Arc<T>> {
        let numbers = self.0.read().unwrap_or_else(PoisonError::into_inner);
        numbers.all.get(&name)?.clone()
    }

    pub(super) fn remove(&self, name: usize) -> Option<Arc<T>> {
        let mut numbers = self.write();
        // A reserved name stays reserved.
        numbers.all.get(&name)?.as_ref()?;
        numbers.all.remove(&name)?
    }

    /// Whether a name may belong to this type: always, since these names do not contain a type.
    pub(super) fn is_of_type(_name: usize) -> bool {
        true
    }

    /// Whether a name was assigned by an ancestor from which this process was forked.
    pub(super) fn is_inherited(name: usize) -> bool {
        name < *FIRST.get()
    }
}

impl<T> Numbers<T> {
    fn put(&mut self, object: Option<Arc<T>>) -> Option<usize> {
        if self.all.len() >= self.most {
            return None;
        }
        // Before any name is assigned, so that a child knows its own names.
        FIRST.get();
        loop {
            let name = NEXT.fetch_add(1, Ordering::Relaxed);
            // After the numbers wrap around, the first ones may still be in use. NULL is never a name.
            if name != 0 && !self.all.contains_key(&name) {
                self.all.insert(name, object);
                return Some(name);
            }
        }
    }
}
