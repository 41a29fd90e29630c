//! The client: one connection and any number of concurrent requests.
mod action;
pub(crate) mod backoff;
mod batch;
mod call;
mod cancellation_recorder;
mod capabilities;
mod capabilities_cache;
mod compare_and_set;
mod connection;
mod connection_error;
mod contended_locks;
mod deadline;
mod deadline_timer;
mod del;
mod del_many;
mod driver;
mod endpoint_selector;
mod entries;
mod exists;
mod expiry;
mod foreign_protocol;
mod get;
mod get_many;
mod if_version;
mod input;
#[cfg(feature = "json")]
mod json;
mod lease_tracker;
mod matching;
mod mirror;
mod observation_queue;
mod observe;
mod observer;
mod outage;
mod output;
mod patterns;
mod ping;
pub(crate) mod runtime_handle;
mod scan;
mod set;
mod set_many;
mod shared;
mod state;
mod token_watcher;
mod trace;
mod transact;
mod transaction;
#[cfg(feature = "serde")]
mod value_format;
mod vdel;
mod watch_task;
mod watches;

pub(crate) use action::key_action;
pub use cancellation_recorder::CancellationRecorder;
pub(crate) use capabilities::is_unsupported_request;
pub use compare_and_set::{CompareAndSet, Progress, Step, StepOutcome, token_above};
pub(crate) use contended_locks::ContendedLock;
pub(crate) use deadline::{Deadline, within};
pub use del::{DelOptions, DelOutcome};
pub use entries::Entries;
pub use expiry::Expiry;
pub(crate) use expiry::{MIN_EXPIRY, certain_lifetime, check_expiry};
pub use get::{Entry, GetOptions};
pub(crate) use lease_tracker::LeaseRegistration;
pub use matching::{MatchObserver, ObserveMatchingOptions};
pub use mirror::{Mirror, MirrorChanges, MirrorOptions};
pub use observation_queue::{Observation, Overflow};
pub use observe::ObserveOptions;
pub use observer::{Observer, TryNextError};
pub use patterns::MatchObservation;
pub use scan::{EntryScan, Scan, ScanOptions, ScanStream};
pub use set::{SetOptions, SetOutcome};
pub use state::ConnectionState;
pub use transact::{TransactOptions, TransactionOutcome};
pub use transaction::Transaction;
pub use vdel::VdelOutcome;

use crate::error::{Error, ErrorKind, Outcome};
use crate::platform::Platform;
use crate::request::{Exchange, RequestTable};
use crate::settings::check_client_id;
use crate::{Counters, LostReason, Settings};
use bytes::Bytes;
pub(crate) use runtime_handle::RuntimeHandle;
pub(crate) use shared::Shared;
use statestore_protocol::mqtt::session::{Session, SessionConfig, Subscriptions};
use statestore_protocol::mqtt::{Connect, Limits, Subscription};
use statestore_protocol::{Hlc, topic};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::{oneshot, watch};

/// Time limit for releasing leases when a client closes.
const LEASE_RELEASE_TIMEOUT: Duration = Duration::from_secs(1);

/// A client of the state store.
///
/// Clones share one connection. It ends when the last clone, and the last [`Observer`], [`MatchObserver`] and [`Scan`] made
/// from it, is dropped.
/// The client restores a lost connection in the background; requests wait for that until they time out.
///
/// ```no_run
/// # async fn example() -> Result<(), statestore::Error> {
/// use statestore::{Client, Settings};
///
/// let client = Client::connect(Settings::from_url("mqtt://localhost:1883")?).await?;
/// client.set("thermostat/setPoint", "21.5").await?;
/// if let Some(entry) = client.get("thermostat/setPoint").await? {
///     println!("{:?}, version {}", entry.value, entry.version);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Client {
    handle: Arc<Handle>,
}

/// A reference to a client that may have been dropped.
#[derive(Debug)]
pub(crate) struct WeakClient(Weak<Handle>);

impl WeakClient {
    /// Returns the client if it still exists.
    pub(crate) fn upgrade(&self) -> Option<Client> {
        self.0.upgrade().map(|handle| Client { handle })
    }
}

/// Guard that closes the client when its last user is dropped.
#[derive(Debug)]
struct Handle {
    shared: Arc<Shared>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared
            .close(LostReason::Closed, "the client was closed");
    }
}

/// Guard that closes the client, even if the future of the close is dropped.
struct CloseOnDrop<'a>(&'a Shared);

