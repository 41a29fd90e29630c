//! The link of a node to the engine, and its faults.
use super::engine::{Engine, Mutation, page};
use crate::seeded_rng::SeededRng;
use statestored_shared::{
    BUCKETS, CommitOutcome, EngineError, EngineEvent, EngineKey, EngineRequest, EngineRequestId,
    EngineValue, KeyState, KeyedRecord, Link, Revision,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};
use std::time::Duration;

/// Time after which a request without an answer is reported as timed out.
const TIMEOUT_MS: u64 = 300;

/// Interval at which a watch without changes reports that it is alive.
const PROGRESS_INTERVAL_MS: u64 = 300;

/// Maximum duration of an interruption of a watch.
const MAX_INTERRUPTION_MS: u64 = 3_000;

/// The faults of a link, in percent unless another unit is given.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LinkFaults {
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

impl LinkFaults {
    /// No faults.
    pub(crate) const NONE: Self = Self {
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
    Request(EngineRequestId, EngineRequest, bool),
    /// An event reaches the node.
    Delivery(EngineEvent),
    TimedOut(EngineRequestId, EngineRequest),
}

/// The link of a node to the engine.
#[derive(Debug)]
pub(crate) struct SimulatedLink {
    engine: Arc<Mutex<Engine>>,
    chance: SeededRng,
    pub(crate) faults: LinkFaults,
    /// Whether the link never duplicates a commit.
    sends_once: bool,
    /// Whether the link is cut: it delivers no message, in either direction.
    pub(crate) is_cut: bool,
    events: BTreeMap<(u64, u64), Event>,
    sent: u64,
    /// Requests that have been answered, as far as the node knows.
    answered_requests: BTreeSet<EngineRequestId>,
    /// Commits that arrive twice.
    doubled: BTreeSet<EngineRequestId>,
    /// The last request for a watch; the previous one is dropped, even if it is still in flight.
    requested_watch: Option<EngineRequestId>,
    /// The watch, the number of changes that it has reported, and the time of the next report.
    watch: Option<(EngineRequestId, u64, u64)>,
    /// Whether the node was notified that the watch is interrupted.
    is_interrupted: bool,
    /// Time of the last report of the watch.
    last_report_ms: u64,
    events_for_node: Vec<EngineEvent>,
    /// Times at which the node heard of the watch, and the last revision of each report.
    pub(crate) watch_reports: Vec<(u64, Revision)>,
    /// Counters of the faults.
    pub(crate) lost: usize,
    pub(crate) gaps: usize,
    pub(crate) interruptions: usize,
    pub(crate) late: usize,
    pub(crate) full: usize,
}

impl SimulatedLink {
    pub(crate) fn new(engine: Arc<Mutex<Engine>>, chance: SeededRng, weather: LinkFaults) -> Self {
        Self {
            engine,
            chance,
            faults: weather,
            sends_once: weather.doubled == 0,
            is_cut: false,
            events: BTreeMap::new(),
            sent: 0,
            answered_requests: BTreeSet::new(),
            doubled: BTreeSet::new(),
            requested_watch: None,
            watch: None,
            is_interrupted: false,
            last_report_ms: 0,
            events_for_node: Vec::new(),
            watch_reports: Vec::new(),
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
        self.chance.below(self.faults.delay_ms + 1)
    }

    fn request(&mut self, id: EngineRequestId, ask: EngineRequest) {
        if matches!(ask, EngineRequest::Watch) {
            self.requested_watch = Some(id);
        }
        let timeout = Event::TimedOut(id, ask.clone());
        self.push(TIMEOUT_MS, timeout);
        if matches!(ask, EngineRequest::Commit(_)) && self.chance.percent(self.faults.doubled) {
            let later_ms = self.chance.log_uniform(1, 3_000);
            self.late += 1;
            self.doubled.insert(id);
            self.push(later_ms, Event::Request(id, ask.clone(), true));
        }
        if self.chance.percent(self.faults.lost) {
            self.lost += 1;
            return;
        }
        let delay_ms = self.delay_ms();
        self.push(delay_ms, Event::Request(id, ask, false));
    }

    /// Handles all due events.
    pub(crate) fn proceed(&mut self, now_ms: u64) {
        while let Some(entry) = self.events.first_entry()
            && entry.key().0 <= now_ms
        {
            let event = entry.remove();
            self.handle(event);
        }
        self.report_changes(now_ms);
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Request(id, ask, is_copy) => {
                if self.is_cut && !is_copy {
                    self.lost += 1;
                    return;
                }
                self.request_arrived(id, &ask, is_copy);
            }
            Event::Delivery(news) => {
                if self.is_cut {
                    self.lost += 1;
                    return;
                }
                let (EngineEvent::Read(id, _)
                | EngineEvent::Revision(id, _)
                | EngineEvent::Committed(id, _)
                | EngineEvent::Page(id, _)
                | EngineEvent::Clocks(id, _)) = &news
                else {
                    self.events_for_node.push(news);
                    return;
                };
                if self.answered_requests.insert(*id) {
                    self.events_for_node.push(news);
                }
            }
            Event::TimedOut(id, ask) => {
                if self.answered_requests.contains(&id) {
                    return;
                }
                // A watch that has begun reports its own end.
                if self.watch.is_none_or(|(watch, ..)| watch != id) {
                    self.unanswered(id, &ask);
                }
            }
        }
    }

