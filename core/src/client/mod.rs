//! The client: one connection, any number of requests at a time.
pub(crate) mod abandoned;
mod addresses;
pub(crate) mod backoff;
mod call;
mod capabilities;
mod connection;
mod counters;
mod deadline;
mod del;
mod del_many;
mod driver;
mod expiry;
mod foreign_protocol;
mod get;
mod get_many;
mod input;
mod lost;
mod many;
mod observe;
mod observer;
mod outage;
mod output;
mod retry;
mod scan;
mod scan_stream;
mod set;
mod set_many;
mod shared;
mod state;
mod ticker;
pub(crate) mod timers;
mod token;
mod trace;
mod transact;
mod transaction;
#[cfg(feature = "serde")]
mod value_format;
mod vdel;
mod watches;

pub use abandoned::Abandoned;
pub(crate) use capabilities::is_unknown_form;
pub use counters::Counters;
pub(crate) use deadline::Deadline;
pub use del::{DelOptions, DelOutcome};
pub use expiry::Expiry;
pub use get::{Entry, GetOptions};
pub use observe::ObserveOptions;
pub use observer::{Observation, Observer, Overflow};
pub use retry::Retry;
pub use scan::{Scan, ScanOptions};
pub use scan_stream::ScanStream;
pub use set::{SetOptions, SetOutcome};
pub use state::ConnectionState;
pub use transact::{TransactOptions, TransactionOutcome};
pub use transaction::Transaction;
pub use vdel::VdelOutcome;

use crate::error::{Error, ErrorKind, Outcome};
use crate::request::{Exchange, Ledger};
use crate::settings::check_client_id;
use crate::{LostReason, Settings};
use bytes::Bytes;
pub(crate) use shared::Shared;
use statestore_protocol::mqtt::session::{Session, SessionConfig, Subscriptions};
use statestore_protocol::mqtt::{Connect, Limits, Subscription};
use statestore_protocol::topic;
use std::sync::{Arc, Weak};
use std::time::Duration;
pub(crate) use timers::Timers;
use tokio::sync::{oneshot, watch};

/// How long closing takes for giving leases back.
const GIVE_BACK: Duration = Duration::from_secs(1);

/// A client of the state store.
///
/// Clones share one connection, which ends when the last of them, and the last [`Observer`] and [`Scan`] made from it, is
/// dropped. A lost connection is made again in the background; requests wait for that until their own time is up.
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

/// A client that may have been dropped.
#[derive(Debug)]
pub(crate) struct WeakClient(Weak<Handle>);

impl WeakClient {
    /// The client, if somebody still has it.
    pub(crate) fn upgrade(&self) -> Option<Client> {
        self.0.upgrade().map(|handle| Client { handle })
    }
}

/// Closes the client when the last of its users is gone.
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

/// Closes the client, also if nobody waits for it any more.
struct Closing<'a>(&'a Shared);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.0.close(LostReason::Closed, "the client was closed");
    }
}

impl Client {
    /// Time that [`close`](Self::close) grants the requests under way.
    pub const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

