//! A call of the library with arguments from the fuzzer, and the checks of every result.
use crate::checks;
use crate::context::{Context, HAS_CLOSED, HAS_QUEUE};
use crate::handles::{DATA, handles, kind};
use crate::header::{
    FUNCTIONS, sst_client_close_async, sst_error_free, sst_error_status, sst_on_done,
};
use crate::input::FuzzInput;
use crate::outcome::{FORKED, INVALID_ARGUMENT, INVALID_HANDLE, Value, is_known};
use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{LazyLock, Mutex, PoisonError, RwLockReadGuard, RwLockWriteGuard};

/// Number of calls that began or ended.
pub(crate) static STEPS: AtomicUsize = AtomicUsize::new(0);
/// Number of connecting calls that began in an input.
pub(crate) static CONNECTS: AtomicUsize = AtomicUsize::new(0);

/// Object that keeps a client open after its handle was freed.
pub(crate) static LEFTOVER: Mutex<OpenLeftover> = Mutex::new(OpenLeftover::None);

#[derive(PartialEq)]
pub(crate) enum OpenLeftover {
    None,
    /// A subscription, which continues until its client is closed.
    Subscription,
    /// A client that closes when its last object is gone.
    Client,
}

/// Content of an out parameter before the call.
const POISON: usize = usize::from_ne_bytes([0x5a; size_of::<usize>()]);

/// Whether each call is printed with its first handle and its status, to inspect an input: `CALLS_VERBOSE=1`.
static IS_VERBOSE: LazyLock<bool> = LazyLock::new(|| std::env::var_os("CALLS_VERBOSE").is_some());

/// Origin of a call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Scope {
    Program,
    Callback,
}

/// Makes the next call.
pub(crate) fn make(choices: &mut FuzzInput<'_>, scope: Scope) {
    let at = choices.byte();
    let choices = choices.piece();
    match FUNCTIONS.get(at) {
        Some((name, function)) => function(&mut Call::new(name, choices, scope)),
        None if scope == Scope::Program => checks::check(at - FUNCTIONS.len(), choices),
        None => {}
    }
}

/// Makes a call of the program with a name.
pub(crate) fn make_named(name: &str, bytes: &[u8]) {
    let found = FUNCTIONS.iter().find(|known| known.0 == name);
    let (name, function) = found.expect("a function of the header");
    function(&mut Call::new(name, FuzzInput(bytes), Scope::Program));
}

/// An out parameter of a call.
enum OutParameter {
    Handle(usize, Box<*mut c_void>),
    /// Size of the number, and the value that means none.
    Number(usize, u64, Box<u64>),
    Error(Box<*mut c_void>),
    /// A struct that the call fills, its content before, and the size of its known part.
    Filled(Box<[u64]>, Vec<u64>, usize),
}

enum DataLock {
    None,
    Reading {
        _guard: RwLockReadGuard<'static, ()>,
    },
    Freeing {
        _guard: RwLockWriteGuard<'static, ()>,
    },
}

pub(crate) struct Call<'a> {
    pub(crate) name: &'static str,
    pub(crate) choices: FuzzInput<'a>,
    scope: Scope,
    /// Memory that the arguments point to. It is freed after the call, so that a later use is detected.
    pub(crate) bytes: Vec<Box<[u8]>>,
    pub(crate) words: Vec<Box<[u64]>>,
    /// The kind of the first handle, the handle, and whether it is certainly invalid.
    first: Option<(usize, usize, bool)>,
    outputs: Vec<OutParameter>,
    contexts: Vec<&'static Context>,
    guard: DataLock,
    /// Whether an invented number is among the handles. It can look like a handle of a parent process.
    has_number: bool,
}

impl<'a> Call<'a> {
    fn new(name: &'static str, choices: FuzzInput<'a>, scope: Scope) -> Self {
        Self {
            name,
            choices,
            scope,
            bytes: Vec::new(),
            words: Vec::new(),
            first: None,
            outputs: Vec::new(),
            contexts: Vec::new(),
            guard: DataLock::None,
            has_number: false,
        }
    }

    /// Chooses a handle. Also returns whether it is certainly no handle of this kind.
    fn pick(&mut self, of: usize) -> (usize, bool) {
        let how = self.choices.byte();
        let handles = handles();
        let good: Vec<_> = handles.of_kind(of).collect();
        let other = handles.live.iter().find(|known| known.0 != of);
        let freed = handles.freed.iter().rev().find(|known| known.0 == of);
        match how {
            0..200 if !good.is_empty() => (good[good.len() - 1 - how % good.len()], false),
            0..220 => (0, true),
            220..230 => freed.map_or((0, true), |known| (known.1, true)),
            230..245 => other.map_or((0, true), |known| (known.1, true)),
            _ => {
                drop(handles);
                self.has_number = true;
                let word = usize::try_from(self.choices.word()).unwrap_or(usize::MAX);
                (word, word == 0)
            }
        }
    }

