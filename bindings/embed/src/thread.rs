//! Threads: those that the library creates, those that drive the runtime, and foreign threads that are about to end.
use crate::process::PerProcess;
use std::cell::Cell;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use tokio::runtime::Handle;

thread_local! {
    /// Whether this thread belongs to the runtime, or drives it.
    static IS_OURS: Cell<bool> = const { Cell::new(false) };
}

/// Returns a number that identifies this thread among all live ones. Unlike the handle of the standard library, it needs no
/// memory and remains valid to the end.
pub fn number() -> usize {
    thread_local! {
        static HERE: u8 = const { 0 };
    }
    HERE.with(|marker| std::ptr::from_ref(marker).addr())
}

/// Returns whether this thread belongs to a runtime or drives it. A wait on such a thread would block the awaited operation.
pub(crate) fn is_runtime_thread() -> bool {
    IS_OURS.get()
}

/// Marks this thread as one of the runtime.
pub(crate) fn mark_runtime_thread() {
    IS_OURS.set(true);
    block_signals();
}

/// A hook that is called with the name of a new thread.
type ThreadStartHook = dyn Fn(&str) + Send + Sync;

static THREAD_START_HOOK: PerProcess<Mutex<Option<Arc<ThreadStartHook>>>> =
    PerProcess::new(Mutex::new(None), || Mutex::new(None));

/// Sets a hook that each thread of the library calls first, with its name, from now on in this process. Several threads may
/// call it at the same time.
pub fn on_thread_start(hook: Option<Box<ThreadStartHook>>) {
    let mut started = THREAD_START_HOOK
        .get()
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    let before = std::mem::replace(&mut *started, hook.map(Arc::from));
    drop(started);
    drop(before);
}

fn call_start_hook(name: &str) {
    let started = THREAD_START_HOOK
        .get()
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    let hook = started.clone();
    drop(started);
    if let Some(hook) = hook
        && catch_unwind(AssertUnwindSafe(|| hook(name))).is_err()
    {
        tracing::error!("the hook for new threads panicked");
    }
}

/// The time during which a thread drives the runtime.
pub(crate) struct RuntimeThreadGuard {
    was_runtime_thread: bool,
}

impl RuntimeThreadGuard {
    pub(crate) fn enter() -> Self {
        retain_handle();
        Self {
            was_runtime_thread: IS_OURS.replace(true),
        }
    }
}

impl Drop for RuntimeThreadGuard {
    fn drop(&mut self) {
        IS_OURS.set(self.was_runtime_thread);
    }
}

/// Begins a thread that leaves all signals to the threads of the program.
pub(crate) fn spawn(
    name: &str,
    body: impl FnOnce() + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    // A new thread has the mask of the one that made it, so there is no moment at which it would take one.
    #[cfg(unix)]
    let _blocked = signals::BlockedSignals::begin();
    let own: Box<str> = name.into();
    Builder::new().name(name.into()).spawn(move || {
        call_start_hook(&own);
        body();
    })
}

/// Leaves the signals that come from now on to other threads.
fn block_signals() {
    #[cfg(unix)]
    std::mem::forget(signals::BlockedSignals::begin());
}

/// Keeps the standard library's handle of this thread if it is the first one of the process. That handle is never freed, since
/// the first thread has no end of its own. The standard library refers to it by an address within it, which looks like a leak.
pub(crate) fn retain_handle() {
    #[cfg(target_os = "linux")]
    first::retain_handle();
}

/// Returns whether this thread has lost its thread-local variables, without which nothing can be awaited. Such a thread runs
/// destructors of the program, or handlers of `atexit`.
pub(crate) fn is_exiting() -> bool {
    Handle::try_current().is_err_and(|error| error.is_thread_local_destroyed())
}

/// Runs `work` on a thread made for it, and waits for that. It does not panic.
pub(crate) fn run_on_new_thread<T: Send>(work: impl FnOnce() -> T + Send) -> io::Result<T> {
    const NAME: &str = "statestore-wait";
    std::thread::scope(|scope| {
        #[cfg(unix)]
        let _blocked = signals::BlockedSignals::begin();
        let thread = Builder::new().name(NAME.into()).spawn_scoped(scope, || {
            call_start_hook(NAME);
            work()
        })?;
        thread.join().map_err(|_| io::Error::other("it panicked"))
    })
}

#[cfg(target_os = "linux")]
#[allow(unsafe_code, reason = "threads are told apart by foreign functions")]
mod first {
    use std::cell::Cell;
    use std::sync::OnceLock;
    use std::thread::Thread;

    static HANDLE: OnceLock<Thread> = OnceLock::new();

    thread_local! {
        static WAS_HERE: Cell<bool> = const { Cell::new(false) };
    }

    pub(super) fn retain_handle() {
        // SAFETY: neither takes anything nor can fail.
        let is_first = || unsafe { libc::gettid() == libc::getpid() };
        if !WAS_HERE.replace(true) && is_first() {
            HANDLE.get_or_init(std::thread::current);
        }
    }
}

#[cfg(unix)]
#[allow(
    unsafe_code,
    reason = "the mask of a thread is changed by a foreign function"
)]
mod signals {
    use std::mem::MaybeUninit;
    use std::ptr;

    /// Signals that the system sends to the thread with the faulty instruction. If they were blocked, they would end the
    /// process at once, past the handlers of crash reporters.
    const SYNCHRONOUS_SIGNALS: [libc::c_int; 6] = [
        libc::SIGSEGV,
        libc::SIGBUS,
        libc::SIGFPE,
        libc::SIGILL,
        libc::SIGTRAP,
        libc::SIGSYS,
    ];

    /// The time during which this thread takes no signal.
    pub(super) struct BlockedSignals(libc::sigset_t);

    impl BlockedSignals {
        pub(super) fn begin() -> Self {
            let mut all = MaybeUninit::uninit();
            let mut before = MaybeUninit::uninit();
            // SAFETY: the sets are written before they are read; none of these calls fails with a valid set.
            unsafe {
                libc::sigfillset(all.as_mut_ptr());
                for signal in SYNCHRONOUS_SIGNALS {
                    libc::sigdelset(all.as_mut_ptr(), signal);
                }
                libc::pthread_sigmask(libc::SIG_BLOCK, all.as_ptr(), before.as_mut_ptr());
                Self(before.assume_init())
            }
        }
    }

    impl Drop for BlockedSignals {
        fn drop(&mut self) {
            // SAFETY: the set is the one that was there before.
            unsafe {
                libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, ptr::null_mut());
            }
        }
    }
}
