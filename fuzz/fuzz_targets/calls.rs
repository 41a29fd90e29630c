//! A program that calls every function of `include/statestore.h`, in any order, with all arguments that the header allows: handles that
//! are valid, freed, of another kind or none, options of any size, callbacks that call the library. `build.rs` generates the calls from
//! the header. The program checks the result of each call, and at the end of an input that nothing is left.
//!
//! An input consists of the choices for its begin and end, and of calls: the number of the function, the length of its choices, and these.
#![no_main]
#[path = "../calls/arguments.rs"]
mod arguments;
#[path = "../calls/call.rs"]
mod call;
#[path = "../calls/checks.rs"]
mod checks;
#[path = "../calls/cleanup.rs"]
mod cleanup;
#[path = "../calls/context.rs"]
mod context;
#[path = "../calls/handles.rs"]
mod handles;
#[path = "../calls/input.rs"]
mod input;
#[path = "../calls/outcome.rs"]
mod outcome;
#[path = "../calls/server.rs"]
mod server;

/// Calls that `build.rs` generated.
#[allow(non_camel_case_types, unused, clippy::all)]
mod header {
    use crate::arguments::SizedStruct;
    use crate::call::Call;
    use crate::context::CallbackInvocation;
    use std::ffi::c_void;
    include!(concat!(env!("OUT_DIR"), "/calls.rs"));
}

use call::{Scope, make, make_named};
use input::FuzzInput;
use libfuzzer_sys::fuzz_target;
// Whose functions the header declares.
use statestore_abi as _;

/// As many calls as a moment is enough for.
const MAX_CALLS: usize = 40;

fuzz_target!(|input: &[u8]| {
    let mut choices = FuzzInput(input);
    let (begins, ends) = (choices.byte(), choices.byte());
    server::begin();
    cleanup::prepare();
    // The server, settings of the right size, ten fields that are not there, and the queue.
    let with_queue: &[u8] = &[0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0];
    for at in 0..begins % 3 {
        if begins & 4 == 4 && at == 0 {
            make_named("sst_queue_new", &[]);
        }
        make_named(
            "sst_connect",
            if begins & 4 == 4 { with_queue } else { &[] },
        );
    }
    for _ in 0..MAX_CALLS {
        if choices.0.is_empty() {
            break;
        }
        make(&mut choices, Scope::Program);
    }
    cleanup::end(ends);
});
