//! The link of a node to the engine, and its faults.
use super::engine::{Engine, Fault, page};
use crate::chance::Chance;
use statestored::keyspace::remote::{
    Ask, AskId, BUCKETS, EngineError, Found, Link, News, Place, Put, Revision, Seen, UNKNOWN_FLOOR,
    Verdict,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};
use std::time::Duration;

/// Time after which a request without an answer is reported as timed out.
const TIMEOUT_MS: u64 = 300;

/// Interval at which a watch without changes reports that it is alive.
const SILENCE_MS: u64 = 300;

/// Maximum duration of an interruption of a watch.
const LONGEST_INTERRUPTION_MS: u64 = 3_000;

/// The faults of a link, in percent unless another unit is given.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Weather {
    /// Maximum delay in each direction.
    pub(crate) delay_ms: u64,
    pub(crate) lost: u64,
    /// Answers that are lost.
    pub(crate) unanswered: u64,
    /// Commits that arrive twice, the second time up to three seconds later.
    pub(crate) doubled: u64,
    /// Commits that the engine rejects because it is full.
    pub(crate) full: u64,
    /// Rate of lost watches, in a thousand, for each change. Interruptions, after which a watch continues where it was, are
    /// equally frequent.
    pub(crate) watch_lost: u64,
}

impl Weather {
    /// No faults.
    pub(crate) const CALM: Self = Self {
        delay_ms: 5,
        lost: 0,
        unanswered: 0,
        doubled: 0,
        full: 0,
        watch_lost: 0,
    };
}

/// A message in flight.
#[derive(Debug)]
enum Event {
    /// A request reaches the engine; the answer to a second copy is dropped.
    Arrives(AskId, Ask, bool),
    /// An event reaches the node.
    Told(News),
    TimedOut(AskId, Ask),
}

/// The link of a node to the engine.
#[derive(Debug)]
pub(crate) struct Way {
    engine: Arc<Mutex<Engine>>,
    chance: Chance,
    pub(crate) weather: Weather,
    /// Whether the link never duplicates a commit.
    sends_once: bool,
    /// Whether the link is cut: it delivers no message, in either direction.
    pub(crate) is_cut: bool,
    events: BTreeMap<(u64, u64), Event>,
    sent: u64,
    /// Requests that have been answered, as far as the node knows.
    answered: BTreeSet<AskId>,
    /// Commits that arrive twice.
    doubled: BTreeSet<AskId>,
    /// The last request for a watch; the previous one is dropped, even if it is still in flight.
    asked_watch: Option<AskId>,
    /// The watch, the number of changes that it has reported, and the time of the next report.
    watch: Option<(AskId, u64, u64)>,
    /// Whether the node was notified that the watch is interrupted.
    is_broken: bool,
    /// Time of the last report of the watch.
    spoken_ms: u64,
    told: Vec<News>,
    /// Times at which the node heard of the watch, and the last revision of each report.
    pub(crate) heard: Vec<(u64, Revision)>,
    /// Counters of the faults.
    pub(crate) lost: usize,
    pub(crate) gaps: usize,
    pub(crate) interruptions: usize,
    pub(crate) late: usize,
    pub(crate) full: usize,
}

impl Way {
    pub(crate) fn new(engine: Arc<Mutex<Engine>>, chance: Chance, weather: Weather) -> Self {
        Self {
            engine,
            chance,
            weather,
            sends_once: weather.doubled == 0,
            is_cut: false,
            events: BTreeMap::new(),
            sent: 0,
            answered: BTreeSet::new(),
            doubled: BTreeSet::new(),
            asked_watch: None,
            watch: None,
            is_broken: false,
            spoken_ms: 0,
            told: Vec::new(),
            heard: Vec::new(),
            lost: 0,
            gaps: 0,
            interruptions: 0,
            late: 0,
            full: 0,
        }
    }

    fn push(&mut self, after_ms: u64, event: Event) {
        self.sent += 1;
        let at_ms = self.engine.lock().unwrap().now_ms + after_ms;
        self.events.insert((at_ms, self.sent), event);
    }

    fn delay_ms(&mut self) -> u64 {
        self.chance.below(self.weather.delay_ms + 1)
    }

    fn ask(&mut self, id: AskId, ask: Ask) {
        if matches!(ask, Ask::Watch) {
            self.asked_watch = Some(id);
        }
        let timeout = Event::TimedOut(id, ask.clone());
        self.push(TIMEOUT_MS, timeout);
        if matches!(ask, Ask::Commit(_)) && self.chance.percent(self.weather.doubled) {
            let later_ms = self.chance.spread(1, 3_000);
            self.late += 1;
            self.doubled.insert(id);
            self.push(later_ms, Event::Arrives(id, ask.clone(), true));
        }
        if self.chance.percent(self.weather.lost) {
            self.lost += 1;
            return;
        }
        let delay_ms = self.delay_ms();
        self.push(delay_ms, Event::Arrives(id, ask, false));
    }