impl Drop for CloseOnDrop<'_> {
    fn drop(&mut self) {
        self.0.close(LostReason::Closed, "the client was closed");
    }
}

impl Client {
    /// Time limit of [`close`](Self::close) for the requests under way.
    pub const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

    /// Connects, and waits until the broker has accepted the connection and its subscriptions. With [`Settings::lazy`], it does
    /// not wait.
    ///
    /// Dropping the future cancels the attempt. A session that the broker created meanwhile ends when it expires.
    ///
    /// # Errors
    /// Returns the first failure; with [several brokers](Settings::add_address), after all have failed. The kinds are
    /// [`ErrorKind::Unreachable`], [`ErrorKind::ConnectionRefused`], [`ErrorKind::NotAuthenticated`], [`ErrorKind::Untrusted`]
    /// and [`ErrorKind::InvalidSettings`]. Only later failures are retried automatically, unless [`Settings::connect_limit`] is
    /// set.
    ///
    /// Outside of a tokio runtime, the error is [`ErrorKind::InvalidSettings`]. In a runtime without time, it is
    /// [`ErrorKind::Closed`]. Once connected, you can await the calls of a client outside of tokio too, while that runtime
    /// runs.
    pub async fn connect(settings: Settings) -> Result<Self, Error> {
        settings.check()?;
        let timers = RuntimeHandle::try_current().ok_or_else(|| no_runtime(&settings))?;
        settings.warn_about_plaintext();
        let exchange = new_exchange(&settings)?;
        let clock = shared::new_clock(random(&settings)?).map_err(|error| {
            Error::new(
                ErrorKind::InvalidSettings,
                Outcome::NotDone,
                "making a clock",
                error.to_string(),
            )
        })?;
        let shared = Arc::new(Shared::new(settings, exchange, clock, timers));
        let handle = Arc::new(Handle {
            shared: shared.clone(),
        });
        // Before the token is read for the first time, so that no change is missed.
        let token = token_watcher::TokenWatcher::watch(&shared);
        let (first, connected) = oneshot::channel();
        let platform = &shared.settings.platform;
        platform.spawn(Box::pin(driver::run(shared.clone(), first)));
        platform.spawn(Box::pin(watch_task::run(shared.clone())));
        if let Some(token) = token {
            platform.spawn(Box::pin(token.run()));
        }
        if shared.settings.lazy {
            return Ok(Self { handle });
        }
        let Ok(result) = connected.await else {
            let action = format!("connecting to {}", shared.settings.address());
            let reason = "the runtime is shutting down";
            return Err(Error::new(
                ErrorKind::Closed,
                Outcome::NotDone,
                action,
                reason,
            ));
        };
        result.map(|()| Self { handle })
    }

    /// Closes the client as [`close_within`](Self::close_within) does, within [`CLOSE_TIMEOUT`](Self::CLOSE_TIMEOUT).
    pub async fn close(&self) {
        self.close_within(Self::CLOSE_TIMEOUT).await;
    }

    /// Closes the connection and waits until it is closed.
    ///
    /// Requests under way are completed first, for `timeout` at most and only while the client is connected. The remaining
    /// requests fail with [`ErrorKind::Closed`], and with the outcome [`Unknown`](Outcome::Unknown) if they were sent. All
    /// later calls of other clones fail too. [`Duration::ZERO`] waits for no request. A call of several requests, such as
    /// [`update`](Self::update), may end between two of them.
    ///
    /// The client then releases its leases, which takes a second at most. Without a connection, leases end when they expire.
    ///
    /// Dropping the future closes the connection at once. Leases that are not released by then end when they expire.
    pub async fn close_within(&self, timeout: Duration) {
        let mut state = self.shared().state.subscribe();
        {
            let _closing = CloseOnDrop(self.shared());
            tokio::select! {
                () = self.shared().wait_idle() => {}
                _ = state.wait_for(|state| !state.is_connected()) => {}
                () = self.shared().runtime.sleep(timeout) => {}
            }
            tokio::select! {
                () = self.shared().leases.close() => {}
                _ = state.wait_for(|state| !state.is_connected()) => {}
                () = self.shared().runtime.sleep(LEASE_RELEASE_TIMEOUT) => {}
            }
        }
        // The sender lives as long as `self`.
        let _ = state.wait_for(ConnectionState::is_closed).await;
    }

