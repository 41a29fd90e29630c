//! A server of the group: its hub over the engine, and its connection to the broker.
use super::super::engine::{BASE_MS, Engine};
use super::super::node::config;
use super::super::simulated_link::{LinkFaults, SharedLink, SimulatedLink};
use crate::seeded_rng::SeededRng;
use bytes::{Bytes, BytesMut};
use statestored_broker::hub::{BrokerConfig, Hub, HubConfig};
use statestored_shared::SharedKeyspace;
use statestored_store::service::{ClockReading, Service, ServiceConfig};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

/// The name of the group.
const SHARE_NAME: &str = "group";

/// Time for which a tombstone is kept.
const TOMBSTONE_MS: u64 = 2_500;

/// The connection of a server to the broker.
#[derive(Debug, Default)]
pub(super) struct BrokerConnection {
    /// Number of the connection among those of all servers.
    pub(super) number: u64,
    /// Whether all further bytes are lost, in both directions.
    pub(super) is_silent: bool,
    /// Arrival time of the last bytes that the server has sent.
    pub(super) up_ms: u64,
    /// Bytes on their way to the server, with their arrival times.
    pub(super) down: VecDeque<(u64, Bytes)>,
    /// Arrival time of the last of these bytes, whether they were taken or not.
    pub(super) down_ms: u64,
    /// Bytes that arrived and were not taken.
    input: BytesMut,
    /// Time at which the server is notified of the end.
    pub(super) ends_ms: Option<u64>,
}

impl BrokerConnection {
    fn arrive(&mut self, now_ms: u64) {
        while let Some((at_ms, piece)) = self.down.front()
            && *at_ms <= now_ms
        {
            self.input.extend_from_slice(piece);
            self.down.pop_front();
        }
    }
}

/// The result of a turn.
#[derive(Debug, Default)]
pub(super) struct TurnOutput {
    /// Bytes that the server sends to the broker.
    pub(super) output: BytesMut,
    /// Whether the connection has ended.
    pub(super) is_closed: bool,
}

#[derive(Debug)]
pub(super) struct Member {
    client_id: String,
    /// The hub, while the process runs.
    pub(super) hub: Option<Hub>,
    link: SharedLink,
    /// The links of former processes; messages on them still arrive.
    former_links: Vec<SharedLink>,
    link_faults: LinkFaults,
    start_ms: u64,
    ahead_ms: u64,
    pub(super) paused_until_ms: u64,
    pub(super) connection: Option<BrokerConnection>,
    /// Time at which the server connects to the broker.
    pub(super) dials_ms: u64,
    /// Time at which the next process starts.
    pub(super) restarts_ms: Option<u64>,
    /// Time of the last fault of this server.
    pub(super) undisturbed_ms: u64,
}

impl Member {
    pub(super) fn new(
        index: usize,
        engine: &Arc<Mutex<Engine>>,
        chance: &mut SeededRng,
        weather: LinkFaults,
    ) -> Self {
        let way = SharedLink(Arc::new(Mutex::new(SimulatedLink::new(
            Arc::clone(engine),
            chance.fork(),
            weather,
        ))));
        let mut member = Self {
            client_id: format!("store-{index}"),
            hub: None,
            link: way,
            former_links: Vec::new(),
            link_faults: weather,
            start_ms: 0,
            ahead_ms: chance.below(3_000),
            paused_until_ms: 0,
            connection: None,
            dials_ms: 1 + chance.below(100),
            restarts_ms: None,
            undisturbed_ms: 0,
        };
        member.hub = Some(member.process(chance));
        member
    }

    fn process(&self, chance: &mut SeededRng) -> Hub {
        let process = u128::from(chance.u64());
        let remote = SharedKeyspace::new(
            config(process, chance, TOMBSTONE_MS, u64::MAX),
            self.link.clone(),
        );
        let service = ServiceConfig {
            hash_key: [3, 5],
            ..ServiceConfig::default()
        };
        let config = HubConfig {
            broker: Some(BrokerConfig {
                client_id: self.client_id.clone(),
                share_name: Some(SHARE_NAME.into()),
                ..BrokerConfig::default()
            }),
            ..HubConfig::default()
        };
        Hub::new(config, Service::new(service, remote))
    }

    fn links(&self) -> impl Iterator<Item = &SharedLink> {
        self.former_links.iter().chain([&self.link])
    }

    pub(super) fn now(&self, now_ms: u64) -> ClockReading {
        ClockReading {
            wall_ms: BASE_MS + now_ms + self.ahead_ms,
            mono_ms: now_ms - self.start_ms,
        }
    }

    /// Cuts or restores the link to the engine.
    pub(super) fn set_cut_off(&mut self, is_cut: bool) {
        self.link.lock().is_cut = is_cut;
    }

