//! Waking an event loop.
use napi::bindgen_prelude::Function;
use napi::threadsafe_function::{ThreadsafeFunction, ThreadsafeFunctionCallMode};
use napi::{Env, Result, Status};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A call without an error argument: exceptions of the function are not handled here.
type Call = ThreadsafeFunction<(), (), (), Status, false>;

/// A wake-up of JavaScript: calls a function from any thread. It keeps the process alive meanwhile, unless that is turned off.
pub(crate) struct EventLoopWaker(Mutex<Option<Call>>);

impl EventLoopWaker {
    pub(crate) fn new(function: &Function<'_, (), ()>) -> Result<Self> {
        let call = function.build_threadsafe_function().build()?;
        Ok(Self(Mutex::new(Some(call))))
    }

    /// Calls the function soon, on the thread of the event loop.
    pub(crate) fn wake(&self) {
        if let Some(call) = &*self.call() {
            // The call fails only when the environment is going away, and then no caller waits.
            call.call((), ThreadsafeFunctionCallMode::NonBlocking);
        }
    }

    /// Rings no more, and lets the process end.
    pub(crate) fn close(&self) {
        let call = self.call().take();
        drop(call);
    }

    /// Sets whether the wake-up keeps the process alive.
    pub(crate) fn keep_alive(&self, env: &Env, yes: bool) -> Result<()> {
        let mut call = self.call();
        let Some(call) = &mut *call else {
            return Ok(());
        };
        #[expect(deprecated, reason = "cloning does not make it weak again")]
        if yes {
            call.refer(env)
        } else {
            call.unref(env)
        }
    }

    fn call(&self) -> MutexGuard<'_, Option<Call>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
