//! The HTTP port for operators: metrics, health, a page, and a few changes.
//!
//! ```text
//!   Prometheus, probes,          connection_limiter    Host, Origin, token
//!   browsers, statestore ─HTTP─▶ http_server ──▶ request_authorizer ──▶ routes ─┬─ metrics   as text
//!                                                                               ├─ health    alive? ready?
//!                                                                               ├─ page      for people
//!                                                                               ├─ events    metrics of every second
//!                                                                               ├─ history   those of the last minutes
//!                                                                               └─ api       lists, and changes
//!                                                                                     │ ServerControl: one small question at a time
//!                                                                                     ▼
//!                                                                              the thread that serves the clients
//! ```
//!
//! The port has a thread and a runtime of its own, so that its requests never delay the thread that serves the clients. It
//! asks that thread through [`ServerControl`], in questions whose answers take a bounded time. Metrics of the storage are read
//! directly from its counters. The TLS handshake of a connection is a part of its task, and has a time limit.
#![forbid(unsafe_code)]

mod api;
mod app_state;
mod attached;
mod audit;
mod audit_log;
mod backup;
mod blocking_limiter;
mod clock;
mod cluster_status;
mod config;
mod connection_limiter;
mod engine;
mod events;
mod exposition;
mod failure;
mod health;
mod history;
mod http_server;
mod limits;
mod log;
mod media_type;
mod metrics;
mod openapi;
mod page;
mod process;
mod query;
mod reload;
mod reply;
mod request_authorizer;
mod requests;
mod response_body;
mod routes;
mod server_control;
mod status;
mod tls;
mod tls_status;

pub use audit_log::AuditLog;
pub use config::{
    AdminConfig, AdminConfigError, HttpAddress, HttpTokens, LogControl, LogFilter, MetricNames,
    Token,
};
pub use server_control::{
    Backup, BoxFuture, EffectiveOption, InspectFn, OptionSource, ReloadFailure, ReloadReport,
    ReloadStatus, ServerControl, ServerStopped, SnapshotError,
};
pub use tls_status::TlsStatus;

use app_state::AppState;
use config::{ActiveTokens, TokenRole};
use request_authorizer::RequestAuthorizer;
use statestored_link::single_threaded_runtime;
use statestored_listeners::ListenError;
use statestored_listeners::{self, ActiveTls, BoundAddress, Tls, check_free};
use statestored_storage::StorageMetrics;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::thread::JoinHandle;
use tokio::net::TcpSocket;
use tokio::sync::watch;
use tokio::task::LocalSet;

/// Number of connections that may wait to be accepted.
const BACKLOG: u32 = 128;

/// Stage of the server.
#[derive(Debug, Clone)]
pub enum ServerState {
    /// The server loads the stored entries.
    Loading,
    /// The server serves clients. The storage has these counters.
    Serving(Arc<StorageMetrics>),
    /// The server stops.
    Stopping,
}

/// The bound port, on which no request is answered yet.
#[derive(Debug)]
pub struct AdminListener {
    listeners: Vec<TcpListener>,
    addresses: Vec<SocketAddr>,
    config: AdminConfig,
    tls: Option<ActiveTls>,
}

/// The secrets of the port that a reload replaces. Clones share them.
#[derive(Debug, Clone)]
pub struct AdminSecrets {
    tokens: ActiveTokens,
    /// Certificates; `None` without TLS.
    tls: Option<ActiveTls>,
}

impl AdminSecrets {
    /// Replaces the tokens, and the certificates if the port has TLS. Logs the options of changed tokens.
    pub fn replace(&self, tokens: HttpTokens, tls: Option<Tls>) {
        let changed: Vec<_> = self
            .tokens
            .replace(tokens)
            .into_iter()
            .map(TokenRole::option)
            .collect();
        if !changed.is_empty() {
            tracing::info!(
                "tokens of the HTTP port have changed: {}",
                changed.join(", ")
            );
        }
        if let (Some(active), Some(tls)) = (&self.tls, tls) {
            active.set(tls);
        }
    }
}

