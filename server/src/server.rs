//! A whole server: listeners, hub, service, keyspace and storage.
use crate::attached::{AttachConfig, BrokerAddress, Dialer};
use crate::client_certificates::client_certificates;
use crate::clock::Clock;
use crate::config::{Config, EffectiveOptions};
use crate::driver::Driver;
use crate::error::ServerError;
use crate::keyspace_loader::{open_and_load, start_committer};
use crate::liveness::LivenessProbe;
use crate::running_config::{ReloadedConfig, RunningConfig};
use crate::server_handle::{self, Command, ReloadSource, ServerHandle};
use crate::storage_config::StorageConfig;
use statestored_admin::{AdminListener, AdminSecrets, AdminServer, ServerState, TlsStatus};
use statestored_broker::audit::EndCounts;
use statestored_broker::hub::{Hub, HubConfig};
use statestored_link::EngineThread;
use statestored_listeners::{
    AcceptResult, ActiveTls, AnonymousAudience, BoundAddress, BoundSockets, ConnectionLimiter,
    HandshakeConfig, HandshakeLimits, HandshakeThread, Listeners, TlsFailureCounts,
    anonymous_exposure,
};
use statestored_storage::Committer;
use statestored_store::service::Service;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc as tokio_mpsc;
use tokio::task::{JoinError, JoinSet, LocalSet};

/// A server that listens, but does not serve before [`run`](Self::run).
#[derive(Debug)]
pub struct Server {
    listeners: Listeners,
    bound_addresses: Vec<BoundAddress>,
    addresses: Vec<SocketAddr>,
    rules: HandshakeConfig,
    unix_mode: u32,
    driver: Driver,
    committer: Committer,
    handle: ServerHandle,
    commands: tokio_mpsc::Receiver<Command>,
    admin: Option<AdminServer>,
    attach: Option<AttachConfig>,
    engine_thread: Option<EngineThread>,
    tasks: JoinSet<()>,
}

impl Server {
    /// Loads the stored state, on a thread of its own, and then listens. Call it within a tokio runtime.
    ///
    /// The load stops if the future is dropped.
    pub async fn start(config: Config) -> Result<Self, ServerError> {
        let bound = BoundSockets::new(config.listeners, config.listener_config.unix_mode)?;
        let listening = bound.addresses().to_vec();
        anonymous_exposure::check(&listening, &config.listener_config, &config.authenticator)?;
        let (tls, unix_mode) = (
            config.listener_config.tls.as_ref(),
            config.listener_config.unix_mode,
        );
        anonymous_exposure::warn_of_anonymous(&listening, tls, unix_mode, &config.authenticator);
        anonymous_exposure::warn_about_clear_text(&listening, &config.authenticator);
        let audience = AnonymousAudience::of_all(&listening, tls, unix_mode);
        let rules = HandshakeConfig {
            connection_limiter: ConnectionLimiter::new(config.limits.max_connections),
            timeout: Duration::from_millis(config.limits.connect_timeout_ms),
            limits: HandshakeLimits::new(&config.limits),
            tls: ActiveTls::new(config.listener_config.tls),
            web_origins: config.listener_config.web_origins,
            trusted_proxies: config.listener_config.trusted_proxies,
            end_counts: EndCounts::default(),
            tls_failures: TlsFailureCounts::default(),
        };
        let presented = client_certificates(&config.storage, config.attach.as_ref());
        let tls_status = TlsStatus::new(rules.tls.clone(), &listening, rules.tls_failures.clone())
            .with_presented(presented.clone());
        let mut tasks = JoinSet::new();
        tasks.spawn(presented.monitor());
        let options = EffectiveOptions::new(config.options.clone());
        let origin = match config.source {
            Some(source) => {
                let running = RunningConfig {
                    options: config.options,
                    listening: listening.clone(),
                    unix_mode,
                    tls: rules.tls.clone(),
                };
                ReloadSource::Config(source, Box::new(running))
            }
            None => ReloadSource::None,
        };
        let admin = config.admin;
        let admin = admin.map(|config| AdminListener::bind(config, &listening));
        let admin = admin.transpose()?;
        let (control, commands) = server_handle::channel(origin, options);
        let data_dir = match &config.storage {
            StorageConfig::Durable(path) => Some(path.clone()),
            _ => None,
        };
        let admin = admin
            .map(|bound| bound.start(control.clone(), data_dir, tls_status))
            .transpose()
            .map_err(ServerError::Runtime)?;
        let clock = Clock::start();
        let max_entry_bytes = config.service.max_bytes;
        let max_session_bytes = config.limits.max_session_bytes;
        let loaded = open_and_load(
            config.storage,
            config.max_clock_ahead,
            config.service,
            clock.now(),
        )
        .await?;
        let hub = HubConfig {
            limits: config.limits,
            authenticator: config.authenticator,
            policy: config.policy,
            persist_property: config.persist_property,
            broker: config.attach.as_ref().map(|attach| attach.terms.clone()),
            end_counts: rules.end_counts.clone(),
            client_id_seed: None,
            anonymous_local_users: audience >= AnonymousAudience::LocalUsers,
        };
        let mut service = Service::with_keyspace(loaded.service, loaded.keyspace);
        if let Some((kept, forgotten)) = loaded.retention {
            service.restore(kept, forgotten.into_iter());
        }
        let committer = start_committer(loaded.storage, config.stop_timeout).await?;
        if let Some(admin) = &admin {
            admin.set_state(ServerState::Serving(committer.metrics()));
        }
        let driver = Driver::new(Hub::new(hub, service), clock)
            .with_metering(admin.is_some())
            .with_heap(config.heap, max_entry_bytes, max_session_bytes);
        Ok(Self {
            listeners: bound.listen()?,
            addresses: listening.iter().filter_map(BoundAddress::address).collect(),
            bound_addresses: listening,
            rules,
            unix_mode,
            driver,
            committer,
            handle: control,
            commands,
            admin,
            attach: config.attach,
            engine_thread: loaded.engine_thread,
            tasks,
        })
    }

