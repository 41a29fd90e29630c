//! The members of etcd, each over a connection of its own, and the choice among them.
//!
//! A member is in service as long as it answers requests. An open connection shows nothing: the kernel of a stopped process keeps it open,
//! and a member that has lost the others still answers pings. Every request is therefore compared with the others. If a request that began
//! later was answered by another member, the slow request's member is put aside. It gets no more requests, and all requests to it are
//! abandoned. One task for each member then reconnects, and returns the member to service once it has answered a read.
use super::connection::{self, MemberConnectError, kv, timed_out};
use super::{EtcdConfig, REQUEST_TIMEOUT};
use etcd_client::{Client, Error};
use statestored_link::log_deduplicator::LogDeduplicator;
use statestored_shared::EngineEvent;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};

/// Time after which an unanswered request is compared with others.
const SLOW_AFTER: Duration = Duration::from_millis(500);

/// Difference of the beginnings from which on an unanswered request counts as overtaken by an answered one.
const OVERTAKE_MARGIN: Duration = Duration::from_millis(250);

/// Interval between comparisons of an unanswered request.
const COMPARE_INTERVAL: Duration = Duration::from_millis(50);

/// First and maximum pause before a member that was put aside is tried again.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));

/// Time in service after which the first pause applies again.
const BACKOFF_RESET: Duration = Duration::from_secs(30);

/// Half-life of the measured answer times: a slow member is tried again.
const LATENCY_HALF_LIFE: Duration = Duration::from_secs(2);

/// All members in the configuration.
#[derive(Debug)]
pub(super) struct Members {
    config: EtcdConfig,
    /// The key that is read to test a member.
    probe_key: Vec<u8>,
    all: Vec<Arc<Member>>,
    next_index: AtomicUsize,
}

/// A member of etcd.
#[derive(Debug)]
pub(super) struct Member {
    endpoint: String,
    health: Mutex<Health>,
    /// Wakes all requests to the member when it is put aside.
    abandoned: Notify,
    /// Wakes the task that returns the member to service.
    suspended: Notify,
    log_deduplicator: LogDeduplicator,
}

#[derive(Default)]
struct Health {
    /// The client; kept while the member is aside, since it may be used if no member is in service.
    client: Option<Client>,
    is_suspended: bool,
    in_flight: usize,
    /// Beginning of the latest request that was answered.
    last_answered: Option<Instant>,
    /// Average time of recent answers in seconds, and the time of the last answer.
    latency_s: f64,
    latency_at: Option<Instant>,
}

impl std::fmt::Debug for Health {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut fields = f.debug_struct("Health");
        fields
            .field("is_aside", &self.is_suspended)
            .finish_non_exhaustive()
    }
}

impl Health {
    /// Returns the approximate cost of one more request.
    fn cost(&self, now: Instant) -> f64 {
        let idle = self.latency_at.map_or(Duration::ZERO, |at| now - at);
        let remembered = 0.5_f64.powf(idle.as_secs_f64() / LATENCY_HALF_LIFE.as_secs_f64());
        let under_way = u32::try_from(self.in_flight).unwrap_or(u32::MAX);
        (self.latency_s * remembered + 0.000_1) * (f64::from(under_way) + 1.0)
    }

    fn record_latency(&mut self, begun: Instant, now: Instant) {
        self.last_answered = self.last_answered.max(Some(begun));
        self.latency_s = 0.7 * self.latency_s + 0.3 * (now - begun).as_secs_f64();
        self.latency_at = Some(now);
    }
}

impl Member {
    fn new(endpoint: String, client: Option<Client>) -> Self {
        let member = Self {
            endpoint,
            health: Mutex::new(Health {
                is_suspended: client.is_none(),
                client,
                ..Health::default()
            }),
            abandoned: Notify::new(),
            suspended: Notify::new(),
            log_deduplicator: LogDeduplicator::default(),
        };
        if member.health().is_suspended {
            member.suspended.notify_one();
        }
        member
    }

