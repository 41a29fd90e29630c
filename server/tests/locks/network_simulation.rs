//! A server with its network and its disk.
use crate::network::{OneWayLink, without_notifications};
use bytes::{Bytes, BytesMut};
use statestore::Hlc;
use statestored_broker::hub::{CloseAction, ConnectionId, Hub, HubConfig};
use statestored_storage::{Batch, Record, Write};
use statestored_store::keyspace::EmbeddedKeyspace;
use statestored_store::service::{ClockReading, Service, ServiceConfig};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

const START_WALL_MS: u64 = 1_700_000_000_000;
/// Bytes that one direction of a connection holds.
const PIPE: usize = 64 * 1024;

/// Shared by the server and its clients.
#[derive(Debug, Clone)]
pub(crate) struct NetworkSimulation(Arc<SharedSimulation>);

#[derive(Debug)]
struct SharedSimulation {
    inner: Mutex<SimulationState>,
    /// The server may have to wake up earlier.
    changed: Notify,
}

#[derive(Debug)]
struct SimulationState {
    start: Instant,
    /// Error of the server's wall clock, in milliseconds.
    clock_ms: i64,
    /// How many milliseconds all clocks of the server count in a thousand.
    speed: u64,
    hub: Hub,
    /// Counts the server's restarts.
    run: u64,
    is_down: bool,
    /// The least and the most.
    latency: (Duration, Duration),
    chance: fastrand::Rng,
    disk: BTreeMap<Bytes, Record>,
    floor: Option<(u64, u64)>,
    /// How long it takes at most until the disk has a commit.
    sync: Duration,
    /// Commits that it does not have yet, with their numbers and the times at which it will.
    written: VecDeque<(Instant, u64, Batch)>,
    connections: Vec<Connection>,
    /// Clients whose bytes are dropped, in both directions.
    silent: BTreeSet<&'static str>,
    /// Clients that get no notifications.
    unnotified: BTreeSet<&'static str>,
    history: Vec<StoreChange>,
    witness: ChangeObserver,
    /// The server does not understand the query for its extensions.
    is_plain: bool,
}

/// Sees each change at the moment at which the store makes it.
struct ChangeObserver(Box<dyn Fn(&StoreChange) + Send>);

impl fmt::Debug for ChangeObserver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ChangeObserver")
    }
}

#[derive(Debug)]
struct Connection {
    client: &'static str,
    id: ConnectionId,
    run: u64,
    /// Notified when the connection has output or has ended.
    wake: Arc<Notify>,
    is_cut: bool,
}

/// A change of the store, in its order.
#[derive(Debug, Clone)]
pub(crate) struct StoreChange {
    pub(crate) at: Instant,
    pub(crate) key: Bytes,
    /// `None` is a deletion.
    pub(crate) value: Option<Bytes>,
    pub(crate) fence: Option<Hlc>,
}

fn hub(disk: &BTreeMap<Bytes, Record>, floor: Option<(u64, u64)>, now: ClockReading) -> Hub {
    let config = ServiceConfig {
        hash_key: [1, 2],
        // Only then are there batches of writes, which the world reads along.
        is_durable: true,
        ..ServiceConfig::default()
    };
    let mut keyspace = EmbeddedKeyspace::new(&config.keyspace());
    for record in disk.values() {
        keyspace.restore(&record.view(), now);
    }
    if let Some((wall_ms, counter)) = floor {
        keyspace.restore_clock(wall_ms, counter);
    }
    Hub::new(HubConfig::default(), Service::new(config, keyspace))
}

impl NetworkSimulation {
    /// Starts a server. Call it in a runtime whose clock is paused.
    pub(crate) fn start() -> Self {
        Self::start_at_speed(1_000)
    }

    /// Starts a server whose clocks count this many milliseconds in a thousand.
    pub(crate) fn start_at_speed(speed: u64) -> Self {
        let now = ClockReading {
            wall_ms: START_WALL_MS,
            mono_ms: 0,
        };
        let world = Self(Arc::new(SharedSimulation {
            inner: Mutex::new(SimulationState {
                start: Instant::now(),
                clock_ms: 0,
                speed,
                hub: hub(&BTreeMap::new(), None, now),
                run: 0,
                is_down: false,
                latency: (Duration::ZERO, Duration::ZERO),
                chance: fastrand::Rng::with_seed(7),
                disk: BTreeMap::new(),
                floor: None,
                sync: Duration::ZERO,
                written: VecDeque::new(),
                connections: Vec::new(),
                silent: BTreeSet::new(),
                unnotified: BTreeSet::new(),
                history: Vec::new(),
                witness: ChangeObserver(Box::new(|_| {})),
                is_plain: false,
            }),
            changed: Notify::new(),
        }));
        tokio::spawn(world.clone().run_clock());
        world
    }