/// The thread that serves the port; it ends when this is dropped.
#[derive(Debug)]
pub struct AdminServer {
    addresses: Vec<SocketAddr>,
    secrets: AdminSecrets,
    state: Option<watch::Sender<ServerState>>,
    thread: Option<JoinHandle<()>>,
}

impl AdminListener {
    /// Binds the addresses of the port. `former` are the listeners of clients.
    ///
    /// # Errors
    /// An address is in use or not of this machine, or needs a token or a certificate that it does not have.
    pub fn bind(config: AdminConfig, former: &[BoundAddress]) -> Result<Self, ListenError> {
        let bind = || {
            let addresses = config.address.resolve()?;
            // The name may resolve to another address than before.
            if config.tokens.is_empty() && !addresses.iter().all(|it| it.ip().is_loopback()) {
                let why = "other machines can reach it, and there is no token";
                return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
            }
            if config.address.has_tls() != config.tls.is_some() {
                let why = "https:// needs a certificate, and http:// has none";
                return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
            }
            check_free(&addresses, former)?;
            let sockets = statestored_listeners::bind(&addresses, config.address.is_host_name())?;
            let listen = |socket: TcpSocket| {
                let listener = socket.listen(BACKLOG)?.into_std()?;
                Ok((listener.local_addr()?, listener))
            };
            sockets
                .into_iter()
                .map(listen)
                .collect::<io::Result<Vec<_>>>()
        };
        let bound = bind().map_err(|source| ListenError {
            address: config.address.to_string(),
            source,
        })?;
        let (addresses, listeners) = bound.into_iter().unzip();
        Ok(Self {
            listeners,
            addresses,
            tls: config.tls.clone().map(|tls| ActiveTls::new(Some(tls))),
            config,
        })
    }

    /// Starts to answer requests, while the server still loads the stored entries. `control` reaches that server, and `data_dir` is
    /// the folder of its data, if that is on disk.
    ///
    /// # Errors
    /// The runtime or its thread cannot be created.
    pub fn start(
        self,
        control: impl ServerControl + 'static,
        data_dir: Option<PathBuf>,
        tls_status: TlsStatus,
    ) -> io::Result<AdminServer> {
        let addresses = self.addresses.clone();
        let secrets = AdminSecrets {
            tokens: self.config.tokens.clone(),
            tls: self.tls.clone(),
        };
        let tls_status = tls_status.with_http_port(&self.addresses, self.tls.clone());
        let (stage, stages) = watch::channel(ServerState::Loading);
        let runtime = single_threaded_runtime()?;
        let run = move || {
            let config = self.config.clone();
            let room = AppState::new(Rc::new(control), stages, data_dir, config, tls_status);
            let gate = RequestAuthorizer::new(&self.addresses, self.config);
            let serving =
                http_server::serve(self.listeners, self.tls, Rc::new(gate), Rc::new(room));
            let local = LocalSet::new();
            local.block_on(&runtime, serving);
            // Dropped within the runtime.
            let guard = runtime.enter();
            drop(local);
            drop(guard);
            // A blocking call for a file may be running, for any length of time.
            runtime.shutdown_background();
        };
        let thread = std::thread::Builder::new().name("http".into()).spawn(run)?;
        Ok(AdminServer {
            addresses,
            secrets,
            state: Some(stage),
            thread: Some(thread),
        })
    }
}

impl AdminServer {
    /// Returns the addresses where it listens.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Returns whether it has TLS.
    pub fn has_tls(&self) -> bool {
        self.secrets.tls.is_some()
    }

    /// Returns the secrets, which a reload may replace.
    pub fn secrets(&self) -> &AdminSecrets {
        &self.secrets
    }

    /// Sets the stage of the server.
    pub fn set_state(&self, stage: ServerState) {
        if let Some(sender) = &self.state {
            sender.send_replace(stage);
        }
    }
}

impl Drop for AdminServer {
    fn drop(&mut self) {
        // The thread ends when the sender of the stage is dropped.
        self.state = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!(
                "the thread of the HTTP port panicked: this is a bug, please report it"
            );
        }
    }
}