    fn health(&self) -> MutexGuard<'_, Health> {
        self.health.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Completes as soon as the member is put aside. Counts from the call, not from when it is first awaited.
    pub(super) fn abandoned(&self) -> tokio::sync::futures::Notified<'_> {
        self.abandoned.notified()
    }

    /// Sends no more requests to the member until it has answered one again.
    pub(super) fn suspend(&self, reason: &str) {
        if std::mem::replace(&mut self.health().is_suspended, true) {
            return;
        }
        if self.log_deduplicator.is_new(reason) {
            tracing::warn!(
                endpoint = self.endpoint,
                reason,
                "a member of etcd is avoided until it answers again"
            );
        }
        self.abandoned.notify_waiters();
        self.suspended.notify_one();
    }
}

/// Counts a request as in progress until it is dropped.
struct InFlight<'a>(&'a Member);

impl<'a> InFlight<'a> {
    fn new(member: &'a Member) -> Self {
        member.health().in_flight += 1;
        Self(member)
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.health().in_flight -= 1;
    }
}

impl Members {
    /// Creates the members in the configuration. `clients` contains existing connections in the same order.
    pub(super) fn new(
        config: EtcdConfig,
        tried_with: Vec<u8>,
        clients: Vec<Option<Client>>,
    ) -> Self {
        let endpoints = config.endpoints.iter().cloned();
        let all = endpoints
            .zip(clients)
            .map(|(endpoint, client)| Arc::new(Member::new(endpoint, client)));
        Self {
            all: all.collect(),
            config,
            probe_key: tried_with,
            next_index: AtomicUsize::new(0),
        }
    }

    /// Returns the event with the numbers of members.
    pub(super) fn count_event(&self) -> EngineEvent {
        let is_avoided = |member: &&Arc<Member>| member.health().is_suspended;
        EngineEvent::Members {
            configured: self.all.len() as u64,
            avoided: self.all.iter().filter(is_avoided).count() as u64,
        }
    }

    /// Chooses the member for the next request: the one with the soonest answer among those in service, or each in turn if none is.
    pub(super) fn choose(&self) -> Option<(Arc<Member>, Client)> {
        let now = Instant::now();
        let turn = self.next_index.fetch_add(1, Ordering::Relaxed);
        let mut best: Option<((bool, f64), Arc<Member>, Client)> = None;
        for index in 0..self.all.len() {
            let member = &self.all[(turn + index) % self.all.len()];
            let health = member.health();
            let Some(client) = &health.client else {
                continue;
            };
            let cost = if health.is_suspended {
                0.0
            } else {
                health.cost(now)
            };
            let rank = (health.is_suspended, cost);
            if best.as_ref().is_none_or(|(other, ..)| rank < *other) {
                best = Some((rank, Arc::clone(member), client.clone()));
            }
        }
        best.map(|(_, member, client)| (member, client))
    }

    /// Sends one member a request that takes as long as other such requests.
    ///
    /// # Errors
    /// The error of etcd, or a missing answer: see [`is_timed_out`](connection::is_timed_out) and [`is_unsent`](connection::is_unsent).
    pub(super) async fn request<T, Sending>(
        &self,
        send: impl FnOnce(Client) -> Sending,
    ) -> Result<T, Error>
    where
        Sending: Future<Output = Result<T, Error>>,
    {
        self.request_within(REQUEST_TIMEOUT, SLOW_AFTER, send).await
    }

    /// Sends one member a request that may take up to `limit` while others are answered.
    ///
    /// # Errors
    /// Those of [`request`](Self::request).
    pub(super) async fn request_slow<T, Sending>(
        &self,
        limit: Duration,
        send: impl FnOnce(Client) -> Sending,
    ) -> Result<T, Error>
    where
        Sending: Future<Output = Result<T, Error>>,
    {
        self.request_within(limit, limit, send).await
    }

    async fn request_within<T, Sending>(
        &self,
        limit: Duration,
        slow_after: Duration,
        send: impl FnOnce(Client) -> Sending,
    ) -> Result<T, Error>
    where
        Sending: Future<Output = Result<T, Error>>,
    {
        let (member, client) = self.choose().ok_or_else(unsent_error)?;
        let given_up = std::pin::pin!(member.abandoned());
        let mut given_up = given_up;
        let _under_way = InFlight::new(&member);
        let begun = Instant::now();
        let end = begun + limit;
        let mut compared = begun + slow_after;
        let mut request = std::pin::pin!(send(client));
        loop {
            tokio::select! {
                biased;
                result = &mut request => {
                    self.record_answer(&member, begun, &result);
                    return result;
                }
                () = &mut given_up => return Err(timed_out()),
                () = sleep_until(compared.min(end)) => {}
            }
            // A member that has answered a later request is in order: this request takes long.
            let is_own = member.health().last_answered >= Some(begun);
            if Instant::now() >= end {
                if !is_own {
                    member.suspend(&format!("it has not answered a request within {limit:?}"));
                }
                return Err(timed_out());
            }
            compared += COMPARE_INTERVAL;
            if !self.is_overtaken(begun) {
                continue;
            }
            if !is_own {
                member.suspend("it does not answer while others do");
            }
            return Err(timed_out());
        }
    }

