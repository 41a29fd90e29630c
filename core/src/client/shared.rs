//! State shared by a client's handles, requests and tasks.
use super::ConnectionState;
use super::capabilities_cache::CapabilitiesCache;
use super::contended_locks::ContendedLocks;
use super::lease_tracker::LeaseTracker;
use super::patterns::PatternRegistry;
use super::runtime_handle::RuntimeHandle;
use super::watches::Watches;
use crate::platform::Platform;
use crate::request::Exchange;
use crate::{Counters, LostReason, Settings};
use smol_str::SmolStr;
use statestore_protocol::{Clock, Hlc, HlcError};
use std::future::poll_fn;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

/// Minimum time between two warnings about the clock.
const WARNING_INTERVAL: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(crate) struct Shared {
    pub(super) settings: Settings,
    /// Time 0 of all milliseconds in the session.
    epoch: Instant,
    client_state: Mutex<ClientState>,
    clock: Mutex<LocalClock>,
    clock_skews: AtomicU64,
    /// Number of names issued so far.
    issued_names: AtomicU64,
    pub(crate) contended_locks: ContendedLocks,
    pub(crate) leases: LeaseTracker,
    pub(super) watches: Watches,
    pub(super) patterns: PatternRegistry,
    /// Known capabilities of the store.
    pub(super) capabilities: CapabilitiesCache,
    pub(super) state: watch::Sender<ConnectionState>,
    /// Time of the last loss of the connection.
    pub(super) lost_at: Mutex<Option<Instant>>,
    /// Ends the delay before the next attempt to connect.
    pub(super) reconnect: Notify,
    /// Reason for the end of the client, set when it begins to end.
    lost_reason: OnceLock<LostReason>,
    pub(crate) runtime: RuntimeHandle,
}

/// The clock for timestamps.
#[derive(Debug)]
struct LocalClock {
    clock: Clock,
    /// Whether the last received timestamp was too far ahead.
    is_skewed: bool,
    /// Time of the last warning.
    warned_at: Option<Instant>,
}

impl LocalClock {
    /// Records a timestamp that is too far ahead. Returns whether to log a warning: at the first such timestamp, and not again
    /// soon if good and bad timestamps alternate.
    fn should_warn(&mut self) -> bool {
        let begins = !std::mem::replace(&mut self.is_skewed, true);
        let is_quiet = self
            .warned_at
            .is_none_or(|at| at.elapsed() >= WARNING_INTERVAL);
        if begins && is_quiet {
            self.warned_at = Some(Instant::now());
        }
        begins && is_quiet
    }
}

/// The state machine, and the means to wake the task that drives it.
#[derive(Debug)]
pub(crate) struct ClientState {
    pub(crate) exchange: Exchange,
    pub(super) driver: DriverHandle,
    /// Whether the client is closing.
    pub(super) closing: bool,
}

/// The driver task, as seen by callers.
#[derive(Debug, Default)]
pub(super) struct DriverHandle {
    /// Waker of the driver; present while it sleeps.
    pub(super) waker: Option<Waker>,
    /// Whether output would be written at once.
    pub(super) is_idle: bool,
    /// Time at which the driver wakes without being notified.
    pub(super) wakes_at_ms: u64,
}

impl ClientState {
    /// Takes the driver's waker, if the driver sleeps and has work now or earlier than its wake-up time.
    pub(crate) fn take_driver_waker(&mut self) -> Option<Waker> {
        let driver = &mut self.driver;
        let must = driver.is_idle && self.exchange.has_output()
            || self
                .exchange
                .wake_at_ms()
                .is_some_and(|at| at < driver.wakes_at_ms);
        if must { driver.waker.take() } else { None }
    }
}

impl Shared {
    pub(super) fn new(
        settings: Settings,
        exchange: Exchange,
        clock: Clock,
        timers: RuntimeHandle,
    ) -> Self {
        Self {
            settings,
            epoch: Instant::now(),
            client_state: Mutex::new(ClientState {
                exchange,
                driver: DriverHandle::default(),
                closing: false,
            }),
            clock: Mutex::new(LocalClock {
                clock,
                is_skewed: false,
                warned_at: None,
            }),
            clock_skews: AtomicU64::new(0),
            issued_names: AtomicU64::new(0),
            contended_locks: ContendedLocks::default(),
            leases: LeaseTracker::default(),
            watches: Watches::default(),
            patterns: PatternRegistry::default(),
            capabilities: CapabilitiesCache::default(),
            state: watch::Sender::new(ConnectionState::Connecting),
            lost_at: Mutex::new(None),
            reconnect: Notify::new(),
            lost_reason: OnceLock::new(),
            runtime: timers,
        }
    }

