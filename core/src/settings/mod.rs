//! How to reach the broker, and how the client behaves.
mod credentials;
mod endpoint;
mod environment;
#[cfg(test)]
mod logged;
mod text;
mod tls;
mod url;

pub(crate) use credentials::{Credentials, read_token};
pub(crate) use endpoint::{Endpoint, without_zone};
pub(crate) use tls::TlsSettings;

use crate::error::{Error, ErrorKind, Outcome};
use crate::platform::{Platform, System};
use credentials::CredentialSources;
use statestore_protocol::mqtt::Limits;
use statestore_protocol::topic;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Everything that can be set about a [`Client`](crate::Client).
///
/// ```
/// use statestore::Settings;
/// use std::time::Duration;
///
/// let settings = Settings::from_url("mqtt://gateway:secret@broker.local:1883?client_id=gateway-1")?
///     .request_timeout(Duration::from_secs(3));
/// assert_eq!(settings.address(), "broker.local:1883");
/// # Ok::<(), statestore::Error>(())
/// ```
#[derive(Clone)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an option of its own"
)]
pub struct Settings {
    /// At least one; each is a way to the same state store.
    pub(crate) endpoints: Vec<Endpoint>,
    /// The path at which the broker speaks MQTT over WebSocket, if it is to.
    pub(crate) websocket: Option<String>,
    pub(crate) tls_enabled: bool,
    pub(crate) tls: TlsSettings,
    pub(crate) credentials: CredentialSources,
    pub(crate) allow_plaintext_credentials: bool,
    pub(crate) client_id: Option<String>,
    pub(crate) clean_start: bool,
    pub(crate) session_expiry_s: u32,
    pub(crate) keep_alive_s: u16,
    pub(crate) ping_timeout: Duration,
    pub(crate) connect_timeout: Duration,
    pub(crate) request_timeout: Duration,
    pub(crate) fail_fast: bool,
    pub(crate) max_in_flight: u32,
    pub(crate) max_queued: u32,
    pub(crate) max_buffered_bytes: usize,
    pub(crate) max_packet_bytes: u32,
    pub(crate) max_value_bytes: usize,
    pub(crate) reconnect_delay_min: Duration,
    pub(crate) reconnect_delay_max: Duration,
    pub(crate) connect_limit: Duration,
    pub(crate) reconnect_limit: Option<Duration>,
    pub(crate) platform: Arc<dyn Platform>,
}

impl Settings {
    /// A plain TCP connection to `host` (a name or an address) and `port`, everything else by default.
    pub fn new(host: impl Into<String>, port: u16) -> Self {
        let host = host.into();
        Self::at(Endpoint::Tcp { host, port })
    }

    fn at(endpoint: Endpoint) -> Self {
        Self {
            endpoints: vec![endpoint],
            websocket: None,
            tls_enabled: false,
            tls: TlsSettings::default(),
            credentials: CredentialSources::default(),
            allow_plaintext_credentials: false,
            client_id: None,
            clean_start: true,
            session_expiry_s: 3600,
            keep_alive_s: 60,
            ping_timeout: Duration::from_secs(10),
            connect_timeout: Duration::from_secs(10),
            request_timeout: Duration::from_secs(10),
            fail_fast: false,
            max_in_flight: 65_536,
            max_queued: 65_536,
            max_buffered_bytes: 64 << 20,
            max_packet_bytes: Limits::MAX_PACKET_BYTES,
            max_value_bytes: Limits::MAX_PACKET_BYTES as usize,
            reconnect_delay_min: Duration::from_millis(100),
            reconnect_delay_max: Duration::from_secs(30),
            connect_limit: Duration::ZERO,
            reconnect_limit: None,
            platform: Arc::new(System),
        }
    }

    /// Reads one of
    /// - `mqtt://[user[:password]@]host[:port]`, by default port 1883,
    /// - `mqtts://[user[:password]@]host[:port]`, TLS, by default port 8883,
    /// - `ws://[user[:password]@]host[:port][/path]` and `wss://`, MQTT over WebSocket, by default ports 80 and 443 and the path
    ///   `/mqtt`; see [`websocket`](Self::websocket),
    /// - `unix://[user[:password]@]/path`, a Unix domain socket.
    ///
    /// `host[:port]` may stand there several times, with `,` between them, as in `mqtt://one,two:1884,[::1]`: see
    /// [`also`](Self::also). A link-local IPv6 address has its network interface behind `%25`, as in `mqtt://[fe80::1%25eth0]`.
    ///
    /// They are followed by `?` and parameters `name=value` with `&` between them. They have the names of the methods here:
    /// `ca_file`, `cert_file`, `key_file`, `key_password_file`, `server_name`, `password_file`, `sat_file`,
    /// `client_id`, `keep_alive` and `session_expiry` (in seconds), `clean_start`, `fail_fast` and
    /// `allow_plaintext_credentials` (`true` or `false`). Special characters are percent-encoded.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidSettings`], which says what is wrong with the URL.
    pub fn from_url(url: &str) -> Result<Self, Error> {
        url::parse(url)
    }