    fn inner(&self) -> MutexGuard<'_, SimulationState> {
        self.0.inner.lock().unwrap()
    }

    pub(crate) fn true_wall_ms(&self) -> u64 {
        START_WALL_MS + self.inner().elapsed_ms()
    }

    /// Sets the latency of all bytes from now on.
    pub(crate) fn set_latency(&self, latency: Duration) {
        self.set_latency_range(latency, latency);
    }

    /// From now on bytes take a random time between these.
    pub(crate) fn set_latency_range(&self, least: Duration, most: Duration) {
        self.inner().latency = (least, most);
    }

    /// From now on the disk has a commit after a random time, which is this long at most.
    pub(crate) fn slow_disk(&self, most: Duration) {
        self.inner().sync = most;
    }

    /// From now on the store has no extensions of the protocol.
    pub(crate) fn lose_extensions(&self) {
        self.inner().is_plain = true;
    }

    /// Sets the server's wall clock.
    pub(crate) fn set_clock(&self, wrong_by_ms: i64) {
        self.inner().clock_ms = wrong_by_ms;
    }

    /// Ends the connection of a client.
    pub(crate) fn cut(&self, client: &str) {
        for connection in &mut self.inner().connections {
            if connection.client == client {
                connection.is_cut = true;
                connection.wake.notify_one();
            }
        }
    }

    /// Starts or stops silently dropping all bytes from and to a client.
    pub(crate) fn set_silent(&self, client: &'static str, is_silent: bool) {
        let silent = &mut self.inner().silent;
        if is_silent {
            silent.insert(client);
        } else {
            silent.remove(client);
        }
    }

    /// From now on a client gets no notifications.
    pub(crate) fn lose_notifications(&self, client: &'static str) {
        self.inner().unnotified.insert(client);
    }

    /// Shuts the server down. Of the commits that its disk did not have yet, the disk keeps some of the first. Returns
    /// the number of those that are lost.
    pub(crate) fn shut_down(&self) -> usize {
        let mut inner = self.inner();
        let written = std::mem::take(&mut inner.written);
        let kept = inner.chance.usize(..=written.len());
        let lost = written.len() - kept;
        for (_, _, batch) in written.into_iter().take(kept) {
            inner.store_batch(batch);
        }
        inner.run += 1;
        inner.is_down = true;
        inner.wake_all();
        lost
    }

    /// The server comes back, with its disk or without it.
    pub(crate) fn start_up(&self, keeps_disk: bool) {
        let mut inner = self.inner();
        if !keeps_disk {
            inner.disk.clear();
            inner.floor = None;
        }
        inner.run += 1;
        inner.is_down = false;
        inner.hub = hub(&inner.disk, inner.floor, inner.now());
        inner.wake_all();
        drop(inner);
        self.0.changed.notify_one();
    }

    /// Sets a function that sees each change from now on. The function must not use the world.
    pub(crate) fn witness(&self, witness: impl Fn(&StoreChange) + Send + 'static) {
        self.inner().witness = ChangeObserver(Box::new(witness));
    }

    pub(crate) fn history(&self) -> Vec<StoreChange> {
        self.inner().history.clone()
    }

    /// Returns the stored value.
    pub(crate) fn value(&self, key: &str) -> Option<Bytes> {
        let inner = self.inner();
        inner
            .disk
            .get(key.as_bytes())
            .map(|record| record.value.clone())
    }

    /// Opens a connection; `None` if the server is down.
    pub(crate) fn connect(&self, client: &'static str) -> Option<DuplexStream> {
        let mut inner = self.inner();
        if inner.is_down {
            return None;
        }
        let now = inner.now();
        let id = inner.hub.opened(IpAddr::from(Ipv4Addr::LOCALHOST), now)?;
        let wake = Arc::new(Notify::new());
        let run = inner.run;
        inner.connections.push(Connection {
            client,
            id,
            run,
            wake: wake.clone(),
            is_cut: false,
        });
        drop(inner);
        let (near, far) = tokio::io::duplex(PIPE);
        tokio::spawn(self.clone().serve(client, id, run, wake, far));
        Some(near)
    }

    async fn serve(
        self,
        client: &'static str,
        id: ConnectionId,
        run: u64,
        wake: Arc<Notify>,
        mut stream: DuplexStream,
    ) {
        let mut input = BytesMut::new();
        let mut buffer = BytesMut::new();
        let (mut up, mut down) = (OneWayLink::default(), OneWayLink::default());
        loop {
            let (output, is_over) = self.output(client, id, run);
            down.send(output.freeze(), self.inner().latency());
            if is_over && down.is_empty() {
                break;
            }
            tokio::select! {
                biased;
                bytes = up.receive() => {
                    input.extend_from_slice(&bytes);
                    self.receive(client, id, run, &mut input);
                }
                bytes = down.receive() => if stream.write_all(&bytes).await.is_err() {
                    break;
                },
                read = stream.read_buf(&mut buffer) => {
                    if !matches!(read, Ok(1..)) {
                        break;
                    }
                    up.send(buffer.split().freeze(), self.inner().latency());
                }
                () = wake.notified() => {}
            }
        }
        let mut inner = self.inner();
        inner
            .connections
            .retain(|other| (other.id, other.run) != (id, run));
        if inner.run == run {
            let now = inner.now();
            inner.hub.closed(id, now);
            inner.settle();
        }
    }

    fn receive(&self, client: &str, id: ConnectionId, run: u64, input: &mut BytesMut) {
        let mut inner = self.inner();
        if inner.run != run || inner.silent.contains(client) {
            return input.clear();
        }
        let now = inner.now();
        if inner.is_plain {
            let question = b"$4\r\nCAPS\r\n";
            let asked = input.windows(question.len()).position(|it| it == question);
            if let Some(at) = asked {
                input[at..at + question.len()].copy_from_slice(b"$4\r\nNONE\r\n");
            }
        }
        while inner.hub.received(id, input, now) {}
        inner.settle();
        drop(inner);
        self.0.changed.notify_one();
    }

    /// Returns the output, and whether the connection is to be closed.
    fn output(&self, client: &str, id: ConnectionId, run: u64) -> (BytesMut, bool) {
        let mut inner = self.inner();
        let is_cut = inner
            .connections
            .iter()
            .any(|connection| (connection.id, connection.run) == (id, run) && connection.is_cut);
        let mut output = BytesMut::new();
        if inner.run != run || is_cut {
            return (output, true);
        }
        let now = inner.now();
        loop {
            let before = output.len();
            inner.hub.take_output(id, &mut output, now);
            if output.len() == before {
                break;
            }
        }
        if inner.silent.contains(client) {
            output.clear();
        }
        if inner.unnotified.contains(client) {
            output = without_notifications(output, client);
        }
        let is_over = inner.hub.close_action(id) != CloseAction::KeepOpen;
        (output, is_over)
    }

    /// Lets the server's time pass.
    async fn run_clock(self) {
        loop {
            let due = {
                let inner = self.inner();
                let due_ms = inner.hub.next_wakeup().filter(|_| !inner.is_down);
                // Never a moment too early.
                let elapsed_ms = |due_ms: u64| (due_ms * 1_000).div_ceil(inner.speed);
                let due =
                    due_ms.map(|due_ms| inner.start + Duration::from_millis(elapsed_ms(due_ms)));
                let synced = inner.written.front().map(|(at, _, _)| *at);
                due.into_iter().chain(synced).min()
            };
            let idle = Instant::now() + Duration::from_secs(3600);
            tokio::select! {
                () = self.0.changed.notified() => {}
                () = sleep_until(due.unwrap_or(idle)) => {
                    let mut inner = self.inner();
                    if !inner.is_down {
                        let now = inner.now();
                        inner.hub.tick(now);
                        inner.settle();
                    }
                }
            }
        }
    }
}

