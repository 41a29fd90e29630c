//! The world of a run, and its next events.
use crate::Place;
use crate::broker::{Behind, Broker, Trunk, TrunkEvent};
use crate::chance::Chance;
use crate::disk::{Drive, End};
use crate::history::Operation;
use crate::machine::Gate;
use crate::mishaps::{Mishap, Mishaps};
use crate::network::{Ending, Link, Way};
use crate::observers::Following;
use crate::scenario::Scenario;
use crate::server::{Asked, Server};
use crate::trace::Trace;
use crate::truth::Truth;
use bytes::Bytes;
use statestore::Client;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, Weak};
use tokio::sync::Notify;
use tokio::time::Instant;

pub(crate) type Shared = Arc<Mutex<World>>;

/// Time of a correct wall clock at the start.
const START_WALL_MS: u64 = 1_700_000_000_000;

/// Maximum number of events; a run with more of them is in an endless loop.
const MAX_EVENTS: u64 = 2_000_000;

#[derive(Debug, Clone, Copy)]
pub(crate) enum Event {
    Accept(usize),
    Arrive(usize, Way),
    Cut(usize),
    EndAtClient(usize, Ending),
    EndAtServer(usize),
    /// End of the time in which a client had to notice that a connection is cut; the second number is the time of the cut.
    Silent(usize, u64),
    Serve(usize),
    Tick,
    /// The committer of a process has finished its work.
    Achieved(u64),
    /// The committer of a process checks for space, if it has taken no work since this turn.
    LookForSpace {
        process: u64,
        turn: u64,
    },
    /// A job of a process continues.
    Job {
        process: u64,
        number: u64,
    },
    /// A check of the disk as if a process had ended at that time.
    Probe {
        process: u64,
        cut_us: u64,
        how: End,
    },
    /// The end of a process at that time.
    CrashAt {
        process: u64,
        cut_us: u64,
        how: End,
    },
    Crash,
    Trunk(TrunkEvent),
    BreakDisk,
    MendDisk(u64),
    StartServer,
    /// A process has read its files.
    HasRead(u64),
    Jump,
    Pause,
    Resume(usize),
    StartClient(usize),
    RestartClient,
    Work(usize),
    Unfollow(usize),
    Heal,
    /// Each client reads each key once more.
    ReadAll,
    Examine,
    CloseAll,
    End,
}

/// A client's machine.
#[derive(Debug, Default)]
pub(crate) struct Computer {
    pub(crate) gate: Arc<Gate>,
    /// Error of the wall clock, and its drift.
    pub(crate) wall_error_ms: i64,
    pub(crate) drift_ppm: i64,
    /// The client; connected at least once.
    pub(crate) client: Option<Client>,
    pub(crate) is_starting: bool,
    /// Number of clients with this name so far, one after the other.
    pub(crate) made: u32,
    /// Time that it may take to notice a silent connection.
    pub(crate) silence_ms: u64,
    pub(crate) max_queued: u64,
    pub(crate) max_in_flight: u64,
    /// Spans in which the machine was paused.
    pub(crate) pauses: Vec<(u64, u64)>,
}

#[derive(Debug)]
pub(crate) struct World {
    me: Weak<Mutex<World>>,
    epoch: Instant,
    pub(crate) chance: Chance,
    pub(crate) scenario: Scenario,
    pub(crate) trace: Trace,
    /// Events by their time, then in the order in which they were entered.
    events: BTreeMap<(u64, u64), Event>,
    entered: u64,
    happened: u64,
    stamps: u64,
    pub(crate) changed: Arc<Notify>,
    pub(crate) links: Vec<Link>,
    pub(crate) server: Server,
    /// The broker, if the server is behind one.
    pub(crate) broker: Option<Broker>,
    pub(crate) trunk: Trunk,
    /// The keys of the requests that came through the broker, by their correlation data.
    pub(crate) asked_behind: HashMap<Box<[u8]>, Asked>,
    pub(crate) computers: Vec<Computer>,
    pub(crate) operations: Vec<Operation>,
    /// Start of the latest call with a written request, for each client and each instance of its name.
    pub(crate) left: BTreeMap<(usize, u32), u64>,
    pub(crate) followings: Vec<Following>,
    pub(crate) truth: Truth,
    /// Arrivals of KEYNOTIFY at the server: time, connection, and key.
    pub(crate) watches: Vec<(u64, usize, Bytes)>,
    pub(crate) is_healed: bool,
    pub(crate) is_over: bool,
    /// Number of callers' tasks that have not ended.
    pub(crate) running: usize,
    /// Keys with a history that took long to decide.
    pub(crate) hard: Vec<Bytes>,
    /// Number of these histories that were not decided after all.
    pub(crate) undecided: usize,
    pub(crate) crashes: usize,
    pub(crate) merges: usize,
    pub(crate) transactions: usize,
    pub(crate) probes: usize,
    pub(crate) broker_losses: usize,
    pub(crate) detachments: usize,
    pub(crate) mishaps: Mishaps,
    violation: Option<String>,
}

