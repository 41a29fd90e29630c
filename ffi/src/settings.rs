//! Connection settings.
use crate::input::{self, FOREVER, milliseconds, sized};
use crate::queue::{self, sst_queue};
use statestore_core::Settings;
use statestore_embed::{Client, Error};
use std::ffi::{c_char, c_void};
use std::time::Duration;

/// A yes or no whose zero means the default.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum sst_choice {
    /// The default.
    SST_DEFAULT = 0,
    /// Yes.
    SST_YES = 1,
    /// No.
    SST_NO = 2,
}

/// Settings of a client besides its URL.
///
/// Owner: texts, the password and PEM texts are borrowed for the call that gets this struct. Texts are UTF-8 with a NUL
/// at the end, except those with a length.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct sst_settings {
    pub size: usize,
    /// The MQTT client id (default: a random one; "" asks the broker for one).
    pub client_id: *const c_char,
    /// The user name.
    pub user_name: *const c_char,
    /// The password, as any bytes.
    pub password: *const c_void,
    /// Number of bytes of the password.
    pub password_len: usize,
    /// File that holds the password; read again for each connection.
    pub password_file: *const c_char,
    /// File that holds a Kubernetes service account token; watched for changes.
    pub sat_file: *const c_char,
    /// File with the certificates of the authorities that may have signed the broker's, as PEM (default: those of the
    /// system).
    pub ca_file: *const c_char,
    /// File with the client's certificate, as PEM.
    pub cert_file: *const c_char,
    /// File with the private key of that certificate, as PEM.
    pub key_file: *const c_char,
    /// File that holds the password of the key.
    pub key_password_file: *const c_char,
    /// Name for which the broker's certificate must be valid (default: the host name).
    pub server_name: *const c_char,
    /// Queue in which the callbacks of the client wait until the program runs them with sst_queue_run() (default: none;
    /// the client calls them on its own thread).
    pub queue: *const sst_queue,
    /// Whether the connection uses TLS, an sst_choice (default: as the URL or the environment says).
    pub tls: u32,
    /// Whether the first connection asks for a new session and closing the client ends it, an sst_choice.
    ///
    /// The default is yes. If the settings come from the environment, it decides, and its default is no. With SST_NO,
    /// closing leaves the session to the broker. A session from before that the broker still has for this client id is
    /// ended anyway, by a second connection, [MQTT-3.2.2-4]. Without a client id, SST_NO counts as SST_YES.
    pub clean_start: u32,
    /// Time for which the broker keeps the session while the client is away, rounded up to seconds (default: an hour).
    pub session_expiry_ms: u64,
    /// Time of silence after which the connection is checked, rounded up to seconds (default: a minute).
    pub keep_alive_ms: u64,
    /// Time limit for the broker to answer such a check (default: 10,000).
    pub ping_timeout_ms: u64,
    /// Time limit of one attempt to connect (default: 10,000).
    pub connect_timeout_ms: u64,
    /// Time limit of a request unless its options have one (default: 10,000).
    pub request_timeout_ms: u64,
    /// Maximum number of requests that are sent and not yet answered (default: 65,536).
    pub max_in_flight: u32,
    /// Maximum number of requests that wait to be sent (default: 65,536).
    pub max_queued: u32,
    /// Maximum number of bytes of requests that are kept until the broker has acknowledged them (default: 64 MiB).
    pub max_buffered_bytes: usize,
    /// Maximum length of a value that is sent, in bytes (default: the limit of MQTT, 256 MiB).
    pub max_value_bytes: usize,
    /// Maximum length of a packet that the broker may send, in bytes (default: the limit of MQTT, 256 MiB).
    pub max_packet_bytes: usize,
    /// Lower bound of the delay between attempts to reconnect (default: 100).
    pub reconnect_delay_min_ms: u64,
    /// Upper bound of that delay (default: 30,000).
    pub reconnect_delay_max_ms: u64,
    /// Time for which the first connection is tried again (default: one attempt, so that a wrong password is seen at
    /// once).
    ///
    /// Every failure is tried again, except settings that cannot be used. A machine that starts before its network, its
    /// clock or its broker therefore connects when they are available. To be able to end the attempts, use
    /// sst_connect_async().
    pub connect_limit_ms: u64,
    /// Time after a lost connection for which the client tries to reconnect (default: SST_FOREVER). Then it gives up
    /// for good.
    pub reconnect_limit_ms: u64,
    /// Whether credentials may be sent over plain TCP, where every machine on the way can read them, an sst_choice.
    ///
    /// The default is no: a service account token is rejected there, and a password for another machine causes a
    /// warning in the log.
    pub allow_plaintext_credentials: u32,
    /// Whether a call that begins while the connection is lost ends at once with SST_UNREACHABLE, an sst_choice.
    ///
    /// Such a call is not executed. The default is no: the call waits for the connection until its time-out. Calls
    /// under way when the connection is lost continue until their time-outs.
    pub fail_fast: u32,
    /// The certificates of the authorities that may have signed the broker's, as PEM text in memory; excludes
    /// `ca_file`.
    pub ca_pem: *const c_void,
    /// Number of bytes of that text.
    pub ca_pem_len: usize,
    /// The client's certificate, as PEM text in memory; excludes `cert_file`.
    pub cert_pem: *const c_void,
    /// Number of bytes of that text.
    pub cert_pem_len: usize,
    /// The private key of that certificate, as PEM text in memory; excludes `key_file`.
    pub key_pem: *const c_void,
    /// Number of bytes of that text.
    pub key_pem_len: usize,
    /// Whether sst_connect() returns at once and the client connects in the background, an sst_choice.
    ///
    /// The default is no. With SST_YES, calls wait for the connection until their time-outs. With `fail_fast`, they end
    /// at once after the first failed attempt. A failed attempt changes the state to SST_RECONNECTING and is tried
    /// again, without an end unless `connect_limit_ms` is set. Settings that cannot be used end the client.
    pub lazy: u32,
    /// Zero.
    pub reserved: u32,
}

