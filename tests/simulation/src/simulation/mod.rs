//! The world of a run, and its next events.
mod broker_connection;
mod broker_process;
mod checks;
mod client_platform;
mod network;
mod observers;
mod pattern_observers;
mod server;
mod server_end;
mod socket;
mod trunk_pipe;
mod workload;

use crate::ServerPlacement;
use crate::broker::Broker;
use crate::broker_scenario::BrokerScenario;
use crate::disk::{DiskHandle, ProcessEnd};
use crate::faults::{FaultCounts, Mishap};
use crate::ground_truth::GroundTruth;
use crate::history::Operation;
use crate::scenario::Scenario;
use crate::seeded_rng::SeededRng;
use crate::trace::Trace;
use broker_connection::{BrokerConnection, BrokerConnectionEvent};
use bytes::Bytes;
use client_platform::PauseGate;
use network::{CloseKind, Direction, Link};
use observers::ObserverRecord;
use pattern_observers::PatternObserver;
use server::Server;
use server_end::TakenRequest;
use statestore::Client;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, Weak};
use tokio::sync::Notify;
use tokio::time::Instant;

pub(crate) type SharedSimulation = Arc<Mutex<Simulation>>;

/// Time of a correct wall clock at the start.
const START_WALL_MS: u64 = 1_700_000_000_000;

/// Maximum number of events; a run with more of them is in an endless loop.
const MAX_EVENTS: u64 = 2_000_000;

#[derive(Debug, Clone, Copy)]
pub(crate) enum Event {
    Accept(usize),
    Arrive(usize, Direction),
    Cut(usize),
    EndAtClient(usize, CloseKind),
    EndAtServer(usize),
    /// End of the time in which a client had to notice that a connection is cut; the second number is the time of the cut.
    SilenceTimeout(usize, u64),
    Serve(usize),
    Tick,
    /// The committer of a process has finished its work.
    CommitCompleted(u64),
    /// The committer of a process checks for space, if it has taken no work since this turn.
    RetryFullDisk {
        process: u64,
        generation: u64,
    },
    /// A job of a process continues.
    Job {
        process: u64,
        number: u64,
    },
    /// A check of the disk as if a process had ended at that time.
    CheckCrashState {
        process: u64,
        cut_us: u64,
        how: ProcessEnd,
    },
    /// The end of a process at that time.
    CrashAt {
        process: u64,
        cut_us: u64,
        how: ProcessEnd,
    },
    Crash,
    BrokerConnection(BrokerConnectionEvent),
    BreakDisk,
    RepairDisk(u64),
    StartServer,
    /// A process has read its files.
    FilesRead(u64),
    Jump,
    Pause,
    Resume(usize),
    StartClient(usize),
    RestartClient,
    Work(usize),
    StopObserver(usize),
    Heal,
    /// Each client reads each key once more.
    ReadAll,
    CheckRecovered,
    CloseAll,
    End,
}

/// A client's machine.
#[derive(Debug, Default)]
pub(crate) struct ClientMachine {
    pub(crate) gate: Arc<PauseGate>,
    /// Error of the wall clock, and its drift.
    pub(crate) clock_error_ms: i64,
    pub(crate) drift_ppm: i64,
    /// The client; connected at least once.
    pub(crate) client: Option<Client>,
    pub(crate) is_starting: bool,
    /// Number of clients with this name so far, one after the other.
    pub(crate) instances: u32,
    /// Time that it may take to notice a silent connection.
    pub(crate) silence_ms: u64,
    pub(crate) max_queued: u64,
    pub(crate) max_in_flight: u64,
    /// Spans in which the machine was paused.
    pub(crate) pauses: Vec<(u64, u64)>,
}

