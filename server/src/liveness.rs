//! Whether the threads that requests depend on are stuck.
use crate::server_handle::ServerHandle;
use statestored_link::EngineThread;

/// A check of the thread that serves the clients, and of the thread that talks to a shared engine.
#[derive(Debug, Clone)]
pub struct LivenessProbe {
    pub(crate) handle: ServerHandle,
    pub(crate) engine_thread: Option<EngineThread>,
}

impl LivenessProbe {
    /// Completes once each of the threads has had a turn, or while the server stops. Does not complete while one of them is stuck.
    ///
    /// An engine that does not answer is no stuck thread. Cancel safe.
    pub async fn check(&self) {
        if self.handle.inspect(|_, _| ()).await.is_err() {
            return;
        }
        if let Some(thread) = &self.engine_thread
            && !thread.responds().await
        {
            // The thread has ended, which is a bug.
            std::future::pending::<()>().await;
        }
    }
}