    pub(super) fn is_cut_off(&self) -> bool {
        self.link.lock().is_cut
    }

    /// Kills the process; the next one starts at this time.
    pub(super) fn kill(&mut self, begins_ms: u64) {
        self.hub = None;
        self.link.lock().abandon();
        self.restarts_ms = Some(begins_ms);
        self.paused_until_ms = 0;
    }

    /// Starts a process, if it is due.
    pub(super) fn begin(
        &mut self,
        engine: &Arc<Mutex<Engine>>,
        chance: &mut SeededRng,
        now_ms: u64,
    ) -> bool {
        if self.hub.is_some() || self.restarts_ms.is_none_or(|at_ms| at_ms > now_ms) {
            return false;
        }
        self.restarts_ms = None;
        let way = SimulatedLink::new(Arc::clone(engine), chance.fork(), self.link_faults);
        let way = SharedLink(Arc::new(Mutex::new(way)));
        self.former_links
            .push(std::mem::replace(&mut self.link, way));
        self.start_ms = now_ms;
        self.dials_ms = now_ms + chance.between(1, 500);
        self.hub = Some(self.process(chance));
        true
    }

    /// Ends the faults of this server.
    pub(super) fn end_faults(&mut self) {
        self.paused_until_ms = 0;
        self.link_faults = LinkFaults::NONE;
        for way in self.links() {
            let mut way = way.lock();
            way.is_cut = false;
            way.faults = self.link_faults;
        }
    }

    /// Returns the time of the next event of this server.
    pub(super) fn next_ms(&self, now_ms: u64) -> Option<u64> {
        let ways = self.links().filter_map(|way| way.lock().next_ms());
        let own = self.timer_ms(now_ms);
        let own = own.map(|at_ms| at_ms.max(self.paused_until_ms));
        ways.chain(own).chain(self.restarts_ms).min()
    }

    fn timer_ms(&self, now_ms: u64) -> Option<u64> {
        let hub = self.hub.as_ref()?;
        let own = |at_ms: u64| at_ms + self.start_ms;
        let trunk = self.connection.as_ref();
        let attached = trunk.map_or([Some(self.dials_ms), None, None], |trunk| {
            [
                hub.broker_wakeup().map(own),
                trunk.down.front().map(|(at_ms, _)| *at_ms),
                trunk.ends_ms,
            ]
        });
        let news = self.link.lock().has_events().then_some(now_ms);
        let others = [hub.next_wakeup().map(own), news];
        attached.into_iter().chain(others).flatten().min()
    }

    /// Delivers messages on the links to the engine, also while the process is paused.
    pub(super) fn proceed(&self, now_ms: u64) {
        for way in self.links() {
            way.lock().proceed(now_ms);
        }
    }

    /// Whether the process runs now.
    pub(super) fn runs(&self, now_ms: u64) -> bool {
        self.hub.is_some() && self.paused_until_ms <= now_ms
    }

    /// Connects to the broker.
    pub(super) fn connected(&mut self, number: u64, now_ms: u64) -> Result<(), String> {
        self.connection = Some(BrokerConnection {
            number,
            ..BrokerConnection::default()
        });
        let now = self.now(now_ms);
        let hub = self.hub.as_mut().expect("it runs");
        let connected = hub.broker_connected(None, None, None, now);
        connected.map_err(|error| format!("a server cannot connect: {error}"))
    }

    /// Lets the process do its work.
    pub(super) fn run(&mut self, now_ms: u64) -> TurnOutput {
        let now = self.now(now_ms);
        let mut turned = TurnOutput::default();
        let Some(hub) = &mut self.hub else {
            return turned;
        };
        let is_due = hub.next_wakeup().is_some_and(|at_ms| at_ms <= now.mono_ms);
        if is_due || self.link.lock().has_events() {
            hub.tick(now);
        }
        if let Some(trunk) = &mut self.connection {
            trunk.arrive(now_ms);
            loop {
                let result = hub
                    .broker_received(&mut trunk.input, now)
                    .and_then(|more| Ok(hub.poll_broker(now)? || more));
                let output = hub.broker_output(now);
                hub.broker_written(output.len(), false, now);
                turned.output.extend_from_slice(&output);
                match result {
                    Ok(true) => {}
                    Ok(false) if hub.take_broker_dirty() => {}
                    Ok(false) => break,
                    Err(error) => {
                        let last = hub.broker_disconnected(error.reason(), now);
                        turned.output.extend_from_slice(&last);
                        turned.is_closed = true;
                        break;
                    }
                }
            }
            if !turned.is_closed && trunk.ends_ms.is_some_and(|at_ms| at_ms <= now_ms) {
                hub.broker_disconnected(None, now);
                turned.is_closed = true;
            }
        }
        // No more input arrives at this moment.
        hub.flush_gathered();
        turned
    }
}