    /// Returns the first address of its HTTP port, port resolved.
    pub fn http_address(&self) -> Option<SocketAddr> {
        self.http_addresses().first().copied()
    }

    /// Returns the addresses of the HTTP port, with the port resolved; empty without an HTTP port.
    pub fn http_addresses(&self) -> &[SocketAddr] {
        self.admin.as_ref().map_or(&[], AdminServer::addresses)
    }

    /// Returns whether the HTTP port has TLS.
    pub fn http_has_tls(&self) -> bool {
        self.admin.as_ref().is_some_and(AdminServer::has_tls)
    }

    /// Returns the network addresses of the listeners, with ports resolved.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Returns all listeners.
    pub fn bound_addresses(&self) -> &[BoundAddress] {
        &self.bound_addresses
    }

    /// Returns the address of the broker to attach to, if there is one.
    pub fn broker(&self) -> Option<&BrokerAddress> {
        self.attach.as_ref().map(|attach| &attach.address)
    }

    /// Returns a handle to query and control the server while it runs.
    pub fn handle(&self) -> ServerHandle {
        self.handle.clone()
    }

    /// Returns a check of the threads of the server, for a watchdog.
    pub fn liveness(&self) -> LivenessProbe {
        LivenessProbe {
            handle: self.handle.clone(),
            engine_thread: self.engine_thread.clone(),
        }
    }

    /// Serves until `shutdown` is ready, then notifies all clients, and ends once everything is durable.
    ///
    /// # Errors
    /// The storage failed; all clients were notified. Or a task panicked; all connections were cut immediately. Only
    /// durable writes were acknowledged.
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> Result<(), ServerError> {
        let serving = Box::pin(self.run_locally(shutdown));
        LocalSet::new().run_until(serving).await
    }

