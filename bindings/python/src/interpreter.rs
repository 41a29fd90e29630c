//! The interpreter: calls of Python code, and which interpreter of the process it is.
#![allow(
    unsafe_code,
    reason = "the end of the interpreter unwinds threads, which only a foreign function of another ABI may do"
)]
use pyo3::exceptions::PyImportError;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};
use pyo3::{BoundObject, ffi};

/// Calls of Python code on a thread that may be a daemon.
///
/// Before Python 3.14, a thread that asks for the interpreter during its finalization is unwound (`pthread_exit`). That ends
/// the process when the unwinding reaches a Rust frame. These calls block the thread forever instead, as later versions do.
pub(crate) trait Invoke<'py> {
    /// Calls the object.
    fn invoke<A>(&self, arguments: A) -> PyResult<Bound<'py, PyAny>>
    where
        A: IntoPyObject<'py, Target = PyTuple>;

    /// Calls a method of the object.
    fn invoke_method<A>(
        &self,
        name: &Bound<'py, PyString>,
        arguments: A,
    ) -> PyResult<Bound<'py, PyAny>>
    where
        A: IntoPyObject<'py, Target = PyTuple>;
}

impl<'py> Invoke<'py> for Bound<'py, PyAny> {
    fn invoke<A>(&self, arguments: A) -> PyResult<Bound<'py, PyAny>>
    where
        A: IntoPyObject<'py, Target = PyTuple>,
    {
        let arguments = arguments.into_pyobject(self.py()).map_err(Into::into)?;
        call(self, &arguments.into_bound())
    }

    fn invoke_method<A>(
        &self,
        name: &Bound<'py, PyString>,
        arguments: A,
    ) -> PyResult<Bound<'py, PyAny>>
    where
        A: IntoPyObject<'py, Target = PyTuple>,
    {
        self.getattr(name)?.invoke(arguments)
    }
}

#[cfg(target_os = "linux")]
fn call<'py>(
    callable: &Bound<'py, PyAny>,
    arguments: &Bound<'py, PyTuple>,
) -> PyResult<Bound<'py, PyAny>> {
    /// Stops the thread when it is unwound.
    struct ParkOnUnwind;

    impl Drop for ParkOnUnwind {
        fn drop(&mut self) {
            loop {
                std::thread::park();
            }
        }
    }

    // The declaration of PyO3 has the ABI `C`, through which unwinding is not allowed.
    unsafe extern "C-unwind" {
        fn PyObject_Call(
            callable: *mut ffi::PyObject,
            arguments: *mut ffi::PyObject,
            keywords: *mut ffi::PyObject,
        ) -> *mut ffi::PyObject;
    }

    let stop = ParkOnUnwind;
    // SAFETY: this thread is attached to the interpreter, and both objects live until it returns.
    let returned =
        unsafe { PyObject_Call(callable.as_ptr(), arguments.as_ptr(), std::ptr::null_mut()) };
    std::mem::forget(stop);
    // SAFETY: it is a new reference, or null after an exception.
    unsafe { Bound::from_owned_ptr_or_err(callable.py(), returned) }
}

#[cfg(not(target_os = "linux"))]
fn call<'py>(
    callable: &Bound<'py, PyAny>,
    arguments: &Bound<'py, PyTuple>,
) -> PyResult<Bound<'py, PyAny>> {
    callable.call1(arguments)
}

/// Refuses other interpreters of the process than the first one: they would share the classes of this module.
#[pyfunction]
pub(crate) fn check_interpreter(_py: Python<'_>) -> PyResult<()> {
    // SAFETY: this thread is attached to an interpreter, which is the one that is asked for its number.
    let number = unsafe { ffi::PyInterpreterState_GetID(ffi::PyInterpreterState_Get()) };
    if number == 0 {
        return Ok(());
    }
    Err(PyImportError::new_err(
        "statestore cannot be imported in a subinterpreter; import it in the main interpreter of the process \
         (under mod_wsgi: WSGIApplicationGroup %{GLOBAL})",
    ))
}
