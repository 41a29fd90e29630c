//! Servers of a group over a broker that delivers everything in one order, at any pace. Stalls, cuts, ends and new servers come from one
//! seed.
use super::election::{
    Campaign, ELECTION_TIMEOUT_MS, Election, ElectionEvent, ElectionMessage, HEARTBEAT_MS,
    INITIAL_WAIT_MS, LEASE_MS,
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
    /// Whether a client watches a key from now on.
    Watch(u64, bool),
    /// The watches that the leader knew, for one server.
    WatchSnapshot(Arc<str>, BTreeMap<u64, Watch>),
}

/// Whether a key is watched, and the position of that entry in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Watch {
    is_on: bool,
    at: usize,
}

/// The watches that a server knows, and the keys that changed after it asked the leader.
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
    /// Time until which the broker delivers nothing to it.
    deaf_until_ms: u64,
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
                deaf_until_ms: 0,
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
                let active = self.servers.iter().filter(|it| it.is_active(self.now_ms));
                assert!(active.count() <= 1, "two lead at {}", self.now_ms);
            }
        }
    }

    fn inject_fault(&mut self) {
        let index = usize::try_from(self.random_below(3)).unwrap();
        let (kind, long_ms) = (
            self.random_below(6),
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
        if kind == 5 {
            server.deaf_until_ms = until_ms;
            return;
        }
        if let (Some(_), Some(me)) = (server.read_position.take(), server.election.name().cloned())
        {
            // The broker may notice it late, or not report it.
            if long_ms % 3 > 0 {
                let gone = LogEntry::Election(ElectionMessage::Leave);
                self.log.push((me, gone));
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
        let is_deaf = now_ms < server.deaf_until_ms;
        let most = self.random_below(30) + 1;
        for _ in 0..if is_deaf { 0 } else { most } {
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
        let is_active = server.election.is_active(local_ms);
        while let Some(message) = server.election.poll(local_ms, now_ms) {
            let me = server.election.name().cloned().unwrap();
            self.log.push((me, LogEntry::Election(message)));
        }
        if is_active {
            self.notify(index);
        }
    }

    /// Changes a watched key, which the leader reports.
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
        let election = &mut server.election;
        let was_synced = election.is_synced();
        let event = match said {
            LogEntry::Election(message) => {
                let is_resignation = matches!(message, ElectionMessage::Resign { .. });
                self.resignations += u64::from(is_resignation);
                election.handle(from, message, local_ms)
            }
            LogEntry::Watch(key, is_on) => {
                let at = server.read_position.unwrap();
                server.table.watched.insert(key, Watch { is_on, at });
                if !was_synced {
                    server.table.touched.push(key);
                }
                if election.is_active(local_ms) && !is_on {
                    self.stopped.insert(key, at);
                }
                ElectionEvent::Unchanged
            }
            LogEntry::WatchSnapshot(to, watched) => {
                if election.name() == Some(&to) && election.leader() == Some(from) && !was_synced {
                    for (key, watch) in watched {
                        if !server.table.touched.contains(&key) {
                            server.table.watched.insert(key, watch);
                        }
                    }
                    server.table.touched.clear();
                    election.mark_synced();
                }
                ElectionEvent::Unchanged
            }
        };
        match event {
            ElectionEvent::Unchanged => {}
            ElectionEvent::WatchesRequested => {
                if election.is_active(local_ms) {
                    let me = election.name().cloned().unwrap();
                    let watched = server.table.watched.clone();
                    let known = LogEntry::WatchSnapshot(Arc::clone(from), watched);
                    self.log.push((me, known));
                }
            }
            ElectionEvent::Stale => server.table = WatchTable::default(),
            ElectionEvent::Elected { .. } => {
                self.elections += 1;
                server.table.touched.clear();
                if was_synced {
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
        let active: Vec<_> = world
            .servers
            .iter()
            .filter(|it| it.is_active(now_ms))
            .collect();
        assert_eq!(active.len(), 1, "seed {seed}");
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

/// Lets the only server of a group run until it publishes a campaign, which it has not received yet.
fn campaigning(me: &Arc<str>) -> (Election, Campaign) {
    let mut election = Election::default();
    election.join(Arc::clone(me), 0);
    for at_ms in 0..=INITIAL_WAIT_MS + HEARTBEAT_MS {
        while let Some(message) = election.poll(at_ms, at_ms) {
            if let ElectionMessage::Campaign(campaign) = message {
                assert!(at_ms >= INITIAL_WAIT_MS);
                return (election, campaign);
            }
            let event = election.handle(me, message, at_ms);
            assert_eq!(event, ElectionEvent::Unchanged);
        }
    }
    panic!("no campaign: {election:?}");
}

#[test]
fn a_single_server_leads_after_the_initial_wait_until_its_heartbeats_are_lost() {
    let me: Arc<str> = "a".into();
    let (mut election, campaign) = campaigning(&me);
    let mut at_ms = campaign.sent_ms;
    assert!(!election.is_active(at_ms));
    let event = election.handle(&me, ElectionMessage::Campaign(campaign), at_ms);
    assert_eq!(event, ElectionEvent::Elected { since_ms: 0 });
    for _ in 0..10 {
        let heartbeat = election.poll(at_ms, at_ms).unwrap();
        assert_eq!(election.poll(at_ms, at_ms), None);
        election.handle(&me, heartbeat, at_ms);
        assert!(election.is_active(at_ms + LEASE_MS - 1));
        assert!(!election.is_active(at_ms + LEASE_MS));
        at_ms += HEARTBEAT_MS;
    }
}

/// Other servers count from the last heartbeat of a server that knew that it leads.
#[test]
fn heartbeats_sent_before_the_election_was_known_do_not_extend_the_lease() {
    let (me, other): (Arc<str>, Arc<str>) = ("a".into(), "b".into());
    let (mut election, campaign) = campaigning(&me);
    let late_ms = campaign.sent_ms + 2 * HEARTBEAT_MS;
    let late = election.poll(late_ms, late_ms).unwrap();
    election.handle(&me, ElectionMessage::Campaign(campaign), late_ms);
    election.handle(&me, late, late_ms);
    assert!(election.is_active(campaign.sent_ms + LEASE_MS - 1));
    assert!(!election.is_active(campaign.sent_ms + LEASE_MS));

    let next = Campaign {
        term: campaign.term + 1,
        sent_ms: 0,
        after_heartbeat_ms: campaign.sent_ms,
        previous_term: campaign.term,
    };
    election.handle(&other, ElectionMessage::Campaign(next), late_ms);
    assert_eq!(election.leader(), Some(&other));
}
