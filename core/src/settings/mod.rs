//! Settings of a client.
mod credentials;
mod endpoint;
mod environment;
#[cfg(test)]
mod log_capture;
mod parsers;
mod tls;
mod url;

pub(crate) use credentials::CredentialSources;
pub(crate) use endpoint::{Endpoint, without_zone};
#[cfg(feature = "tls")]
pub(crate) use tls::PemSource;
pub(crate) use tls::TlsSettings;

use crate::error::{Error, ErrorKind, Outcome};
use crate::platform::{Platform, System};
use statestore_protocol::mqtt::Limits;
use statestore_protocol::topic;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Settings of a [`Client`](crate::Client).
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
    /// Addresses of brokers of the same state store; at least one.
    pub(crate) endpoints: Vec<Endpoint>,
    /// Path of the broker's WebSocket, if MQTT runs over WebSocket.
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
    pub(crate) lazy: bool,
    pub(crate) max_in_flight: u32,
    pub(crate) max_queued: u32,
    pub(crate) max_buffered_bytes: usize,
    pub(crate) max_packet_bytes: u32,
    pub(crate) max_value_bytes: usize,
    pub(crate) reconnect_delay_min: Duration,
    pub(crate) reconnect_delay_max: Duration,
    pub(crate) connect_limit: Option<Duration>,
    pub(crate) reconnect_limit: Option<Duration>,
    pub(crate) platform: Arc<dyn Platform>,
}

