//! The end of an input: closes and frees everything, and checks that nothing is left.
use crate::call::{CONNECTS, LEFTOVER, OpenLeftover, STEPS};
use crate::context::{self, HAS_CLOSED, HAS_QUEUE, IS_ENDING};
use crate::handles::{handles, kind};
use crate::header::{
    FREES, KINDS, sst_bytes_slice, sst_client_close, sst_client_interrupt, sst_client_state,
    sst_entries_len, sst_entry_clone, sst_error_status, sst_guard_holder, sst_hlc_clone,
    sst_holding_holder, sst_keys_len, sst_leader_holder, sst_log_off, sst_observation_clone,
    sst_on_thread, sst_operation_cancel, sst_queue_run, sst_results_len, sst_thread_set,
    sst_transaction_len,
};
use crate::outcome::INVALID_HANDLE;
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{LazyLock, Once, PoisonError};
use std::time::{Duration, Instant};
use std::{fs, ptr, thread};

/// Time limit, shorter than that of an input. Threads end by themselves, which takes longer on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(25);

/// Number of files that a process without clients has open.
static OPEN_FILES: LazyLock<usize> = LazyLock::new(|| open_files().len());
static IS_RUNNING: AtomicBool = AtomicBool::new(false);

/// Returns the open files, except pipes to another process: libFuzzer starts one that names functions.
fn open_files() -> Vec<String> {
    let all = fs::read_dir("/proc/self/fd").expect("there are some");
    let all = all.flatten().flat_map(|one| fs::read_link(one.path()));
    let all: Vec<_> = all.map(|name| name.display().to_string()).collect();
    let times = |name: &String| all.iter().filter(|other| **other == *name).count();
    let both = all
        .iter()
        .filter(|name| !name.starts_with("pipe:") || times(name) > 1);
    both.cloned().collect()
}

/// The threads of the library.
fn threads() -> Vec<String> {
    let tasks = fs::read_dir("/proc/self/task").expect("there are some");
    let names = tasks
        .flatten()
        .flat_map(|task| fs::read_to_string(task.path().join("comm")));
    names
        .filter(|name| name.starts_with("statestore") && name.trim() != "statestored")
        .collect()
}

fn handle(number: usize) -> *mut c_void {
    ptr::without_provenance_mut(number)
}

/// An input begins. Whatever waits for long meanwhile is interrupted.
pub(crate) fn prepare() {
    static INTERRUPTER: Once = Once::new();
    INTERRUPTER.call_once(|| {
        thread::spawn(interrupt);
        LazyLock::force(&OPEN_FILES);
    });
    IS_ENDING.store(false, SeqCst);
    HAS_CLOSED.store(false, SeqCst);
    HAS_QUEUE.store(false, SeqCst);
    CONNECTS.store(0, SeqCst);
    *LEFTOVER.lock().unwrap_or_else(PoisonError::into_inner) = OpenLeftover::None;
    IS_RUNNING.store(true, SeqCst);
}

fn interrupt() {
    static SEEN: AtomicUsize = AtomicUsize::new(0);
    loop {
        thread::sleep(Duration::from_millis(40));
        let steps = STEPS.load(SeqCst);
        if SEEN.swap(steps, SeqCst) != steps || !IS_RUNNING.load(SeqCst) {
            continue;
        }
        let clients: Vec<_> = handles().of_kind(kind("client")).collect();
        for client in clients {
            // SAFETY: handles are numbers.
            unsafe { sst_client_interrupt(handle(client), ptr::null_mut()) };
        }
    }
}

/// Waits for what ends by itself.
fn wait_until(what: impl Fn() -> bool, left: impl Fn() -> String) {
    let began = Instant::now();
    while !what() {
        assert!(began.elapsed() < TIMEOUT, "left: {}", left());
        thread::sleep(Duration::from_micros(200));
    }
}

pub(crate) fn end(how: usize) {
    IS_ENDING.store(true, SeqCst);
    let began = Instant::now();
    loop {
        clear_process_callbacks();
        free_all(how);
        let is_over = context::undropped().is_empty() && handles().live.is_empty();
        if is_over && threads().is_empty() {
            break;
        }
        let left = || format!("{:?} {:?}", context::undropped(), threads());
        assert!(began.elapsed() < TIMEOUT, "left: {}", left());
        thread::sleep(Duration::from_micros(200));
    }
    wait_until(
        || open_files().len() <= *OPEN_FILES,
        || format!("{:?}", open_files()),
    );
    IS_RUNNING.store(false, SeqCst);
    for (of, freed) in std::mem::take(&mut handles().freed) {
        assert!(is_invalid(of, handle(freed)), "{} {freed:#x}", KINDS[of]);
    }
    context::end();
}

/// Ends and frees all handles that there are, in an order that the input chose.
fn free_all(how: usize) {
    let mut all = handles().live.clone();
    if how & 1 == 1 {
        all.reverse();
    }
    let lost = LEFTOVER.lock().unwrap_or_else(PoisonError::into_inner);
    let must_close = how & 8 == 0 || *lost == OpenLeftover::Subscription;
    drop(lost);
    // SAFETY: handles are numbers.
    unsafe {
        for (of, number) in &all {
            let number = handle(*number);
            if *of == kind("operation") && how & 2 == 0 {
                sst_operation_cancel(number, ptr::null_mut());
            }
            if *of == kind("queue") && how & 4 == 4 {
                sst_queue_run(number, usize::MAX, ptr::null_mut(), ptr::null_mut());
            }
            if *of == kind("client") && must_close {
                sst_client_close(number, ptr::null_mut());
            }
        }
        for (of, number) in all {
            handles().remove(of, number);
            FREES[of](handle(number));
            handles().freed.push((of, number));
        }
    }
}

/// A callback may have begun to be told meanwhile.
fn clear_process_callbacks() {
    // SAFETY: handles are numbers, and the callback has no function.
    unsafe {
        sst_log_off();
        sst_thread_set(sst_on_thread {
            context: ptr::null_mut(),
            call: None,
            drop: None,
        });
    }
}

/// Whether a handle that was freed, or lent for a call that is over, stands for nothing.
fn is_invalid(of: usize, handle: *mut c_void) -> bool {
    // SAFETY: handles are numbers, and there is a place for the state.
    unsafe {
        match KINDS[of] {
            "error" => sst_error_status(handle) == INVALID_HANDLE,
            "hlc" => sst_hlc_clone(handle).is_null(),
            "entry" => sst_entry_clone(handle).is_null(),
            "observation" => sst_observation_clone(handle).is_null(),
            "bytes" => sst_bytes_slice(handle).len == 0,
            "holding" => sst_holding_holder(handle).len == 0,
            "leader" => sst_leader_holder(handle).len == 0,
            "guard" => sst_guard_holder(handle).len == 0,
            "keys" => sst_keys_len(handle) == 0,
            "entries" => sst_entries_len(handle) == 0,
            "results" => sst_results_len(handle) == 0,
            "transaction" => sst_transaction_len(handle) == 0,
            "client" => {
                let mut state = u32::MAX;
                let place = (&raw mut state).cast();
                let status = sst_client_state(handle, place, ptr::null_mut());
                (status, state) == (INVALID_HANDLE, 0)
            }
            _ => true,
        }
    }
}
