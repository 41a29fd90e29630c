//! Sockets, clocks and the storage around a [`Hub`]: one thread, no locks.
//!
//! Each connection is a local task. It hands a whole read to the hub and writes all output of the batch at once.
//! Another task, the [keeper](Driver::run_maintenance), watches the time, carries writes to the storage, and hands logins to other
//! threads. While one commit is on its way to the disk, the next one gathers.
mod broker;
mod memory_monitor;
mod process_memory;
mod socket;

use crate::clock::Clock;
use crate::running_config::PolicyUpdate;
use crate::server_handle::{Command, InspectRequest};
use bytes::BytesMut;
use memory_monitor::MemoryMonitor;
use slotmap::SecondaryMap;
use socket::Socket;
use statestored_access::Peer;
use statestored_broker::hub::{CompletedVerification, ConnectionId, Hub};
use statestored_listeners::AcceptResult;
use statestored_storage::group_commit::ImageOrder;
use statestored_storage::{Committer, StorageError, SubmitError};
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Notify, oneshot};
use tokio::task::{JoinSet, spawn_local, yield_now};
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep_until};

/// Maximum number of logins verified at a time, each on a thread of its own. A password hash takes tens of mebibytes.
const MAX_VERIFICATIONS: usize = 2;

/// Maximum number of extra turns of the connections while they produce more requests that can be sent to an engine
/// together. Under load, one engine request then serves many client requests.
const MAX_GATHER_ROUNDS: usize = 4;

/// Interval at which an idle server compares its clocks.
const CLOCK_CHECK_INTERVAL: Duration = Duration::from_secs(2);

/// State that all tasks of the thread share. No borrow lives across an `await`.
#[derive(Debug)]
pub(crate) struct Driver {
    hub: RefCell<Hub>,
    clock: Clock,
    wakers: RefCell<SecondaryMap<ConnectionId, Waker>>,
    /// The buffer of the connection that reads. Most reads end with complete packets, so that it comes back empty.
    read_buffer: RefCell<BytesMut>,
    /// Wakes the keeper: there is a batch, or an earlier time to wake up.
    maintenance_wake: Notify,
    /// Images of the store for which the keeper is to send the orders.
    image_orders: RefCell<Vec<ImageOrder>>,
    /// Waiter for the number of disconnected clients once a change is in force on all connections.
    access_change_sender: RefCell<Option<oneshot::Sender<usize>>>,
    /// Number of logins that other threads verify.
    running_verifications: Cell<usize>,
    /// Time at which the keeper wakes up by itself.
    next_wakeup_ms: Cell<Option<u64>>,
    /// Whether reading has ended because the server stops.
    is_stopping: Cell<bool>,
    /// Whether the backlog of the storage is full, as last reported to the hub.
    is_backlog_full: Cell<bool>,
    /// Whether requests are measured, which takes readings of the clock.
    is_metered: bool,
    /// Wakes the broker's task: it may have something to do, or the server stops.
    broker_wake: Notify,
    /// Reports that the broker's task has had a turn.
    broker_polled: Notify,
    /// Whether requests could arrive on the last connection to the broker.
    was_attached: Cell<bool>,
    /// Monitor of the process's memory; `None` if the process has other uses for its memory.
    memory_monitor: RefCell<Option<MemoryMonitor>>,
    /// Whether a panic has interrupted a change to the shared state. If so, nothing happens any more.
    is_poisoned: Cell<bool>,
}

/// Breaks the driver if a panic drops it.
struct PoisonGuard<'a>(&'a Driver);

impl Drop for PoisonGuard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.is_poisoned.set(true);
        }
    }
}

impl Driver {
    pub(crate) fn new(hub: Hub, clock: Clock) -> Self {
        Self {
            hub: RefCell::new(hub),
            clock,
            wakers: RefCell::default(),
            read_buffer: RefCell::default(),
            maintenance_wake: Notify::new(),
            image_orders: RefCell::default(),
            access_change_sender: RefCell::default(),
            running_verifications: Cell::new(0),
            next_wakeup_ms: Cell::new(None),
            is_stopping: Cell::new(false),
            is_backlog_full: Cell::new(false),
            is_metered: false,
            broker_wake: Notify::new(),
            broker_polled: Notify::new(),
            was_attached: Cell::new(false),
            memory_monitor: RefCell::default(),
            is_poisoned: Cell::new(false),
        }
    }