    fn unanswered(&mut self, id: EngineRequestId, ask: &EngineRequest) {
        if self.answered_requests.insert(id) {
            self.events_for_node.push(match ask {
                EngineRequest::Read(_)
                | EngineRequest::ReadRecord(_)
                | EngineRequest::ReadRecords(_) => EngineEvent::Read(id, Err(None)),
                EngineRequest::Revision => EngineEvent::Revision(id, Err(None)),
                EngineRequest::Commit(_) => EngineEvent::Committed(id, CommitOutcome::Unknown),
                EngineRequest::Page { .. } => EngineEvent::Page(id, Err(None)),
                EngineRequest::Watch => EngineEvent::WatchLost(id, None),
                EngineRequest::Clocks { .. } => EngineEvent::Clocks(id, Err(None)),
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
        if self.engine.lock().unwrap().mutation == Some(Mutation::ReversionReportedAsGap) {
            let lost = watch.map(|(id, ..)| EngineEvent::WatchLost(id, None));
            self.events_for_node.extend(lost);
        } else {
            self.events_for_node.push(EngineEvent::Reverted);
        }
    }

    fn request_arrived(&mut self, id: EngineRequestId, ask: &EngineRequest, is_copy: bool) {
        // A rejection of one copy must not hide the result of the other, so commits that are sent twice are never rejected as
        // full.
        let is_full = matches!(ask, EngineRequest::Commit(_))
            && !self.doubled.contains(&id)
            && self.chance.percent(self.faults.full);
        let engine = Arc::clone(&self.engine);
        let mut engine = engine.lock().unwrap();
        let news = match ask {
            EngineRequest::Read(keys) => {
                let seen = keys.iter().map(|key| engine.key_state(key)).collect();
                EngineEvent::Read(id, Ok(seen))
            }
            EngineRequest::ReadRecord(key) => {
                EngineEvent::Read(id, Ok(vec![engine.record_state(key)]))
            }
            EngineRequest::ReadRecords(keys) => {
                let seen = keys.iter().map(|key| engine.record_state(key)).collect();
                EngineEvent::Read(id, Ok(seen))
            }
            EngineRequest::Revision => EngineEvent::Revision(id, Ok(engine.revision())),
            EngineRequest::Commit(_) if is_full => {
                self.full += 1;
                EngineEvent::Committed(id, CommitOutcome::Failed(EngineError::Full))
            }
            EngineRequest::Commit(unit) => EngineEvent::Committed(id, engine.commit(unit)),
            EngineRequest::Page { after, limit: most } => {
                EngineEvent::Page(id, Ok(page(&engine, after.as_ref(), *most)))
            }
            EngineRequest::Clocks {
                process,
                reading_ms: shown_ms,
            } => {
                let found = engine.compare_clocks(*process, *shown_ms);
                EngineEvent::Clocks(id, Ok(found))
            }
            EngineRequest::Watch => {
                drop(engine);
                return self.begin_watch(id);
            }
        };
        let fault = engine.mutation;
        drop(engine);
        if is_copy {
            return;
        }
        let mut news = news;
        if self.chance.percent(self.faults.unanswered) {
            self.lost += 1;
            match (&news, fault) {
                (
                    EngineEvent::Committed(id, CommitOutcome::Committed(_)),
                    Some(Mutation::LossReportedAsConflict),
                ) => {
                    let EngineRequest::Commit(unit) = ask else {
                        return;
                    };
                    let places = unit.compares.iter();
                    let count = places
                        .filter(|(it, _)| matches!(it, EngineKey::Entry(_)))
                        .count();
                    let nothing = KeyState {
                        record: None,
                        floor: ((0, 0), Revision(0)),
                    };
                    news =
                        EngineEvent::Committed(*id, CommitOutcome::Conflict(vec![nothing; count]));
                }
                _ => return,
            }
        }
        let delay_ms = self.delay_ms();
        self.push(delay_ms, Event::Delivery(news));
    }

    fn begin_watch(&mut self, id: EngineRequestId) {
        if self.requested_watch != Some(id) {
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
                Some(KeyedRecord {
                    key: key.clone(),
                    record,
                    revision,
                })
            })
            .filter(|found| {
                engine.mutation != Some(Mutation::SnapshotWithoutExpiring)
                    || found.record.expiry().is_none()
            })
            .collect();
        let floors = (0..BUCKETS).map(|bucket| engine.floor(bucket).0).collect();
        let (now_ms, known) = (engine.now_ms, engine.log.len() as u64);
        drop(engine);
        self.events_for_node.extend(
            records
                .chunks(3)
                .map(|chunk| EngineEvent::Snapshot(id, chunk.to_vec())),
        );
        self.events_for_node
            .push(EngineEvent::Synced(id, at, floors));
        self.answered_requests.insert(id);
        self.watch = Some((id, known, now_ms));
        self.is_interrupted = false;
        self.last_report_ms = now_ms;
    }

    /// Reports the changes that are due, in order, or the loss of the watch.
    fn report_changes(&mut self, now_ms: u64) {
        let Some((id, told, next_ms)) = self.watch else {
            return;
        };
        let engine = Arc::clone(&self.engine);
        let engine = engine.lock().unwrap();
        let next = engine.log.get(usize::try_from(told).unwrap());
        if next.is_none()
            && !self.is_cut
            && !self.is_interrupted
            && self.last_report_ms + PROGRESS_INTERVAL_MS <= now_ms
        {
            self.events_for_node
                .push(EngineEvent::WatchProgress(id, Duration::ZERO));
            self.last_report_ms = now_ms;
        }
        let Some(logged) = next.filter(|_| next_ms <= now_ms && !self.is_cut) else {
            return;
        };
        let next_ms = now_ms + self.delay_ms();
        if std::mem::take(&mut self.is_interrupted) {
            self.events_for_node.push(EngineEvent::WatchResumed(id));
            self.last_report_ms = now_ms;
        }
        let accident = self.chance.below(1_000);
        let watch_lost = self.faults.watch_lost;
        if (watch_lost..2 * watch_lost).contains(&accident) {
            self.interruptions += 1;
            self.is_interrupted = true;
            self.events_for_node.push(EngineEvent::WatchInterrupted(id));
            let resumed_ms = now_ms + self.chance.log_uniform(1, MAX_INTERRUPTION_MS);
            self.watch = Some((id, told, resumed_ms));
            return;
        }
        if accident < watch_lost {
            self.gaps += 1;
            if engine.mutation == Some(Mutation::GapUnnoticed) {
                self.watch = Some((id, engine.log.len() as u64, next_ms));
            } else {
                self.watch = None;
                self.events_for_node.push(EngineEvent::WatchLost(id, None));
            }
            return;
        }
        let changes = logged
            .changes
            .iter()
            .filter_map(|(place, put)| match (place, put) {
                (EngineKey::Entry(key), EngineValue::Record(record)) => {
                    Some((key.clone(), Some(record.clone())))
                }
                (EngineKey::Entry(key), _) => Some((key.clone(), None)),
                _ => None,
            });
        let news = EngineEvent::Changes(id, Revision(logged.revision), changes.collect());
        self.events_for_node.push(news);
        self.watch = Some((id, told + 1, next_ms));
        self.last_report_ms = now_ms;
    }

    pub(crate) fn next_ms(&self) -> Option<u64> {
        let event = self.events.first_key_value().map(|((at_ms, _), _)| *at_ms);
        let behind = self.watch.and_then(|(_, told, next_ms)| {
            let engine = self.engine.lock().unwrap();
            let is_behind = (engine.log.len() as u64) > told;
            let speaks_ms = self.last_report_ms + PROGRESS_INTERVAL_MS;
            let then_ms = if is_behind { next_ms } else { speaks_ms };
            (!self.is_cut).then_some(then_ms)
        });
        event.into_iter().chain(behind).min()
    }

    pub(crate) fn has_events(&self) -> bool {
        !self.events_for_node.is_empty()
    }

    /// Detaches the node; messages in flight still arrive.
    pub(crate) fn abandon(&mut self) {
        self.watch = None;
        self.events_for_node.clear();
    }
}

/// The secret of the store that all nodes share.
pub(super) const STORE_SECRET: &[u8] = b"simulation";

/// A node's handle of its link.
#[derive(Debug, Clone)]
pub(crate) struct SharedLink(pub(crate) Arc<Mutex<SimulatedLink>>);

impl SharedLink {
    pub(crate) fn lock(&self) -> MutexGuard<'_, SimulatedLink> {
        self.0.lock().unwrap()
    }
}

impl Link for SharedLink {
    fn store_secret(&self) -> &[u8] {
        STORE_SECRET
    }

    fn request(&mut self, id: EngineRequestId, ask: EngineRequest) {
        self.lock().request(id, ask);
    }

    fn next_event(&mut self) -> Option<EngineEvent> {
        let mut way = self.lock();
        let news = (!way.events_for_node.is_empty()).then(|| way.events_for_node.remove(0))?;
        let last = way.watch_reports.last().map_or(Revision(0), |(_, at)| *at);
        let heard = match news {
            EngineEvent::Synced(_, at, _) | EngineEvent::Changes(_, at, _) => Some(at),
            EngineEvent::WatchProgress(..) => Some(last),
            _ => None,
        };
        let now_ms = way.engine.lock().unwrap().now_ms;
        way.watch_reports.extend(heard.map(|at| (now_ms, at)));
        Some(news)
    }

    fn sends_once(&self) -> bool {
        let way = self.lock();
        way.sends_once || way.engine.lock().unwrap().mutation == Some(Mutation::ClaimsToSendOnce)
    }

    fn counts_revisions(&self) -> bool {
        let way = self.lock();
        way.engine.lock().unwrap().counts_revisions
    }

    fn poll_events(&mut self, _context: &mut Context<'_>) -> Poll<()> {
        if self.lock().has_events() {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }
}