    fn record_answer<T>(&self, member: &Member, begun: Instant, result: &Result<T, Error>) {
        match result {
            Err(error) if connection::is_member_failure(error) => {
                member.suspend(&connection::describe_with_advice(error, &self.config));
            }
            Err(error) if connection::is_leader_change(error) => {}
            Ok(_) | Err(_) => member.health().record_latency(begun, Instant::now()),
        }
    }

    /// Returns whether a request that began well after this moment was answered.
    fn is_overtaken(&self, begun: Instant) -> bool {
        let later = begun + OVERTAKE_MARGIN;
        let mut all = self.all.iter();
        all.any(|member| member.health().last_answered >= Some(later))
    }

    /// Returns members to service that were put aside, as long as it runs.
    pub(super) async fn reconnect_suspended(self: Arc<Self>) {
        let mut reconnects = JoinSet::new();
        for member in &self.all {
            reconnects.spawn(Arc::clone(&self).reconnect_member(Arc::clone(member)));
        }
        while reconnects.join_next().await.is_some() {}
    }

    async fn reconnect_member(self: Arc<Self>, member: Arc<Member>) {
        let mut pause = BACKOFF.0;
        let mut since = Instant::now();
        loop {
            member.suspended.notified().await;
            if since.elapsed() > BACKOFF_RESET {
                pause = BACKOFF.0;
            }
            loop {
                sleep(pause).await;
                pause = (2 * pause).min(BACKOFF.1);
                let reason = match self.reconnect(&member).await {
                    Ok(client) => {
                        self.restore(&member, client);
                        break;
                    }
                    Err(reason) => reason,
                };
                if member.log_deduplicator.is_new(&reason) {
                    tracing::warn!(
                        endpoint = member.endpoint,
                        reason,
                        "a member of etcd is avoided until it answers again"
                    );
                }
            }
            since = Instant::now();
        }
    }

    /// Returns a client over a new connection that has answered a read. The files are read again.
    async fn reconnect(&self, member: &Member) -> Result<Client, String> {
        let no_answer = |within| format!("it has not answered a request within {within:?}");
        let connecting = connection::connect(&self.config, &member.endpoint);
        let client = match timeout(REQUEST_TIMEOUT, connecting).await {
            Ok(Ok(client)) => client,
            Ok(Err(MemberConnectError::Etcd(error))) => {
                return Err(connection::describe_with_advice(&error, &self.config));
            }
            Ok(Err(MemberConnectError::File(file, error))) => {
                return Err(format!("cannot read {}: {error}", file.display()));
            }
            Err(_) => return Err(no_answer(REQUEST_TIMEOUT)),
        };
        // A slow member is better than none.
        let is_needed = self.all.iter().all(|member| member.health().is_suspended);
        let limit = if is_needed {
            REQUEST_TIMEOUT
        } else {
            SLOW_AFTER
        };
        let mut kv = kv(&client);
        match timeout(limit, kv.get(self.probe_key.clone(), None)).await {
            Ok(Ok(_)) => Ok(client),
            Ok(Err(error)) => Err(connection::describe_with_advice(&error, &self.config)),
            Err(_) => Err(no_answer(limit)),
        }
    }

    fn restore(&self, member: &Member, client: Client) {
        {
            let mut health = member.health();
            *health = Health {
                client: Some(client),
                in_flight: health.in_flight,
                ..Health::default()
            };
        }
        member.log_deduplicator.forget();
        let what = match (&self.config.user, &self.config.tls) {
            (None, None) => "a member of etcd answers again",
            _ => "a member of etcd answers again; password and certificates were read again",
        };
        tracing::info!(endpoint = member.endpoint, "{what}");
    }
}

/// Returns the error of a request that was sent to no member.
fn unsent_error() -> Error {
    Error::IoError(std::io::ErrorKind::NotConnected.into())
}