impl Settings {
    /// Creates settings for a plain TCP connection to `host` (a name or an address) and `port`, with defaults otherwise.
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
            lazy: false,
            max_in_flight: 65_536,
            max_queued: 65_536,
            max_buffered_bytes: 64 << 20,
            max_packet_bytes: Limits::MAX_PACKET_BYTES,
            max_value_bytes: Limits::MAX_PACKET_BYTES as usize,
            reconnect_delay_min: Duration::from_millis(100),
            reconnect_delay_max: Duration::from_secs(30),
            connect_limit: None,
            reconnect_limit: None,
            platform: Arc::new(System),
        }
    }

    /// Parses a URL of one of these forms:
    /// - `mqtt://[user[:password]@]host[:port]`, by default port 1883,
    /// - `mqtts://[user[:password]@]host[:port]`, TLS, by default port 8883,
    /// - `ws://[user[:password]@]host[:port][/path]` and `wss://`, MQTT over WebSocket, by default ports 80 and 443 and the path
    ///   `/mqtt`; see [`websocket`](Self::websocket),
    /// - `unix://[user[:password]@]/path`, a Unix domain socket.
    ///
    /// `host[:port]` may be repeated with `,` as the separator, as in `mqtt://one,two:1884,[::1]`; see [`add_address`](Self::add_address). A
    /// link-local IPv6 address has its network interface after `%25`, as in `mqtt://[fe80::1%25eth0]`.
    ///
    /// `?` starts the parameters `name=value`, separated by `&`. Their names are those of the methods of this type: `ca_file`,
    /// `cert_file`, `key_file`, `key_password_file`, `server_name`, `password_file`, `sat_file`, `client_id`, `keep_alive` and
    /// `session_expiry` (in seconds), `clean_start`, `fail_fast`, `lazy` and `allow_plaintext_credentials` (`true` or `false`).
    /// Special characters are percent-encoded.
    ///
    /// # Errors
    /// Returns [`ErrorKind::InvalidSettings`] with the problem of the URL.
    pub fn from_url(url: &str) -> Result<Self, Error> {
        url::parse(url)
    }

    /// Creates settings for a Unix domain socket, with defaults otherwise.
    pub fn unix(path: impl Into<PathBuf>) -> Self {
        Self::at(Endpoint::Unix(path.into()))
    }

    /// Adds another address of the same state store: another broker of the cluster, or another address of the broker.
    ///
    /// The client first tries the broker that was connected last, initially the first one, and tries the next one at each
    /// failure. Only after all have failed does it wait; see [`reconnect_delay`](Self::reconnect_delay). All other settings
    /// apply to all brokers.
    ///
    /// Do not add a broker with a store of its own: a lock that is held in one store is free in the other.
    #[must_use]
    pub fn add_address(mut self, host: impl Into<String>, port: u16) -> Self {
        let host = host.into();
        self.endpoints.push(Endpoint::Tcp { host, port });
        self
    }

    /// Sets MQTT over WebSocket at this path of the broker (usually `/mqtt`), for networks that allow only HTTP. User name and
    /// password are sent over MQTT, not over HTTP. Requires the feature `ws` of this crate, which is not on by default.
    #[must_use]
    pub fn websocket(mut self, path: impl Into<String>) -> Self {
        self.websocket = Some(path.into());
        self
    }

    /// Returns the broker as `host:port`, or the path of its socket. Several addresses are separated by `,`.
    pub fn address(&self) -> String {
        let addresses: Vec<_> = self.endpoints.iter().map(Endpoint::to_string).collect();
        addresses.join(",")
    }

    /// Sets the MQTT client id. Without one, the client uses a random one. An empty one requests one from the broker.
    #[must_use]
    pub fn client_id(mut self, client_id: impl Into<String>) -> Self {
        self.client_id = Some(client_id.into());
        self
    }

    /// Sets whether the first connection requests a new session (default: yes). Later connections resume it.
    ///
    /// With `false`, the first connection checks whether the broker still has a session for this client id. If it has, the
    /// client ends that session by a second connection. A client without the state of a session must not resume it
    /// [MQTT-3.2.2-4]. `false` also leaves the session at the broker when the client is closed. It requires a
    /// [`client_id`](Self::client_id), since no client can resume a session under a random or assigned client id. Without one,
    /// the setting counts as `true`.
    #[must_use]
    pub fn clean_start(mut self, clean_start: bool) -> Self {
        self.clean_start = clean_start;
        self
    }

    /// Sets how long the broker keeps the session while the client is disconnected; whole seconds, rounded up (default: one
    /// hour).
    #[must_use]
    pub fn session_expiry(mut self, expiry: Duration) -> Self {
        self.session_expiry_s = u32::try_from(seconds_up(expiry)).unwrap_or(u32::MAX);
        self
    }

    /// Sets the keep-alive time; whole seconds, rounded up (default: 60 s). The connection is checked when nothing was sent, or
    /// nothing received, for this time. While requests wait, it is checked when nothing was received for two seconds. Zero
    /// disables the checks. The broker may require another value.
    #[must_use]
    pub fn keep_alive(mut self, interval: Duration) -> Self {
        self.keep_alive_s = u16::try_from(seconds_up(interval)).unwrap_or(u16::MAX);
        self
    }

    /// Sets the time limit for the response to such a check, and for a blocked write (default: 10 s). When it has passed, the
    /// connection counts as lost. While requests wait, the limit is 2.5 seconds if that is less. It is extended by the time
    /// that a link of 1 Mbit/s needs for the bytes that were just sent.
    #[must_use]
    pub fn ping_timeout(mut self, timeout: Duration) -> Self {
        self.ping_timeout = timeout;
        self
    }

    /// Sets the time limit of one attempt to connect to one broker, from the name lookup to the accepted subscriptions
    /// (default: 10 s).
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// Sets the default time limit of requests (default: 10 s).
    #[must_use]
    pub fn request_timeout(mut self, timeout: Duration) -> Self {
        self.request_timeout = timeout;
        self
    }

    /// Sets whether a call that begins while the connection is lost fails at once with [`ErrorKind::Unreachable`] (default:
    /// `false`). By default, it waits for the connection until its time-out.
    ///
    /// A call that fails this way is not executed, and its source is the error that ended the connection. A call that was under
    /// way when the connection was lost continues to its time-out. Held leases are renewed, and observers resume, in either
    /// case. The release of a lease is not affected.
    #[must_use]
    pub fn fail_fast(mut self, fail_fast: bool) -> Self {
        self.fail_fast = fail_fast;
        self
    }

    /// Sets the maximum number of requests that are sent and not yet answered; further ones queue (default: 65,536). The
    /// broker's Receive Maximum can be a lower limit.
    #[must_use]
    pub fn max_in_flight(mut self, requests: u32) -> Self {
        self.max_in_flight = requests.max(1);
        self
    }

    /// Sets the maximum number of queued requests; further ones fail with [`ErrorKind::QueueFull`] (default: 65,536). Each
    /// keeps a copy of its message, including the value.
    #[must_use]
    pub fn max_queued(mut self, requests: u32) -> Self {
        self.max_queued = requests;
        self
    }

    /// Sets the maximum size of the requests that are kept until the broker has acknowledged them; further requests queue
    /// (default: 64 MiB). A single request may exceed it if no other is kept.
    #[must_use]
    pub fn max_buffered_bytes(mut self, bytes: usize) -> Self {
        self.max_buffered_bytes = bytes;
        self
    }

    /// Sets the maximum size of a packet from the broker, in bytes (default: the maximum of MQTT, 256 MiB).
    #[must_use]
    pub fn max_packet_bytes(mut self, bytes: u32) -> Self {
        self.max_packet_bytes = bytes.clamp(1024, Limits::MAX_PACKET_BYTES);
        self
    }

    /// Sets the maximum size of a value in a request, in bytes (default: the maximum of MQTT, 256 MiB). A longer value fails at
    /// once with [`ErrorKind::TooLarge`]. The broker's Maximum Packet Size applies in addition.
    #[must_use]
    pub fn max_value_bytes(mut self, bytes: usize) -> Self {
        self.max_value_bytes = bytes;
        self
    }

    /// Sets the bounds of the delay between attempts to reconnect (default: 100 ms and 30 s). The first attempt is immediate.
    /// Then the bound doubles from `min` to `max`, and each delay is random between zero and the bound.
    #[must_use]
    pub fn reconnect_delay(mut self, min: Duration, max: Duration) -> Self {
        self.reconnect_delay_min = min.max(Duration::from_millis(1));
        self.reconnect_delay_max = max.max(self.reconnect_delay_min);
        self
    }

    /// Sets how long the first connection is retried, with the delays of [`reconnect_delay`](Self::reconnect_delay). By default
    /// it is not retried, so that a wrong password is reported at once; [`Duration::MAX`] retries forever. With a limit, a
    /// machine that starts before its network, its clock or its broker connects as soon as they are available. All failures are
    /// retried except [`ErrorKind::InvalidSettings`]. Each failure is logged as a warning.
    ///
    /// With [`lazy`](Self::lazy), the default is to retry forever. After a limit, the client then ends as after
    /// [`reconnect_limit`](Self::reconnect_limit).
    #[must_use]
    pub fn connect_limit(mut self, limit: Duration) -> Self {
        self.connect_limit = Some(limit);
        self
    }

    /// Sets whether [`Client::connect`](crate::Client::connect) returns at once, and the client connects in the background
    /// (default: `false`). Calls wait for the connection until their time-outs. With [`fail_fast`](Self::fail_fast), they fail
    /// at once after the first failed attempt.
    ///
    /// `connect` still returns errors of the settings themselves. A failed attempt changes the
    /// [state](crate::Client::state) to [`Reconnecting`](crate::ConnectionState::Reconnecting) and is retried; see
    /// [`connect_limit`](Self::connect_limit). After [`ErrorKind::InvalidSettings`], such as for an unreadable file, the client
    /// ends.
    #[must_use]
    pub fn lazy(mut self, lazy: bool) -> Self {
        self.lazy = lazy;
        self
    }

    /// Sets how long the client tries to reconnect after a lost connection (default: forever). Then the client ends: its
    /// [state](crate::Client::state) becomes [`Closed`](crate::ConnectionState::Closed) with the reason of the last failure,
    /// and every request fails with [`ErrorKind::Closed`].
    #[must_use]
    pub fn reconnect_limit(mut self, limit: Duration) -> Self {
        self.reconnect_limit = Some(limit);
        self
    }

    /// Replaces the platform that the client runs on (default: [`System`]), for a simulation or another kind of transport. The
    /// stream of [`Platform::connect`] is used unchanged: the address and TLS of these settings do not apply.
    #[must_use]
    pub fn platform(mut self, platform: impl Platform + 'static) -> Self {
        self.platform = Arc::new(platform);
        self
    }

    /// Returns whether the client starts and ends with a session of its own, instead of one that outlives it.
    pub(crate) fn has_own_session(&self) -> bool {
        self.clean_start || self.client_id.as_deref().is_none_or(str::is_empty)
    }

    /// Rejects invalid settings before the client connects.
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

/// Checks that a client id can be part of the topics of the state store.
pub(crate) fn check_client_id(id: &str) -> Result<(), &'static str> {
    // The notification topic contains the client id in hexadecimal, and a key of any length.
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

/// Parses a URL as [`from_url`](Settings::from_url) does.
impl std::str::FromStr for Settings {
    type Err = Error;

    fn from_str(url: &str) -> Result<Self, Error> {
        Self::from_url(url)
    }
}

impl fmt::Debug for Settings {
    /// Omits the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("address", &self.address())
            .field("client_id", &self.client_id)
            .field("credentials", &self.credentials)
            .field("tls", &self.tls_enabled.then_some(&self.tls))
            .finish_non_exhaustive()
    }
}
