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
pub(crate) struct Table<T>(RwLock<TableState<T>>);

#[derive(Debug)]
struct TableState<T> {
    /// Objects by their names; `None` for a reserved name.
    objects: BTreeMap<usize, Option<Arc<T>>>,
    /// Maximum number of objects.
    capacity: usize,
}

impl<T> Table<T> {
    /// Makes a table that holds more objects than any program needs.
    #[cfg(target_pointer_width = "32")]
    pub(crate) const fn new() -> Self {
        Self::holding(1 << 24)
    }

    /// Makes a table that holds at most `capacity` objects.
    pub(crate) const fn with_capacity(capacity: usize) -> Self {
        Self(RwLock::new(TableState {
            objects: BTreeMap::new(),
            capacity,
        }))
    }

    fn write(&self) -> RwLockWriteGuard<'_, TableState<T>> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Object> Table<T> {
    /// Assigns a name to an object; `None` if there are too many.
    pub(super) fn insert(&self, object: Arc<T>) -> Option<usize> {
        self.write().insert(Some(object))
    }

    /// Reserves a name for an object that is made later; `None` if there are too many.
    pub(super) fn reserve(&self) -> Option<usize> {
        self.write().insert(None)
    }

    /// Stores the object of a reserved name.
    pub(super) fn fill(&self, name: usize, object: Arc<T>) {
        self.write().objects.insert(name, Some(object));
    }

    /// Returns a reserved name that gets no object.
    pub(super) fn release(&self, name: usize) {
        self.write().objects.remove(&name);
    }

    pub(super) fn get(&self, name: usize) -> Option<Arc<T>> {
        let numbers = self.0.read().unwrap_or_else(PoisonError::into_inner);
        numbers.objects.get(&name)?.clone()
    }

    pub(super) fn remove(&self, name: usize) -> Option<Arc<T>> {
        let mut numbers = self.write();
        // A reserved name stays reserved.
        numbers.objects.get(&name)?.as_ref()?;
        numbers.objects.remove(&name)?
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

impl<T> TableState<T> {
    fn insert(&mut self, object: Option<Arc<T>>) -> Option<usize> {
        if self.objects.len() >= self.capacity {
            return None;
        }
        // Before any name is assigned, so that a child knows its own names.
        FIRST.get();
        loop {
            let name = NEXT.fetch_add(1, Ordering::Relaxed);
            // After the numbers wrap around, the first ones may still be in use. NULL is never a name.
            if name != 0 && !self.objects.contains_key(&name) {
                self.objects.insert(name, object);
                return Some(name);
            }
        }
    }
}