    /// Connects, and waits until the broker has accepted the connection and its subscriptions.
    ///
    /// Dropping the future gives up connecting. A session that the broker has begun meanwhile ends after its expiry.
    ///
    /// # Errors
    /// At the first failure (of [several brokers](Settings::also), when all have failed), with its reason: [`ErrorKind::Unreachable`], [`ErrorKind::ConnectionRefused`],
    /// [`ErrorKind::NotAuthenticated`], [`ErrorKind::Untrusted`], [`ErrorKind::InvalidSettings`]. Only later failures are retried
    /// by themselves, unless [`Settings::connect_limit`] says otherwise.
    ///
    /// Outside of a tokio runtime it is [`ErrorKind::InvalidSettings`], and [`ErrorKind::Closed`] in one without time. Once connected,
    /// the calls of a client can be awaited outside of tokio too, while that runtime runs.
    pub async fn connect(settings: Settings) -> Result<Self, Error> {
        settings.check()?;
        let timers = Timers::here().ok_or_else(|| no_runtime(&settings))?;
        settings.warn_of_exposure();
        let exchange = exchange(&settings)?;
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
        // From before the token is read for the first time, so that no change is missed.
        let token = token::Token::watch(&shared);
        let (first, connected) = oneshot::channel();
        let platform = &shared.settings.platform;
        platform.spawn(Box::pin(driver::run(shared.clone(), first)));
        platform.spawn(Box::pin(watches::run(shared.clone())));
        if let Some(token) = token {
            platform.spawn(Box::pin(token.run()));
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

    /// Closes the connection and waits until that is done.
    ///
    /// The requests under way are finished first, for `timeout` at most and only while there is a connection. The others fail with
    /// [`ErrorKind::Closed`], with the outcome [`Unknown`](Outcome::Unknown) if they were sent, and so does everything that other
    /// clones do from then on. [`Duration::ZERO`] waits for no request. A call of several requests, as [`update`](Self::update), may
    /// end between two of them.
    ///
    /// Leases that are held are given back next, which may take a second at most; without a connection they end by
    /// themselves.
    ///
    /// Dropping the future closes the connection at once; leases that were not given back by then end by themselves.
    pub async fn close_within(&self, timeout: Duration) {
        let mut state = self.shared().state.subscribe();
        {
            let _closing = Closing(self.shared());
            tokio::select! {
                () = self.shared().finished() => {}
                _ = state.wait_for(|state| !state.is_connected()) => {}
                () = self.shared().timers.sleep(timeout) => {}
            }
            tokio::select! {
                () = self.shared().leases.close() => {}
                _ = state.wait_for(|state| !state.is_connected()) => {}
                () = self.shared().timers.sleep(GIVE_BACK) => {}
            }
        }
        // The sender lives as long as `self`.
        let _ = state.wait_for(ConnectionState::is_closed).await;
    }

    /// A reference that does not keep the connection.
    pub(crate) fn downgrade(&self) -> WeakClient {
        WeakClient(Arc::downgrade(&self.handle))
    }

    /// The state of the connection, now and from now on.
    pub fn state(&self) -> watch::Receiver<ConnectionState> {
        self.shared().state.subscribe()
    }

    /// Ends the delay before the next attempt to connect, if the connection is lost.
    ///
    /// For an application that has something to send: after a long outage, [`reconnect_delay`](Settings::reconnect_delay) may keep
    /// the client from noticing for many seconds that the broker is back. Attempts stay apart by the shortest delay, or one second
    /// if that is less. Does nothing while the client is connected, connecting or closed.
    pub fn reconnect_now(&self) {
        self.shared().reconnect.notify_waiters();
    }

    /// What the client has seen so far.
    pub fn counters(&self) -> Counters {
        self.shared().counters()
    }

    /// The MQTT client id.
    pub fn client_id(&self) -> String {
        self.shared()
            .core()
            .exchange
            .session()
            .client_id()
            .to_owned()
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

/// The state machine of a client with these settings.
fn exchange(settings: &Settings) -> Result<Exchange, Error> {
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
    let ledger = Ledger::new(
        random(settings)?.to_be_bytes(),
        settings.max_in_flight as usize,
        settings.max_queued as usize,
    );
    let session = match settings.client_id.as_deref() {
        None | Some("") => Session::new(config),
        Some(_) => Session::new(config).after_others(),
    };
    Ok(Exchange::new(session, ledger, settings.max_buffered_bytes))
}

/// Responses, without which nothing works, and notifications, without which only observing does not. None for a client id
/// that the broker should not have assigned.
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

/// A value of its own. A slice of a receive buffer that many packets share is copied out of it, so that keeping the value
/// does not keep the whole buffer; a longer one is kept as it is.
fn detached(value: Bytes) -> Bytes {
    if value.len() <= input::COPIED {
        Bytes::copy_from_slice(&value)
    } else {
        value
    }
}