    /// A Unix domain socket, everything else by default.
    pub fn unix(path: impl Into<PathBuf>) -> Self {
        Self::at(Endpoint::Unix(path.into()))
    }

    /// A further way to the same state store: another broker of the cluster, or another address of the broker.
    ///
    /// Connecting begins with the broker that was connected last, at first with the one that was named first, and goes on with the
    /// next at each failure; only when all have failed, the client waits, see [`reconnect_delay`](Self::reconnect_delay). All
    /// other settings are for all brokers.
    ///
    /// Name no broker that has a store of its own: a lock that one store has given away is free in the other.
    #[must_use]
    pub fn also(mut self, host: impl Into<String>, port: u16) -> Self {
        let host = host.into();
        self.endpoints.push(Endpoint::Tcp { host, port });
        self
    }

    /// MQTT over WebSocket, at this path of the broker (usually `/mqtt`), for networks that let only HTTP through. User name and
    /// password are MQTT's, not those of HTTP. It needs the feature `ws` of this crate, which is not on by default.
    #[must_use]
    pub fn websocket(mut self, path: impl Into<String>) -> Self {
        self.websocket = Some(path.into());
        self
    }

    /// The broker as `host:port`, or the path of its socket. Several have `,` between them.
    pub fn address(&self) -> String {
        let addresses: Vec<_> = self.endpoints.iter().map(Endpoint::to_string).collect();
        addresses.join(",")
    }

    /// The MQTT client id. Without one, a random one is made; an empty one asks the broker for one.
    #[must_use]
    pub fn client_id(mut self, client_id: impl Into<String>) -> Self {
        self.client_id = Some(client_id.into());
        self
    }

    /// Whether the first connection asks at once for a new session (default: yes). Later connections continue it.
    ///
    /// With `false`, a session that the broker still has for this client id is ended all the same, by a second connection: a
    /// client that knows nothing of a session must not continue it, [MQTT-3.2.2-4]. `false` also leaves the session to the
    /// broker when the client is closed. It needs a [`client_id`](Self::client_id): nobody could come back under a random
    /// name, or under one that the broker has made up, so without one it counts as `true`.
    #[must_use]
    pub fn clean_start(mut self, clean_start: bool) -> Self {
        self.clean_start = clean_start;
        self
    }

    /// How long the broker keeps the session while the client is away; whole seconds, rounded up (default: one hour).
    #[must_use]
    pub fn session_expiry(mut self, expiry: Duration) -> Self {
        self.session_expiry_s = u32::try_from(seconds_up(expiry)).unwrap_or(u32::MAX);
        self
    }

    /// After how much silence the connection is checked, while requests wait after two seconds at most; whole seconds, rounded
    /// up; zero switches that off (default: 60 s). The broker may demand another value.
    #[must_use]
    pub fn keep_alive(mut self, interval: Duration) -> Self {
        self.keep_alive_s = u16::try_from(seconds_up(interval)).unwrap_or(u16::MAX);
        self
    }

    /// How long the broker may take to answer such a check, and to take bytes that wait to be written, before the connection
    /// counts as lost (default: 10 s). While requests wait, an answer is expected within 2.5 seconds if that is less, and as
    /// much later as a link of 1 Mbit/s needs for what was just sent.
    #[must_use]
    pub fn ping_timeout(mut self, timeout: Duration) -> Self {
        self.ping_timeout = timeout;
        self
    }

    /// How long one attempt to connect to one broker may take, from the name lookup to the broker's consent (default: 10 s).
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// How long a request may take where its options do not say otherwise (default: 10 s).
    #[must_use]
    pub fn request_timeout(mut self, timeout: Duration) -> Self {
        self.request_timeout = timeout;
        self
    }

    /// Sets whether a call that begins while the connection is lost fails at once with [`ErrorKind::Unreachable`] (default:
    /// `false`, it waits for the connection until its time-out).
    ///
    /// Such a call is not executed, and its source is the error that ended the connection. A call that was under way when the
    /// connection was lost goes on to its time-out. Held leases are renewed, and observers resume, in either case. Giving a lease
    /// back is not affected.
    #[must_use]
    pub fn fail_fast(mut self, fail_fast: bool) -> Self {
        self.fail_fast = fail_fast;
        self
    }

    /// Most requests that may be sent and not yet answered; further ones queue (default: 65,536). The broker's Receive
    /// Maximum can be a lower limit.
    #[must_use]
    pub fn max_in_flight(mut self, requests: u32) -> Self {
        self.max_in_flight = requests.max(1);
        self
    }

    /// Most requests that may queue; further ones fail with [`ErrorKind::QueueFull`] (default: 65,536). Each keeps a copy of
    /// what it sends, values included.
    #[must_use]
    pub fn max_queued(mut self, requests: u32) -> Self {
        self.max_queued = requests;
        self
    }

