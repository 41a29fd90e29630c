//! Servers of a group over a broker that delivers everything in one order, at any pace. Stalls, cuts, ends and new servers come from one
//! seed.
use super::election::{
    ELECTION_TIMEOUT_MS, Election, ElectionEvent, ElectionMessage, HEARTBEAT_MS, INITIAL_WAIT_MS,
};
use std::collections::BTreeMap;
use std::sync::Arc;

const SEEDS: u64 = 300;
const KEYS: u64 = 3;
/// Time at which the faults end.
const FAULTS_END_MS: u64 = 60_000;
/// Time afterwards by which the group has recovered.
const RECOVERY_MS: u64 = 4 * (ELECTION_TIMEOUT_MS + INITIAL_WAIT_MS);

/// An entry of the log.
#[derive(Debug, Clone)]
enum LogEntry {
    Election(ElectionMessage),
    Leave,
    /// Whether a client watches a key from now on.
    Watch(u64, bool),
    /// The watches that the keeper knew, for one server.
    WatchSnapshot(Arc<str>, BTreeMap<u64, Watch>),
}

/// Whether a key is watched, and the position of that entry in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Watch {
    is_on: bool,
    at: usize,
}

/// The watches that a server knows, and the keys that changed after it asked the keeper.
#[derive(Debug, Default, Clone)]
struct WatchTable {
    watched: BTreeMap<u64, Watch>,
    touched: Vec<u64>,
}

struct Server {
    election: Election,
    /// Offset of its clock.
    offset_ms: u64,
    /// Number of entries that it has read; `None` while it is cut off.
    read_position: Option<usize>,
    stalled_until_ms: u64,
    blind_until_ms: u64,
    back_at_ms: u64,
    table: WatchTable,
}

struct Simulation {
    random: u64,
    now_ms: u64,
    log: Vec<(Arc<str>, LogEntry)>,
    servers: Vec<Server>,
    server_count: u64,
    /// Position in the log of the last answered end of the watch of a key.
    stopped: BTreeMap<u64, usize>,
    elections: u64,
    restarts: u64,
    resignations: u64,
    notifications: u64,
}

impl Simulation {
    fn new(seed: u64) -> Self {
        let mut world = Self {
            random: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1,
            now_ms: 1,
            log: Vec::new(),
            servers: Vec::new(),
            server_count: 0,
            stopped: BTreeMap::new(),
            elections: 0,
            restarts: 0,
            resignations: 0,
            notifications: 0,
        };
        for _ in 0..3 {
            let offset_ms = world.random_below(100_000);
            world.servers.push(Server {
                election: Election::default(),
                offset_ms,
                read_position: None,
                stalled_until_ms: 0,
                blind_until_ms: 0,
                back_at_ms: 0,
                table: WatchTable::default(),
            });
        }
        world
    }

    fn random_below(&mut self, most: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % most
    }

    fn run(&mut self) {
        while self.now_ms < FAULTS_END_MS + RECOVERY_MS {
            self.now_ms += 1 + self.random_below(40);
            let is_troubled = self.now_ms < FAULTS_END_MS;
            if is_troubled && self.random_below(60) == 0 {
                self.inject_fault();
            }
            if self.random_below(4) == 0 {
                let (key, begins) = (self.random_below(KEYS), self.random_below(2) == 0);
                self.log
                    .push(("client".into(), LogEntry::Watch(key, begins)));
            }
            for index in 0..self.servers.len() {
                self.step(index);
                let keeping = self.servers.iter().filter(|it| it.is_active(self.now_ms));
                assert!(keeping.count() <= 1, "two keep at {}", self.now_ms);
            }
        }
    }

