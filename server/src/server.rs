//! A whole server: listeners, front, engine and storage.
use crate::config::{Config, ListenAddress, StorageConfig};
use crate::engine::Engine;
use crate::front::driver::{Clock, Driver};
use crate::front::{Front, FrontConfig};
use crate::loading;
use crate::storage::{
    Committer, CommitterOptions, DurableOptions, DurableStorage, MemoryStorage, Storage,
    StorageError,
};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::{JoinSet, LocalSet};

/// How long accepting pauses after a failure, such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Why a server cannot start or had to stop.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// It cannot listen on an address.
    #[error("cannot listen on {address}: {source}{}", hint(.source))]
    Listen {
        /// As configured.
        address: String,
        /// The reason.
        source: io::Error,
    },
    /// The storage cannot be used.
    #[error("{0}")]
    Storage(Arc<StorageError>),
    /// The runtime or its thread cannot be made.
    #[error("cannot start the server: {0}")]
    Runtime(io::Error),
    /// The thread of the server panicked.
    #[error("the server stopped unexpectedly")]
    Panicked,
}

fn hint(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::AddrInUse => {
            "; stop the other process, or choose another port with --listen"
        }
        io::ErrorKind::PermissionDenied => "; choose a port above 1023 with --listen",
        io::ErrorKind::AddrNotAvailable => "; choose an address of this machine with --listen",
        _ => "",
    }
}

/// A server that listens, but does not serve before [`run`](Self::run).
#[derive(Debug)]
pub struct Server {
    listeners: Vec<TcpListener>,
    addresses: Vec<SocketAddr>,
    driver: Driver,
    committer: Committer,
}

impl Server {
    /// Listens and loads the stored state. To be called within a tokio runtime.
    pub async fn start(config: Config) -> Result<Self, ServerError> {
        let (listeners, addresses) = listen(&config.listeners).await?;
        if config.authenticator.is_anonymous() {
            for address in addresses
                .iter()
                .filter(|address| !address.ip().is_loopback())
            {
                tracing::warn!(
                    "everybody who can reach {address} may read and write all keys: \
                     name users with --users-file, or listen on a loopback address"
                );
            }
        }
        let clock = Clock::start();
        let mut storage = open(&config.storage).map_err(|e| ServerError::Storage(Arc::new(e)))?;
        let mut engine = Engine::new(config.engine);
        let now = clock.now();
        loading::load(&mut *storage, &mut engine, now, &AtomicBool::new(false))
            .map_err(|error| ServerError::Storage(Arc::new(error)))?;
        let front = FrontConfig {
            limits: config.limits,
            authenticator: config.authenticator,
            is_durable: storage.is_durable(),
            client_id_seed: RandomState::new().hash_one(0),
        };
        let committer = Committer::start(storage, CommitterOptions::default())
            .map_err(|error| ServerError::Storage(Arc::new(error)))?;
        let driver = Driver::new(Front::new(front, engine), clock);
        Ok(Self {
            listeners,
            addresses,
            driver,
            committer,
        })
    }

    /// The addresses that it listens on, ports resolved.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Serves until `shutdown` is ready, then tells all clients, and ends once everything is durable.
    ///
    /// # Errors
    /// The storage failed. All clients were told; nothing was acknowledged that is not durable.
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> Result<(), ServerError> {
        LocalSet::new().run_until(self.run_locally(shutdown)).await
    }

    async fn run_locally(self, shutdown: impl Future<Output = ()>) -> Result<(), ServerError> {
        let driver = Rc::new(self.driver);
        let mut committer = self.committer;
        let mut connections = JoinSet::new();
        let (accepted, mut streams) = tokio::sync::mpsc::channel(64);
        let mut acceptors = JoinSet::new();
        for listener in self.listeners {
            acceptors.spawn_local(accept(listener, accepted.clone()));
        }
        let mut shutdown = std::pin::pin!(shutdown);
        let failed = {
            let mut keeper = std::pin::pin!(driver.keep(&mut committer));
            loop {
                tokio::select! {
                    () = &mut shutdown => break None,
                    Err(error) = &mut keeper => break Some(error),
                    Some(stream) = streams.recv() => {
                        connections.spawn_local(Rc::clone(&driver).serve(stream));
                    }
                    Some(_) = connections.join_next() => {}
                }
            }
        };
        acceptors.abort_all();
        let result = match failed {
            None => driver.stop(committer),
            Some(error) => {
                driver.storage_failed();
                Err(error)
            }
        };
        let mut lingering = std::pin::pin!(driver.linger());
        loop {
            tokio::select! {
                next = connections.join_next() => if next.is_none() { break },
                () = &mut lingering => {}
            }
        }
        result.map_err(ServerError::Storage)
    }
}

