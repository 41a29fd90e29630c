//! How to reach the broker, and how the client behaves.
use crate::argument::{bytes, flag, limit, number, path, text, time};
use crate::codec::Codec;
use crate::error;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use std::sync::Arc;
use std::time::Duration;

type OptionalArgument<'a, 'py> = Option<&'a Bound<'py, PyAny>>;

const DELAY_MIN: Duration = Duration::from_millis(100);
const DELAY_MAX: Duration = Duration::from_secs(30);

/// The arguments of `connect`.
#[pyclass(frozen, module = "statestore._native")]
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) core: statestore::Settings,
    pub(crate) codec: Arc<Codec>,
}

#[pymethods]
impl Settings {
    #[allow(clippy::too_many_arguments, reason = "each is a setting")]
    #[new]
    #[pyo3(
        signature = (
            url=None, *, env=None, encoding=None, client_id=None, clean_start=None, session_expiry=None, keep_alive=None,
            ping_timeout=None, connect_timeout=None, connect_limit=None, request_timeout=None, fail_fast=None, lazy=None, max_in_flight=None, max_queued=None,
            max_buffered_bytes=None, max_packet_bytes=None, max_value_bytes=None, reconnect_delay_min=None,
            reconnect_delay_max=None, reconnect_limit=None, user_name=None, password=None, password_file=None, sat_file=None,
            allow_plaintext_credentials=None, tls=None, ca_file=None, ca_pem=None, cert_file=None, cert_pem=None, key_file=None, key_pem=None,
            key_password_file=None, server_name=None,
        ),
        text_signature = "(url=None, *, env=False, encoding=None, client_id=None, clean_start=None, session_expiry=None, keep_alive=None, ping_timeout=None, connect_timeout=None, connect_limit=None, request_timeout=None, fail_fast=None, lazy=None, max_in_flight=None, max_queued=None, max_buffered_bytes=None, max_packet_bytes=None, max_value_bytes=None, reconnect_delay_min=None, reconnect_delay_max=None, reconnect_limit=None, user_name=None, password=None, password_file=None, sat_file=None, allow_plaintext_credentials=None, tls=None, ca_file=None, ca_pem=None, cert_file=None, cert_pem=None, key_file=None, key_pem=None, key_password_file=None, server_name=None)"
    )]
    fn new(
        py: Python<'_>,
        url: OptionalArgument<'_, '_>,
        env: OptionalArgument<'_, '_>,
        encoding: OptionalArgument<'_, '_>,
        client_id: OptionalArgument<'_, '_>,
        clean_start: OptionalArgument<'_, '_>,
        session_expiry: OptionalArgument<'_, '_>,
        keep_alive: OptionalArgument<'_, '_>,
        ping_timeout: OptionalArgument<'_, '_>,
        connect_timeout: OptionalArgument<'_, '_>,
        connect_limit: OptionalArgument<'_, '_>,
        request_timeout: OptionalArgument<'_, '_>,
        fail_fast: OptionalArgument<'_, '_>,
        lazy: OptionalArgument<'_, '_>,
        max_in_flight: OptionalArgument<'_, '_>,
        max_queued: OptionalArgument<'_, '_>,
        max_buffered_bytes: OptionalArgument<'_, '_>,
        max_packet_bytes: OptionalArgument<'_, '_>,
        max_value_bytes: OptionalArgument<'_, '_>,
        reconnect_delay_min: OptionalArgument<'_, '_>,
        reconnect_delay_max: OptionalArgument<'_, '_>,
        reconnect_limit: OptionalArgument<'_, '_>,
        user_name: OptionalArgument<'_, '_>,
        password: OptionalArgument<'_, '_>,
        password_file: OptionalArgument<'_, '_>,
        sat_file: OptionalArgument<'_, '_>,
        allow_plaintext_credentials: OptionalArgument<'_, '_>,
        tls: OptionalArgument<'_, '_>,
        ca_file: OptionalArgument<'_, '_>,
        ca_pem: OptionalArgument<'_, '_>,
        cert_file: OptionalArgument<'_, '_>,
        cert_pem: OptionalArgument<'_, '_>,
        key_file: OptionalArgument<'_, '_>,
        key_pem: OptionalArgument<'_, '_>,
        key_password_file: OptionalArgument<'_, '_>,
        server_name: OptionalArgument<'_, '_>,
    ) -> PyResult<Self> {
        let (url, env) = (text("url", url)?, flag("env", env)?);
        let found = match (&url, env.unwrap_or_default()) {
            (Some(url), false) => statestore::Settings::from_url(url),
            (None, true) => statestore::Settings::from_environment(),
            (Some(_), true) => {
                return Err(PyTypeError::new_err(
                    "connect() takes a URL or env=True, not both",
                ));
            }
            (None, false) => {
                return Err(PyTypeError::new_err(
                    "connect() needs a URL, or env=True for the environment variables of a pod",
                ));
            }
        };
        let mut core = found.map_err(|error| error::to_python(py, &error.into()))?;
        macro_rules! apply {
            ($($setting:ident = $value:expr;)*) => { $(
                if let Some(value) = $value {
                    core = core.$setting(value);
                }
            )* };
        }
        apply! {
            client_id = text("client_id", client_id)?;
            clean_start = flag("clean_start", clean_start)?;
            session_expiry = time("session_expiry", session_expiry)?;
            keep_alive = time("keep_alive", keep_alive)?;
            ping_timeout = time("ping_timeout", ping_timeout)?;
            connect_timeout = time("connect_timeout", connect_timeout)?;
            connect_limit = limit("connect_limit", connect_limit)?;
            request_timeout = time("request_timeout", request_timeout)?;
            fail_fast = flag("fail_fast", fail_fast)?;
            lazy = flag("lazy", lazy)?;
            max_in_flight = number("max_in_flight", max_in_flight)?;
            max_queued = number("max_queued", max_queued)?;
            max_buffered_bytes = number("max_buffered_bytes", max_buffered_bytes)?;
            max_packet_bytes = number("max_packet_bytes", max_packet_bytes)?;
            max_value_bytes = number("max_value_bytes", max_value_bytes)?;
            reconnect_limit = limit("reconnect_limit", reconnect_limit)?;
            user_name = text("user_name", user_name)?;
            password = bytes("password", password)?;
            password_file = path("password_file", password_file)?;
            sat_file = path("sat_file", sat_file)?;
            allow_plaintext_credentials =
                flag("allow_plaintext_credentials", allow_plaintext_credentials)?;
            tls = flag("tls", tls)?;
            ca_file = path("ca_file", ca_file)?;
            ca_pem = bytes("ca_pem", ca_pem)?;
            cert_file = path("cert_file", cert_file)?;
            cert_pem = bytes("cert_pem", cert_pem)?;
            key_file = path("key_file", key_file)?;
            key_pem = bytes("key_pem", key_pem)?;
            key_password_file = path("key_password_file", key_password_file)?;
            server_name = text("server_name", server_name)?;
        }
        let least = time("reconnect_delay_min", reconnect_delay_min)?;
        let most = time("reconnect_delay_max", reconnect_delay_max)?;
        if least.is_some() || most.is_some() {
            let (least, most) = (least.unwrap_or(DELAY_MIN), most.unwrap_or(DELAY_MAX));
            core = core.reconnect_delay(least, most);
        }
        let encoding = text("encoding", encoding)?;
        let codec = Arc::new(Codec::new(py, encoding.as_deref())?);
        Ok(Self { core, codec })
    }

    /// Returns the address of the broker.
    #[getter]
    fn address(&self) -> String {
        self.core.address()
    }
}