    pub(crate) fn handle(&mut self, of: usize) -> *mut c_void {
        let (handle, is_bad) = self.pick(of);
        self.first.get_or_insert((of, handle, is_bad));
        ptr::without_provenance_mut(handle)
    }

    pub(crate) fn handle_or_null(&mut self, of: usize) -> *mut c_void {
        match self.choices.byte() {
            0 => ptr::null_mut(),
            _ => ptr::without_provenance_mut(self.pick(of).0),
        }
    }

    /// Returns whether the call passes NULL for the result.
    fn omits_result(&mut self) -> bool {
        self.choices.byte() >= 240
    }

    pub(crate) fn error(&mut self) -> *mut c_void {
        if self.omits_result() {
            return ptr::null_mut();
        }
        let mut place: Box<*mut c_void> = Box::new(ptr::without_provenance_mut(POISON));
        let address = (&raw mut *place).cast();
        self.outputs.push(OutParameter::Error(place));
        address
    }

    pub(crate) fn out_handle(&mut self, of: usize) -> *mut c_void {
        if self.omits_result() {
            return ptr::null_mut();
        }
        let mut place: Box<*mut c_void> = Box::new(ptr::without_provenance_mut(POISON));
        let address = (&raw mut *place).cast();
        self.outputs.push(OutParameter::Handle(of, place));
        address
    }

    pub(crate) fn out_value<T>(&mut self, name: &str) -> *mut c_void {
        if self.omits_result() {
            return ptr::null_mut();
        }
        let none = if name == "fd" { 0xffff_ffff } else { 0 };
        let mut place = Box::new(POISON as u64);
        let address = (&raw mut *place).cast();
        self.outputs
            .push(OutParameter::Number(size_of::<T>(), none, place));
        address
    }

    pub(crate) fn out_struct(&mut self, mut place: Box<[u64]>, known: usize) -> *mut c_void {
        let address = place.as_mut_ptr().cast();
        let before = place.to_vec();
        self.outputs
            .push(OutParameter::Filled(place, before, known));
        address
    }

    pub(crate) fn closure(&mut self, of: &'static str) -> Closure {
        let how = self.choices.byte();
        let plan = self.choices.piece();
        let is_told_again = matches!(of, "sst_on_holding" | "sst_on_leader");
        let is_once = self.name.ends_with("_async")
            && of != "sst_changer"
            && !(is_told_again && self.name.ends_with("_observe_async"));
        let context = Context::new(of, how, is_once, self.scope == Scope::Callback, plan.0);
        self.contexts.push(context);
        Closure {
            context: context.address(),
            has_call: context.has_call,
            drop: context.has_drop.then_some(crate::context::on_drop as _),
        }
    }

    /// Whether nobody could ever end what this begins. A client that is freed is closed for that.
    fn would_leave_open(&self) -> bool {
        let mut lost = LEFTOVER.lock().unwrap_or_else(PoisonError::into_inner);
        let mut contexts = self.contexts.iter();
        if contexts.any(|context| context.is_subscription()) {
            if *lost == OpenLeftover::Client {
                return true;
            }
            *lost = OpenLeftover::Subscription;
        }
        let is_client = self.name == "sst_client_free";
        if let Some((of, client, _)) = self.first.filter(|_| is_client)
            && handles().is_live(of, client)
        {
            if *lost != OpenLeftover::Subscription {
                *lost = OpenLeftover::Client;
                return false;
            }
            let callback = sst_on_done {
                context: ptr::null_mut(),
                call: None,
                drop: None,
            };
            let client = ptr::without_provenance_mut(client);
            unsafe { sst_client_close_async(client, callback, ptr::null_mut(), ptr::null_mut()) };
        }
        false
    }

    /// Whether this call may be made now.
    pub(crate) fn begins(&mut self) -> bool {
        // What waits for a callback must not be waited for by it, which with one client it cannot be.
        let waits = [
            "sst_client_close",
            "sst_client_close_within",
            "sst_operation_close",
            "sst_subscription_close",
        ];
        let is_refused = self.scope == Scope::Callback
            && waits.contains(&self.name)
            && CONNECTS.load(SeqCst) > 1;
        if is_refused || self.would_leave_open() {
            for context in self.contexts.drain(..) {
                // Nobody was given it.
                context.drops.store(usize::from(context.has_drop), SeqCst);
            }
            return false;
        }
        if self.name.starts_with("sst_connect") {
            CONNECTS.fetch_add(1, SeqCst);
        }
        if self.name == "sst_queue_new" {
            HAS_QUEUE.store(true, SeqCst);
        }
        if self.name == "sst_operation_close" {
            HAS_CLOSED.store(true, SeqCst);
        }
        if self.name.ends_with("_free") {
            let (of, handle, _) = self.first.expect("what is freed");
            let was_good = handles().remove(of, handle);
            if was_good && of != kind("client") && of != kind("queue") {
                self.guard = DataLock::Freeing {
                    _guard: DATA.write().unwrap_or_else(PoisonError::into_inner),
                };
            }
        } else if self.outputs.is_empty() {
            self.guard = DataLock::Reading {
                _guard: DATA.read().unwrap_or_else(PoisonError::into_inner),
            };
        }
        STEPS.fetch_add(1, SeqCst);
        true
    }

