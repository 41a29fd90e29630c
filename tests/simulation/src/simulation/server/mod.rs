//! The server's machine: the hub with its connections, its disk, and the effects of a crash on both.
mod change_recorder;
mod connection;
mod crashes;
mod durable_state;
mod expected_records;
mod record;
mod transaction_client;
mod transactions;

use crate::disk::{DiskHandle, ProcessEnd};
use crate::faults::{FaultCounts, Mishap};
use crate::simulation::network::CloseKind;
use crate::simulation::{Event, Simulation};
use change_recorder::ChangeRecorder;
use durable_state::DurableState;
use statestored_broker::hub::{BrokerConfig, ConnectionId, Hub, HubConfig, HubLimits};
use statestored_store::keyspace::EmbeddedKeyspace;
use statestored_store::service::{ClockReading, Service, ServiceConfig};
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use transaction_client::TransactionClient;

/// Address from which all clients connect.
pub(crate) const CLIENT_ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) hub: Option<Hub>,
    /// Number of starts.
    run: u64,
    durable: DurableState,
    /// Number of the last batch that was reported as durable to the hub.
    reported_durable: u64,
    /// Whether the hub was notified that too many bytes wait for the disk.
    is_full: bool,
    /// Spans in which the server refused writes because its disk was full.
    pub(crate) read_only: Vec<(u64, u64)>,
    recorder: Option<ChangeRecorder>,
    /// Present only with a disk.
    transaction_client: Option<TransactionClient>,
    links: HashMap<ConnectionId, usize>,
    wakes_at_ms: Option<u64>,
    /// Error of the server's wall clock.
    pub(crate) clock_error_ms: i64,
}

impl Server {
    /// Returns the faults of the disk so far.
    pub(crate) fn disk_faults(&self) -> FaultCounts {
        self.durable.disk.fault_counts()
    }

    pub(crate) fn new(drive: DiskHandle) -> Self {
        Self {
            hub: None,
            run: 0,
            durable: DurableState::new(drive),
            reported_durable: 0,
            is_full: false,
            read_only: Vec::new(),
            recorder: None,
            transaction_client: None,
            links: HashMap::new(),
            wakes_at_ms: None,
            clock_error_ms: 0,
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
    fn report_capacity(&mut self, max_waiting: usize, now: ClockReading) -> bool {
        let is_full = self.durable.waiting_bytes() >= max_waiting;
        let was_full = std::mem::replace(&mut self.is_full, is_full);
        if was_full != is_full
            && let Some(hub) = &mut self.hub
        {
            hub.set_storage_backlogged(is_full, now);
        }
        was_full && !is_full
    }
}

impl Simulation {
    pub(crate) fn server_now(&self) -> ClockReading {
        let mono_ms = self.now_ms();
        ClockReading {
            wall_ms: self.wall_ms(self.server.clock_error_ms),
            mono_ms,
        }
    }

    /// Starts the process with the content of the disk.
    pub(crate) fn start_server(&mut self) {
        if self.server.hub.is_some() || self.server.durable.is_starting() {
            return;
        }
        let keyspace = EmbeddedKeyspace::new(&self.service_config().keyspace());
        if self.scenario.is_durable {
            return self.open_storage(keyspace);
        }
        self.ground_truth.present.clear();
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
    fn open_hub(&mut self, keyspace: EmbeddedKeyspace, now: ClockReading) {
        let is_behind = self.broker.is_some();
        let config = HubConfig {
            limits: if is_behind {
                HubLimits::default()
            } else {
                self.hub_limits()
            },
            broker: is_behind.then(|| BrokerConfig {
                client_id: "store".into(),
                ..BrokerConfig::default()
            }),
            client_id_seed: Some(self.server.run),
            ..HubConfig::default()
        };
        self.trace_event(|| {
            format!(
                "server: starts with {} keys, {:?}",
                keyspace.len(),
                config.limits
            )
        });
        self.server.run += 1;
        self.server.reported_durable = 0;
        let mut hub = Hub::new(config, Service::new(self.service_config(), keyspace));
        if self.scenario.is_durable {
            self.start_transactions(&mut hub);
        } else {
            let keys = self.scenario.keys.iter();
            self.server.recorder = Some(ChangeRecorder::new(&mut hub, keys, now));
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
            limits.receive_maximum = u16::try_from(chance.log_uniform(1, 50)).unwrap_or(1);
        }
        if chance.percent(30) {
            limits.max_output_bytes =
                usize::try_from(chance.log_uniform(300, 20_000)).unwrap_or(300);
        }
        if chance.percent(20) {
            limits.topic_alias_maximum = 0;
        }
        if self.scenario.is_durable && !self.is_healed && chance.percent(40) {
            limits.max_queued_messages = usize::try_from(chance.log_uniform(1, 50)).unwrap_or(1);
        }
        if !self.is_healed && chance.percent(20) {
            limits.max_session_expiry_s = u32::try_from(chance.below(5)).unwrap_or(0);
            self.fault_counts.count(Mishap::ShortSession);
        }
        limits
    }

    /// Ends the process, and drops all changes that were not durable.
    fn crash_server(&mut self, how: ProcessEnd, cut_us: u64) {
        if self.server.hub.take().is_none() && !self.server.durable.is_starting() {
            return;
        }
        let now_ms = self.now_ms();
        self.crashes += 1;
        self.fault_counts.count(match how {
            _ if !self.scenario.is_durable => Mishap::LostAll,
            ProcessEnd::Killed => Mishap::Killed,
            ProcessEnd::PowerFailure => Mishap::PowerFailed,
        });
        self.server.is_full = false;
        self.server.wakes_at_ms = None;
        self.server.recorder = None;
        self.server.transaction_client = None;
        if self.scenario.is_durable {
            // The losses are known when the server starts again.
            self.end_storage(how, cut_us);
        } else {
            let stamp = self.stamp();
            self.ground_truth.lose_everything(now_ms, stamp);
        }
        self.trace_event(|| format!("server: is gone, {how:?} at {cut_us} us"));
        self.drop_broker_connection();
        let is_noticed = self.chance.percent(70);
        let mut links: Vec<_> = self.server.links.drain().map(|(_, link)| link).collect();
        links.sort_unstable();
        for link in links {
            self.links[link].server_end.connection = None;
            if is_noticed {
                self.server_closes(link, CloseKind::Reset);
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
    fn serve_waiting(&mut self) {
        let mut links: Vec<_> = self.server.links.values().copied().collect();
        links.sort_unstable();
        for link in links {
            self.serve(link);
        }
    }

    /// Serves all connections with pending output, until there is none.
    pub(crate) fn settle(&mut self) {
        loop {
            self.record_changes();
            while let Some(connection) = self.server.hub.as_mut().and_then(Hub::next_dirty) {
                if let Some(link) = self.server.links.get(&connection).copied() {
                    self.serve(link);
                }
                self.record_changes();
            }
            if self.server.hub.as_mut().is_some_and(Hub::take_broker_dirty) {
                self.run_server_connection();
            }
            self.commit();
            let now = self.server_now();
            let max_waiting = self.scenario.max_waiting_bytes;
            if !self.server.report_capacity(max_waiting, now) {
                break;
            }
        }
        let wakeup_ms = self.server.hub.as_ref().and_then(Hub::next_wakeup);
        if let Some(at_ms) = wakeup_ms
            && self.server.wakes_at_ms.is_none_or(|set_ms| at_ms < set_ms)
        {
            self.server.wakes_at_ms = Some(at_ms);
            let at_ms = at_ms.max(self.now_ms());
            self.schedule(at_ms, Event::Tick);
        }
    }
}