impl World {
    pub(crate) fn new(seed: u64, place: Place, is_traced: bool) -> Shared {
        let mut chance = Chance::new(seed);
        let mut scenario = Scenario::new(&mut chance);
        let drive = Drive::new(chance.fork());
        if place == Place::Behind {
            let behind = Behind::new(&mut chance);
            behind.restrict(&mut scenario);
            scenario.behind = Some(behind);
        }
        Arc::new_cyclic(|me| {
            Mutex::new(Self {
                me: me.clone(),
                epoch: Instant::now(),
                chance,
                trace: Trace::new(is_traced),
                events: BTreeMap::new(),
                entered: 0,
                happened: 0,
                stamps: 0,
                changed: Arc::default(),
                links: Vec::new(),
                server: Server::new(drive.clone()),
                broker: scenario.behind.as_ref().map(|_| Broker::new()),
                trunk: Trunk::default(),
                asked_behind: HashMap::new(),
                computers: (0..scenario.clients).map(|_| Computer::default()).collect(),
                operations: Vec::new(),
                left: BTreeMap::new(),
                followings: Vec::new(),
                truth: Truth::default(),
                watches: Vec::new(),
                is_healed: false,
                is_over: false,
                running: 0,
                hard: Vec::new(),
                undecided: 0,
                crashes: 0,
                merges: 0,
                transactions: 0,
                probes: 0,
                broker_losses: 0,
                detachments: 0,
                mishaps: Mishaps::default(),
                violation: None,
                scenario,
            })
        })
    }

    pub(crate) fn shared(&self) -> Shared {
        self.me.upgrade().expect("the world exists")
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
        let computer = &self.computers[client];
        let elapsed = i64::try_from(self.now_ms()).unwrap_or(i64::MAX);
        self.wall_ms(computer.wall_error_ms + elapsed * computer.drift_ppm / 1_000_000)
    }
    pub(crate) fn latency_ms(&mut self) -> u64 {
        let (low, high) = self.scenario.latency_ms;
        let high = if self.is_healed { high.min(20) } else { high };
        self.chance.spread(low, high)
    }
    pub(crate) fn has_fault(&mut self, percent: u64) -> bool {
        !self.is_healed && self.chance.percent(percent)
    }

    pub(crate) fn note(&mut self, text: impl FnOnce() -> String) {
        let now_ms = self.now_ms();
        self.trace.line(now_ms, text);
    }