    /// A function returned that gives nothing.
    pub(crate) fn ended(&mut self, (): ()) {
        STEPS.fetch_add(1, SeqCst);
        self.guard = DataLock::None;
        if self.name.ends_with("_free") {
            let (of, handle, _) = self.first.expect("what is freed");
            if handle != 0 && !handles().is_live(of, handle) {
                handles().freed.push((of, handle));
            }
        }
        for context in &self.contexts {
            context.was_accepted.store(true, SeqCst);
        }
    }

    pub(crate) fn value(&mut self, value: impl Value) {
        STEPS.fetch_add(1, SeqCst);
        let is_none = value.is_none(self.name);
        if self.first.is_some_and(|(_, _, is_bad)| is_bad) {
            assert!(is_none, "{} of no handle", self.name);
        }
        self.guard = DataLock::None;
    }

    pub(crate) fn given(&mut self, of: usize, handle: *mut c_void) {
        STEPS.fetch_add(1, SeqCst);
        self.guard = DataLock::None;
        if !handle.is_null() {
            assert!(!self.first.is_some_and(|(_, _, is_bad)| is_bad));
            handles().insert(of, handle);
        }
    }

    pub(crate) fn status(&mut self, status: u32) {
        STEPS.fetch_add(1, SeqCst);
        self.guard = DataLock::None;
        let name = self.name;
        if *IS_VERBOSE {
            eprintln!("{:?} {name} {:?}: {status}", self.scope, self.first);
        }
        let may_be = is_known(status) || self.has_number && status == FORKED;
        assert!(may_be, "{name} gives {status}");
        if self.first.is_some_and(|(_, _, is_bad)| is_bad) {
            let expected = [INVALID_ARGUMENT, INVALID_HANDLE];
            assert!(expected.contains(&status), "{name} gives {status}");
        }
        for place in self.outputs.drain(..) {
            place.check(name, status);
        }
        for context in self.contexts.drain(..) {
            context.was_accepted.store(status == 0, SeqCst);
            let is_over = status != 0 || name == "sst_update";
            if context.has_drop && is_over {
                assert_eq!(context.drops(), 1, "{name} gives {status}");
            }
            if status != 0 && context.is_once {
                assert_eq!(context.calls.load(SeqCst), 0, "{name} gives {status}");
            }
        }
    }
}

impl OutParameter {
    fn check(self, name: &str, status: u32) {
        let is_ok = status == 0;
        match self {
            Self::Error(error) => {
                assert_eq!(is_ok, error.is_null(), "{name} gives {status}");
                // SAFETY: handles are numbers.
                unsafe {
                    assert!(is_ok || sst_error_status(*error) == status, "{name}");
                    // Some stay, to be used.
                    if !is_ok && handles().of_kind(kind("error")).count() < 4 {
                        handles().insert(kind("error"), *error);
                    } else {
                        sst_error_free(*error);
                    }
                }
            }
            Self::Handle(of, handle) => {
                assert_ne!(handle.addr(), POISON, "{name} gives {status}");
                assert!(is_ok || handle.is_null(), "{name} gives {status}");
                let is_begun = of == kind("operation") || of == kind("subscription");
                assert!(!is_ok || !is_begun || !handle.is_null(), "{name}");
                if !handle.is_null() {
                    handles().insert(of, *handle);
                }
            }
            Self::Number(size, none, number) => {
                let bytes = number.to_ne_bytes();
                if !is_ok {
                    assert_eq!(
                        bytes[..size],
                        none.to_ne_bytes()[..size],
                        "{name}: {status}"
                    );
                }
                if size == 1 {
                    assert!(bytes[0] <= 1, "{name}");
                }
                assert!(bytes[size..].iter().all(|byte| *byte == 0x5a), "{name}");
            }
            Self::Filled(now, before, known) => {
                if is_ok {
                    assert!(now.iter().skip(known / 8).all(|word| *word == 0), "{name}");
                } else {
                    assert_eq!(*now, *before, "{name} gives {status}");
                }
            }
        }
    }
}

/// The words of a callback.
pub(crate) struct Closure {
    pub(crate) context: *mut c_void,
    pub(crate) has_call: bool,
    pub(crate) drop: Option<unsafe extern "C" fn(*mut c_void)>,
}
