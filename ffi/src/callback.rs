//! Callbacks: a context, a function to call, and one to drop the context.
use std::ffi::c_void;

/// The C function that drops a context.
pub(crate) type DropFn = Option<unsafe extern "C" fn(*mut c_void)>;

/// The context of a callback. Dropping this drops the context, exactly once.
pub(crate) struct Context {
    context: *mut c_void,
    drop: DropFn,
}

// SAFETY: the header says that the context may be used on a thread other than the one that passed it, by one thread at
// a time.
unsafe impl Send for Context {}

impl Drop for Context {
    fn drop(&mut self) {
        if let Some(drop) = self.drop {
            // SAFETY: the header says that `drop` is called with the context, once, after the last call.
            unsafe { drop(self.context) }
        }
    }
}

/// A callback struct of the header.
pub(crate) trait Closure: Copy {
    /// The type of the function to call.
    type Call: Copy + Send;
    fn parts(self) -> (*mut c_void, Option<Self::Call>, DropFn);
}

/// Declares a callback type that has the fields `context`, `call` and `drop`.
macro_rules! closure {
    ($type:ident, $call:ty) => {
        impl $crate::callback::Closure for $type {
            type Call = $call;
            fn parts(self) -> (*mut c_void, Option<$call>, $crate::callback::DropFn) {
                (self.context, self.call, self.drop)
            }
        }
    };
}
pub(crate) use closure;

/// A callback that the library owns.
pub(crate) struct Callback<C: Closure> {
    call: Option<C::Call>,
    context: Context,
}

impl<C: Closure> Callback<C> {
    /// Takes ownership of a callback. From here on its context is dropped in every case.
    pub(crate) fn new(closure: C) -> Self {
        let (context, call, drop) = closure.parts();
        Self {
            call,
            context: Context { context, drop },
        }
    }

    /// Calls the function of the callback, if there is one.
    pub(crate) fn call(&self, call: impl FnOnce(C::Call, *mut c_void)) {
        if let Some(function) = self.call {
            call(function, self.context.context);
        }
    }
}
