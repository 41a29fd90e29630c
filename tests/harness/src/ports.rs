//! Ports for programs that do not report their port, or that restart on the same one.
use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;

/// Ports below those that Linux and IANA assign to outgoing connections: no connection takes a port while its program restarts.
const LISTENING: Range<u16> = 10_000..32_768;

/// Returns a TCP port without a listener at 127.0.0.1.
///
/// # Panics
/// If a thousand random ports are all in use.
pub fn free_port() -> u16 {
    let is_free = |port: &u16| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok();
    std::iter::repeat_with(|| fastrand::u16(LISTENING))
        .take(1_000)
        .find(is_free)
        .expect("a free port")
}
