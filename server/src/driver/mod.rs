//! Sockets, clocks and the storage around a [`Hub`]: one thread, no locks.
//!
//! Each connection is a local task. It hands a whole read to the hub and writes all output of the batch at
//! once. One more task, the [keeper](Driver::keep), watches the time and carries writes to the storage, and logins to threads that have time for them; while
//! one commit is on its way to the disk, the next one gathers.
mod broker;
mod memory;
mod socket;

use crate::access::Peer;
use crate::clock::Clock;
use crate::control::{Command, Inspection};
use crate::hub::{ConnectionId, Hub, Verified};
use crate::listeners::Accepted;
use crate::storage::group_commit::ImageOrder;
use crate::storage::{Committer, StorageError, SubmitError};
use bytes::BytesMut;
use memory::MemoryMonitor;
use slotmap::SecondaryMap;
use socket::Socket;
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Waker;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Notify, oneshot};
use tokio::task::{JoinSet, spawn_local, yield_now};
use tokio::time::sleep_until;

/// Most logins that are looked at at a time, each on a thread of its own. A hash of a password takes tens of mebibytes.
const MOST_VERIFICATIONS: usize = 2;

/// So often connections have another turn while they bring more that can be asked of an engine together: under load one question is for
/// many requests.
const GATHERING_TURNS: usize = 4;

/// What all tasks of the thread share. No borrow lives across an `await`.
#[derive(Debug)]
pub(crate) struct Driver {
    hub: RefCell<Hub>,
    clock: Clock,
    wakers: RefCell<SecondaryMap<ConnectionId, Waker>>,
    /// Taken by the connection that reads; most reads end with whole packets, so that it comes back empty.
    read_buffer: RefCell<BytesMut>,
    /// There is a batch, or an earlier time to wake up at.
    keeper: Notify,
    /// Images of the store that the keeper is to order.
    images: RefCell<Vec<ImageOrder>>,
    /// Who wants to know when a change has reached everybody.
    changing: RefCell<Option<oneshot::Sender<usize>>>,
    /// How many logins are looked at on other threads.
    verifying: Cell<usize>,
    /// When the keeper wakes up by itself.
    wakes_at_ms: Cell<Option<u64>>,
    /// Nothing is read: the server stops.
    is_paused: Cell<bool>,
    /// What the hub was last told of the storage.
    is_full: Cell<bool>,
    /// Requests are measured, which takes looks at the clock.
    is_metered: bool,
    /// There may be something to do for the broker, or the server stops.
    broker_news: Notify,
    /// Something was done for the broker.
    broker_turned: Notify,
    /// The last connection to the broker was one on which requests could come.
    was_attached: Cell<bool>,
    /// Without one, the process has other uses for its memory.
    memory: RefCell<Option<MemoryMonitor>>,
    /// Something panicked in the midst of a change to what is shared: nothing happens any more.
    is_broken: Cell<bool>,
}

/// Breaks the driver if a panic drops it.
struct Fuse<'a>(&'a Driver);