    /// Records a violated invariant. The first one counts.
    pub(crate) fn violated(&mut self, what: impl fmt::Display) {
        self.note(|| format!("VIOLATION: {what}"));
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
    pub(crate) fn at(&mut self, at_ms: u64, event: Event) {
        self.events.insert((at_ms, self.entered), event);
        self.entered += 1;
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
    pub(crate) fn begin(&mut self) {
        let scenario = self.scenario.clone();
        self.note(|| format!("{scenario:?}"));
        if scenario.jump_every_ms > 0 {
            for computer in &mut self.computers {
                computer.drift_ppm = i64::try_from(self.chance.below(40_000)).unwrap_or(0) - 20_000;
            }
        }
        self.heal_disk();
        self.at(0, Event::StartServer);
        for client in 0..scenario.clients {
            self.at(0, Event::StartClient(client));
            self.at(1, Event::Work(client));
        }
        for (every_ms, event) in [
            (scenario.crash_every_ms, Event::Crash),
            (scenario.break_disk_every_ms, Event::BreakDisk),
            (scenario.jump_every_ms, Event::Jump),
            (scenario.pause_every_ms, Event::Pause),
            (scenario.restart_every_ms, Event::RestartClient),
        ] {
            self.again(every_ms, event);
        }
        self.begin_behind();
        let heals_ms = scenario.heals_at_ms;
        self.at(heals_ms, Event::Heal);
        self.at(heals_ms + 20_000, Event::ReadAll);
        self.at(heals_ms + 25_000, Event::Examine);
        self.at(heals_ms + 25_000, Event::CloseAll);
        self.at(heals_ms + 28_000, Event::End);
    }

    /// Enters a recurring fault.
    pub(crate) fn again(&mut self, every_ms: u64, event: Event) {
        if every_ms > 0 && !self.is_healed {
            let at_ms = self.now_ms() + 1 + self.chance.below(every_ms * 2);
            self.at(at_ms, event);
        }
    }

    /// Handles all events that are due.
    pub(crate) fn proceed(&mut self) {
        let now_ms = self.now_ms();
        while self.violation.is_none()
            && let Some(entry) = self.events.first_entry()
            && entry.key().0 <= now_ms
        {
            let event = entry.remove();
            self.happened += 1;
            if self.happened > MAX_EVENTS {
                return self.violated(format!("it never comes to rest: {event:?}"));
            }
            self.happen(event);
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Accept(link) => self.accept(link),
            Event::Arrive(link, way) => self.arrive(link, way),
            Event::Cut(_) | Event::Crash | Event::CrashAt { .. } if self.is_healed => {}
            Event::Cut(link) => {
                self.mishaps.count(Mishap::CutAfterTime);
                self.cut(link);
            }
            Event::EndAtClient(link, how) => self.end_at_client(link, how),
            Event::EndAtServer(link) => self.end_at_server(link),
            Event::Silent(link, since_ms) => self.check_noticed(link, since_ms),
            Event::Serve(link) => {
                self.serve(link);
                self.settle();
            }
            Event::Trunk(event) => self.happen_to_trunk(event),
            Event::Tick => self.tick_server(),
            Event::Achieved(process) => self.achieved(process),
            Event::LookForSpace { process, turn } => self.look_for_space(process, turn),
            Event::Job { process, number } => self.do_job(process, number),
            Event::Probe {
                process,
                cut_us,
                how,
            } => self.probe(process, cut_us, how),
            Event::CrashAt {
                process,
                cut_us,
                how,
            } => self.crash_at(process, cut_us, how),
            Event::BreakDisk => self.break_disk(),
            Event::MendDisk(number) => self.mend_disk(number),
            Event::HasRead(process) => self.has_read(process),
            Event::Crash => {
                self.lose_server();
                self.again(self.scenario.crash_every_ms, Event::Crash);
            }
            Event::StartServer => self.start_server(),
            Event::Jump => self.jump(),
            Event::Pause => self.pause(),
            Event::Resume(client) => self.resume(client),
            Event::StartClient(client) => self.start_client(client),
            Event::RestartClient => self.restart_client(),
            Event::Work(client) => self.work(client),
            Event::Unfollow(number) => self.followings[number].stop.notify_one(),
            Event::Heal => self.heal(),
            Event::ReadAll => self.read_all(),
            Event::Examine => self.examine(),
            Event::CloseAll => self.close_all(),
            Event::End => self.end(),
        }
    }

    /// Lets a wall clock jump by up to two minutes, or sets it right.
    fn jump(&mut self) {
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
        let whose = self.chance.index(self.computers.len() + 1);
        if let Some(computer) = self.computers.get_mut(whose) {
            computer.wall_error_ms = error_ms;
            self.mishaps.count(Mishap::ClientClock);
            self.note(|| format!("c{whose}: its wall clock is {error_ms} ms off"));
        } else {
            self.server.wall_error_ms = error_ms;
            self.mishaps.count(Mishap::ServerClock);
            self.note(|| format!("server: its wall clock is {error_ms} ms off"));
        }
        self.again(self.scenario.jump_every_ms, Event::Jump);
    }

    fn pause(&mut self) {
        if self.is_healed {
            return;
        }
        let client = self.chance.index(self.computers.len());
        let for_ms = self.chance.spread(10, 8_000);
        self.mishaps.count(Mishap::Paused);
        let now_ms = self.now_ms();
        self.note(|| format!("c{client}: stands still for {for_ms} ms"));
        let computer = &mut self.computers[client];
        computer.gate.close();
        computer.pauses.push((now_ms, now_ms + for_ms));
        self.at(now_ms + for_ms, Event::Resume(client));
        self.again(self.scenario.pause_every_ms, Event::Pause);
    }

    fn resume(&mut self, client: usize) {
        let now_ms = self.now_ms();
        let computer = &self.computers[client];
        if self.is_healed || computer.pauses.iter().all(|(_, to_ms)| *to_ms <= now_ms) {
            computer.gate.open();
        }
    }

    /// Ends all faults.
    fn heal(&mut self) {
        self.note(|| "all faults end".to_owned());
        self.is_healed = true;
        let now_ms = self.now_ms();
        for computer in &mut self.computers {
            for (_, to_ms) in &mut computer.pauses {
                *to_ms = (*to_ms).min(now_ms);
            }
            computer.gate.open();
        }
        self.heal_disk();
        self.heal_trunk();
        self.start_server();
        self.reset_links();
    }
}
