//! The native half of the Python package `statestore`.
//!
//! The blocking face of the package and the asyncio face derive from the classes here. A method creates the future of its
//! operation. The [face](call_mode::CallMode) of the client either waits for it or passes it to the event loop. So there is one
//! definition of every call, with its arguments, defaults and documentation.
#![deny(unsafe_code)]

mod argument;
mod call_mode;
mod callbacks;
mod client;
mod codec;
mod condition;
mod context;
mod election;
mod error;
mod event_loop;
mod exit;
mod guard;
mod hlc;
mod interpreter;
mod keys;
mod lease;
mod locks;
mod log;
mod matching;
mod observer;
mod options;
mod outcome;
mod pending;
mod pipeline;
mod scan;
mod settings;
mod shared;
mod transaction;
mod transactions;
mod unknown_argument;
mod update;

use pyo3::prelude::*;

// Free-threaded builds of CPython enable the lock of the interpreter at the import: without it, the module is untested.
/// The native half of `statestore`.
#[pymodule(gil_used = true)]
mod _native {
    use pyo3::PyTypeInfo;
    use pyo3::prelude::*;
    use pyo3::types::PyDelta;

    #[pymodule_export]
    use crate::client::Client;
    #[pymodule_export]
    use crate::condition::{IfVersion, if_version};
    #[pymodule_export]
    use crate::election::{Election, Leadership};
    #[pymodule_export]
    use crate::exit::{close_each, drop_callbacks};
    #[pymodule_export]
    use crate::guard::Guard;
    #[pymodule_export]
    use crate::hlc::Hlc;
    #[pymodule_export]
    use crate::interpreter::check_interpreter;
    #[pymodule_export]
    use crate::lease::Lease;
    #[pymodule_export]
    use crate::log::{forward_log, stop_log};
    #[pymodule_export]
    use crate::observer::{Observer, end_callbacks};
    #[pymodule_export]
    use crate::pending::Pending;
    #[pymodule_export]
    use crate::pipeline::Pipeline;
    #[pymodule_export]
    use crate::scan::Scan;
    #[pymodule_export]
    use crate::settings::Settings;
    #[pymodule_export]
    use crate::transaction::Transaction;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        // PyO3 imports the type at its first use, and panics if an interrupt arrives meanwhile.
        module.py().import("datetime")?;
        PyDelta::type_object(module.py());
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