    /// Returns a reference that does not keep the connection open.
    pub(crate) fn downgrade(&self) -> WeakClient {
        WeakClient(Arc::downgrade(&self.handle))
    }

    /// Returns a receiver of the current and all later states of the connection.
    pub fn state(&self) -> watch::Receiver<ConnectionState> {
        self.shared().state.subscribe()
    }

    /// Ends the delay before the next connection attempt, if the connection is lost.
    ///
    /// Call it when the application has something to send. After a long outage, [`reconnect_delay`](Settings::reconnect_delay)
    /// may delay the next attempt by many seconds although the broker is back. Attempts stay apart by the minimum delay, or by
    /// one second if that is less. Does nothing while the client is connected, connecting or closed.
    pub fn reconnect_now(&self) {
        self.shared().reconnect.notify_waiters();
    }

    /// Returns the counters of the client.
    pub fn counters(&self) -> Counters {
        self.shared().counters()
    }

    /// Returns the MQTT client id. One that the broker assigns is empty until the first connection.
    pub fn client_id(&self) -> String {
        self.shared()
            .lock_state()
            .exchange
            .session()
            .client_id()
            .to_owned()
    }

    /// Returns [`Settings::request_timeout`].
    pub fn request_timeout(&self) -> Duration {
        self.shared().request_timeout()
    }

    /// Returns [`Settings::platform`].
    pub fn platform(&self) -> &dyn Platform {
        self.shared().platform()
    }

    /// Returns a timestamp of this client's clock that no other call returns, in this or any other client. Use it as a fencing
    /// token, or for a [`CompareAndSet`](crate::lock::CompareAndSet).
    pub fn unique_timestamp(&self) -> Hlc {
        self.shared().unique_timestamp()
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.handle.shared
    }
}

fn no_runtime(settings: &Settings) -> Error {
    Error::new(
        ErrorKind::InvalidSettings,
        Outcome::NotDone,
        format!("connecting to {}", settings.address()),
        "there is no tokio runtime here; connect in one with time and I/O, as of `#[tokio::main]` or `Builder::enable_all`",
    )
}

/// Creates the state machine of a client with these settings.
fn new_exchange(settings: &Settings) -> Result<Exchange, Error> {
    let client_id = match &settings.client_id {
        Some(id) => id.clone(),
        None => format!("statestore-{:016x}", random(settings)?),
    };
    let connect = Connect {
        client_id,
        clean_start: settings.has_own_session(),
        keep_alive_s: settings.keep_alive_s,
        session_expiry_s: settings.session_expiry_s,
        limits: Limits {
            receive_maximum: u16::MAX,
            max_packet_bytes: settings.max_packet_bytes,
            topic_alias_maximum: 16,
        },
        ..Connect::default()
    };
    let config = SessionConfig {
        connect,
        subscriptions: Subscriptions::new(subscriptions),
        ping_timeout_ms: u64::try_from(settings.ping_timeout.as_millis()).unwrap_or(u64::MAX),
    };
    let requests = RequestTable::new(
        random(settings)?.to_be_bytes(),
        settings.max_in_flight as usize,
        settings.max_queued as usize,
    );
    let session = match settings.client_id.as_deref() {
        None | Some("") => Session::new(config),
        Some(_) => Session::new(config).with_reused_client_id(),
    };
    Ok(Exchange::new(
        session,
        requests,
        settings.max_buffered_bytes,
    ))
}

/// Returns the subscriptions: responses, which every request needs, and notifications, which observers need. Returns none for
/// an invalid client id assigned by the broker.
fn subscriptions(client_id: &str) -> Vec<Subscription> {
    if check_client_id(client_id).is_err() {
        return Vec::new();
    }
    vec![
        Subscription::at_least_once(topic::response(client_id)),
        Subscription::at_least_once(topic::notification_filter(client_id)),
    ]
}

fn random(settings: &Settings) -> Result<u64, Error> {
    settings.platform.random().map_err(|error| {
        let action = format!("connecting to {}", settings.address());
        Error::new(
            ErrorKind::InvalidSettings,
            Outcome::NotDone,
            action,
            format!("no random numbers: {error}"),
        )
    })
}

/// Detaches a value from its buffer. A slice of a receive buffer that many packets share is copied, so that the value does not
/// keep the whole buffer alive. A longer value is returned as it is.
fn detach(value: Bytes) -> Bytes {
    if value.len() <= input::MAX_COPIED {
        Bytes::copy_from_slice(&value)
    } else {
        value
    }
}
