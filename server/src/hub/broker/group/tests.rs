//! Servers of a group over a broker that delivers everything in one order, at any pace. Stalls, cuts, ends and new servers come from one
//! seed.
use super::keeper::{BEAT_MS, Keepers, LISTENING_MS, SILENCE_MS, Saying, Turn};
use std::collections::BTreeMap;
use std::sync::Arc;

const SEEDS: u64 = 300;
const KEYS: u64 = 3;
/// Time at which the faults end.
const TROUBLE_MS: u64 = 60_000;
/// Time afterwards by which the group has recovered.
const REST_MS: u64 = 4 * (SILENCE_MS + LISTENING_MS);

/// An entry of the log.
#[derive(Debug, Clone)]
enum Said {
    Keeping(Saying),
    Gone,
    /// Whether a client watches a key from now on.
    Watch(u64, bool),
    /// The watches that the keeper knew, for one server.
    Known(Arc<str>, BTreeMap<u64, Watch>),
}

/// Whether a key is watched, and the position of that entry in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Watch {
    is_on: bool,
    at: usize,
}

/// The watches that a server knows, and the keys that changed after it asked the keeper.
#[derive(Debug, Default, Clone)]
struct Table {
    watched: BTreeMap<u64, Watch>,
    touched: Vec<u64>,
}

struct Server {
    keepers: Keepers,
    /// Offset of its clock.
    offset_ms: u64,
    /// Number of entries that it has read; `None` while it is cut off.
    read: Option<usize>,
    stalled_until_ms: u64,
    blind_until_ms: u64,
    back_at_ms: u64,
    table: Table,
}

struct World {
    random: u64,
    now_ms: u64,
    log: Vec<(Arc<str>, Said)>,
    servers: Vec<Server>,
    named: u64,
    /// Position in the log of the last answered end of the watch of a key.
    stopped: BTreeMap<u64, usize>,
    began: u64,
    restarts: u64,
    yielded: u64,
    told: u64,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut world = Self {
            random: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1,
            now_ms: 1,
            log: Vec::new(),
            servers: Vec::new(),
            named: 0,
            stopped: BTreeMap::new(),
            began: 0,
            restarts: 0,
            yielded: 0,
            told: 0,
        };
        for _ in 0..3 {
            let offset_ms = world.below(100_000);
            world.servers.push(Server {
                keepers: Keepers::default(),
                offset_ms,
                read: None,
                stalled_until_ms: 0,
                blind_until_ms: 0,
                back_at_ms: 0,
                table: Table::default(),
            });
        }
        world
    }

    fn below(&mut self, most: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % most
    }

    fn run(&mut self) {
        while self.now_ms < TROUBLE_MS + REST_MS {
            self.now_ms += 1 + self.below(40);
            let is_troubled = self.now_ms < TROUBLE_MS;
            if is_troubled && self.below(60) == 0 {
                self.trouble();
            }
            if self.below(4) == 0 {
                let (key, begins) = (self.below(KEYS), self.below(2) == 0);
                self.log.push(("client".into(), Said::Watch(key, begins)));
            }
            for index in 0..self.servers.len() {
                self.turn(index);
                let keeping = self.servers.iter().filter(|it| it.keeps(self.now_ms));
                assert!(keeping.count() <= 1, "two keep at {}", self.now_ms);
            }
        }
    }

    fn trouble(&mut self) {
        let index = usize::try_from(self.below(3)).unwrap();
        let (kind, long_ms) = (self.below(5), self.below(2 * SILENCE_MS));
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
        if let (Some(_), Some(me)) = (server.read.take(), server.keepers.me().cloned()) {
            // The broker may notice it late, or not report it.
            if long_ms % 3 > 0 {
                self.log.push((me, Said::Gone));
            }
        }
        server.keepers.left();
        server.back_at_ms = until_ms;
        if kind == 3 {
            server.keepers = Keepers::default();
            server.table = Table::default();
        }
    }

    fn turn(&mut self, index: usize) {
        let now_ms = self.now_ms;
        let server = &mut self.servers[index];
        if now_ms < server.stalled_until_ms {
            return;
        }
        let local_ms = server.offset_ms + now_ms;
        if server.read.is_none() {
            if now_ms < server.back_at_ms {
                return;
            }
            self.named += 1;
            let name = format!("{:03}", self.named).into();
            server.read = Some(self.log.len());
            server.keepers.joined(name, local_ms);
        }
        // It may have more to read than it reads now.
        let most = 1 + self.below(30);
        for _ in 0..most {
            let Some(read) = self.servers[index].read else {
                return;
            };
            let Some((from, said)) = self.log.get(read).cloned() else {
                break;
            };
            self.servers[index].read = Some(read + 1);
            self.read(index, &from, said, local_ms);
        }
        let server = &mut self.servers[index];
        server
            .keepers
            .sees(now_ms >= server.blind_until_ms, local_ms);
        let keeps = server.keepers.keeps(local_ms);
        while let Some(saying) = server.keepers.poll(local_ms, now_ms) {
            let me = server.keepers.me().cloned().unwrap();
            self.log.push((me, Said::Keeping(saying)));
        }
        if keeps {
            self.notify(index);
        }
    }

    /// Changes a watched key, which the keeper reports.
    fn notify(&mut self, index: usize) {
        let key = self.below(KEYS);
        if let Some(watch) = self.servers[index].table.watched.get(&key)
            && watch.is_on
        {
            self.told += 1;
            let stopped = self.stopped.get(&key);
            assert!(
                stopped.is_none_or(|stopped| *stopped < watch.at),
                "told of {key} at {} after the watch had ended",
                self.now_ms
            );
        }
    }

    fn read(&mut self, index: usize, from: &Arc<str>, said: Said, local_ms: u64) {
        let server = &mut self.servers[index];
        let keepers = &mut server.keepers;
        let was_whole = keepers.is_whole();
        let turn = match said {
            Said::Keeping(Saying::Beat(beat)) => keepers.heard(from, beat, local_ms),
            Said::Keeping(Saying::Claim(claim)) => keepers.claimed(from, claim, local_ms),
            Said::Keeping(Saying::Join) => {
                if keepers.keeps(local_ms) {
                    let me = keepers.me().cloned().unwrap();
                    let known = Said::Known(Arc::clone(from), server.table.watched.clone());
                    self.log.push((me, known));
                }
                Turn::Nothing
            }
            Said::Keeping(Saying::Yield { blind_ms }) => {
                self.yielded += 1;
                keepers.yielded(from, blind_ms);
                Turn::Nothing
            }
            Said::Gone => {
                keepers.gone(from);
                Turn::Nothing
            }
            Said::Watch(key, is_on) => {
                let at = server.read.unwrap();
                server.table.watched.insert(key, Watch { is_on, at });
                if !was_whole {
                    server.table.touched.push(key);
                }
                if keepers.keeps(local_ms) && !is_on {
                    self.stopped.insert(key, at);
                }
                Turn::Nothing
            }
            Said::Known(to, watched) => {
                if keepers.me() == Some(&to) && keepers.keeper() == Some(from) && !was_whole {
                    for (key, watch) in watched {
                        if !server.table.touched.contains(&key) {
                            server.table.watched.insert(key, watch);
                        }
                    }
                    server.table.touched.clear();
                    keepers.was_told();
                }
                Turn::Nothing
            }
        };
        match turn {
            Turn::Nothing => {}
            Turn::Stale => server.table = Table::default(),
            Turn::Began { .. } => {
                self.began += 1;
                server.table.touched.clear();
                if was_whole {
                    let read = server.read.unwrap();
                    for key in (0..KEYS).filter(|_| self.restarts == 0) {
                        let known = server.table.watched.get(&key);
                        let mut log = self.log[..read].iter().rev();
                        let last = log.find_map(|(_, said)| match said {
                            Said::Watch(its, is_on) if *its == key => Some(*is_on),
                            _ => None,
                        });
                        assert_eq!(known.map(|it| it.is_on), last, "{key} at {}", self.now_ms);
                    }
                } else {
                    self.restarts += u64::from(self.began > 1);
                    self.stopped.clear();
                }
            }
        }
    }
}

