//! The leases of one client, which a close releases.
use std::sync::Arc;
use tokio::sync::watch;

/// Counter of the tasks that hold or release leases.
#[derive(Debug, Clone, Default)]
pub(crate) struct LeaseTracker {
    state: Arc<watch::Sender<State>>,
}

#[derive(Debug, Default)]
struct State {
    tasks: usize,
    is_closing: bool,
}

/// Registration of one task that holds or releases a lease.
#[derive(Debug)]
pub(crate) struct LeaseRegistration {
    state: Arc<watch::Sender<State>>,
}

impl LeaseTracker {
    /// Registers a task. Returns `None` once the client is closing.
    pub(crate) fn register(&self) -> Option<LeaseRegistration> {
        let entered = self.state.send_if_modified(|state| {
            state.tasks += usize::from(!state.is_closing);
            !state.is_closing
        });
        entered.then(|| LeaseRegistration {
            state: Arc::clone(&self.state),
        })
    }

    /// Requests the release of every lease and rejects new ones. Waits until all tasks have ended.
    pub(crate) async fn close(&self) {
        self.state.send_modify(|state| state.is_closing = true);
        let mut state = self.state.subscribe();
        // The sender lives as long as `self`.
        let _ = state.wait_for(|state| state.tasks == 0).await;
    }
}

impl LeaseRegistration {
    /// Waits until the client is closing and the lease must be released.
    pub(crate) fn closing(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut state = self.state.subscribe();
        async move {
            // The sender lives as long as the entry.
            let _ = state.wait_for(|state| state.is_closing).await;
        }
    }
}

impl Drop for LeaseRegistration {
    fn drop(&mut self) {
        self.state.send_modify(|state| state.tasks -= 1);
    }
}
