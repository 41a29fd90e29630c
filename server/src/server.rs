//! A whole server: listeners, hub, service, keyspace and storage.
use crate::clock::{Clock, Now};
use crate::config::{Config, StorageConfig};
use crate::control::{self, Command, Control};
use crate::driver::Driver;
use crate::error::ServerError;
use crate::hub::{Hub, HubConfig};
use crate::keyspace::Embedded;
use crate::listeners::{Bound, accept};
use crate::loading;
use crate::service::{Service, ServiceConfig};
use crate::storage::{
    Committer, CommitterOptions, DurableOptions, DurableStorage, MemoryStorage, Storage,
    StorageError,
};
use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::{mpsc as tokio_mpsc, oneshot};
use tokio::task::{JoinError, JoinSet, LocalSet};

/// A server that listens, but does not serve before [`run`](Self::run).
#[derive(Debug)]
pub struct Server {
    listeners: Vec<TcpListener>,
    addresses: Vec<SocketAddr>,
    driver: Driver,
    committer: Committer,
    control: Control,
    commands: tokio_mpsc::Receiver<Command>,
}

impl Server {
    /// Loads the stored state, on a thread of its own, and then listens. To be called within a tokio runtime.
    ///
    /// Who drops the future stops the loading.
    pub async fn start(config: Config) -> Result<Self, ServerError> {
        let bound = Bound::new(config.listeners)?;
        let addresses = bound.addresses().to_vec();
        warn_of_open_doors(&addresses, config.authenticator.is_anonymous());
        let clock = Clock::start();
        let (storage, service, keyspace) =
            load(config.storage, config.service, clock.now()).await?;
        let (control, commands) = control::channel(config.authenticator.source().cloned());
        let hub = HubConfig {
            limits: config.limits,
            authenticator: config.authenticator,
            client_id_seed: RandomState::new().hash_one(0),
        };
        let service = Service::new(service, keyspace);
        let committer = Committer::start(storage, CommitterOptions::default())
            .map_err(|error| ServerError::Storage(Arc::new(error)))?;
        let driver = Driver::new(Hub::new(hub, service), clock);
        Ok(Self {
            listeners: bound.listen()?,
            addresses,
            driver,
            committer,
            control,
            commands,
        })
    }

    /// The addresses that it listens on, ports resolved.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Asks it something while it runs.
    pub fn control(&self) -> Control {
        self.control.clone()
    }

    /// Serves until `shutdown` is ready, then tells all clients, and ends once everything is durable.
    ///
    /// # Errors
    /// The storage failed: all clients were told. Or something panicked: all connections were cut at once. Nothing was
    /// acknowledged that is not durable.
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> Result<(), ServerError> {
        let serving = Box::pin(self.run_locally(shutdown));
        LocalSet::new().run_until(serving).await
    }

    async fn run_locally(self, shutdown: impl Future<Output = ()>) -> Result<(), ServerError> {
        let (accepted, streams) = tokio_mpsc::channel(64);
        let mut acceptors = JoinSet::new();
        for listener in self.listeners {
            acceptors.spawn_local(accept(listener, accepted.clone()));
        }
        let arrivals = Arrivals {
            streams,
            acceptors,
            commands: self.commands,
        };
        serve_all(self.driver, self.committer, arrivals, shutdown).await
    }
}

/// What comes to a server from outside.
struct Arrivals<S> {
    streams: tokio_mpsc::Receiver<(S, SocketAddr)>,
    acceptors: JoinSet<()>,
    commands: tokio_mpsc::Receiver<Command>,
}

/// Serves the connections that come in, up to the end. To be called within a [`LocalSet`].
async fn serve_all<S: AsyncRead + AsyncWrite + Unpin + 'static>(
    driver: Driver,
    mut committer: Committer,
    mut arrivals: Arrivals<S>,
    shutdown: impl Future<Output = ()>,
) -> Result<(), ServerError> {
    let driver = Rc::new(driver);
    let mut connections = JoinSet::new();
    let mut shutdown = std::pin::pin!(shutdown);
    let failed = {
        let mut keeper = std::pin::pin!(driver.keep(&mut committer));
        loop {
            tokio::select! {
                () = &mut shutdown => break None,
                Err(error) = &mut keeper => break Some(error),
                Some((stream, peer)) = arrivals.streams.recv() => {
                    connections.spawn_local(Rc::clone(&driver).serve(stream, peer));
                }
                Some(ended) = connections.join_next() => sound(ended)?,
                Some(ended) = arrivals.acceptors.join_next() => sound(ended)?,
                Some(command) = arrivals.commands.recv() => driver.obey(command),
            }
        }
    };
    arrivals.acceptors.abort_all();
    drop(arrivals.commands);
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
            next = connections.join_next() => match next {
                Some(ended) => sound(ended)?,
                None => break,
            },
            () = &mut lingering => {}
        }
    }
    result.map_err(ServerError::Storage)
}

/// After a panic, what the tasks share may be half done: nobody may go on with it.
fn sound(ended: Result<(), JoinError>) -> Result<(), ServerError> {
    match ended {
        Err(error) if error.is_panic() => {
            tracing::error!("a task of the server panicked: this is a bug, please report it");
            Err(ServerError::Panicked)
        }
        _ => Ok(()),
    }
}

fn warn_of_open_doors(addresses: &[SocketAddr], is_anonymous: bool) {
    for address in addresses
        .iter()
        .filter(|address| !address.ip().is_loopback())
    {
        if is_anonymous {
            tracing::warn!(
                "everybody who can reach {address} may read and write all keys: \
                 name users with --users-file, or listen on a loopback address"
            );
        } else {
            tracing::warn!(
                "passwords, keys and values of clients that connect to {address} cross the network in clear: \
                 listen on a loopback address, with a TLS proxy in front"
            );
        }
    }
}