impl Server {
    fn keeps(&self, now_ms: u64) -> bool {
        self.keepers.keeps(self.offset_ms + now_ms)
    }
}

#[test]
fn one_server_keeps_at_a_time_and_knows_what_the_one_before_has_answered() {
    let (mut began, mut told, mut handed_over, mut yielded) = (0, 0, 0, 0);
    for seed in 0..SEEDS {
        let mut world = World::new(seed);
        let ran = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| world.run()));
        assert!(ran.is_ok(), "seed {seed}");
        let now_ms = world.now_ms;
        let keeping: Vec<_> = world.servers.iter().filter(|it| it.keeps(now_ms)).collect();
        assert_eq!(keeping.len(), 1, "nobody keeps in the end: seed {seed}");
        // All servers read the log at their own pace; for the part that they have read, they agree.
        for server in &world.servers {
            assert!(server.keepers.is_whole(), "seed {seed}");
        }
        began += world.began;
        told += world.told;
        yielded += world.yielded;
        handed_over += world.began - world.restarts;
    }
    assert!(began > 5 * SEEDS, "{began}");
    assert!(handed_over > 3 * SEEDS, "{handed_over}");
    assert!(told > 100 * SEEDS, "{told}");
    assert!(yielded > SEEDS, "{yielded}");
}

#[test]
fn a_group_of_one_keeps_once_it_has_listened_and_until_its_beats_come_back_no_more() {
    let mut keepers = Keepers::default();
    let me: Arc<str> = "a".into();
    keepers.joined(Arc::clone(&me), 0);
    let mut at_ms = 0;
    while !keepers.keeps(at_ms) {
        assert!(at_ms <= LISTENING_MS + 2 * BEAT_MS, "{keepers:?}");
        while let Some(saying) = keepers.poll(at_ms, at_ms) {
            match saying {
                Saying::Beat(beat) => assert_eq!(keepers.heard(&me, beat, at_ms), Turn::Nothing),
                Saying::Claim(claim) => {
                    assert!(at_ms >= LISTENING_MS);
                    let turn = keepers.claimed(&me, claim, at_ms);
                    assert_eq!(turn, Turn::Began { since_ms: 0 });
                }
                Saying::Join | Saying::Yield { .. } => panic!("there is nobody to tell anything"),
            }
        }
        at_ms += 10;
    }
    assert!(keepers.keeps(at_ms + SILENCE_MS - 2 * BEAT_MS - 1010));
    assert!(!keepers.keeps(at_ms + SILENCE_MS - BEAT_MS));
}
