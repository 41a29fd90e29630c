//! The server's machine: the hub with its connections, its disk, and what becomes of both in a crash.
mod connection;
mod record;

pub(crate) use connection::ServerEnd;

use crate::disk::Disk;
use crate::network::Ending;
use crate::witness::Witness;
use crate::world::{Event, World};
use statestored::hub::{ConnectionId, Hub, HubConfig, HubLimits};
use statestored::keyspace::Embedded;
use statestored::service::{Now, Service, ServiceConfig};
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};

/// Where all clients connect from.
pub(crate) const PEER: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

#[derive(Debug, Default)]
pub(crate) struct Server {
    pub(crate) hub: Option<Hub>,
    /// Counts the crashes.
    run: u64,
    disk: Disk,
    /// What the hub was last told of the disk.
    is_full: bool,
    witness: Option<Witness>,
    links: HashMap<ConnectionId, usize>,
    wakes_at_ms: Option<u64>,
    /// By how much its wall clock is wrong.
    pub(crate) wall_error_ms: i64,
}

impl Server {
    /// Tells the hub whether too much waits for the disk; says whether there is room again.
    fn tell_of_room(&mut self, max_waiting: usize, now: Now) -> bool {
        let is_full = self.disk.waiting.len() >= max_waiting;
        let was_full = std::mem::replace(&mut self.is_full, is_full);
        if was_full != is_full
            && let Some(hub) = &mut self.hub
        {
            hub.set_storage_full(is_full, now);
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
        if self.server.hub.is_some() {
            return;
        }
        let now = self.server_now();
        let service = ServiceConfig {
            hash_key: [3, 5],
            max_page_keys: 3,
            is_durable: self.scenario.is_durable,
            ..ServiceConfig::default()
        };
        let mut keyspace = Embedded::new(&service.keyspace());
        self.truth.present.clear();
        for record in self.server.disk.records.values() {
            keyspace.restore(&record.view(), now);
            let due_ms = record.expiry.map(|expiry| {
                let left_ms = expiry.at_wall_ms.saturating_sub(now.wall_ms);
                now.mono_ms + left_ms.min(expiry.ttl_ms)
            });
            self.truth.restore(record, due_ms);
        }
        if let Some((wall_ms, counter)) = self.server.disk.clock {
            keyspace.restore_clock(wall_ms, counter);
        }
        let config = HubConfig {
            limits: self.hub_limits(),
            client_id_seed: self.server.run,
            ..HubConfig::default()
        };
        self.note(|| {
            format!(
                "server: starts with {} keys, {:?}",
                keyspace.len(),
                config.limits
            )
        });
        self.server.run += 1;
        self.server.disk.durable = 0;
        let mut hub = Hub::new(config, Service::new(service, keyspace));
        if !self.scenario.is_durable {
            let keys = self.scenario.keys.iter();
            self.server.witness = Some(Witness::new(&mut hub, keys, now));
        }
        self.server.hub = Some(hub);
        self.settle();
    }

    fn hub_limits(&mut self) -> HubLimits {
        let chance = &mut self.chance;
        let mut limits = HubLimits {
            connect_timeout_ms: 2_000,
            linger_ms: 300,
            ..HubLimits::default()
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
        if self.server.hub.take().is_none() {
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
        if let Some(hub) = &mut self.server.hub
            && hub.next_wakeup().is_some_and(|at_ms| at_ms <= now.mono_ms)
        {
            hub.tick(now);
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
        if let Some(hub) = &mut self.server.hub {
            hub.durable(durable);
        }
        // Who waited for room reads on.
        let mut links: Vec<_> = self.server.links.values().copied().collect();
        links.sort_unstable();
        for link in links {
            self.serve(link);
        }
        self.settle();
    }

    /// Serves whatever the hub has something for, until it has nothing more.
    pub(crate) fn settle(&mut self) {
        loop {
            self.note_changes();
            while let Some(connection) = self.server.hub.as_mut().and_then(Hub::next_dirty) {
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
        let wakeup_ms = self.server.hub.as_ref().and_then(Hub::next_wakeup);
        if let Some(at_ms) = wakeup_ms
            && self.server.wakes_at_ms.is_none_or(|set_ms| at_ms < set_ms)
        {
            self.server.wakes_at_ms = Some(at_ms);
            let at_ms = at_ms.max(self.now_ms());
            self.at(at_ms, Event::Tick);
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