async fn accept(listener: TcpListener, accepted: tokio::sync::mpsc::Sender<TcpStream>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                // Without it, small answers wait for the acknowledgement of the ones before.
                if let Err(error) = stream.set_nodelay(true) {
                    tracing::debug!(%error, "cannot set TCP_NODELAY");
                }
                if accepted.send(stream).await.is_err() {
                    return;
                }
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn listen(
    wanted: &[ListenAddress],
) -> Result<(Vec<TcpListener>, Vec<SocketAddr>), ServerError> {
    let mut listeners = Vec::new();
    let mut addresses = Vec::new();
    for address in wanted {
        let error = |source| ServerError::Listen {
            address: address.to_string(),
            source,
        };
        let listener = TcpListener::bind(&*address.resolve().map_err(error)?)
            .await
            .map_err(error)?;
        addresses.push(listener.local_addr().map_err(error)?);
        listeners.push(listener);
    }
    Ok((listeners, addresses))
}

fn open(config: &StorageConfig) -> Result<Box<dyn Storage>, StorageError> {
    Ok(match config {
        StorageConfig::Memory => Box::new(MemoryStorage),
        StorageConfig::Durable(path) => {
            tracing::info!(path = %path.display(), "opening the data folder");
            Box::new(DurableStorage::open(path, DurableOptions::default())?)
        }
    })
}

/// A server on a thread of its own, for tests and for programs that bring their own store.
///
/// ```
/// use statestored::{RunningServer, config::Config};
///
/// let server = RunningServer::start(Config::in_memory())?;
/// assert!(server.url().starts_with("mqtt://127.0.0.1:"));
/// server.stop()?;
/// # Ok::<(), statestored::ServerError>(())
/// ```
#[derive(Debug)]
pub struct RunningServer {
    addresses: Vec<SocketAddr>,
    shutdown: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<Result<(), ServerError>>>,
}

impl RunningServer {
    /// Starts it; returns when it listens and its state is loaded.
    pub fn start(config: Config) -> Result<Self, ServerError> {
        let (report, started) = mpsc::channel();
        let (shutdown, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new()
            .name("statestored".into())
            .spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()
                    .map_err(ServerError::Runtime)?;
                runtime.block_on(async {
                    let server = Server::start(config).await?;
                    // Who started it may have given up.
                    let _ = report.send(server.addresses().to_vec());
                    drop(report);
                    server.run(async { drop(stopped.await) }).await
                })
            })
            .map_err(ServerError::Runtime)?;
        let mut server = Self {
            addresses: Vec::new(),
            shutdown: Some(shutdown),
            thread: Some(thread),
        };
        match started.recv() {
            Ok(addresses) => server.addresses = addresses,
            Err(_) => return Err(server.join().err().unwrap_or(ServerError::Panicked)),
        }
        Ok(server)
    }

    /// The addresses that it listens on.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// The first address as a URL for clients.
    pub fn url(&self) -> String {
        self.addresses
            .first()
            .map(|address| format!("mqtt://{address}"))
            .unwrap_or_default()
    }

    /// Stops it: clients are told, everything is made durable.
    pub fn stop(mut self) -> Result<(), ServerError> {
        self.join()
    }

    fn join(&mut self) -> Result<(), ServerError> {
        drop(self.shutdown.take());
        match self.thread.take().map(JoinHandle::join) {
            None => Ok(()),
            Some(Ok(result)) => result,
            Some(Err(_)) => Err(ServerError::Panicked),
        }
    }
}

impl Drop for RunningServer {
    fn drop(&mut self) {
        if let Err(error) = self.join() {
            tracing::error!(%error, "the server did not stop in order");
        }
    }
}
