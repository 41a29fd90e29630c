//! Wake-ups that are deferred to the end of a batch, so that a consumer is woken once for all items of the batch.
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// A hook that notifies a consumer of new items.
pub(crate) type WakeHook = Arc<dyn Fn() + Send + Sync>;

thread_local! {
    /// Present during a batch.
    static DUE: RefCell<Option<Vec<WakeHook>>> = const { RefCell::new(None) };
}

/// Runs `work`, then calls the hooks that became due meanwhile.
pub(crate) fn run(work: impl FnOnce()) {
    DUE.with_borrow_mut(|due| *due = Some(Vec::new()));
    // Rings the hooks even if `work` panics, so that every consumer wakes up.
    let _end = BatchGuard;
    work();
}

struct BatchGuard;

impl Drop for BatchGuard {
    fn drop(&mut self) {
        let due = DUE.with_borrow_mut(Option::take);
        for hook in due.into_iter().flatten() {
            call_now(&hook);
        }
    }
}

/// Returns whether this thread runs a batch.
pub(crate) fn is_running() -> bool {
    DUE.try_with(|due| due.borrow().is_some()).unwrap_or(false)
}

/// Calls the hook: now, or at the end of the batch that runs on this thread.
pub(crate) fn call(hook: &WakeHook) {
    // A thread that is about to end has no batch any more.
    let is_deferred = DUE.try_with(|due| match &mut *due.borrow_mut() {
        Some(due) => {
            due.push(Arc::clone(hook));
            true
        }
        None => false,
    });
    if is_deferred != Ok(true) {
        call_now(hook);
    }
}

/// Calls a hook, and catches its panic.
fn call_now(hook: &WakeHook) {
    if catch_unwind(AssertUnwindSafe(|| hook())).is_err() {
        tracing::error!("the hook of a mailbox panicked");
    }
}