    fn inject_fault(&mut self) {
        let index = usize::try_from(self.random_below(3)).unwrap();
        let (kind, long_ms) = (
            self.random_below(5),
            self.random_below(2 * ELECTION_TIMEOUT_MS),
        );
        let until_ms = self.now_ms + long_ms;
        if kind < 2 {
            self.servers[index].stalled_until_ms = until_ms;
            return;
        }
        let server = &mut self.servers[index];
        if kind == 4 {
            server.blind_until_ms = until_ms;
            return;
        }
        if let (Some(_), Some(me)) = (server.read_position.take(), server.election.name().cloned())
        {
            // The broker may notice it late, or not report it.
            if long_ms % 3 > 0 {
                self.log.push((me, LogEntry::Leave));
            }
        }
        server.election.leave();
        server.back_at_ms = until_ms;
        if kind == 3 {
            server.election = Election::default();
            server.table = WatchTable::default();
        }
    }

    fn step(&mut self, index: usize) {
        let now_ms = self.now_ms;
        let server = &mut self.servers[index];
        if now_ms < server.stalled_until_ms {
            return;
        }
        let local_ms = server.offset_ms + now_ms;
        if server.read_position.is_none() {
            if now_ms < server.back_at_ms {
                return;
            }
            self.server_count += 1;
            let name = format!("{:03}", self.server_count).into();
            server.read_position = Some(self.log.len());
            server.election.join(name, local_ms);
        }
        // It may have more to read than it reads now.
        let most = 1 + self.random_below(30);
        for _ in 0..most {
            let Some(read) = self.servers[index].read_position else {
                return;
            };
            let Some((from, said)) = self.log.get(read).cloned() else {
                break;
            };
            self.servers[index].read_position = Some(read + 1);
            self.read(index, &from, said, local_ms);
        }
        let server = &mut self.servers[index];
        server
            .election
            .set_sees_changes(now_ms >= server.blind_until_ms, local_ms);
        let keeps = server.election.is_active(local_ms);
        while let Some(saying) = server.election.poll(local_ms, now_ms) {
            let me = server.election.name().cloned().unwrap();
            self.log.push((me, LogEntry::Election(saying)));
        }
        if keeps {
            self.notify(index);
        }
    }

    /// Changes a watched key, which the keeper reports.
    fn notify(&mut self, index: usize) {
        let key = self.random_below(KEYS);
        if let Some(watch) = self.servers[index].table.watched.get(&key)
            && watch.is_on
        {
            self.notifications += 1;
            let stopped = self.stopped.get(&key);
            assert!(
                stopped.is_none_or(|stopped| *stopped < watch.at),
                "told of {key} at {} after the watch had ended",
                self.now_ms
            );
        }
    }

    fn read(&mut self, index: usize, from: &Arc<str>, said: LogEntry, local_ms: u64) {
        let server = &mut self.servers[index];
        let keepers = &mut server.election;
        let was_whole = keepers.is_synced();
        let turn = match said {
            LogEntry::Election(ElectionMessage::Heartbeat(beat)) => {
                keepers.handle_heartbeat(from, beat, local_ms)
            }
            LogEntry::Election(ElectionMessage::Campaign(claim)) => {
                keepers.handle_campaign(from, claim, local_ms)
            }
            LogEntry::Election(ElectionMessage::Join) => {
                if keepers.is_active(local_ms) {
                    let me = keepers.name().cloned().unwrap();
                    let known =
                        LogEntry::WatchSnapshot(Arc::clone(from), server.table.watched.clone());
                    self.log.push((me, known));
                }
                ElectionEvent::Unchanged
            }
            LogEntry::Election(ElectionMessage::Resign { blind_ms }) => {
                self.resignations += 1;
                keepers.handle_resign(from, blind_ms);
                ElectionEvent::Unchanged
            }
            LogEntry::Leave => {
                keepers.handle_leave(from);
                ElectionEvent::Unchanged
            }
            LogEntry::Watch(key, is_on) => {
                let at = server.read_position.unwrap();
                server.table.watched.insert(key, Watch { is_on, at });
                if !was_whole {
                    server.table.touched.push(key);
                }
                if keepers.is_active(local_ms) && !is_on {
                    self.stopped.insert(key, at);
                }
                ElectionEvent::Unchanged
            }
            LogEntry::WatchSnapshot(to, watched) => {
                if keepers.name() == Some(&to) && keepers.leader() == Some(from) && !was_whole {
                    for (key, watch) in watched {
                        if !server.table.touched.contains(&key) {
                            server.table.watched.insert(key, watch);
                        }
                    }
                    server.table.touched.clear();
                    keepers.mark_synced();
                }
                ElectionEvent::Unchanged
            }
        };
        match turn {
            ElectionEvent::Unchanged => {}
            ElectionEvent::Stale => server.table = WatchTable::default(),
            ElectionEvent::Elected { .. } => {
                self.elections += 1;
                server.table.touched.clear();
                if was_whole {
                    let read = server.read_position.unwrap();
                    for key in (0..KEYS).filter(|_| self.restarts == 0) {
                        let known = server.table.watched.get(&key);
                        let mut log = self.log[..read].iter().rev();
                        let last = log.find_map(|(_, said)| match said {
                            LogEntry::Watch(its, is_on) if *its == key => Some(*is_on),
                            _ => None,
                        });
                        assert_eq!(known.map(|it| it.is_on), last, "{key} at {}", self.now_ms);
                    }
                } else {
                    self.restarts += u64::from(self.elections > 1);
                    self.stopped.clear();
                }
            }
        }
    }
}