sized!(sst_settings, reserved: u32);

/// Reads a choice; `None` for the default.
fn choice(value: u32, name: &str) -> Result<Option<bool>, Error> {
    const DEFAULT: u32 = sst_choice::SST_DEFAULT as u32;
    const YES: u32 = sst_choice::SST_YES as u32;
    const NO: u32 = sst_choice::SST_NO as u32;
    match value {
        DEFAULT => Ok(None),
        YES => Ok(Some(true)),
        NO => Ok(Some(false)),
        _ => Err(input::invalid(
            name,
            format!("{value} is not an sst_choice"),
        )),
    }
}

/// Makes a client that is not connected yet. The settings of the caller override the given ones.
///
/// # Safety `given` is as [`input::options`] asks, with texts as [`input::text`] asks.
pub(crate) unsafe fn client(
    settings: Settings,
    given: *const sst_settings,
) -> Result<Client, Error> {
    // SAFETY: by the contract.
    let given = unsafe { input::options(given) }?;
    if given.reserved != 0 {
        return Err(input::invalid("reserved", "it is not zero"));
    }
    let settings = apply_identity(settings, &given)?;
    let settings = apply_security(settings, &given)?;
    let settings = apply_pem(settings, &given)?;
    let settings = apply_limits(settings, &given)?;
    match queue::optional(given.queue)? {
        Some(queue) => queue.client(settings),
        None => Client::new(settings),
    }
}

fn apply_identity(mut settings: Settings, given: &sst_settings) -> Result<Settings, Error> {
    // SAFETY: the contract of `client`.
    let text = |text, name| unsafe { input::text(text, name) };
    if let Some(client_id) = text(given.client_id, "client_id")? {
        settings = settings.client_id(client_id);
    }
    if let Some(user_name) = text(given.user_name, "user_name")? {
        settings = settings.user_name(user_name);
    }
    // SAFETY: the contract of `client`.
    let password = unsafe { input::bytes(given.password, given.password_len, "password") }?;
    if !given.password.is_null() {
        settings = settings.password(password.to_vec());
    }
    if let Some(path) = text(given.password_file, "password_file")? {
        settings = settings.password_file(path);
    }
    if let Some(path) = text(given.sat_file, "sat_file")? {
        settings = settings.sat_file(path);
    }
    if let Some(clean_start) = choice(given.clean_start, "clean_start")? {
        settings = settings.clean_start(clean_start);
    }
    Ok(settings)
}

