//! Parsers for settings that are written as text. Each error begins with "which" and completes a sentence about the value.
use std::time::Duration;

pub(super) fn boolean(text: &str) -> Result<bool, &'static str> {
    if text.eq_ignore_ascii_case("true") {
        Ok(true)
    } else if text.eq_ignore_ascii_case("false") {
        Ok(false)
    } else {
        Err("which is neither `true` nor `false`")
    }
}

pub(super) fn port(text: &str) -> Result<u16, &'static str> {
    match text.parse() {
        Ok(0) | Err(_) => Err("which is not a port from 1 to 65535"),
        Ok(port) => Ok(port),
    }
}

pub(super) fn keep_alive(text: &str) -> Result<Duration, &'static str> {
    match text.parse::<u16>() {
        Ok(seconds) => Ok(Duration::from_secs(seconds.into())),
        Err(_) => Err("which is not a number of seconds from 0 to 65535"),
    }
}

pub(super) fn session_expiry(text: &str) -> Result<Duration, &'static str> {
    match text.parse::<u32>() {
        Ok(seconds) => Ok(Duration::from_secs(seconds.into())),
        Err(_) => Err("which is not a number of seconds from 0 to 4294967295"),
    }
}