    /// Locks the state machine. Hold the lock for short times only, never across an await or a callback.
    pub(crate) fn lock_state(&self) -> MutexGuard<'_, ClientState> {
        self.client_state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn now_ms(&self) -> u64 {
        u64::try_from(self.epoch.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Converts a time in milliseconds to an instant.
    pub(super) fn instant(&self, ms: u64) -> Instant {
        saturating_after(self.epoch, Duration::from_millis(ms))
    }

    /// Returns the default time limit of a request.
    pub(crate) fn request_timeout(&self) -> Duration {
        self.settings.request_timeout
    }

    /// Returns the platform that the client runs on.
    pub(crate) fn platform(&self) -> &dyn Platform {
        &*self.settings.platform
    }

    /// Returns a name that no other client has, and a number that this client has not issued before.
    pub(crate) fn unique_name(&self) -> (SmolStr, u64) {
        let number = self.issued_names.fetch_add(1, Ordering::Relaxed) + 1;
        (SmolStr::new(self.tick().node_id()), number)
    }

    /// Returns a timestamp whose node name no other timestamp has, here or elsewhere.
    pub(crate) fn unique_timestamp(&self) -> Hlc {
        let timestamp = self.tick();
        let number = self.issued_names.fetch_add(1, Ordering::Relaxed) + 1;
        let name = format!("{}.{number}", timestamp.node_id());
        let renamed = Hlc::new(timestamp.wall_ms(), timestamp.counter(), &name);
        renamed.unwrap_or(timestamp)
    }

    /// Returns the next timestamp for a request.
    pub(crate) fn tick(&self) -> Hlc {
        self.clock
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clock
            .tick(self.settings.platform.wall_ms())
    }

    /// Merges a timestamp of the store into the clock, and returns whether it was accepted. One that is too far ahead is
    /// counted and ignored, and the first of them is logged.
    pub(crate) fn merge(&self, received: &Hlc) -> bool {
        let (skew, warns) = {
            let mut local = self.clock.lock().unwrap_or_else(PoisonError::into_inner);
            // The usual case, which does not need the current time.
            let merged = if local.clock.is_ahead_of(received) {
                Ok(())
            } else {
                let now_wall_ms = self.settings.platform.wall_ms();
                local.clock.merge(received, now_wall_ms)
            };
            let Err(skew) = merged else {
                local.is_skewed = false;
                return true;
            };
            (skew, local.should_warn())
        };
        self.clock_skews.fetch_add(1, Ordering::Relaxed);
        if warns {
            tracing::warn!(
                ahead_ms = skew.ahead_ms,
                "the store's clock is too far ahead of the local one"
            );
        }
        false
    }

    pub(super) fn counters(&self) -> Counters {
        let core = self.lock_state();
        let mut counters = core.exchange.counters;
        counters.resent += core.exchange.session().resent();
        counters.in_flight = core.exchange.in_flight() as u64;
        counters.queued = core.exchange.queued() as u64;
        drop(core);
        counters.clock_skews = self.clock_skews.load(Ordering::Relaxed);
        self.watches.count(&mut counters);
        counters
    }

    /// Waits until no request is under way.
    pub(super) async fn wait_idle(&self) {
        poll_fn(|context| {
            let is_idle = self.lock_state().exchange.poll_idle(context.waker());
            if is_idle {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
    }

    /// Returns the reason for the end of the client, if it is ending.
    pub(crate) fn lost_reason(&self) -> Option<LostReason> {
        self.lost_reason.get().copied()
    }

    /// Ends the client: every request fails with this reason, and the driver disconnects and stops. The first reason counts.
    pub(super) fn close(&self, lost_reason: LostReason, reason: &str) {
        self.lost_reason.get_or_init(|| lost_reason);
        let mut wakers = Vec::new();
        {
            let mut core = self.lock_state();
            core.closing = true;
            core.exchange.close(reason, &mut wakers);
            wakers.extend(core.driver.waker.take());
        }
        wakers.into_iter().for_each(Waker::wake);
    }
}

/// Returns the instant `time` after `start`. A time that is too far in the future for an `Instant` becomes one year from now.
pub(super) fn saturating_after(start: Instant, time: Duration) -> Instant {
    const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);
    start
        .checked_add(time)
        .unwrap_or_else(|| Instant::now() + YEAR)
}

/// Creates the clock of this client, under a random name that no other client has.
pub(super) fn new_clock(random: u64) -> Result<Clock, HlcError> {
    Clock::new(&format!("{random:016x}"))
}