#[derive(Debug)]
pub(crate) struct Simulation {
    weak: Weak<Mutex<Simulation>>,
    epoch: Instant,
    pub(crate) chance: SeededRng,
    pub(crate) scenario: Scenario,
    pub(crate) trace: Trace,
    /// Events by their time, then in the order in which they were entered.
    events: BTreeMap<(u64, u64), Event>,
    scheduled: u64,
    handled_events: u64,
    stamps: u64,
    pub(crate) changed: Arc<Notify>,
    pub(crate) links: Vec<Link>,
    pub(crate) server: Server,
    /// The broker, if the server is behind one.
    pub(crate) broker: Option<Broker>,
    pub(crate) broker_connection: BrokerConnection,
    /// The keys of the requests that came through the broker, by their correlation data.
    pub(crate) broker_requests: HashMap<Box<[u8]>, TakenRequest>,
    pub(crate) machines: Vec<ClientMachine>,
    pub(crate) operations: Vec<Operation>,
    /// Start of the latest call with a written request, for each client and each instance of its name.
    pub(crate) last_written: BTreeMap<(usize, u32), u64>,
    pub(crate) observers: Vec<ObserverRecord>,
    pub(crate) pattern_observers: Vec<PatternObserver>,
    pub(crate) ground_truth: GroundTruth,
    /// Arrivals of KEYNOTIFY at the server: time, connection, and key.
    pub(crate) watches: Vec<(u64, usize, Bytes)>,
    pub(crate) is_healed: bool,
    pub(crate) has_ended: bool,
    /// Number of callers' tasks that have not ended.
    pub(crate) running: usize,
    /// Keys with a history that took long to decide.
    pub(crate) slow_histories: Vec<Bytes>,
    /// Number of these histories that were not decided after all.
    pub(crate) undecided: usize,
    pub(crate) crashes: usize,
    pub(crate) merges: usize,
    pub(crate) transactions: usize,
    pub(crate) probes: usize,
    pub(crate) broker_losses: usize,
    pub(crate) detachments: usize,
    pub(crate) fault_counts: FaultCounts,
    violation: Option<String>,
}

impl Simulation {
    pub(crate) fn new(seed: u64, place: ServerPlacement, is_traced: bool) -> SharedSimulation {
        let mut chance = SeededRng::new(seed);
        let mut scenario = Scenario::new(&mut chance);
        let drive = DiskHandle::new(chance.fork());
        if place == ServerPlacement::BehindBroker {
            scenario.set_broker(BrokerScenario::new(&mut chance));
        }
        scenario.has_patterns = place == ServerPlacement::WithPatterns;
        Arc::new_cyclic(|me| {
            Mutex::new(Self {
                weak: me.clone(),
                epoch: Instant::now(),
                chance,
                trace: Trace::new(is_traced),
                events: BTreeMap::new(),
                scheduled: 0,
                handled_events: 0,
                stamps: 0,
                changed: Arc::default(),
                links: Vec::new(),
                server: Server::new(drive.clone()),
                broker: scenario.broker.as_ref().map(|_| Broker::new()),
                broker_connection: BrokerConnection::default(),
                broker_requests: HashMap::new(),
                machines: (0..scenario.clients)
                    .map(|_| ClientMachine::default())
                    .collect(),
                operations: Vec::new(),
                last_written: BTreeMap::new(),
                observers: Vec::new(),
                pattern_observers: Vec::new(),
                ground_truth: GroundTruth::default(),
                watches: Vec::new(),
                is_healed: false,
                has_ended: false,
                running: 0,
                slow_histories: Vec::new(),
                undecided: 0,
                crashes: 0,
                merges: 0,
                transactions: 0,
                probes: 0,
                broker_losses: 0,
                detachments: 0,
                fault_counts: FaultCounts::default(),
                violation: None,
                scenario,
            })
        })
    }

    pub(crate) fn shared(&self) -> SharedSimulation {
        self.weak.upgrade().expect("the world exists")
    }

