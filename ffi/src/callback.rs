//! Callbacks: a context, a function to call, and one to drop the context.
use std::ffi::c_void;

/// A function of C.
pub(crate) type Drop_ = Option<unsafe extern "C" fn(*mut c_void)>;

/// The context of a callback. It is dropped with this, exactly once.
pub(crate) struct Context {
    context: *mut c_void,
    drop: Drop_,
}

// SAFETY: the header says that the context is used on another thread than the one that gave it, by one at a time.
unsafe impl Send for Context {}

impl Drop for Context {
    fn drop(&mut self) {
        if let Some(drop) = self.drop {
            // SAFETY: the header says that it is called with the context, once, after the last call.
            unsafe { drop(self.context) }
        }
    }
}

/// A callback of the header.
pub(crate) trait Closure: Copy {
    /// The type of its function.
    type Call: Copy + Send;
    fn parts(self) -> (*mut c_void, Option<Self::Call>, Drop_);
}

/// Declares a type of callbacks, which has the fields `context`, `call` and `drop`.
macro_rules! closure {
    ($type:ident, $call:ty) => {
        impl $crate::callback::Closure for $type {
            type Call = $call;
            fn parts(self) -> (*mut c_void, Option<$call>, $crate::callback::Drop_) {
                (self.context, self.call, self.drop)
            }
        }
    };
}
pub(crate) use closure;

/// A callback that was handed over.
pub(crate) struct Callback<C: Closure> {
    call: Option<C::Call>,
    context: Context,
}

impl<C: Closure> Callback<C> {
    /// Takes it over: from here on its context is dropped whatever happens.
    pub(crate) fn new(closure: C) -> Self {
        let (context, call, drop) = closure.parts();
        Self {
            call,
            context: Context { context, drop },
        }
    }

    /// Calls it, if there is a function.
    pub(crate) fn call(&self, call: impl FnOnce(C::Call, *mut c_void)) {
        if let Some(function) = self.call {
            call(function, self.context.context);
        }
    }
}