    async fn run_locally(mut self, shutdown: impl Future<Output = ()>) -> Result<(), ServerError> {
        let (accepted, streams) = tokio_mpsc::channel(64);
        let mut tasks = self.tasks;
        let (tls, connection_limiter) = (
            self.rules.tls.clone(),
            self.rules.connection_limiter.clone(),
        );
        let limits = self.rules.limits.clone();
        let has_proxies = !self.rules.trusted_proxies.is_empty();
        let with_handshake = self.listeners.take_with_handshake(has_proxies);
        let with_handshake = with_handshake.map_err(ServerError::Runtime)?;
        self.listeners
            .accept(&self.rules.connection_limiter, &accepted, &mut tasks);
        let handshakes = if with_handshake.is_empty() {
            None
        } else {
            let started = HandshakeThread::start(with_handshake, self.rules);
            let (handshakes, moved) = started.map_err(ServerError::Runtime)?;
            tasks.spawn_local(moved.forward_to(accepted));
            Some(handshakes)
        };
        let inputs = ServerInputs {
            streams,
            tasks,
            handshakes,
            commands: self.commands,
            bound_addresses: self.bound_addresses,
            unix_mode: self.unix_mode,
            tls,
            connection_limiter,
            limits,
            admin_secrets: self.admin.as_ref().map(|admin| admin.secrets().clone()),
            attach: self.attach,
        };
        let admin = self.admin;
        let shutdown = async {
            shutdown.await;
            if let Some(admin) = &admin {
                admin.set_state(ServerState::Stopping);
            }
        };
        serve_all(self.driver, self.committer, inputs, shutdown).await
    }
}

/// Input of a server from outside.
struct ServerInputs<S> {
    streams: tokio_mpsc::Receiver<AcceptResult<S>>,
    /// Tasks that accept connections, and that watch certificates. The end of one is a bug.
    tasks: JoinSet<()>,
    commands: tokio_mpsc::Receiver<Command>,
    handshakes: Option<HandshakeThread>,
    bound_addresses: Vec<BoundAddress>,
    unix_mode: u32,
    tls: ActiveTls,
    connection_limiter: ConnectionLimiter,
    limits: HandshakeLimits,
    admin_secrets: Option<AdminSecrets>,
    attach: Option<AttachConfig>,
}

impl<S> ServerInputs<S> {
    /// Applies the part of a change that concerns the process and the listeners. Returns who is served without credentials then.
    fn change(&self, change: &mut ReloadedConfig) -> AnonymousAudience {
        let (limits, _) = &mut change.limits;
        if let Some(process) = change.process.take() {
            process.apply(limits);
        }
        self.connection_limiter.set_max(limits.max_connections);
        self.limits.set(limits);
        if let Some(tls) = change.tls.take() {
            self.tls.set(tls);
        }
        if let (Some(secrets), Some((tokens, tls))) = (&self.admin_secrets, change.admin.take()) {
            secrets.replace(tokens, tls);
        }
        let (tls, authenticator) = (self.tls.get(), &change.authenticator);
        let (listening, tls) = (&self.bound_addresses[..], tls.as_ref());
        anonymous_exposure::warn_of_anonymous(listening, tls, self.unix_mode, authenticator);
        AnonymousAudience::of_all(listening, tls, self.unix_mode)
    }
}

