//! The state that the handlers of requests share.
use super::ServerState;
use super::audit::AuditTrail;
use super::blocking_limiter::BlockingLimiter;
use super::events::EventSubscribers;
use super::failure::failure;
use super::history::History;
use super::reply::Reply;
use super::tls_status::TlsStatus;
use crate::config::AdminConfig;
use crate::server_control::{ServerControl, ServerStopped};
use hyper::StatusCode;
use statestored_broker::hub::Hub;
use statestored_common::ClockReading;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::watch;

/// Time limit for a query of the file system.
const DISK_TIMEOUT: Duration = Duration::from_secs(1);

/// Time limit for an answer of the thread that serves the clients.
const REPLY_TIMEOUT: Duration = Duration::from_secs(5);

/// State that the handlers of requests share.
#[derive(Debug)]
pub(super) struct AppState {
    server_handle: Rc<dyn ServerControl>,
    server_state: watch::Receiver<ServerState>,
    data_dir: Option<PathBuf>,
    pub(super) config: AdminConfig,
    /// Numbers of responses by path and status.
    pub(super) responses: RefCell<BTreeMap<(&'static str, u16), u64>>,
    pub(super) event_subscribers: EventSubscribers,
    pub(super) history: History,
    pub(super) disk_limiter: BlockingLimiter,
    pub(super) tls_status: TlsStatus,
    /// Number of connections closed because of their limit, whether new or existing ones.
    pub(super) refused_connections: Cell<u64>,
    pub(super) audit_trail: AuditTrail,
}

impl AppState {
    pub(super) fn new(
        control: Rc<dyn ServerControl>,
        stages: watch::Receiver<ServerState>,
        data_dir: Option<PathBuf>,
        config: AdminConfig,
        tls_status: TlsStatus,
    ) -> Self {
        Self {
            server_handle: control,
            server_state: stages,
            data_dir,
            config,
            event_subscribers: EventSubscribers::default(),
            history: History::default(),
            disk_limiter: BlockingLimiter::with_timeout(DISK_TIMEOUT),
            tls_status,
            responses: RefCell::default(),
            refused_connections: Cell::new(0),
            audit_trail: AuditTrail::new(),
        }
    }

    pub(super) fn server_handle(&self) -> &Rc<dyn ServerControl> {
        &self.server_handle
    }

    pub(super) fn server_state(&self) -> ServerState {
        self.server_state.borrow().clone()
    }

    /// Returns the folder of the data, if it is on disk.
    pub(super) fn data_dir(&self) -> Option<&Path> {
        self.data_dir.as_deref()
    }

    /// Waits until the server has stopped.
    pub(super) async fn stopped(&self) {
        let mut stages = self.server_state.clone();
        while stages.changed().await.is_ok() {}
    }

    pub(super) fn count_refused_connection(&self) {
        self.refused_connections
            .set(self.refused_connections.get() + 1);
    }

    /// Runs an inspection on the thread that serves the clients, and returns its result.
    pub(super) async fn inspect<T: Send + 'static>(
        &self,
        inspection: impl FnOnce(&mut Hub, ClockReading) -> T + Send + 'static,
    ) -> Result<T, Reply> {
        let answer = self.server_handle().inspect(inspection);
        match tokio::time::timeout(REPLY_TIMEOUT, answer).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(ServerStopped)) => Err(failure(StatusCode::SERVICE_UNAVAILABLE, &ServerStopped)),
            Err(_) => Err(failure(
                StatusCode::GATEWAY_TIMEOUT,
                &"the thread that serves the clients does not answer in time; the request may still be executed",
            )),
        }
    }
}