    /// Most bytes of requests that are kept until the broker has acknowledged them; further requests queue
    /// (default: 64 MiB). One request may exceed it if nothing else is kept.
    #[must_use]
    pub fn max_buffered_bytes(mut self, bytes: usize) -> Self {
        self.max_buffered_bytes = bytes;
        self
    }

    /// The largest packet that the broker may send, in bytes (default: what MQTT can express, 256 MiB).
    #[must_use]
    pub fn max_packet_bytes(mut self, bytes: u32) -> Self {
        self.max_packet_bytes = bytes.clamp(1024, Limits::MAX_PACKET_BYTES);
        self
    }

    /// The longest value that is sent, in bytes; a longer one fails with [`ErrorKind::TooLarge`] before it waits for
    /// anything (default: what MQTT can express, 256 MiB). Besides, the broker's Maximum Packet Size counts.
    #[must_use]
    pub fn max_value_bytes(mut self, bytes: usize) -> Self {
        self.max_value_bytes = bytes;
        self
    }

    /// The bounds of the delay between attempts to reconnect (default: 100 ms and 30 s). The first attempt is
    /// immediate; then the bound doubles from `min` to `max`, and each delay is random between zero and the bound.
    #[must_use]
    pub fn reconnect_delay(mut self, min: Duration, max: Duration) -> Self {
        self.reconnect_delay_min = min.max(Duration::from_millis(1));
        self.reconnect_delay_max = max.max(self.reconnect_delay_min);
        self
    }

    /// How long connecting is tried again before there was any connection (default: not at all, so that a wrong password is
    /// seen at once; [`Duration::MAX`] for ever), with the delays of [`reconnect_delay`](Self::reconnect_delay). So a
    /// machine that starts before its network, its clock or its broker connects when they are there: whatever failed is
    /// tried again, but for [`ErrorKind::InvalidSettings`]. Each failure is logged as a warning.
    #[must_use]
    pub fn connect_limit(mut self, limit: Duration) -> Self {
        self.connect_limit = limit;
        self
    }

    /// How long after a lost connection the client tries to connect again (default: for ever). Then it gives up for good:
    /// its [state](crate::Client::state) becomes [`Closed`](crate::ConnectionState::Closed) with the reason of the last
    /// failure, and every request fails with [`ErrorKind::Closed`].
    #[must_use]
    pub fn reconnect_limit(mut self, limit: Duration) -> Self {
        self.reconnect_limit = Some(limit);
        self
    }

    /// Replaces the machine that the client runs on (default: [`System`]), as for a simulation, or for a transport of
    /// another kind. What [`Platform::connect`] gives is used as it is: the address and TLS of these settings do not apply.
    #[must_use]
    pub fn platform(mut self, platform: impl Platform + 'static) -> Self {
        self.platform = Arc::new(platform);
        self
    }

    /// Whether the client begins and ends with a session of its own, instead of one that outlives it.
    pub(crate) fn has_own_session(&self) -> bool {
        self.clean_start || self.client_id.as_deref().is_none_or(str::is_empty)
    }

    /// Refuses what cannot work before anything is tried.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let invalid = |reason: &str| {
            let action = format!("connecting to {}", self.address());
            Err(Error::new(
                ErrorKind::InvalidSettings,
                Outcome::NotDone,
                action,
                reason,
            ))
        };
        for endpoint in &self.endpoints {
            endpoint.check(self.tls_enabled).or_else(invalid)?;
            if let Some(path) = &self.websocket {
                endpoint.check_websocket(path).or_else(invalid)?;
            }
        }
        self.tls
            .check(self.tls_enabled)
            .or_else(|reason| invalid(&reason))?;
        self.credentials.check().or_else(invalid)?;
        self.check_secrecy().or_else(invalid)?;
        match &self.client_id {
            Some(id) => check_client_id(id).or_else(invalid),
            None => Ok(()),
        }
    }
}

/// Whether a client id can stand in the topics of the state store.
pub(crate) fn check_client_id(id: &str) -> Result<(), &'static str> {
    // The notification topic holds the client id as hex, and a key of some length.
    const MAX_BYTES: usize = 16_384;
    if id.contains(['+', '#', '\0']) {
        Err("the client id contains `+`, `#` or U+0000, which cannot stand in its response topic")
    } else if id.len() > MAX_BYTES {
        Err("the client id is longer than 16384 bytes")
    } else if topic::is_forbidden_response(topic::response(id)) {
        Err("the client id makes a response topic that the state store forbids")
    } else {
        Ok(())
    }
}

fn seconds_up(duration: Duration) -> u64 {
    let started = u64::from(duration.subsec_nanos() > 0);
    duration.as_secs().saturating_add(started)
}

/// As [`from_url`](Settings::from_url).
impl std::str::FromStr for Settings {
    type Err = Error;

    fn from_str(url: &str) -> Result<Self, Error> {
        Self::from_url(url)
    }
}

impl fmt::Debug for Settings {
    /// Without the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("address", &self.address())
            .field("client_id", &self.client_id)
            .field("credentials", &self.credentials)
            .field("tls", &self.tls_enabled.then_some(&self.tls))
            .finish_non_exhaustive()
    }
}