impl Drop for Fuse<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.is_broken.set(true);
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
            keeper: Notify::new(),
            images: RefCell::default(),
            changing: RefCell::default(),
            verifying: Cell::new(0),
            wakes_at_ms: Cell::new(None),
            is_paused: Cell::new(false),
            is_full: Cell::new(false),
            is_metered: false,
            broker_news: Notify::new(),
            broker_turned: Notify::new(),
            was_attached: Cell::new(false),
            memory: RefCell::default(),
            is_broken: Cell::new(false),
        }
    }

    /// Serves a connection that has come in. Counts one that was closed because all places are taken.
    pub(crate) fn welcome<S: AsyncRead + AsyncWrite + Unpin>(
        self: &Rc<Self>,
        accepted: Accepted<S>,
    ) -> Option<impl Future<Output = ()> + use<S>> {
        match accepted {
            Ok(arrival) => Some(Rc::clone(self).serve(arrival.stream, arrival.peer, arrival.place)),
            Err(peer) => {
                let now = self.clock.now();
                self.hub.borrow_mut().turned_away(&peer, now);
                None
            }
        }
    }

    /// Measures how long requests take, if anybody wants to know.
    pub(crate) fn metered(mut self, is_metered: bool) -> Self {
        self.is_metered = is_metered;
        self
    }

    /// A turn has begun at that time.
    fn begin(&self, hub: &mut Hub, begun_us: u64) {
        if self.is_metered {
            hub.measure(begun_us);
        }
    }

    /// What was done until now is measured.
    fn measure(&self, hub: &mut Hub) {
        if self.is_metered {
            hub.measure(self.clock.micros());
        }
    }

    /// Serves one connection until it ends, and keeps its place as long. A panic in here breaks the driver: no connection sends
    /// anything more.
    ///
    /// Each idle connection has one of these, so that it is to hold nothing twice: `stream` is not moved.
    pub(crate) async fn serve<S: AsyncRead + AsyncWrite + Unpin, P>(
        self: Rc<Self>,
        mut stream: S,
        peer: Peer,
        _place: P,
    ) {
        let _fuse = Fuse(&self);
        if self.is_paused.get() {
            // It came in the moment of the end, when everybody else was told of it: nobody would tell this one any more.
            self.hub.borrow().not_served(&peer);
            return;
        }
        let opened = self.hub.borrow_mut().opened(peer, self.clock.now());
        let Some(id) = opened else {
            return;
        };
        self.spread_word(None);
        let mut connection = Socket::new(&self, id, &mut stream);
        let ended = poll_fn(|context| connection.poll(context)).await;
        drop(connection);
        drop(stream);
        if self.is_broken.get() {
            return;
        }
        if let Err(error) = ended {
            self.hub.borrow_mut().failed(id, &error, self.clock.now());
        }
        self.wakers.borrow_mut().remove(id);
        self.hub.borrow_mut().closed(id, self.clock.now());
        self.spread_word(None);
    }

    /// Wakes whoever the hub has something for, except the connection that is at work anyway.
    fn spread_word(&self, at_work: Option<ConnectionId>) {
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
            self.broker_news.notify_one();
        }
        let wakeup_ms = hub.next_wakeup();
        let is_earlier =
            wakeup_ms.is_some_and(|at| self.wakes_at_ms.get().is_none_or(|set| at < set));
        if is_earlier
            || hub.gathered() > 0
            || hub.has_batch()
            || hub.has_work()
            || self.may_verify(&hub)
        {
            self.keeper.notify_one();
        }
    }

    /// Watches the time, the keyspace and the storage until the storage fails.
    pub(crate) async fn keep(&self, committer: &mut Committer) -> Result<(), Arc<StorageError>> {
        // Runs once all connections that are ready have had their turn.
        let mut everybody = None;
        // A hash that has begun goes on to its end, whatever happens here.
        let mut verifications = JoinSet::new();
        // What was stored may show that the clock is wrong.
        self.tick();
        loop {
            self.begin_verifications(&mut verifications);
            self.tell_whether_full(committer.is_full());
            self.submit(committer)?;
            self.gather().await;
            for order in self.images.take() {
                committer.order_image(order);
            }
            let memory_ms = self.watch_memory(committer);
            let hub_ms = self.hub.borrow().next_wakeup();
            let wakeup_ms = memory_ms.into_iter().chain(hub_ms).min();
            self.wakes_at_ms.set(wakeup_ms);
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
                    // It does nothing that could fail.
                    let _ = turn.await;
                }
            };
            tokio::select! {
                // Each part of the work makes many connections ready. More at a time than are served meanwhile would let
                // everybody else wait behind ever more of them.
                () = turn_of_everybody, if has_work => {
                    everybody = None;
                    self.tick();
                }
                () = wakeup, if !has_work => self.tick(),
                () = self.keeper.notified(), if !has_work => {}
                () = poll_fn(|context| self.hub.borrow_mut().poll_news(context)) => self.tick(),
                Some(verified) = verifications.join_next() => {
                    // They do not panic, and nobody aborts them.
                    if let Ok(verified) = verified {
                        self.hub.borrow_mut().verified(verified, self.clock.now());
                        self.spread_word(None);
                    }
                }
                durable = committer.progressed() => {
                    let mut hub = self.hub.borrow_mut();
                    self.measure(&mut hub);
                    hub.durable(durable?);
                    drop(hub);
                    self.spread_word(None);
                }
            }
        }
    }

    /// Has an engine asked what many requests wait for, once connections bring no more of them at the moment.
    async fn gather(&self) {
        let mut count = self.hub.borrow().gathered();
        if count == 0 {
            return;
        }
        for _ in 0..GATHERING_TURNS {
            // Looks for new input, too.
            yield_now().await;
            let now = self.hub.borrow().gathered();
            if now <= count {
                break;
            }
            count = now;
        }
        self.hub.borrow_mut().ask_gathered();
    }

    /// Whether there is a login to be looked at, and a thread free for it.
    fn may_verify(&self, hub: &Hub) -> bool {
        self.verifying.get() < MOST_VERIFICATIONS && hub.has_verification()
    }

    /// Has logins looked at.
    fn begin_verifications(&self, verifications: &mut JoinSet<Verified>) {
        self.verifying.set(verifications.len());
        if self.is_broken.get() || !self.may_verify(&self.hub.borrow()) {
            return;
        }
        while self.verifying.get() < MOST_VERIFICATIONS {
            let next = self.hub.borrow_mut().next_verification(self.clock.now());
            let Some(next) = next else {
                break;
            };
            verifications.spawn_blocking(|| next.run());
            self.verifying.set(verifications.len());
        }
        // Some may have been decided at once.
        self.spread_word(None);
    }

    /// Lets time pass, which does a part of what waits for its turn, too.
    fn tick(&self) {
        let now = self.clock.now();
        let mut hub = self.hub.borrow_mut();
        hub.tick(now);
        if let Some(disconnected) = hub.take_changed()
            && let Some(reply) = self.changing.take()
        {
            // Who asked may have given up.
            let _ = reply.send(disconnected);
        }
        drop(hub);
        self.spread_word(None);
    }

    /// Answers what somebody asks of the running server, and does what it is told; not after a panic, when nothing is certain any more.
    pub(crate) fn obey(&self, command: Command) {
        if self.is_broken.get() {
            return;
        }
        match command {
            Command::Statistics(reply) => {
                // Who asked may have given up.
                let _ = reply.send(self.hub.borrow().statistics());
            }
            Command::Image(order) => {
                self.images.borrow_mut().push(order);
                self.keeper.notify_one();
            }
            Command::Change(change, reply) => {
                let mut hub = self.hub.borrow_mut();
                let now = self.clock.now();
                if let Some((limits, service)) = change.limits {
                    self.set_budgets(service.max_bytes, limits.max_session_bytes);
                    hub.set_limits(limits, &service);
                }
                hub.begin_change(Some(change.authenticator), change.policy, now);
                drop(hub);
                self.changing.replace(Some(reply));
                // With few clients it is done with that.
                self.tick();
            }
            Command::Inspect(Inspection(inspection)) => {
                inspection(&mut self.hub.borrow_mut(), self.clock.now());
                self.spread_word(None);
            }
        }
    }

    /// Sets whether all users of this machine can reach a listener that demands no certificate.
    pub(crate) fn serve_anonymous_local_users(&self, are_served: bool) {
        self.hub.borrow_mut().set_anonymous_local_users(are_served);
    }

    /// Tells the hub whether there is room on the disk.
    fn tell_whether_full(&self, is_full: bool) {
        let mut hub = self.hub.borrow_mut();
        if hub.service().is_read_only() != is_full {
            hub.storage_full(is_full, self.clock.now());
            drop(hub);
            self.spread_word(None);
        }
    }

    /// Hands the writes so far to the storage, unless too much waits there: then no more are made until it has room.
    fn submit(&self, committer: &mut Committer) -> Result<(), Arc<StorageError>> {
        while !self.is_broken.get() && committer.has_room() {
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
        let is_full = !committer.has_room();
        if self.is_full.replace(is_full) != is_full {
            let now = self.clock.now();
            self.hub.borrow_mut().set_storage_full(is_full, now);
            self.spread_word(None);
        }
        Ok(())
    }

    /// Stops reading, makes everything durable and lets the answers go, then says good-bye to all clients.
    pub(crate) fn stop(&self, mut committer: Committer) -> Result<(), Arc<StorageError>> {
        self.is_paused.set(true);
        let result = loop {
            let mut hub = self.hub.borrow_mut();
            let has_more = hub.redate(self.clock.now());
            match hub.take_batch() {
                Some((_, batch)) => {
                    if let Err(error) = committer.submit_last(batch) {
                        tracing::error!(%error, "not everything was made durable");
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
                hub.durable(result);
                hub.shut_down(now);
            }
            Err(_) => hub.storage_failed(now),
        }
        drop(hub);
        self.broker_news.notify_one();
        self.spread_word(None);
        flushed
    }

    /// The storage failed: nothing more is acknowledged.
    pub(crate) fn storage_failed(&self) {
        self.is_paused.set(true);
        self.hub.borrow_mut().storage_failed(self.clock.now());
        self.broker_news.notify_one();
        self.spread_word(None);
    }

    /// Lets time pass for the connections that have still something to send.
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