/// Serves the connections until the shutdown is complete. Call it within a [`LocalSet`].
async fn serve_all<S: AsyncRead + AsyncWrite + Unpin + 'static>(
    driver: Driver,
    mut committer: Committer,
    mut inputs: ServerInputs<S>,
    shutdown: impl Future<Output = ()>,
) -> Result<(), ServerError> {
    let driver = Rc::new(driver);
    let mut connections = JoinSet::new();
    let is_attached = inputs.attach.is_some();
    if let Some(attach) = inputs.attach.take() {
        connections.spawn_local(Rc::clone(&driver).attach(Dialer::new(attach)));
    }
    let shutdown = async {
        shutdown.await;
        if is_attached {
            driver.leave_broker().await;
        }
    };
    let mut shutdown = std::pin::pin!(shutdown);
    let failed = {
        let mut maintenance = std::pin::pin!(driver.run_maintenance(&mut committer));
        loop {
            tokio::select! {
                () = &mut shutdown => break None,
                Err(error) = &mut maintenance => break Some(error),
                Some(arrival) = inputs.streams.recv() => {
                    if let Some(serving) = driver.accept(arrival) {
                        connections.spawn_local(serving);
                    }
                }
                Some(ended) = connections.join_next() => check_for_panic(ended)?,
                Some(ended) = inputs.tasks.join_next() => {
                    check_for_panic(ended)?;
                    tracing::error!("the server no longer accepts connections: this is a bug, please report it");
                    return Err(ServerError::Panicked);
                }
                Some(mut command) = inputs.commands.recv() => {
                    if let Command::Reconfigure(change, _) = &mut command {
                        let audience = inputs.change(change);
                        driver.set_anonymous_local_users(audience >= AnonymousAudience::LocalUsers);
                    }
                    driver.execute(command);
                }
            }
        }
    };
    inputs.tasks.abort_all();
    drop(inputs.handshakes);
    drop(inputs.commands);
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
                Some(ended) => check_for_panic(ended)?,
                None => break,
            },
            () = &mut lingering => {}
        }
    }
    result.map_err(ServerError::Storage)
}

/// Returns an error after a panic: the state that the tasks share may be inconsistent, and must not be used any more.
fn check_for_panic(ended: Result<(), JoinError>) -> Result<(), ServerError> {
    match ended {
        Err(error) if error.is_panic() => {
            tracing::error!("a task of the server panicked: this is a bug, please report it");
            Err(ServerError::Panicked)
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use statestore_protocol::mqtt::Connect;
    use statestored_broker::hub::HubLimits;
    use statestored_listeners::AcceptedConnection;
    use statestored_storage::{CommitterOptions, MemoryStorage};
    use statestored_store::service::ServiceConfig;
    use std::cell::RefCell;
    use std::io;
    use std::pin::Pin;
    use std::task::{Context, Poll, Waker};
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, ReadBuf};

    /// An end of a connection, or a connection whose first use makes another client send a PINGREQ, and panics.
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
    async fn a_panic_in_a_connection_stops_the_server_before_further_output() {
        let hub = Hub::new(
            HubConfig::default(),
            Service::embedded(ServiceConfig::default()),
        );
        let driver = Driver::new(hub, Clock::start());
        let committer =
            Committer::start(Box::new(MemoryStorage), CommitterOptions::default()).unwrap();
        let (accepted, streams) = tokio_mpsc::channel(2);
        let peer = SocketAddr::from(([127, 0, 0, 1], 1));
        let limiter = ConnectionLimiter::new(2);
        let (mut near, far) = tokio::io::duplex(1024);
        let client = async {
            let arrival = |stream| {
                Ok(AcceptedConnection {
                    stream,
                    peer: peer.into(),
                    permit: limiter.try_acquire().unwrap(),
                })
            };
            accepted.send(arrival(Stream::Pipe(far))).await.unwrap();
            let mut connect = bytes::BytesMut::new();
            Connect::default().encode(u32::MAX, &mut connect).unwrap();
            near.write_all(&connect).await.unwrap();
            let mut start = [0; 2];
            near.read_exact(&mut start).await.unwrap();
            let mut rest = vec![0; start[1].into()];
            near.read_exact(&mut rest).await.unwrap();
            let near = Rc::new(RefCell::new(near));
            let broken = Stream::Broken(Rc::clone(&near));
            accepted.send(arrival(broken)).await.unwrap();
            near
        };
        let options = EffectiveOptions::default();
        let (_control, commands) = server_handle::channel(ReloadSource::None, options);
        let inputs = ServerInputs {
            streams,
            tasks: JoinSet::new(),
            commands,
            handshakes: None,
            bound_addresses: Vec::new(),
            unix_mode: 0,
            tls: ActiveTls::new(None),
            connection_limiter: limiter.clone(),
            limits: HandshakeLimits::new(&HubLimits::default()),
            admin_secrets: None,
            attach: None,
        };
        let server = Box::pin(serve_all(driver, committer, inputs, std::future::pending()));
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
