//! The service over a real engine, under a clock that the test turns: what the tests of the embedded keyspace say holds here as well.
use super::Engine;
use crate::TestEngine;
use statestored_link::ThreadLink;
use statestored_shared::{
    CommitOutcome, EngineEvent, EngineRequest, EngineRequestId, Link, Revision, SharedKeyspace,
    SharedKeyspaceConfig,
};
use statestored_storage::{Batch, Record};
use statestored_store::service::{ClockReading, Service, ServiceConfig};
use std::cell::RefCell;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

pub(crate) use crate::STORAGE;

/// How many histories are tried: each step waits for a disk.
pub(crate) const CASES: u32 = 40;

/// Whether entries expire without a request.
pub(crate) const EXPIRES_WITHOUT_REQUESTS: bool = true;

/// Whether the storage of the entries is updated after a jump of the wall clock.
pub(crate) const REWRITES_AFTER_CLOCK_JUMPS: bool = false;

/// How long the service is left to itself when nothing wakes it.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Progress of the requests and of the change events.
#[derive(Debug, Default)]
struct Progress {
    /// Questions that have no answer yet.
    pending: usize,
    /// The last change that was made here.
    last_commit: Revision,
    /// Revision up to which changes were reported; `None` while they are not followed.
    reported: Option<Revision>,
}

/// A link that counts.
#[derive(Debug)]
struct CountingLink {
    link: ThreadLink,
    progress: Arc<Mutex<Progress>>,
}

impl Link for CountingLink {
    fn store_secret(&self) -> &[u8] {
        self.link.store_secret()
    }

    fn request(&mut self, id: EngineRequestId, ask: EngineRequest) {
        if !matches!(ask, EngineRequest::Watch) {
            self.progress.lock().unwrap().pending += 1;
        }
        self.link.request(id, ask);
    }

    fn next_event(&mut self) -> Option<EngineEvent> {
        let news = self.link.next_event()?;
        let mut progress = self.progress.lock().unwrap();
        match &news {
            EngineEvent::Read(..)
            | EngineEvent::Revision(..)
            | EngineEvent::Page(..)
            | EngineEvent::Clocks(..) => {
                progress.pending -= 1;
            }
            EngineEvent::Committed(_, verdict) => {
                progress.pending -= 1;
                if let CommitOutcome::Committed(revision) = verdict {
                    progress.last_commit = progress.last_commit.max(*revision);
                }
            }
            EngineEvent::Synced(_, at, _) | EngineEvent::Changes(_, at, _) => {
                progress.reported = Some(*at);
            }
            EngineEvent::WatchLost(..) | EngineEvent::Reverted => progress.reported = None,
            EngineEvent::Snapshot(..)
            | EngineEvent::WatchProgress(..)
            | EngineEvent::WatchInterrupted(_)
            | EngineEvent::WatchResumed(_)
            | EngineEvent::Writable(_)
            | EngineEvent::Members { .. } => {}
        }
        Some(news)
    }

    fn buffered(&self) -> usize {
        self.link.buffered()
    }

    fn flush(&mut self) {
        self.link.flush();
    }

    fn sends_once(&self) -> bool {
        self.link.sends_once()
    }

    fn counts_revisions(&self) -> bool {
        self.link.counts_revisions()
    }

    fn poll_events(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.link.poll_events(context)
    }
}

/// The engine of a test, and the store in it that is in use.
struct EngineFixture {
    engine: TestEngine,
    stores: u32,
    progress: Arc<Mutex<Progress>>,
}

thread_local! {
    // A test has a thread of its own.
    static WORLD: RefCell<Option<EngineFixture>> = const { RefCell::new(None) };
}

fn service(config: ServiceConfig, is_new: bool) -> Service {
    WORLD.with_borrow_mut(|world| {
        let world = world.get_or_insert_with(|| EngineFixture {
            engine: TestEngine::start(),
            stores: 0,
            progress: Arc::default(),
        });
        world.stores += u32::from(is_new);
        world.progress = Arc::default();
        let link = world.engine.link(&format!("store{}", world.stores));
        let link = CountingLink {
            link,
            progress: Arc::clone(&world.progress),
        };
        let remote = SharedKeyspaceConfig {
            // No other server would do it.
            removal_delay_ms: 0,
            // Nor are these clocks real.
            max_clock_lead_ms: u64::MAX,
            clock_interval_ms: u64::MAX,
            ..SharedKeyspaceConfig::random().unwrap()
        };
        // The engine has the entries: there is nothing to be kept here.
        let config = ServiceConfig {
            is_durable: false,
            ..config
        };
        Service::new(config, SharedKeyspace::new(remote, link))
    })
}

pub(crate) fn open(config: ServiceConfig) -> Service {
    service(config, true)
}

/// Another server over the same store.
pub(crate) fn restore<'r>(
    config: ServiceConfig,
    _: impl Iterator<Item = &'r Record>,
    _: Option<(u64, u64)>,
    now: ClockReading,
) -> Service {
    let mut service = service(config, false);
    settle(&mut service, now);
    service
}

struct UnparkWaker(Thread);

impl Wake for UnparkWaker {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits for events for the service.
pub(crate) fn idle(service: &mut Service) {
    service.flush_gathered();
    let waker = Waker::from(Arc::new(UnparkWaker(std::thread::current())));
    if service
        .poll_events(&mut Context::from_waker(&waker))
        .is_pending()
    {
        std::thread::park_timeout(POLL_INTERVAL);
    }
}

/// Waits until all operations have ended, and all due entries have expired.
pub(crate) fn settle(service: &mut Service, now: ClockReading) {
    let progress = WORLD.with_borrow(|world| Arc::clone(&world.as_ref().unwrap().progress));
    let end = Instant::now() + super::LONG;
    loop {
        service.advance(now);
        service.flush_gathered();
        {
            let progress = progress.lock().unwrap();
            if progress.pending == 0 && progress.reported >= Some(progress.last_commit) {
                return;
            }
            assert!(Instant::now() < end, "not in time: {progress:?}");
        }
        idle(service);
    }
}

/// The engine has kept it.
pub(crate) fn keep(_: &Batch) {}
