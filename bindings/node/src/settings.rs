//! Connection settings as the face passes them: times in milliseconds, files as paths.
use crate::options::time;
use bytes::Bytes;
use napi::bindgen_prelude::Uint8Array;
use napi_derive::napi;
use statestore::{Outcome, Settings};
use statestore_embed::{Error, ErrorKind};

/// Settings: a URL, the environment, or a host; and further values that override it.
#[napi(object, object_to_js = false)]
pub struct SettingsInput {
    pub url: Option<String>,
    pub env: Option<bool>,
    pub host: Option<String>,
    pub port: Option<u32>,
    pub client_id: Option<String>,
    pub clean_start: Option<bool>,
    pub session_expiry: Option<f64>,
    pub keep_alive: Option<f64>,
    pub ping_timeout: Option<f64>,
    pub connect_timeout: Option<f64>,
    pub connect_limit: Option<f64>,
    pub request_timeout: Option<f64>,
    pub max_in_flight: Option<u32>,
    pub max_queued: Option<u32>,
    pub max_buffered_bytes: Option<f64>,
    pub max_packet_bytes: Option<u32>,
    pub fail_fast: Option<bool>,
    pub lazy: Option<bool>,
    pub max_value_bytes: Option<f64>,
    pub reconnect_delay_min: Option<f64>,
    pub reconnect_delay_max: Option<f64>,
    pub reconnect_limit: Option<f64>,
    pub user_name: Option<String>,
    pub password: Option<Uint8Array>,
    pub password_file: Option<String>,
    pub sat_file: Option<String>,
    pub allow_plaintext_credentials: Option<bool>,
    pub tls: Option<bool>,
    pub ca_file: Option<String>,
    pub cert_file: Option<String>,
    pub key_file: Option<String>,
    pub key_password_file: Option<String>,
    pub ca_pem: Option<Uint8Array>,
    pub cert_pem: Option<Uint8Array>,
    pub key_pem: Option<Uint8Array>,
    pub server_name: Option<String>,
}

/// The defaults of `Settings::reconnect_delay`, for settings with only one of the two values.
const RECONNECT_DELAY: (f64, f64) = (100.0, 30_000.0);

impl SettingsInput {
    pub(crate) fn build(self) -> Result<Settings, Error> {
        let settings = self.base()?;
        Ok(self.apply_to(settings))
    }

    fn base(&self) -> Result<Settings, Error> {
        match (&self.url, self.env.unwrap_or_default(), &self.host) {
            (Some(url), false, None) => Ok(Settings::from_url(url)?),
            (None, true, None) => Ok(Settings::from_environment()?),
            (None, false, Some(host)) => {
                let tls = self.tls.unwrap_or_default();
                let default = if tls { 8883 } else { 1883 };
                let port = u16::try_from(self.port.unwrap_or(default))
                    .map_err(|_| invalid("`port` is above 65535"))?;
                Ok(Settings::new(host, port).tls(tls))
            }
            _ => Err(invalid("give one of `url`, `env` and `host`")),
        }
    }

    fn apply_to(self, to: Settings) -> Settings {
        let to = with(to, self.tls, Settings::tls);
        let to = with(to, self.client_id, Settings::client_id);
        let to = with(to, self.clean_start, Settings::clean_start);
        let to = with(to, self.session_expiry.map(time), Settings::session_expiry);
        let to = with(to, self.keep_alive.map(time), Settings::keep_alive);
        let to = with(to, self.ping_timeout.map(time), Settings::ping_timeout);
        let to = with(
            to,
            self.connect_timeout.map(time),
            Settings::connect_timeout,
        );
        let to = with(to, self.connect_limit.map(time), Settings::connect_limit);
        let to = with(
            to,
            self.request_timeout.map(time),
            Settings::request_timeout,
        );
        let to = with(to, self.fail_fast, Settings::fail_fast);
        let to = with(to, self.lazy, Settings::lazy);
        let to = with(to, self.max_in_flight, Settings::max_in_flight);
        let to = with(to, self.max_queued, Settings::max_queued);
        let to = with(
            to,
            self.max_buffered_bytes.map(size),
            Settings::max_buffered_bytes,
        );
        let to = with(to, self.max_packet_bytes, Settings::max_packet_bytes);
        let to = with(
            to,
            self.max_value_bytes.map(size),
            Settings::max_value_bytes,
        );
        let to = with(to, self.user_name, Settings::user_name);
        let to = with(to, self.password.as_ref().map(copied), Settings::password);
        let to = with(to, self.password_file, Settings::password_file);
        let to = with(to, self.sat_file, Settings::sat_file);
        let to = with(
            to,
            self.allow_plaintext_credentials,
            Settings::allow_plaintext_credentials,
        );
        let to = with(to, self.ca_file, Settings::ca_file);
        let to = with(to, self.cert_file, Settings::cert_file);
        let to = with(to, self.key_file, Settings::key_file);
        let to = with(to, self.key_password_file, Settings::key_password_file);
        let to = with(to, self.ca_pem.as_ref().map(copied), Settings::ca_pem);
        let to = with(to, self.cert_pem.as_ref().map(copied), Settings::cert_pem);
        let to = with(to, self.key_pem.as_ref().map(copied), Settings::key_pem);
        let to = with(to, self.server_name, Settings::server_name);
        let to = with(
            to,
            self.reconnect_limit.map(time),
            Settings::reconnect_limit,
        );
        match (self.reconnect_delay_min, self.reconnect_delay_max) {
            (None, None) => to,
            (min, max) => to.reconnect_delay(
                time(min.unwrap_or(RECONNECT_DELAY.0)),
                time(max.unwrap_or(RECONNECT_DELAY.1)),
            ),
        }
    }
}

fn with<T>(
    settings: Settings,
    value: Option<T>,
    set: impl FnOnce(Settings, T) -> Settings,
) -> Settings {
    match value {
        Some(value) => set(settings, value),
        None => settings,
    }
}

fn copied(bytes: &Uint8Array) -> Bytes {
    Bytes::copy_from_slice(bytes)
}

/// A number of bytes; the face lets only whole numbers through that are not negative.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "it saturates"
)]
fn size(bytes: f64) -> usize {
    bytes as usize
}

fn invalid(reason: &str) -> Error {
    Error::new(
        ErrorKind::InvalidSettings,
        Outcome::NotDone,
        "reading the connection settings",
        reason,
    )
}
