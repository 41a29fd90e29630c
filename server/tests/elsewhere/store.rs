//! The service over a real engine, under a clock that the test turns: what the tests of the embedded keyspace say holds here as well.
use super::Engine;
use crate::Tested;
use statestored::keyspace::remote::{
    Ask, AskId, Link, News, Remote, RemoteConfig, Revision, ThreadLink, Verdict,
};
use statestored::service::{Now, Service, ServiceConfig};
use statestored::storage::{Batch, Record};
use std::cell::RefCell;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

pub(crate) use crate::STORAGE;

/// How many histories are tried: each step waits for a disk.
pub(crate) const CASES: u32 = 40;

/// Whether entries expire without a request.
pub(crate) const ENDS_BY_ITSELF: bool = true;

/// Whether the storage of the entries is updated after a jump of the wall clock.
pub(crate) const IS_TOLD_OF_JUMPS: bool = false;

/// How long the service is left to itself when nothing wakes it.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Progress of the requests and of the change events.
#[derive(Debug, Default)]
struct Progress {
    /// Questions that have no answer yet.
    waiting: usize,
    /// The last change that was made here.
    made: Revision,
    /// Revision up to which changes were reported; `None` while they are not followed.
    told: Option<Revision>,
}

/// A link that counts.
#[derive(Debug)]
struct Counted {
    link: ThreadLink,
    progress: Arc<Mutex<Progress>>,
}

impl Link for Counted {
    fn store_secret(&self) -> &[u8] {
        self.link.store_secret()
    }

    fn ask(&mut self, id: AskId, ask: Ask) {
        if !matches!(ask, Ask::Watch) {
            self.progress.lock().unwrap().waiting += 1;
        }
        self.link.ask(id, ask);
    }

    fn news(&mut self) -> Option<News> {
        let news = self.link.news()?;
        let mut progress = self.progress.lock().unwrap();
        match &news {
            News::Read(..) | News::Revision(..) | News::Page(..) | News::Clocks(..) => {
                progress.waiting -= 1;
            }
            News::Committed(_, verdict) => {
                progress.waiting -= 1;
                if let Verdict::Done(revision) = verdict {
                    progress.made = progress.made.max(*revision);
                }
            }
            News::Synced(_, at, _) | News::Changes(_, at, _) => progress.told = Some(*at),
            News::WatchLost(..) | News::Reverted => progress.told = None,
            News::Snapshot(..)
            | News::Watching(..)
            | News::WatchBroken(_)
            | News::WatchResumed(_)
            | News::Writable(_) => {}
        }
        Some(news)
    }

    fn unsent(&self) -> usize {
        self.link.unsent()
    }

    fn send(&mut self) {
        self.link.send();
    }

    fn sends_once(&self) -> bool {
        self.link.sends_once()
    }

    fn counts_revisions(&self) -> bool {
        self.link.counts_revisions()
    }

    fn poll_news(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.link.poll_news(context)
    }
}

/// The engine of a test, and the store in it that is in use.
struct World {
    engine: Tested,
    stores: u32,
    progress: Arc<Mutex<Progress>>,
}

thread_local! {
    // A test has a thread of its own.
    static WORLD: RefCell<Option<World>> = const { RefCell::new(None) };
}

fn service(config: ServiceConfig, is_new: bool) -> Service {
    WORLD.with_borrow_mut(|world| {
        let world = world.get_or_insert_with(|| World {
            engine: Tested::start(),
            stores: 0,
            progress: Arc::default(),
        });
        world.stores += u32::from(is_new);
        world.progress = Arc::default();
        let link = world.engine.link(&format!("store{}", world.stores));
        let link = Counted {
            link,
            progress: Arc::clone(&world.progress),
        };
        let remote = RemoteConfig {
            // No other server would do it.
            patience_ms: 0,
            // Nor are these clocks real.
            clock_limit_ms: u64::MAX,
            compare_ms: u64::MAX,
            ..RemoteConfig::random().unwrap()
        };
        // The engine has the entries: there is nothing to be kept here.
        let config = ServiceConfig {
            is_durable: false,
            ..config
        };
        Service::new(config, Remote::new(remote, link))
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
    now: Now,
) -> Service {
    let mut service = service(config, false);
    settle(&mut service, now);
    service
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits for events for the service.
pub(crate) fn idle(service: &mut Service) {
    service.ask_gathered();
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    if service
        .poll_news(&mut Context::from_waker(&waker))
        .is_pending()
    {
        std::thread::park_timeout(LOOK_AGAIN);
    }
}

/// Waits until all operations have ended, and all due entries have expired.
pub(crate) fn settle(service: &mut Service, now: Now) {
    let progress = WORLD.with_borrow(|world| Arc::clone(&world.as_ref().unwrap().progress));
    let end = Instant::now() + super::LONG;
    loop {
        service.advance(now);
        service.ask_gathered();
        {
            let progress = progress.lock().unwrap();
            if progress.waiting == 0 && progress.told >= Some(progress.made) {
                return;
            }
            assert!(Instant::now() < end, "not in time: {progress:?}");
        }
        idle(service);
    }
}

/// The engine has kept it.
pub(crate) fn keep(_: &Batch) {}
