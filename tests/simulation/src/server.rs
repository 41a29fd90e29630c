//! The server's machine: the front with its connections, its disk, and what becomes of both in a crash.
use crate::disk::Disk;
use crate::history::{operation_of, operation_of_token, px_of};
use crate::network::{Ending, Link, Way, first_packet, lower};
use crate::wire;
use crate::witness::{Seen, Witness};
use crate::world::{Event, World};
use bytes::{Buf, Bytes, BytesMut};
use statestore_protocol::mqtt::{Limits, Packet, Publish};
use statestore_protocol::property::FENCING_TOKEN;
use statestore_protocol::{Command, topic};
use statestored::engine::{Engine, EngineConfig, Now};
use statestored::front::{Closing, ConnectionId, Front, FrontConfig, FrontLimits};
use statestored::storage::Write;
use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr};

/// Where all clients connect from.
pub(crate) const PEER: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// The server's end of a connection.
#[derive(Debug, Default)]
pub(crate) struct ServerEnd {
    connection: Option<ConnectionId>,
    /// CONNECT, until it is complete.
    greeting: BytesMut,
    is_greeted: bool,
    has_answered: bool,
    input: BytesMut,
    /// What the front took of the input, up to the last whole packet.
    taken: BytesMut,
    /// The Message Expiry, in milliseconds, of each PUBLISH that arrived and was not offered to the front.
    lifetimes: VecDeque<u64>,
    /// When each PUBLISH expires that was offered to the front and not taken.
    expiries: VecDeque<u64>,
    /// What the requests are about, by their correlation data.
    asked: HashMap<Box<[u8]>, Asked>,
    output: BytesMut,
    /// Everything was sent, and the client was told that nothing more comes.
    is_lingering: bool,
    pub(crate) wire: wire::End,
}

/// A request about one key, which the front has taken.
#[derive(Debug, Clone)]
struct Asked {
    key: Bytes,
    /// How many changes had been told of before. Not known of a request that had been taken before, and whose answer may
    /// be an old one.
    changes: Option<usize>,
}

