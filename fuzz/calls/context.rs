//! Contexts of callbacks. They count the calls and drops of their callback, and can call the library.
use crate::call::{self, Scope};
use crate::handles::{handles, kind};
use crate::header::{
    sst_bytes_new, sst_bytes_slice, sst_entry_clone, sst_entry_value, sst_error_clone,
    sst_error_message, sst_error_status, sst_hlc_clone, sst_hlc_text, sst_observation_clone,
};
use crate::input::FuzzInput;
use crate::outcome::{is_known, read, read_text};
use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Mutex, PoisonError};
use std::thread::ThreadId;

/// All contexts of an input. They live until everything is closed at its end.
static CONTEXTS: Mutex<Vec<usize>> = Mutex::new(Vec::new());
/// Whether callbacks only receive their arguments, without calling the library.
pub(crate) static IS_ENDING: AtomicBool = AtomicBool::new(false);
/// Whether there is a queue, so that callbacks can run on the thread of the program.
pub(crate) static HAS_QUEUE: AtomicBool = AtomicBool::new(false);
/// Whether an operation was closed, so that its callback may not be called.
pub(crate) static HAS_CLOSED: AtomicBool = AtomicBool::new(false);

pub(crate) struct Context {
    pub(crate) name: &'static str,
    pub(crate) has_call: bool,
    pub(crate) has_drop: bool,
    /// Whether this is the callback of an operation.
    pub(crate) is_once: bool,
    pub(crate) was_accepted: AtomicBool,
    /// Thread that passed the callback to the library.
    thread: ThreadId,
    /// Whether another callback passed it.
    is_nested: bool,
    is_called: AtomicBool,
    pub(crate) calls: AtomicUsize,
    pub(crate) drops: AtomicUsize,
    /// Fuzzer input for the calls that the callback makes, a piece for each invocation.
    plan: Mutex<Vec<u8>>,
    lent: Mutex<Vec<(usize, usize)>>,
}

impl Context {
    pub(crate) fn new(
        name: &'static str,
        how: usize,
        is_once: bool,
        is_nested: bool,
        plan: &[u8],
    ) -> &'static Self {
        let context = Box::leak(Box::new(Self {
            name,
            has_call: how % 16 != 15,
            has_drop: how / 16 != 15,
            is_once,
            was_accepted: AtomicBool::new(false),
            thread: std::thread::current().id(),
            is_nested,
            is_called: AtomicBool::new(false),
            calls: AtomicUsize::new(0),
            drops: AtomicUsize::new(0),
            plan: Mutex::new(plan.to_vec()),
            lent: Mutex::new(Vec::new()),
        }));
        all().push(ptr::from_mut(context).expose_provenance());
        context
    }

    pub(crate) fn address(&'static self) -> *mut c_void {
        ptr::from_ref(self).cast_mut().cast()
    }

    /// Returns whether the callback is called until it is ended.
    pub(crate) fn is_subscription(&self) -> bool {
        let names = [
            "sst_on_state",
            "sst_on_observation",
            "sst_on_holding",
            "sst_on_leader",
        ];
        !self.is_once && names.contains(&self.name)
    }

    pub(crate) fn drops(&self) -> usize {
        self.drops.load(SeqCst)
    }

    /// Checks the counts after everything was closed.
    fn check_counts(&self) {
        let (calls, drops) = (self.calls.load(SeqCst), self.drops());
        assert_eq!(drops, usize::from(self.has_drop), "{}: dropped", self.name);
        if !self.is_once {
            return;
        }
        let expected = usize::from(self.has_call && self.was_accepted.load(SeqCst));
        if HAS_CLOSED.load(SeqCst) {
            assert!(calls <= expected, "{}: called {calls} times", self.name);
        } else {
            assert_eq!(calls, expected, "{}: called", self.name);
        }
    }
}

fn all() -> std::sync::MutexGuard<'static, Vec<usize>> {
    CONTEXTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the contexts that are not dropped yet.
pub(crate) fn undropped() -> Vec<&'static str> {
    let all = all();
    let all = all.iter().map(|context| known(*context));
    all.filter(|it| it.has_drop && it.drops() == 0)
        .map(|it| it.name)
        .collect()
}

fn known(context: usize) -> &'static Context {
    // SAFETY: it was leaked, and is freed only at the end of the input.
    unsafe { &*ptr::with_exposed_provenance(context) }
}

/// Checks all that an input had, and frees them. Nothing of the library may run any more.
pub(crate) fn end() {
    for context in std::mem::take(&mut *all()) {
        known(context).check_counts();
        // SAFETY: it was leaked when it was made, and nobody has it any more.
        drop(unsafe { Box::from_raw(ptr::with_exposed_provenance_mut::<Context>(context)) });
    }
}

pub(crate) unsafe extern "C" fn on_drop(context: *mut c_void) {
    // SAFETY: the library gives back what it was given.
    let context = unsafe { &*context.cast::<Context>() };
    let drops = context.drops.fetch_add(1, SeqCst);
    assert_eq!(drops, 0, "{} is dropped twice", context.name);
    assert!(!context.is_called.load(SeqCst), "dropped while it runs");
    let lent = std::mem::take(&mut *context.lent.lock().unwrap());
    handles().freed.extend(lent);
}