    /// Handles all due events.
    pub(crate) fn proceed(&mut self, now_ms: u64) {
        while let Some(entry) = self.events.first_entry()
            && entry.key().0 <= now_ms
        {
            let event = entry.remove();
            self.happen(event);
        }
        self.watch_on(now_ms);
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Arrives(id, ask, is_copy) => {
                if self.is_cut && !is_copy {
                    self.lost += 1;
                    return;
                }
                self.arrived(id, &ask, is_copy);
            }
            Event::Told(news) => {
                if self.is_cut {
                    self.lost += 1;
                    return;
                }
                let (News::Read(id, _)
                | News::Revision(id, _)
                | News::Committed(id, _)
                | News::Page(id, _)
                | News::Clocks(id, _)) = &news
                else {
                    self.told.push(news);
                    return;
                };
                if self.answered.insert(*id) {
                    self.told.push(news);
                }
            }
            Event::TimedOut(id, ask) => {
                if self.answered.contains(&id) {
                    return;
                }
                // A watch that has begun reports its own end.
                if self.watch.is_none_or(|(watch, ..)| watch != id) {
                    self.unanswered(id, &ask);
                }
            }
        }
    }

    fn unanswered(&mut self, id: AskId, ask: &Ask) {
        if self.answered.insert(id) {
            self.told.push(match ask {
                Ask::Read(_) | Ask::Look(_) => News::Read(id, Err(None)),
                Ask::Revision => News::Revision(id, Err(None)),
                Ask::Commit(_) => News::Committed(id, Verdict::Unclear),
                Ask::Page { .. } => News::Page(id, Err(None)),
                Ask::Watch => News::WatchLost(id, None),
                Ask::Clocks { .. } => News::Clocks(id, Err(None)),
            });
        }
    }

    /// Handles a loss of changes in the engine: no message that was in flight arrives.
    pub(crate) fn reverted(&mut self) {
        for event in std::mem::take(&mut self.events).into_values() {
            if let Event::TimedOut(id, ask) = event {
                self.unanswered(id, &ask);
            }
        }
        let watch = self.watch.take();
        if self.engine.lock().unwrap().fault == Some(Fault::ReversionToldAsGap) {
            let lost = watch.map(|(id, ..)| News::WatchLost(id, None));
            self.told.extend(lost);
        } else {
            self.told.push(News::Reverted);
        }
    }

    fn arrived(&mut self, id: AskId, ask: &Ask, is_copy: bool) {
        // A rejection of one copy must not hide the result of the other, so commits that are sent twice are never rejected as
        // full.
        let is_full = matches!(ask, Ask::Commit(_))
            && !self.doubled.contains(&id)
            && self.chance.percent(self.weather.full);
        let engine = Arc::clone(&self.engine);
        let mut engine = engine.lock().unwrap();
        let news = match ask {
            Ask::Read(keys) => {
                let seen = keys.iter().map(|key| engine.seen(key)).collect();
                News::Read(id, Ok(seen))
            }
            Ask::Look(key) => {
                let floor = UNKNOWN_FLOOR;
                let seen = Seen {
                    floor,
                    ..engine.seen(key)
                };
                News::Read(id, Ok(vec![seen]))
            }
            Ask::Revision => News::Revision(id, Ok(engine.revision())),
            Ask::Commit(_) if is_full => {
                self.full += 1;
                News::Committed(id, Verdict::Failed(EngineError::Full))
            }
            Ask::Commit(unit) => News::Committed(id, engine.commit(unit)),
            Ask::Page { after, most } => News::Page(id, Ok(page(&engine, after.as_ref(), *most))),
            Ask::Clocks { process, shown_ms } => {
                let found = engine.compare_clocks(*process, *shown_ms);
                News::Clocks(id, Ok(found))
            }
            Ask::Watch => {
                drop(engine);
                return self.begin_watch(id);
            }
        };
        let fault = engine.fault;
        drop(engine);
        if is_copy {
            return;
        }
        let mut news = news;
        if self.chance.percent(self.weather.unanswered) {
            self.lost += 1;
            match (&news, fault) {
                (News::Committed(id, Verdict::Done(_)), Some(Fault::LossToldAsRefusal)) => {
                    let Ask::Commit(unit) = ask else { return };
                    let places = unit.compares.iter();
                    let count = places
                        .filter(|(it, _)| matches!(it, Place::Entry(_)))
                        .count();
                    let nothing = Seen {
                        record: None,
                        floor: ((0, 0), Revision(0)),
                    };
                    news = News::Committed(*id, Verdict::Refused(vec![nothing; count]));
                }
                _ => return,
            }
        }
        let delay_ms = self.delay_ms();
        self.push(delay_ms, Event::Told(news));
    }

    fn begin_watch(&mut self, id: AskId) {
        if self.asked_watch != Some(id) {
            return;
        }
        let engine = Arc::clone(&self.engine);
        let engine = engine.lock().unwrap();
        let at = engine.revision();
        let records: Vec<_> = engine
            .records
            .keys()
            .filter_map(|key| {
                let (record, revision) = engine.record(key)?;
                Some(Found {
                    key: key.clone(),
                    record,
                    revision,
                })
            })
            .filter(|found| {
                engine.fault != Some(Fault::SnapshotWithoutExpiring)
                    || found.record.expiry().is_none()
            })
            .collect();
        let floors = (0..BUCKETS).map(|bucket| engine.floor(bucket).0).collect();
        let (now_ms, known) = (engine.now_ms, engine.log.len() as u64);
        drop(engine);
        self.told.extend(
            records
                .chunks(3)
                .map(|chunk| News::Snapshot(id, chunk.to_vec())),
        );
        self.told.push(News::Synced(id, at, floors));
        self.answered.insert(id);
        self.watch = Some((id, known, now_ms));
        self.is_broken = false;
        self.spoken_ms = now_ms;
    }

    /// Reports the changes that are due, in order, or the loss of the watch.
    fn watch_on(&mut self, now_ms: u64) {
        let Some((id, told, next_ms)) = self.watch else {
            return;
        };
        let engine = Arc::clone(&self.engine);
        let engine = engine.lock().unwrap();
        let next = engine.log.get(usize::try_from(told).unwrap());
        if next.is_none()
            && !self.is_cut
            && !self.is_broken
            && self.spoken_ms + SILENCE_MS <= now_ms
        {
            self.told.push(News::Watching(id, Duration::ZERO));
            self.spoken_ms = now_ms;
        }
        let Some(logged) = next.filter(|_| next_ms <= now_ms && !self.is_cut) else {
            return;
        };
        let next_ms = now_ms + self.delay_ms();
        if std::mem::take(&mut self.is_broken) {
            self.told.push(News::WatchResumed(id));
            self.spoken_ms = now_ms;
        }
        let accident = self.chance.below(1_000);
        let watch_lost = self.weather.watch_lost;
        if (watch_lost..2 * watch_lost).contains(&accident) {
            self.interruptions += 1;
            self.is_broken = true;
            self.told.push(News::WatchBroken(id));
            let resumed_ms = now_ms + self.chance.spread(1, LONGEST_INTERRUPTION_MS);
            self.watch = Some((id, told, resumed_ms));
            return;
        }
        if accident < watch_lost {
            self.gaps += 1;
            if engine.fault == Some(Fault::GapUnnoticed) {
                self.watch = Some((id, engine.log.len() as u64, next_ms));
            } else {
                self.watch = None;
                self.told.push(News::WatchLost(id, None));
            }
            return;
        }
        let changes = logged
            .changes
            .iter()
            .filter_map(|(place, put)| match (place, put) {
                (Place::Entry(key), Put::Record(record)) => {
                    Some((key.clone(), Some(record.clone())))
                }
                (Place::Entry(key), _) => Some((key.clone(), None)),
                _ => None,
            });
        let news = News::Changes(id, Revision(logged.revision), changes.collect());
        self.told.push(news);
        self.watch = Some((id, told + 1, next_ms));
        self.spoken_ms = now_ms;
    }

    pub(crate) fn next_ms(&self) -> Option<u64> {
        let event = self.events.first_key_value().map(|((at_ms, _), _)| *at_ms);
        let behind = self.watch.and_then(|(_, told, next_ms)| {
            let engine = self.engine.lock().unwrap();
            let is_behind = (engine.log.len() as u64) > told;
            let speaks_ms = self.spoken_ms + SILENCE_MS;
            let then_ms = if is_behind { next_ms } else { speaks_ms };
            (!self.is_cut).then_some(then_ms)
        });
        event.into_iter().chain(behind).min()
    }

    pub(crate) fn has_news(&self) -> bool {
        !self.told.is_empty()
    }

    /// Detaches the node; messages in flight still arrive.
    pub(crate) fn abandon(&mut self) {
        self.watch = None;
        self.told.clear();
    }
}