    /// Serves an incoming connection, or counts one that was closed because the limit of connections is reached.
    pub(crate) fn accept<S: AsyncRead + AsyncWrite + Unpin>(
        self: &Rc<Self>,
        accepted: AcceptResult<S>,
    ) -> Option<impl Future<Output = ()> + use<S>> {
        match accepted {
            Ok(arrival) => {
                Some(Rc::clone(self).serve(arrival.stream, arrival.peer, arrival.permit))
            }
            Err(peer) => {
                let now = self.clock.now();
                self.hub
                    .borrow_mut()
                    .record_connection_over_limit(&peer, now);
                None
            }
        }
    }

    /// Enables the measurement of request times.
    pub(crate) fn with_metering(mut self, is_metered: bool) -> Self {
        self.is_metered = is_metered;
        self
    }

    /// Begins a turn at that time.
    fn begin_quantum(&self, hub: &mut Hub, begun_us: u64) {
        if self.is_metered {
            hub.set_time_us(begun_us);
        }
    }

    /// Records the time of the work since the turn began.
    fn record_work(&self, hub: &mut Hub) {
        if self.is_metered {
            hub.set_time_us(self.clock.micros());
        }
    }

    /// Serves one connection until it ends, and holds its permit as long. A panic in here breaks the driver: no
    /// connection sends anything more.
    ///
    /// Each idle connection has one of these futures, so it must not store anything twice: `stream` is not moved.
    pub(crate) async fn serve<S: AsyncRead + AsyncWrite + Unpin, P>(
        self: Rc<Self>,
        mut stream: S,
        peer: Peer,
        _place: P,
    ) {
        let _fuse = PoisonGuard(&self);
        if self.is_stopping.get() {
            // The connection came in while the server stopped, after all others were notified: nothing would notify
            // this one.
            self.hub.borrow().record_connection_during_shutdown(&peer);
            return;
        }
        let opened = self.hub.borrow_mut().opened(peer, self.clock.now());
        let Some(id) = opened else {
            return;
        };
        self.wake_tasks(None);
        let mut connection = Socket::new(&self, id, &mut stream);
        let ended = poll_fn(|context| connection.poll(context)).await;
        drop(connection);
        drop(stream);
        if self.is_poisoned.get() {
            return;
        }
        if let Err(error) = ended {
            self.hub
                .borrow_mut()
                .connection_failed(id, &error, self.clock.now());
        }
        self.wakers.borrow_mut().remove(id);
        self.hub.borrow_mut().closed(id, self.clock.now());
        self.wake_tasks(None);
    }

    /// Wakes the tasks for which the hub has work, except the connection that is at work anyway.
    fn wake_tasks(&self, at_work: Option<ConnectionId>) {
        let mut hub = self.hub.borrow_mut();
        let wakers = self.wakers.borrow();
        while let Some(id) = hub.next_dirty() {
            if Some(id) != at_work
                && let Some(waker) = wakers.get(id)
            {
                waker.wake_by_ref();
            }
        }
        if hub.take_broker_dirty() {
            self.broker_wake.notify_one();
        }
        let wakeup_ms = hub.next_wakeup();
        let is_earlier =
            wakeup_ms.is_some_and(|at| self.next_wakeup_ms.get().is_none_or(|set| at < set));
        if is_earlier
            || hub.service().gathered() > 0
            || hub.has_batch()
            || hub.has_work()
            || self.may_verify(&hub)
        {
            self.maintenance_wake.notify_one();
        }
    }

