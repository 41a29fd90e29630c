//! The server's machine: the hub with its connections, its disk, and the effects of a crash on both.
mod connection;
mod durable;
mod kept;
mod power;
mod record;
mod transactions;

pub(crate) use connection::{Asked, ServerEnd};

use crate::disk::{Drive, End};
use crate::mishaps::{Mishap, Mishaps};
use crate::network::Ending;
use crate::transactor::Transactor;
use crate::witness::Witness;
use crate::world::{Event, World};
use durable::Durable;
use statestored::hub::{BrokerTerms, ConnectionId, Hub, HubConfig, HubLimits};
use statestored::keyspace::Embedded;
use statestored::service::{Now, Service, ServiceConfig};
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};

/// Address from which all clients connect.
pub(crate) const PEER: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) hub: Option<Hub>,
    /// Number of starts.
    run: u64,
    durable: Durable,
    /// Number of the last batch that was reported as durable to the hub.
    told: u64,
    /// Whether the hub was notified that too many bytes wait for the disk.
    is_full: bool,
    /// Spans in which the server refused writes because its disk was full.
    pub(crate) read_only: Vec<(u64, u64)>,
    witness: Option<Witness>,
    /// Present only with a disk.
    transactor: Option<Transactor>,
    links: HashMap<ConnectionId, usize>,
    wakes_at_ms: Option<u64>,
    /// Error of the server's wall clock.
    pub(crate) wall_error_ms: i64,
}

impl Server {
    /// Returns the faults of the disk so far.
    pub(crate) fn disk_mishaps(&self) -> Mishaps {
        self.durable.drive.mishaps()
    }

    pub(crate) fn new(drive: Drive) -> Self {
        Self {
            hub: None,
            run: 0,
            durable: Durable::new(drive),
            told: 0,
            is_full: false,
            read_only: Vec::new(),
            witness: None,
            transactor: None,
            links: HashMap::new(),
            wakes_at_ms: None,
            wall_error_ms: 0,
        }
    }

    fn is_read_only(&self) -> bool {
        let last = self.read_only.last();
        last.is_some_and(|(_, to_ms)| *to_ms == u64::MAX)
    }

    fn end_read_only(&mut self, now_ms: u64) {
        if let Some((_, to_ms)) = self.read_only.last_mut() {
            *to_ms = now_ms.min(*to_ms);
        }
    }

    /// Reports to the hub whether too many bytes wait for the disk. Returns whether there is room again.
    fn tell_of_room(&mut self, max_waiting: usize, now: Now) -> bool {
        let is_full = self.durable.waiting_bytes() >= max_waiting;
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
    pub(crate) fn server_now(&self) -> Now {
        let mono_ms = self.now_ms();
        Now {
            wall_ms: self.wall_ms(self.server.wall_error_ms),
            mono_ms,
        }
    }

    /// Starts the process with the content of the disk.
    pub(crate) fn start_server(&mut self) {
        if self.server.hub.is_some() || self.server.durable.is_starting() {
            return;
        }
        let keyspace = Embedded::new(&self.service_config().keyspace());
        if self.scenario.is_durable {
            return self.open_storage(keyspace);
        }
        self.truth.present.clear();
        let now = self.server_now();
        self.open_hub(keyspace, now);
        self.settle();
    }

    fn service_config(&self) -> ServiceConfig {
        ServiceConfig {
            hash_key: [3, 5],
            max_page_keys: 3,
            is_durable: self.scenario.is_durable,
            ..ServiceConfig::default()
        }
    }

    /// Starts to serve.
    fn open_hub(&mut self, keyspace: Embedded, now: Now) {
        let is_behind = self.broker.is_some();
        let config = HubConfig {
            limits: if is_behind {
                HubLimits::default()
            } else {
                self.hub_limits()
            },
            broker: is_behind.then(|| BrokerTerms {
                client_id: "store".into(),
                ..BrokerTerms::default()
            }),
            client_id_seed: Some(self.server.run),
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
        self.server.told = 0;
        let mut hub = Hub::new(config, Service::new(self.service_config(), keyspace));
        if self.scenario.is_durable {
            self.start_transactions(&mut hub);
        } else {
            let keys = self.scenario.keys.iter();
            self.server.witness = Some(Witness::new(&mut hub, keys, now));
        }
        self.server.hub = Some(hub);
        self.attach();
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
            self.mishaps.count(Mishap::ShortSession);
        }
        limits
    }

    /// Ends the process, and drops all changes that were not durable.
    fn crash_server(&mut self, how: End, cut_us: u64) {
        if self.server.hub.take().is_none() && !self.server.durable.is_starting() {
            return;
        }
        let now_ms = self.now_ms();
        self.crashes += 1;
        self.mishaps.count(match how {
            _ if !self.scenario.is_durable => Mishap::LostAll,
            End::Process => Mishap::Killed,
            End::Power => Mishap::PowerFailed,
        });
        self.server.is_full = false;
        self.server.wakes_at_ms = None;
        self.server.witness = None;
        self.server.transactor = None;
        if self.scenario.is_durable {
            // The losses are known when the server starts again.
            self.end_storage(how, cut_us);
        } else {
            let stamp = self.stamp();
            self.truth.lose_everything(now_ms, stamp);
        }
        self.note(|| format!("server: is gone, {how:?} at {cut_us} us"));
        self.end_trunk();
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

    /// Handles the server's timer.
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

    /// Resumes connections that waited for room.
    fn serve_all(&mut self) {
        let mut links: Vec<_> = self.server.links.values().copied().collect();
        links.sort_unstable();
        for link in links {
            self.serve(link);
        }
    }

    /// Serves all connections with pending output, until there is none.
    pub(crate) fn settle(&mut self) {
        loop {
            self.note_changes();
            while let Some(connection) = self.server.hub.as_mut().and_then(Hub::next_dirty) {
                if let Some(link) = self.server.links.get(&connection).copied() {
                    self.serve(link);
                }
                self.note_changes();
            }
            if self.server.hub.as_mut().is_some_and(Hub::take_broker_dirty) {
                self.turn_trunk();
            }
            self.commit();
            let now = self.server_now();
            let max_waiting = self.scenario.max_waiting_bytes;
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
}