impl SimulationState {
    fn elapsed_ms(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap()
    }

    fn now(&self) -> ClockReading {
        let mono_ms = self.elapsed_ms() * self.speed / 1_000;
        ClockReading {
            wall_ms: (START_WALL_MS + mono_ms).saturating_add_signed(self.clock_ms),
            mono_ms,
        }
    }

    fn latency(&mut self) -> Duration {
        let (least, most) = self.latency;
        least + most.saturating_sub(least).mul_f64(self.chance.f64())
    }

    /// Makes writes durable, as far as the disk has come, and wakes the connections that have something to do.
    fn settle(&mut self) {
        let now = Instant::now();
        while let Some((sequence, batch)) = self.hub.take_batch() {
            let at = now + self.sync.mul_f64(self.chance.f64());
            let at = self.written.back().map_or(at, |(last, ..)| at.max(*last));
            self.written.push_back((at, sequence, batch));
        }
        while self.written.front().is_some_and(|(at, ..)| *at <= now)
            && let Some((_, sequence, batch)) = self.written.pop_front()
        {
            self.store_batch(batch);
            self.hub.mark_durable(sequence);
        }
        while let Some(id) = self.hub.next_dirty() {
            for connection in &self.connections {
                if (connection.id, connection.run) == (id, self.run) {
                    connection.wake.notify_one();
                }
            }
        }
    }

    /// The disk has a commit.
    fn store_batch(&mut self, batch: Batch) {
        for write in batch.writes {
            let (key, record) = match write {
                Write::Put(record) => (record.key.clone(), Some(record)),
                Write::Delete(key) => (key, None),
            };
            let change = StoreChange {
                at: Instant::now(),
                key: key.clone(),
                value: record.as_ref().map(|record| record.value.clone()),
                fence: record.as_ref().and_then(|record| record.fence.clone()),
            };
            self.witness.0(&change);
            self.history.push(change);
            match record {
                Some(record) => self.disk.insert(key, record),
                None => self.disk.remove(&key),
            };
        }
        self.floor = batch.clock.or(self.floor);
    }

    fn wake_all(&self) {
        for connection in &self.connections {
            connection.wake.notify_one();
        }
    }
}