    /// Watches the time, the keyspace and the storage until the storage fails.
    pub(crate) async fn run_maintenance(
        &self,
        committer: &mut Committer,
    ) -> Result<(), Arc<StorageError>> {
        // Completes once all ready connections have had their turn.
        let mut everybody = None;
        // A password hash that has begun runs to its end, whatever happens here.
        let mut verifications = JoinSet::new();
        // The stored data may show that the clock is wrong.
        self.tick();
        let first_check = Instant::now() + CLOCK_CHECK_INTERVAL;
        let mut clock_checks = interval_at(first_check, CLOCK_CHECK_INTERVAL);
        clock_checks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            self.begin_verifications(&mut verifications);
            self.report_disk_full(committer.is_full());
            self.submit(committer)?;
            self.gather().await;
            for order in self.image_orders.take() {
                committer.order_image(order);
            }
            let memory_ms = self.watch_memory(committer);
            let hub_ms = self.hub.borrow().next_wakeup();
            let wakeup_ms = memory_ms.into_iter().chain(hub_ms).min();
            self.next_wakeup_ms.set(wakeup_ms);
            let wakeup = async {
                match wakeup_ms {
                    Some(at_ms) => sleep_until(self.clock.instant(at_ms)).await,
                    None => std::future::pending().await,
                }
            };
            let has_work = self.hub.borrow().has_work();
            if has_work && everybody.is_none() {
                everybody = Some(spawn_local(async {}));
            }
            let turn_of_everybody = async {
                if let Some(turn) = &mut everybody {
                    // The task does nothing that could fail.
                    let _ = turn.await;
                }
            };
            tokio::select! {
                // Each slice of the work makes many connections ready. If more became ready than are served meanwhile,
                // all other connections would wait behind a growing queue.
                () = turn_of_everybody, if has_work => {
                    everybody = None;
                    self.tick();
                }
                () = wakeup, if !has_work => self.tick(),
                _ = clock_checks.tick(), if !has_work => self.tick(),
                () = self.maintenance_wake.notified(), if !has_work => {}
                () = poll_fn(|context| self.hub.borrow_mut().poll_events(context)) => self.tick(),
                Some(verified) = verifications.join_next() => {
                    // These tasks do not panic, and are never aborted.
                    if let Ok(verified) = verified {
                        self.hub.borrow_mut().finish_verification(verified, self.clock.now());
                        self.wake_tasks(None);
                    }
                }
                durable = committer.progressed() => {
                    let mut hub = self.hub.borrow_mut();
                    self.record_work(&mut hub);
                    hub.mark_durable(durable?);
                    drop(hub);
                    self.wake_tasks(None);
                }
            }
        }
    }

    /// Sends the gathered requests to an engine, once connections bring no more of them at the moment.
    async fn gather(&self) {
        let mut count = self.hub.borrow().service().gathered();
        if count == 0 {
            return;
        }
        for _ in 0..MAX_GATHER_ROUNDS {
            // Yielding also looks for new input.
            yield_now().await;
            let now = self.hub.borrow().service().gathered();
            if now <= count {
                break;
            }
            count = now;
        }
        self.hub.borrow_mut().flush_gathered();
    }

    /// Returns whether a login waits for verification and a thread is free for it.
    fn may_verify(&self, hub: &Hub) -> bool {
        self.running_verifications.get() < MAX_VERIFICATIONS && hub.has_verification()
    }

    /// Starts the verification of waiting logins.
    fn begin_verifications(&self, verifications: &mut JoinSet<CompletedVerification>) {
        self.running_verifications.set(verifications.len());
        if self.is_poisoned.get() || !self.may_verify(&self.hub.borrow()) {
            return;
        }
        while self.running_verifications.get() < MAX_VERIFICATIONS {
            let next = self.hub.borrow_mut().next_verification(self.clock.now());
            let Some(next) = next else {
                break;
            };
            verifications.spawn_blocking(|| next.run());
            self.running_verifications.set(verifications.len());
        }
        // The hub may have decided some at once.
        self.wake_tasks(None);
    }

    /// Advances the time, which also does a slice of the deferred work.
    fn tick(&self) {
        let now = self.clock.now();
        let mut hub = self.hub.borrow_mut();
        hub.tick(now);
        if let Some(disconnected) = hub.take_access_change()
            && let Some(reply) = self.access_change_sender.take()
        {
            // The receiver may have given up.
            let _ = reply.send(disconnected);
        }
        drop(hub);
        self.wake_tasks(None);
    }

    /// Executes a command to the running server. After a panic it does nothing, because the state is no longer certain.
    pub(crate) fn execute(&self, command: Command) {
        if self.is_poisoned.get() {
            return;
        }
        match command {
            Command::Metrics(reply) => {
                // The receiver may have given up.
                let _ = reply.send(self.hub.borrow().metrics());
            }
            Command::Image(order) => {
                self.image_orders.borrow_mut().push(order);
                self.maintenance_wake.notify_one();
            }
            Command::Reconfigure(change, reply) => {
                let mut hub = self.hub.borrow_mut();
                let now = self.clock.now();
                let (limits, service) = change.limits;
                self.set_budgets(service.max_bytes, limits.max_session_bytes);
                hub.set_limits(limits, &service);
                let policy = match change.policy {
                    PolicyUpdate::Keep => hub.policy().cloned(),
                    PolicyUpdate::Replace(policy) => policy,
                };
                hub.begin_access_change(Some(change.authenticator), policy, now);
                drop(hub);
                self.access_change_sender.replace(Some(reply));
                // With few clients, this completes the change.
                self.tick();
            }
            Command::Inspect(InspectRequest(inspection)) => {
                inspection(&mut self.hub.borrow_mut(), self.clock.now());
                self.wake_tasks(None);
            }
        }
    }

    /// Sets whether all users of this machine can reach a listener that demands no certificate.
    pub(crate) fn set_anonymous_local_users(&self, are_served: bool) {
        self.hub.borrow_mut().set_anonymous_local_users(are_served);
    }

    /// Reports to the hub whether the disk is full.
    fn report_disk_full(&self, is_full: bool) {
        let mut hub = self.hub.borrow_mut();
        if hub.service().is_read_only() != is_full {
            hub.set_read_only(is_full, self.clock.now());
            drop(hub);
            self.wake_tasks(None);
        }
    }

    /// Hands the writes so far to the storage, unless its backlog is full. Then no more writes are made until there is
    /// room.
    fn submit(&self, committer: &mut Committer) -> Result<(), Arc<StorageError>> {
        while !self.is_poisoned.get() && committer.has_capacity() {
            let Some((sequence, batch)) = self.hub.borrow_mut().take_batch() else {
                break;
            };
            let submitted = committer.submit(batch).map_err(|error| match error {
                SubmitError::Failed(failure) => failure,
                full => Arc::new(StorageError::Io {
                    what: "cannot hand writes to the storage".into(),
                    source: io::Error::other(full),
                }),
            })?;
            debug_assert_eq!(submitted, sequence);
        }
        let is_full = !committer.has_capacity();
        if self.is_backlog_full.replace(is_full) != is_full {
            let now = self.clock.now();
            self.hub.borrow_mut().set_storage_backlogged(is_full, now);
            self.wake_tasks(None);
        }
        Ok(())
    }

    /// Stops reading, makes everything durable, releases the answers, and then disconnects all clients.
    pub(crate) fn stop(&self, mut committer: Committer) -> Result<(), Arc<StorageError>> {
        self.is_stopping.set(true);
        let result = loop {
            let mut hub = self.hub.borrow_mut();
            let has_more = hub.rewrite_expiry(self.clock.now());
            match hub.take_batch() {
                Some((_, batch)) => {
                    if let Err(error) = committer.submit_unlimited(batch) {
                        tracing::error!(%error, "some writes were not made durable");
                    }
                }
                None if has_more => {}
                None => break committer.submitted(),
            }
        };
        let flushed = committer.shutdown();
        let mut hub = self.hub.borrow_mut();
        let now = self.clock.now();
        match &flushed {
            Ok(()) => {
                hub.mark_durable(result);
                hub.shut_down(now);
            }
            Err(_) => hub.storage_failed(now),
        }
        drop(hub);
        self.broker_wake.notify_one();
        self.wake_tasks(None);
        flushed
    }

    /// Records that the storage failed: nothing more is acknowledged.
    pub(crate) fn storage_failed(&self) {
        self.is_stopping.set(true);
        self.hub.borrow_mut().storage_failed(self.clock.now());
        self.broker_wake.notify_one();
        self.wake_tasks(None);
    }

    /// Advances the time for the connections that still have output to send.
    pub(crate) async fn linger(&self) {
        loop {
            let wakeup_ms = self.hub.borrow().next_wakeup();
            let Some(at_ms) = wakeup_ms else {
                return std::future::pending().await;
            };
            sleep_until(self.clock.instant(at_ms)).await;
            self.tick();
        }
    }
}

#[cfg(test)]
mod tests;