/// A call of a callback.
pub(crate) struct CallbackInvocation {
    context: &'static Context,
    status: u32,
    wanted: *mut *mut c_void,
}

impl CallbackInvocation {
    pub(crate) fn new(context: *mut c_void) -> Self {
        // SAFETY: the library gives back what it was given.
        let context = unsafe { &*context.cast::<Context>() };
        assert!(
            !context.is_called.swap(true, SeqCst),
            "called twice at once"
        );
        assert_eq!(context.drops(), 0, "{} is called after all", context.name);
        let is_elsewhere = context.thread != std::thread::current().id();
        let may_be_here = HAS_QUEUE.load(SeqCst) || context.name == "sst_changer";
        assert!(
            is_elsewhere || may_be_here || context.is_nested,
            "{}",
            context.name
        );
        let calls = context.calls.fetch_add(1, SeqCst);
        assert!(calls == 0 || !context.is_once, "{} again", context.name);
        Self {
            context,
            status: 0,
            wanted: ptr::null_mut(),
        }
    }

    pub(crate) fn status(&mut self, status: u32, error: *mut c_void) {
        assert!(is_known(status), "status {status}");
        assert_eq!(status == 0, error.is_null(), "an error with its status");
        self.status = status;
        if !error.is_null() {
            // SAFETY: it is lent for the call.
            unsafe {
                assert_eq!(sst_error_status(error), status);
                assert!(!read_text(sst_error_message(error)).is_empty());
            }
            self.lend(kind("error"), error);
        }
    }

    pub(crate) fn lent(&mut self, kind: usize, handle: *mut c_void) {
        if !handle.is_null() {
            assert_eq!(self.status, 0, "a result of what failed");
            self.lend(kind, handle);
        }
    }

    fn lend(&self, of: usize, handle: *mut c_void) {
        // SAFETY: handles are numbers, and this one is good for the call.
        let clone = unsafe {
            match of {
                _ if of == kind("error") => sst_error_clone(handle),
                _ if of == kind("observation") => sst_observation_clone(handle),
                _ if of == kind("entry") => {
                    read(sst_entry_value(handle));
                    sst_entry_clone(handle)
                }
                _ if of == kind("hlc") => {
                    assert!(!read_text(sst_hlc_text(handle)).is_empty());
                    sst_hlc_clone(handle)
                }
                _ if of == kind("bytes") => {
                    assert!(!read(sst_bytes_slice(handle)).is_empty(), "no key is empty");
                    ptr::null_mut()
                }
                _ => ptr::null_mut(),
            }
        };
        if !clone.is_null() {
            handles().insert(of, clone);
        }
        // Once the context is dropped, it is certainly freed.
        let mut lent = self.context.lent.lock().unwrap();
        if lent.len() < 16 {
            lent.push((of, handle.addr()));
        }
    }

    pub(crate) fn given(&mut self, kind: usize, handle: *mut c_void) {
        if !handle.is_null() {
            assert_eq!(self.status, 0, "a result of what failed");
            handles().insert(kind, handle);
        }
    }

    pub(crate) fn shown(&mut self, of: *mut c_void) {
        assert_eq!(self.status == 0, !of.is_null());
    }

    pub(crate) fn text(&mut self, text: *mut c_void) {
        // SAFETY: it is lent for the call.
        let text = unsafe { read_text(text) };
        assert!(std::str::from_utf8(&text).is_ok());
    }

    pub(crate) fn number(&mut self, _number: impl Copy) {}

    pub(crate) fn wants(&mut self, value: *mut c_void) {
        self.wanted = value.cast();
        // SAFETY: the library has a place for a handle there.
        assert!(unsafe { *self.wanted }.is_null());
    }

    pub(crate) fn end(self) {
        let is_free = self.context.name != "sst_on_thread" && !IS_ENDING.load(SeqCst);
        let plan = std::mem::take(&mut *self.context.plan.lock().unwrap());
        if is_free && !plan.is_empty() {
            let mut choices = FuzzInput(&plan);
            call::make(&mut choices, Scope::Callback);
            *self.context.plan.lock().unwrap() = choices.0.to_vec();
        }
        self.context.is_called.store(false, SeqCst);
    }

    /// Chooses the new value of a key. The library takes ownership of it, so it is a new handle or an invalid one.
    pub(crate) fn answer(self) -> u32 {
        let wanted = self.wanted;
        let mut plan = std::mem::take(&mut *self.context.plan.lock().unwrap());
        let how = plan.pop().unwrap_or(0);
        *self.context.plan.lock().unwrap() = plan;
        // SAFETY: it is the place of a handle, and is so until this returns.
        unsafe {
            match how % 8 {
                6 => *wanted = ptr::without_provenance_mut(how.into()),
                7 => {}
                _ => {
                    sst_bytes_new(
                        [how].as_ptr().cast_mut().cast(),
                        1,
                        wanted.cast(),
                        ptr::null_mut(),
                    );
                }
            }
        }
        self.end();
        u32::from(how / 8 % 8 < 6)
    }
}
