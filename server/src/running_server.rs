//! A whole server inside another program.
use crate::config::Config;
use crate::error::ServerError;
use crate::server::Server;
use crate::server_handle::ServerHandle;
use statestored_link::single_threaded_runtime;
use statestored_listeners::BoundAddress;
use std::net::SocketAddr;
use std::sync::mpsc;
use std::thread::JoinHandle;
use tokio::sync::oneshot;

/// A server on a thread of its own, for tests and for programs that include a store.
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
    bound_addresses: Vec<BoundAddress>,
    http_address: Option<SocketAddr>,
    handle: ServerHandle,
    shutdown: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<Result<(), ServerError>>>,
}

impl RunningServer {
    /// Starts a server. Returns when its state is loaded and it listens.
    pub fn start(config: Config) -> Result<Self, ServerError> {
        let (report, started) = mpsc::channel();
        let (shutdown, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new()
            .name("statestored".into())
            .spawn(move || {
                let runtime = single_threaded_runtime().map_err(ServerError::Runtime)?;
                let ended = runtime.block_on(async {
                    let server = Server::start(config).await?;
                    // The caller may have given up.
                    let listening = server.bound_addresses().to_vec();
                    let _ = report.send((
                        listening,
                        server.http_addresses().first().copied(),
                        server.handle(),
                    ));
                    drop(report);
                    server.run(async { drop(stopped.await) }).await
                });
                // A blocking call for a file may be running, for any length of time.
                runtime.shutdown_background();
                ended
            })
            .map_err(ServerError::Runtime)?;
        match started.recv() {
            Ok((listening, http_address, control)) => Ok(Self {
                addresses: listening.iter().filter_map(BoundAddress::address).collect(),
                bound_addresses: listening,
                http_address,
                handle: control,
                shutdown: Some(shutdown),
                thread: Some(thread),
            }),
            Err(_) => Err(match thread.join() {
                Ok(Err(error)) => error,
                Ok(Ok(())) | Err(_) => ServerError::Panicked,
            }),
        }
    }

    /// Returns the network addresses of the listeners.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Returns all listeners.
    pub fn bound_addresses(&self) -> &[BoundAddress] {
        &self.bound_addresses
    }

    /// Returns the first address of the HTTP port, if there is one.
    pub fn http_address(&self) -> Option<SocketAddr> {
        self.http_address
    }

    /// Returns the first address as a URL for clients.
    pub fn url(&self) -> String {
        self.bound_addresses
            .first()
            .map(BoundAddress::url)
            .unwrap_or_default()
    }

    /// Returns a handle to query and control the server while it runs.
    pub fn handle(&self) -> ServerHandle {
        self.handle.clone()
    }

    /// Stops the server: notifies all clients and makes all writes durable.
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