impl ServerEnd {
    pub(crate) fn is_connected(&self) -> bool {
        self.connection.is_some()
    }
    fn note_key(&mut self, request: &Publish, key: Bytes, changes: Option<usize>) {
        if let Some(correlation) = request.correlation_data() {
            self.asked
                .insert(correlation.into(), Asked { key, changes });
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Server {
    pub(crate) front: Option<Front>,
    /// Counts the crashes.
    run: u64,
    disk: Disk,
    /// What the front was last told of the disk.
    is_full: bool,
    witness: Option<Witness>,
    links: HashMap<ConnectionId, usize>,
    wakes_at_ms: Option<u64>,
    /// By how much its wall clock is wrong.
    pub(crate) wall_error_ms: i64,
}

impl Server {
    /// Tells the front whether too much waits for the disk; says whether there is room again.
    fn tell_of_room(&mut self, max_waiting: usize, now: Now) -> bool {
        let is_full = self.disk.waiting.len() >= max_waiting;
        let was_full = std::mem::replace(&mut self.is_full, is_full);
        if was_full != is_full
            && let Some(front) = &mut self.front
        {
            front.set_storage_full(is_full, now);
        }
        was_full && !is_full
    }
}

impl World {
    fn server_now(&self) -> Now {
        let mono_ms = self.now_ms();
        Now {
            wall_ms: self.wall_ms(self.server.wall_error_ms),
            mono_ms,
        }
    }

    /// The process starts, with what the disk holds.
    pub(crate) fn start_server(&mut self) {
        if self.server.front.is_some() {
            return;
        }
        let now = self.server_now();
        let mut engine = Engine::new(EngineConfig {
            hash_key: [3, 5],
            max_page_keys: 3,
            ..EngineConfig::default()
        });
        self.truth.present.clear();
        for record in self.server.disk.records.values() {
            engine.restore(&record.view(), now);
            let due_ms = record.expiry.map(|expiry| {
                let left_ms = expiry.at_wall_ms.saturating_sub(now.wall_ms);
                now.mono_ms + left_ms.min(expiry.ttl_ms)
            });
            self.truth.restore(record, due_ms);
        }
        if let Some((wall_ms, counter)) = self.server.disk.clock {
            engine.restore_clock(wall_ms, counter);
        }
        let config = FrontConfig {
            limits: self.front_limits(),
            is_durable: self.scenario.is_durable,
            client_id_seed: self.server.run,
            ..FrontConfig::default()
        };
        self.note(|| {
            format!(
                "server: starts with {} keys, {:?}",
                engine.len(),
                config.limits
            )
        });
        self.server.run += 1;
        self.server.disk.durable = 0;
        let mut front = Front::new(config, engine);
        if !self.scenario.is_durable {
            let keys = self.scenario.keys.iter();
            self.server.witness = Some(Witness::new(&mut front, keys, now));
        }
        self.server.front = Some(front);
        self.settle();
    }

    fn front_limits(&mut self) -> FrontLimits {
        let chance = &mut self.chance;
        let mut limits = FrontLimits {
            connect_timeout_ms: 2_000,
            linger_ms: 300,
            ..FrontLimits::default()
        };
        if chance.percent(50) {
            limits.receive_maximum = u16::try_from(chance.spread(1, 50)).unwrap_or(1);
        }
        if chance.percent(30) {
            limits.max_output_bytes = usize::try_from(chance.spread(300, 20_000)).unwrap_or(300);
        }
        if chance.percent(20) {
            limits.topic_alias_maximum = 0;
        }
        if self.scenario.is_durable && !self.is_healed && chance.percent(40) {
            limits.max_queued_messages = usize::try_from(chance.spread(1, 50)).unwrap_or(1);
        }
        if !self.is_healed && chance.percent(20) {
            limits.max_session_expiry_s = u32::try_from(chance.below(5)).unwrap_or(0);
        }
        limits
    }

    /// The process is gone, and with it all that was not durable.
    pub(crate) fn crash_server(&mut self) {
        if self.server.front.take().is_none() {
            return;
        }
        let now_ms = self.now_ms();
        // The commit on its way may have made it, or not.
        let committing = std::mem::take(&mut self.server.disk.committing);
        if !committing.is_empty() && self.chance.percent(50) {
            self.server.disk.apply(committing);
        }
        self.server.disk.waiting.clear();
        self.server.is_full = false;
        self.server.wakes_at_ms = None;
        self.server.witness = None;
        if self.scenario.is_durable {
            let durable = self.server.disk.durable;
            self.truth.lose_tail(self.server.run, durable);
        } else {
            let stamp = self.stamp();
            self.truth.lose_everything(now_ms, stamp);
        }
        self.note(|| "server: crashes".to_owned());
        let is_noticed = self.chance.percent(70);
        let mut links: Vec<_> = self.server.links.drain().map(|(_, link)| link).collect();
        links.sort_unstable();
        for link in links {
            self.links[link].far.connection = None;
            if is_noticed {
                self.server_hangs_up(link, Ending::Reset);
            }
        }
    }

    /// A connection attempt; whether it is accepted.
    pub(crate) fn server_accepts(&mut self, link: usize) -> bool {
        let now = self.server_now();
        let Some(front) = &mut self.server.front else {
            return false;
        };
        let Some(connection) = front.opened(PEER, now) else {
            return false;
        };
        self.server.links.insert(connection, link);
        self.links[link].far.connection = Some(connection);
        self.settle();
        true
    }

    /// Bytes arrive on a connection.
    pub(crate) fn server_receives(&mut self, link: usize, bytes: Bytes) {
        let far = &mut self.links[link].far;
        if far.connection.is_none() || far.is_lingering {
            return;
        }
        let bytes = if far.is_greeted {
            bytes
        } else {
            far.greeting.extend_from_slice(&bytes);
            match first_packet(&mut far.greeting) {
                Some(Packet::Connect(mut connect)) => {
                    far.is_greeted = true;
                    let rest = far.greeting.split();
                    lower(&mut connect.limits, self.links[link].lowered.of_client);
                    let mut bytes = BytesMut::new();
                    if let Err(error) = connect.encode(Limits::MAX_PACKET_BYTES, &mut bytes) {
                        return self.violated(format!("CONNECT cannot be encoded again: {error}"));
                    }
                    bytes.unsplit(rest);
                    bytes.freeze()
                }
                Some(other) => {
                    return self.violated(format!("the first packet is {}", wire::summary(&other)));
                }
                None => return,
            }
        };
        let far = &mut self.links[link].far;
        far.input.extend_from_slice(&bytes);
        let result = far.wire.receives(&bytes);
        for packet in result.iter().flatten() {
            if let Packet::Publish(publish) = packet {
                let lifetime_s = publish.message_expiry().unwrap_or(u32::MAX);
                far.lifetimes.push_back(u64::from(lifetime_s) * 1_000);
            }
        }
        self.inspect(link, "to the server", "=>", result);
        self.take_input(link);
        self.settle();
    }

    /// Takes note of a request that the front has taken.
    fn note_request(&mut self, link: usize, packet: &Packet) {
        let Packet::Publish(publish) = packet else {
            return;
        };
        let (now_ms, stamp) = (self.now_ms(), self.stamp());
        // A client that takes its session for lost sends without DUP what it had sent before.
        let was_taken = publish.dup()
            || publish.correlation_data().is_some_and(|correlation| {
                let asked = |other: &Link| other.far.asked.contains_key(correlation);
                self.links.iter().any(asked)
            });
        let changes = (!was_taken).then_some(self.truth.changes.len());
        let far = &mut self.links[link].far;
        let expires_ms = far.expiries.pop_front().unwrap_or(u64::MAX);
        let mut operation = None;
        match Command::decode(&publish.payload()) {
            Ok(Command::Watch { key }) => self.watches.push((now_ms, link, key)),
            Ok(Command::Set { key, value, .. }) => {
                operation = operation_of(&value);
                far.note_key(publish, key, changes);
            }
            Ok(Command::Get { key } | Command::Del { key } | Command::Vdel { key, .. }) => {
                far.note_key(publish, key, changes);
            }
            _ => {}
        }
        let mut properties = publish.user_properties();
        let token = properties.find(|(name, _)| *name == FENCING_TOKEN);
        let operation = operation.or_else(|| operation_of_token(token?.1));
        // It must not be executed if it is expired.
        if let Some(operation) = operation.and_then(|number| self.operations.get_mut(number))
            && now_ms <= expires_ms
        {
            operation.taken.push(stamp);
        }
    }

    /// What is told of a key has to wait until the disk has the last change of that key, a deletion as well.
    fn check_durable(&mut self, link: usize, packets: &[Packet]) {
        if !self.scenario.is_durable {
            return;
        }
        for packet in packets {
            let Packet::Publish(publish) = packet else {
                continue;
            };
            let asked = publish.correlation_data().map(|correlation| {
                let asked = &self.links[link].far.asked;
                asked.get(correlation).cloned()
            });
            let Server { run, disk, .. } = &self.server;
            if let Some(Some(Asked { key, changes })) = &asked
                && let Some(changes) = changes.filter(|_| !publish.dup())
                && is_absence(publish.payload_bytes())
                && !self.truth.is_absent(key, changes, *run, disk.durable)
            {
                self.violated(format!(
                    "link {link}: {key:?} was said to be absent before that was durable"
                ));
                continue;
            }
            let key = if let Some(asked) = asked {
                asked.map(|asked| asked.key)
            } else {
                let client = format!("c{}", self.links[link].client);
                topic::notification_key(&client, publish.topic())
            };
            let (Some(key), Some(version)) = (key, wire::timestamp(publish)) else {
                continue;
            };
            if self.truth.is_under_way(&key, version, *run, disk.durable) {
                self.violated(format!(
                    "link {link}: {key:?} {version:?} was told of before it was durable"
                ));
            }
        }
    }

    /// Offers input to the front, if it takes any.
    fn take_input(&mut self, link: usize) {
        let now = self.server_now();
        let far = &mut self.links[link].far;
        let (Some(front), Some(connection)) = (&mut self.server.front, far.connection) else {
            return;
        };
        if far.input.is_empty() || !front.accepts_input(connection) {
            return;
        }
        let offered = far.input.clone();
        // Before, it knows of them as little as of what is still on its way.
        let lifetimes = far.lifetimes.drain(..);
        far.expiries
            .extend(lifetimes.map(|lifetime_ms| now.mono_ms + lifetime_ms));
        while front.received(connection, &mut far.input, now) {}
        let len = offered.len() - far.input.len();
        far.taken.extend_from_slice(&offered[..len]);
        while let Some(packet) = first_packet(&mut self.links[link].far.taken) {
            self.note_request(link, &packet);
        }
        self.note_changes();
    }

    /// The end of a connection reaches the server.
    pub(crate) fn end_at_server(&mut self, link: usize) {
        let now = self.server_now();
        let Some(connection) = self.links[link].far.connection.take() else {
            return;
        };
        self.note(|| format!("server: link {link} is over"));
        self.server.links.remove(&connection);
        if let Some(front) = &mut self.server.front {
            front.closed(connection, now);
        }
        self.settle();
    }

    /// The server's timer.
    pub(crate) fn tick_server(&mut self) {
        let now = self.server_now();
        if self
            .server
            .wakes_at_ms
            .is_some_and(|at_ms| at_ms <= now.mono_ms)
        {
            self.server.wakes_at_ms = None;
        }
        if let Some(front) = &mut self.server.front
            && front
                .next_wakeup()
                .is_some_and(|at_ms| at_ms <= now.mono_ms)
        {
            front.tick(now);
        }
        self.settle();
    }

    /// The disk finished a commit.
    pub(crate) fn committed(&mut self, run: u64) {
        let disk = &mut self.server.disk;
        if run != self.server.run || disk.committing.is_empty() {
            return;
        }
        let batches = std::mem::take(&mut disk.committing);
        disk.apply(batches);
        let durable = disk.durable;
        if let Some(front) = &mut self.server.front {
            front.durable(durable);
        }
        // Who waited for room reads on.
        let mut links: Vec<_> = self.server.links.values().copied().collect();
        links.sort_unstable();
        for link in links {
            self.serve(link);
        }
        self.settle();
    }

    /// Serves whatever the front has something for, until it has nothing more.
    pub(crate) fn settle(&mut self) {
        loop {
            self.note_changes();
            while let Some(connection) = self.server.front.as_mut().and_then(Front::next_dirty) {
                if let Some(link) = self.server.links.get(&connection).copied() {
                    self.serve(link);
                }
                self.note_changes();
            }
            self.commit();
            let now = self.server_now();
            let max_waiting = self.scenario.max_waiting_batches;
            if !self.server.tell_of_room(max_waiting, now) {
                break;
            }
        }
        let wakeup_ms = self.server.front.as_ref().and_then(Front::next_wakeup);
        if let Some(at_ms) = wakeup_ms
            && self.server.wakes_at_ms.is_none_or(|set_ms| at_ms < set_ms)
        {
            self.server.wakes_at_ms = Some(at_ms);
            let at_ms = at_ms.max(self.now_ms());
            self.at(at_ms, Event::Tick);
        }
    }

    /// Moves bytes of one connection for as long as something moves.
    pub(crate) fn serve(&mut self, link: usize) {
        loop {
            self.send_output(link);
            let far = &self.links[link].far;
            let (Some(front), Some(connection)) = (&self.server.front, far.connection) else {
                return;
            };
            match front.closing(connection) {
                Closing::No => {}
                Closing::AfterOutput if !far.output.is_empty() => return,
                Closing::AfterOutput => {
                    if !far.is_lingering {
                        self.links[link].far.is_lingering = true;
                        self.server_hangs_up(link, Ending::Closed);
                    }
                    return;
                }
                Closing::Now => {
                    self.server_hangs_up(link, Ending::Closed);
                    return self.end_at_server(link);
                }
            }
            let before = far.input.len();
            self.take_input(link);
            if self.links[link].far.input.len() == before {
                return;
            }
        }
    }

    /// Sends as much output as the connection takes.
    fn send_output(&mut self, link: usize) {
        let now = self.server_now();
        loop {
            let Link {
                far, down, lowered, ..
            } = &mut self.links[link];
            let (Some(front), Some(connection)) = (&mut self.server.front, far.connection) else {
                return;
            };
            if far.output.is_empty() {
                front.take_output(connection, &mut far.output, now);
                if far.output.is_empty() {
                    return;
                }
                if !far.has_answered {
                    far.has_answered = true;
                    let rest = far.output.split();
                    far.output = with_lowered_connack(rest, lowered.of_server);
                }
                let output = far.output.clone();
                let result = far.wire.sends(&output);
                if let Ok(packets) = &result {
                    self.check_durable(link, packets);
                }
                self.inspect(link, "from the server", "<=", result);
                continue;
            }
            let len = far.output.len().min(down.room());
            if len == 0 {
                return;
            }
            let bytes = far.output.copy_to_bytes(len);
            self.send(link, Way::Down, bytes);
        }
    }

    /// Takes note of what the front has changed since the last time.
    fn note_changes(&mut self) {
        let now = self.server_now();
        let stamp = self.stamp();
        self.truth.proceed(stamp);
        let Some(front) = &mut self.server.front else {
            return;
        };
        if let Some(witness) = &mut self.server.witness {
            match witness.take(front, now) {
                Ok(seen) => {
                    for change in seen {
                        self.changed_in_store(now.mono_ms, change);
                    }
                }
                Err(error) => self.violated(format!("the witness: {error}")),
            }
            return;
        }
        while let Some((sequence, batch)) = self.server.front.as_mut().and_then(Front::take_batch) {
            let place = Some((self.server.run, sequence));
            for write in &batch.writes {
                match write {
                    Write::Put(record) => {
                        let due_ms = record.expiry.map(|expiry| now.mono_ms + expiry.ttl_ms);
                        let (key, value) = (record.key.clone(), record.value.clone());
                        let version = record.version;
                        self.note(|| {
                            format!("store: {key:?} = {value:?} {version:?}, batch {sequence}")
                        });
                        self.truth
                            .put(now.mono_ms, key, value, version, due_ms, place);
                    }
                    Write::Delete(key) => {
                        self.note(|| format!("store: {key:?} deleted, batch {sequence}"));
                        let result = self.truth.delete(now.mono_ms, key.clone(), None, place);
                        self.expect(result);
                    }
                }
            }
            self.server.disk.waiting.push_back((sequence, batch));
        }
    }

    fn changed_in_store(&mut self, now_ms: u64, change: Seen) {
        let Seen {
            key,
            value,
            version,
        } = change;
        self.note(|| format!("store: {key:?} = {value:?} {version:?}"));
        if let Some(value) = value {
            let due_ms = px_of(&value).map(|px| now_ms + px);
            self.truth.put(now_ms, key, value, version, due_ms, None);
        } else {
            let result = self.truth.delete(now_ms, key, Some(version), None);
            self.expect(result);
        }
    }

    /// Begins a commit of all that waits, unless one is under way.
    fn commit(&mut self) {
        let disk = &mut self.server.disk;
        if !disk.committing.is_empty() || disk.waiting.is_empty() {
            return;
        }
        disk.committing = disk.waiting.drain(..).collect();
        let max_ms = if self.is_healed {
            10
        } else {
            self.scenario.commit_ms
        };
        let at_ms = self.now_ms() + self.chance.spread(1, max_ms);
        self.at(at_ms, Event::Committed(self.server.run));
    }
}

/// Whether a response says that there is no such key.
fn is_absence(payload: &[u8]) -> bool {
    payload == b"$-1\r\n" || payload == b":0\r\n"
}

/// What the server sends first, with a CONNACK that allows less.
fn with_lowered_connack(mut stream: BytesMut, to: Limits) -> BytesMut {
    let whole = stream.clone();
    let Some(Packet::ConnAck(mut connack)) = first_packet(&mut stream) else {
        return whole;
    };
    lower(&mut connack.limits, to);
    let mut bytes = BytesMut::new();
    if connack
        .encode(Limits::MAX_PACKET_BYTES, &mut bytes)
        .is_err()
    {
        return whole;
    }
    bytes.unsplit(stream);
    bytes
}