    pub(crate) fn now_ms(&self) -> u64 {
        u64::try_from(self.epoch.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
    pub(crate) fn instant(&self, at_ms: u64) -> Instant {
        self.epoch + std::time::Duration::from_millis(at_ms)
    }
    pub(crate) fn wall_ms(&self, error_ms: i64) -> u64 {
        (START_WALL_MS + self.now_ms()).saturating_add_signed(error_ms)
    }
    pub(crate) fn client_wall_ms(&self, client: usize) -> u64 {
        let computer = &self.machines[client];
        let elapsed = i64::try_from(self.now_ms()).unwrap_or(i64::MAX);
        self.wall_ms(computer.clock_error_ms + elapsed * computer.drift_ppm / 1_000_000)
    }
    pub(crate) fn latency_ms(&mut self) -> u64 {
        let (low, high) = self.scenario.latency_ms;
        let high = if self.is_healed { high.min(20) } else { high };
        self.chance.log_uniform(low, high)
    }
    pub(crate) fn has_fault(&mut self, percent: u64) -> bool {
        !self.is_healed && self.chance.percent(percent)
    }

    pub(crate) fn trace_event(&mut self, text: impl FnOnce() -> String) {
        let now_ms = self.now_ms();
        self.trace.line(now_ms, text);
    }

    /// Records a violated invariant. The first one counts.
    pub(crate) fn violated(&mut self, what: impl fmt::Display) {
        self.trace_event(|| format!("VIOLATION: {what}"));
        if self.violation.is_none() {
            self.violation = Some(format!("at {} ms: {what}", self.now_ms()));
        }
        self.changed.notify_one();
    }
    pub(crate) fn expect(&mut self, result: Result<(), String>) {
        if let Err(what) = result {
            self.violated(what);
        }
    }
    pub(crate) fn violation(&self) -> Option<&String> {
        self.violation.as_ref()
    }

    /// Enters an event.
    pub(crate) fn schedule(&mut self, at_ms: u64, event: Event) {
        self.events.insert((at_ms, self.scheduled), event);
        self.scheduled += 1;
        self.changed.notify_one();
    }

    /// Returns a number that is higher than all before: times in milliseconds do not determine the order.
    pub(crate) fn stamp(&mut self) -> u64 {
        self.stamps += 1;
        self.stamps
    }

    pub(crate) fn next_ms(&self) -> Option<u64> {
        self.events.keys().next().map(|(at_ms, _)| *at_ms)
    }

    /// Sets the run up.
    pub(crate) fn set_up(&mut self) {
        let scenario = self.scenario.clone();
        self.trace_event(|| format!("{scenario:?}"));
        if scenario.jump_every_ms > 0 {
            for computer in &mut self.machines {
                computer.drift_ppm = i64::try_from(self.chance.below(40_000)).unwrap_or(0) - 20_000;
            }
        }
        self.heal_disk();
        self.schedule(0, Event::StartServer);
        for client in 0..scenario.clients {
            self.schedule(0, Event::StartClient(client));
            self.schedule(1, Event::Work(client));
        }
        for (every_ms, event) in [
            (scenario.crash_every_ms, Event::Crash),
            (scenario.break_disk_every_ms, Event::BreakDisk),
            (scenario.jump_every_ms, Event::Jump),
            (scenario.pause_every_ms, Event::Pause),
            (scenario.restart_every_ms, Event::RestartClient),
        ] {
            self.schedule_recurring(every_ms, event);
        }
        self.schedule_broker_faults();
        let heals_ms = scenario.heals_at_ms;
        self.schedule(heals_ms, Event::Heal);
        self.schedule(heals_ms + 20_000, Event::ReadAll);
        self.schedule(heals_ms + 25_000, Event::CheckRecovered);
        self.schedule(heals_ms + 25_000, Event::CloseAll);
        self.schedule(heals_ms + 28_000, Event::End);
    }

    /// Enters a recurring fault.
    pub(crate) fn schedule_recurring(&mut self, every_ms: u64, event: Event) {
        if every_ms > 0 && !self.is_healed {
            let at_ms = self.now_ms() + 1 + self.chance.below(every_ms * 2);
            self.schedule(at_ms, event);
        }
    }

    /// Handles all events that are due.
    pub(crate) fn handle_due_events(&mut self) {
        let now_ms = self.now_ms();
        while self.violation.is_none()
            && let Some(entry) = self.events.first_entry()
            && entry.key().0 <= now_ms
        {
            let event = entry.remove();
            self.handled_events += 1;
            if self.handled_events > MAX_EVENTS {
                return self.violated(format!("it never comes to rest: {event:?}"));
            }
            self.handle(event);
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Accept(link) => self.accept(link),
            Event::Arrive(link, way) => self.arrive(link, way),
            Event::Cut(_) | Event::Crash | Event::CrashAt { .. } if self.is_healed => {}
            Event::Cut(link) => {
                self.fault_counts.count(Mishap::CutAfterTime);
                self.cut(link);
            }
            Event::EndAtClient(link, how) => self.end_at_client(link, how),
            Event::EndAtServer(link) => self.end_at_server(link),
            Event::SilenceTimeout(link, since_ms) => self.check_silence_noticed(link, since_ms),
            Event::Serve(link) => {
                self.serve(link);
                self.settle();
            }
            Event::BrokerConnection(event) => self.handle_broker_connection_event(event),
            Event::Tick => self.tick_server(),
            Event::CommitCompleted(process) => self.commit_completed(process),
            Event::RetryFullDisk {
                process,
                generation: turn,
            } => self.retry_full_disk(process, turn),
            Event::Job { process, number } => self.continue_job(process, number),
            Event::CheckCrashState {
                process,
                cut_us,
                how,
            } => self.check_crash_state(process, cut_us, how),
            Event::CrashAt {
                process,
                cut_us,
                how,
            } => self.crash_at(process, cut_us, how),
            Event::BreakDisk => self.break_disk(),
            Event::RepairDisk(number) => self.repair_disk(number),
            Event::FilesRead(process) => self.files_read(process),
            Event::Crash => {
                self.stop_or_crash_server();
                self.schedule_recurring(self.scenario.crash_every_ms, Event::Crash);
            }
            Event::StartServer => self.start_server(),
            Event::Jump => self.jump_clock(),
            Event::Pause => self.pause_client(),
            Event::Resume(client) => self.resume_client(client),
            Event::StartClient(client) => self.start_client(client),
            Event::RestartClient => self.restart_client(),
            Event::Work(client) => self.work(client),
            Event::StopObserver(number) => self.observers[number].stop.notify_one(),
            Event::Heal => self.end_faults(),
            Event::ReadAll => self.read_all_keys(),
            Event::CheckRecovered => self.check_recovered(),
            Event::CloseAll => self.close_all(),
            Event::End => self.check_history(),
        }
    }

    /// Lets a wall clock jump by up to two minutes, or sets it right.
    fn jump_clock(&mut self) {
        if self.is_healed {
            return;
        }
        let error_ms = match self.chance.below(4) {
            0 => 0,
            1 => 4_000,
            _ => 240_000,
        };
        let error_ms = i64::try_from(self.chance.below(error_ms + 1)).unwrap_or(0)
            - i64::try_from(error_ms / 2).unwrap_or(0);
        let whose = self.chance.index(self.machines.len() + 1);
        if let Some(computer) = self.machines.get_mut(whose) {
            computer.clock_error_ms = error_ms;
            self.fault_counts.count(Mishap::ClientClock);
            self.trace_event(|| format!("c{whose}: its wall clock is {error_ms} ms off"));
        } else {
            self.server.clock_error_ms = error_ms;
            self.fault_counts.count(Mishap::ServerClock);
            self.trace_event(|| format!("server: its wall clock is {error_ms} ms off"));
        }
        self.schedule_recurring(self.scenario.jump_every_ms, Event::Jump);
    }

    fn pause_client(&mut self) {
        if self.is_healed {
            return;
        }
        let client = self.chance.index(self.machines.len());
        let for_ms = self.chance.log_uniform(10, 8_000);
        self.fault_counts.count(Mishap::Paused);
        let now_ms = self.now_ms();
        self.trace_event(|| format!("c{client}: stands still for {for_ms} ms"));
        let computer = &mut self.machines[client];
        computer.gate.close();
        computer.pauses.push((now_ms, now_ms + for_ms));
        self.schedule(now_ms + for_ms, Event::Resume(client));
        self.schedule_recurring(self.scenario.pause_every_ms, Event::Pause);
    }

    fn resume_client(&mut self, client: usize) {
        let now_ms = self.now_ms();
        let computer = &self.machines[client];
        if self.is_healed || computer.pauses.iter().all(|(_, to_ms)| *to_ms <= now_ms) {
            computer.gate.open();
        }
    }

    /// Ends all faults.
    fn end_faults(&mut self) {
        self.trace_event(|| "all faults end".to_owned());
        self.is_healed = true;
        let now_ms = self.now_ms();
        for computer in &mut self.machines {
            for (_, to_ms) in &mut computer.pauses {
                *to_ms = (*to_ms).min(now_ms);
            }
            computer.gate.open();
        }
        self.heal_disk();
        self.heal_broker_connection();
        self.start_server();
        self.reset_links();
    }
}