fn apply_security(mut settings: Settings, given: &sst_settings) -> Result<Settings, Error> {
    // SAFETY: the contract of `client`.
    let text = |text, name| unsafe { input::text(text, name) };
    if let Some(tls) = choice(given.tls, "tls")? {
        settings = settings.tls(tls);
    }
    if let Some(allow) = choice(
        given.allow_plaintext_credentials,
        "allow_plaintext_credentials",
    )? {
        settings = settings.allow_plaintext_credentials(allow);
    }
    if let Some(path) = text(given.ca_file, "ca_file")? {
        settings = settings.ca_file(path);
    }
    if let Some(path) = text(given.cert_file, "cert_file")? {
        settings = settings.cert_file(path);
    }
    if let Some(path) = text(given.key_file, "key_file")? {
        settings = settings.key_file(path);
    }
    if let Some(path) = text(given.key_password_file, "key_password_file")? {
        settings = settings.key_password_file(path);
    }
    if let Some(name) = text(given.server_name, "server_name")? {
        settings = settings.server_name(name);
    }
    Ok(settings)
}

/// Applies the PEM texts in memory.
fn apply_pem(mut settings: Settings, given: &sst_settings) -> Result<Settings, Error> {
    // SAFETY: the contract of `client`.
    let pem = |data: *const c_void, len, name| match unsafe { input::bytes(data, len, name) }? {
        [] if data.is_null() => Ok(None),
        bytes => Ok::<_, Error>(Some(bytes.to_vec())),
    };
    if let Some(pem) = pem(given.ca_pem, given.ca_pem_len, "ca_pem")? {
        settings = settings.ca_pem(pem);
    }
    if let Some(pem) = pem(given.cert_pem, given.cert_pem_len, "cert_pem")? {
        settings = settings.cert_pem(pem);
    }
    if let Some(pem) = pem(given.key_pem, given.key_pem_len, "key_pem")? {
        settings = settings.key_pem(pem);
    }
    Ok(settings)
}

fn apply_limits(mut settings: Settings, given: &sst_settings) -> Result<Settings, Error> {
    if let Some(expiry) = milliseconds(given.session_expiry_ms, "session_expiry_ms")? {
        settings = settings.session_expiry(expiry);
    }
    if let Some(interval) = milliseconds(given.keep_alive_ms, "keep_alive_ms")? {
        let is_never = given.keep_alive_ms == FOREVER;
        settings = settings.keep_alive(if is_never { Duration::ZERO } else { interval });
    }
    if let Some(timeout) = milliseconds(given.ping_timeout_ms, "ping_timeout_ms")? {
        settings = settings.ping_timeout(timeout);
    }
    if let Some(timeout) = milliseconds(given.connect_timeout_ms, "connect_timeout_ms")? {
        settings = settings.connect_timeout(timeout);
    }
    if let Some(timeout) = milliseconds(given.request_timeout_ms, "request_timeout_ms")? {
        settings = settings.request_timeout(timeout);
    }
    if let Some(fail_fast) = choice(given.fail_fast, "fail_fast")? {
        settings = settings.fail_fast(fail_fast);
    }
    if let Some(lazy) = choice(given.lazy, "lazy")? {
        settings = settings.lazy(lazy);
    }
    if given.max_in_flight > 0 {
        settings = settings.max_in_flight(given.max_in_flight);
    }
    if given.max_queued > 0 {
        settings = settings.max_queued(given.max_queued);
    }
    if given.max_buffered_bytes > 0 {
        settings = settings.max_buffered_bytes(given.max_buffered_bytes);
    }
    if given.max_value_bytes > 0 {
        settings = settings.max_value_bytes(given.max_value_bytes);
    }
    if given.max_packet_bytes > 0 {
        let bytes = u32::try_from(given.max_packet_bytes).unwrap_or(u32::MAX);
        settings = settings.max_packet_bytes(bytes);
    }
    let min = milliseconds(given.reconnect_delay_min_ms, "reconnect_delay_min_ms")?;
    let max = milliseconds(given.reconnect_delay_max_ms, "reconnect_delay_max_ms")?;
    if (min, max) != (None, None) {
        let min = min.unwrap_or(Duration::from_millis(100));
        let max = max.unwrap_or(Duration::from_secs(30));
        if min > max {
            let reason = "it is greater than reconnect_delay_max_ms";
            return Err(input::invalid("reconnect_delay_min_ms", reason));
        }
        settings = settings.reconnect_delay(min, max);
    }
    if let Some(limit) = milliseconds(given.connect_limit_ms, "connect_limit_ms")? {
        settings = settings.connect_limit(limit);
    }
    if let Some(limit) = milliseconds(given.reconnect_limit_ms, "reconnect_limit_ms")? {
        settings = settings.reconnect_limit(limit);
    }
    Ok(settings)
}
