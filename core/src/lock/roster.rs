//! The leases of one client, so that closing can give them back.
use std::sync::Arc;
use tokio::sync::watch;

/// Counts the tasks that hold leases or give them back.
#[derive(Debug, Clone, Default)]
pub(crate) struct Roster {
    state: Arc<watch::Sender<State>>,
}

#[derive(Debug, Default)]
struct State {
    keepers: usize,
    is_closing: bool,
}

/// One task that holds a lease or gives it back.
#[derive(Debug)]
pub(super) struct Entry {
    state: Arc<watch::Sender<State>>,
}

impl Roster {
    /// Enters a task; `None` once the client is being closed.
    pub(super) fn enter(&self) -> Option<Entry> {
        let entered = self.state.send_if_modified(|state| {
            state.keepers += usize::from(!state.is_closing);
            !state.is_closing
        });
        entered.then(|| Entry {
            state: Arc::clone(&self.state),
        })
    }

    /// Has every lease given back, and lets none be taken any more; returns when all tasks have ended.
    pub(crate) async fn close(&self) {
        self.state.send_modify(|state| state.is_closing = true);
        let mut state = self.state.subscribe();
        // The sender lives as long as `self`.
        let _ = state.wait_for(|state| state.keepers == 0).await;
    }
}

impl Entry {
    /// Ready when the lease is to be given back because its client is being closed.
    pub(super) fn closing(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut state = self.state.subscribe();
        async move {
            // The sender lives as long as the entry.
            let _ = state.wait_for(|state| state.is_closing).await;
        }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.state.send_modify(|state| state.keepers -= 1);
    }
}