impl Server {
    fn is_active(&self, now_ms: u64) -> bool {
        self.election.is_active(self.offset_ms + now_ms)
    }
}

#[test]
fn at_most_one_server_leads_and_it_knows_every_answered_request() {
    let (mut began, mut told, mut handed_over, mut yielded) = (0, 0, 0, 0);
    for seed in 0..SEEDS {
        let mut world = Simulation::new(seed);
        let ran = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| world.run()));
        assert!(ran.is_ok(), "seed {seed}");
        let now_ms = world.now_ms;
        let keeping: Vec<_> = world
            .servers
            .iter()
            .filter(|it| it.is_active(now_ms))
            .collect();
        assert_eq!(keeping.len(), 1, "nobody keeps in the end: seed {seed}");
        // All servers read the log at their own pace; for the part that they have read, they agree.
        for server in &world.servers {
            assert!(server.election.is_synced(), "seed {seed}");
        }
        began += world.elections;
        told += world.notifications;
        yielded += world.resignations;
        handed_over += world.elections - world.restarts;
    }
    assert!(began > 5 * SEEDS, "{began}");
    assert!(handed_over > 3 * SEEDS, "{handed_over}");
    assert!(told > 100 * SEEDS, "{told}");
    assert!(yielded > SEEDS, "{yielded}");
}

#[test]
fn a_single_server_leads_after_the_initial_wait_until_its_heartbeats_are_lost() {
    let mut keepers = Election::default();
    let me: Arc<str> = "a".into();
    keepers.join(Arc::clone(&me), 0);
    let mut at_ms = 0;
    while !keepers.is_active(at_ms) {
        assert!(at_ms <= INITIAL_WAIT_MS + 2 * HEARTBEAT_MS, "{keepers:?}");
        while let Some(saying) = keepers.poll(at_ms, at_ms) {
            match saying {
                ElectionMessage::Heartbeat(beat) => assert_eq!(
                    keepers.handle_heartbeat(&me, beat, at_ms),
                    ElectionEvent::Unchanged
                ),
                ElectionMessage::Campaign(claim) => {
                    assert!(at_ms >= INITIAL_WAIT_MS);
                    let turn = keepers.handle_campaign(&me, claim, at_ms);
                    assert_eq!(turn, ElectionEvent::Elected { since_ms: 0 });
                }
                ElectionMessage::Join | ElectionMessage::Resign { .. } => {
                    panic!("there is nobody to tell anything")
                }
            }
        }
        at_ms += 10;
    }
    assert!(keepers.is_active(at_ms + ELECTION_TIMEOUT_MS - 2 * HEARTBEAT_MS - 1010));
    assert!(!keepers.is_active(at_ms + ELECTION_TIMEOUT_MS - HEARTBEAT_MS));
}