/// Opens the storage and reads all that it holds, on a thread of its own.
async fn load(
    config: StorageConfig,
    service: ServiceConfig,
    now: Now,
) -> Result<(Box<dyn Storage>, ServiceConfig, Embedded), ServerError> {
    /// Stops the thread when nobody waits for it any more.
    struct Stop(Arc<AtomicBool>);
    impl Drop for Stop {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    let is_stopped = Arc::new(AtomicBool::new(false));
    let _stop = Stop(Arc::clone(&is_stopped));
    let (report, loaded) = oneshot::channel();
    std::thread::Builder::new()
        .name("loading".into())
        .spawn(move || {
            let load = || {
                let mut storage = open(&config)?;
                let service = ServiceConfig {
                    is_durable: storage.is_durable(),
                    ..match storage.seed() {
                        Some(seed) => service.with_seed(seed),
                        None => service,
                    }
                };
                let mut keyspace = Embedded::new(&service.keyspace());
                loading::load(&mut *storage, &mut keyspace, now, &is_stopped)?;
                Ok((storage, service, keyspace))
            };
            // Who waited may have given up.
            let _ = report.send(load());
        })
        .map_err(ServerError::Runtime)?;
    let result = loaded.await.map_err(|_| ServerError::Panicked)?;
    result.map_err(|error: StorageError| ServerError::Storage(Arc::new(error)))
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
    control: Control,
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
                    let _ = report.send((server.addresses().to_vec(), server.control()));
                    drop(report);
                    server.run(async { drop(stopped.await) }).await
                })
            })
            .map_err(ServerError::Runtime)?;
        match started.recv() {
            Ok((addresses, control)) => Ok(Self {
                addresses,
                control,
                shutdown: Some(shutdown),
                thread: Some(thread),
            }),
            Err(_) => Err(match thread.join() {
                Ok(Err(error)) => error,
                Ok(Ok(())) | Err(_) => ServerError::Panicked,
            }),
        }
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

    /// Asks it something while it runs.
    pub fn control(&self) -> Control {
        self.control.clone()
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

#[cfg(test)]
mod tests {
    use super::*;
    use statestore_protocol::mqtt::Connect;
    use std::cell::RefCell;
    use std::io;
    use std::pin::Pin;
    use std::task::{Context, Poll, Waker};
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, ReadBuf};

    /// One end of a connection, or a connection whose first use makes another client send a PINGREQ, and panics.
    enum Stream {
        Pipe(DuplexStream),
        Broken(Rc<RefCell<DuplexStream>>),
    }

    impl Stream {
        fn pipe(self: Pin<&mut Self>) -> Pin<&mut DuplexStream> {
            match self.get_mut() {
                Self::Pipe(pipe) => Pin::new(pipe),
                Self::Broken(other) => {
                    let mut context = Context::from_waker(Waker::noop());
                    let mut other = other.borrow_mut();
                    let sent = Pin::new(&mut *other).poll_write(&mut context, &[0xC0, 0]);
                    assert!(matches!(sent, Poll::Ready(Ok(2))), "{sent:?}");
                    panic!("a bug that a test has planted");
                }
            }
        }
    }

    impl AsyncRead for Stream {
        fn poll_read(
            self: Pin<&mut Self>,
            context: &mut Context<'_>,
            buffer: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            self.pipe().poll_read(context, buffer)
        }
    }

    impl AsyncWrite for Stream {
        fn poll_write(
            self: Pin<&mut Self>,
            context: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            self.pipe().poll_write(context, bytes)
        }
        fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
            self.pipe().poll_flush(context)
        }
        fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
            self.pipe().poll_shutdown(context)
        }
    }

    #[tokio::test]
    async fn a_panic_in_a_connection_ends_the_server_before_it_says_another_word() {
        let hub = Hub::new(
            HubConfig::default(),
            Service::embedded(ServiceConfig::default()),
        );
        let driver = Driver::new(hub, Clock::start());
        let committer =
            Committer::start(Box::new(MemoryStorage), CommitterOptions::default()).unwrap();
        let (accepted, streams) = tokio_mpsc::channel(2);
        let peer = SocketAddr::from(([127, 0, 0, 1], 1));
        let (mut near, far) = tokio::io::duplex(1024);
        let client = async {
            accepted.send((Stream::Pipe(far), peer)).await.unwrap();
            let mut connect = bytes::BytesMut::new();
            Connect::default().encode(u32::MAX, &mut connect).unwrap();
            near.write_all(&connect).await.unwrap();
            let mut start = [0; 2];
            near.read_exact(&mut start).await.unwrap();
            let mut rest = vec![0; start[1].into()];
            near.read_exact(&mut rest).await.unwrap();
            let near = Rc::new(RefCell::new(near));
            let broken = Stream::Broken(Rc::clone(&near));
            accepted.send((broken, peer)).await.unwrap();
            near
        };
        let (_control, commands) = control::channel(None);
        let arrivals = Arrivals {
            streams,
            acceptors: JoinSet::new(),
            commands,
        };
        let server = serve_all(driver, committer, arrivals, std::future::pending());
        let local = LocalSet::new();
        let (ended, near) = local
            .run_until(async { tokio::join!(server, client) })
            .await;
        assert!(matches!(ended, Err(ServerError::Panicked)), "{ended:?}");
        drop(local);
        let mut answer = Vec::new();
        let mut near = Rc::into_inner(near).unwrap().into_inner();
        near.read_to_end(&mut answer).await.unwrap();
        assert!(answer.is_empty(), "{answer:?}");
    }
}