/// The secret of the store that all nodes share.
pub(super) const STORE_SECRET: &[u8] = b"simulation";

/// A node's handle of its link.
#[derive(Debug, Clone)]
pub(crate) struct Shared(pub(crate) Arc<Mutex<Way>>);

impl Shared {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Way> {
        self.0.lock().unwrap()
    }
}

impl Link for Shared {
    fn store_secret(&self) -> &[u8] {
        STORE_SECRET
    }

    fn ask(&mut self, id: AskId, ask: Ask) {
        self.lock().ask(id, ask);
    }

    fn news(&mut self) -> Option<News> {
        let mut way = self.lock();
        let news = (!way.told.is_empty()).then(|| way.told.remove(0))?;
        let last = way.heard.last().map_or(Revision(0), |(_, at)| *at);
        let heard = match news {
            News::Synced(_, at, _) | News::Changes(_, at, _) => Some(at),
            News::Watching(..) => Some(last),
            _ => None,
        };
        let now_ms = way.engine.lock().unwrap().now_ms;
        way.heard.extend(heard.map(|at| (now_ms, at)));
        Some(news)
    }

    fn sends_once(&self) -> bool {
        let way = self.lock();
        way.sends_once || way.engine.lock().unwrap().fault == Some(Fault::SaysToSendOnce)
    }

    fn counts_revisions(&self) -> bool {
        let way = self.lock();
        way.engine.lock().unwrap().counts_revisions
    }

    fn poll_news(&mut self, _context: &mut Context<'_>) -> Poll<()> {
        if self.lock().has_news() {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }
}
