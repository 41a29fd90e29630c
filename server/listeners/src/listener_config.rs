//! Settings of the listeners.
use super::{Subnet, Tls};

/// Settings of the listeners, apart from their addresses.
#[derive(Debug, Clone)]
pub struct ListenerConfig {
    /// Certificates of `tls://` and `wss://`.
    pub tls: Option<Tls>,
    /// Permissions of socket files.
    pub unix_mode: u32,
    /// Origins of web pages that may connect, besides those of the server's own host; in lower case, without a `/` at the
    /// end.
    pub web_origins: Vec<String>,
    /// Addresses of proxies that begin each connection with a header of the PROXY protocol. The address in it counts as the
    /// client's.
    pub trusted_proxies: Vec<Subnet>,
    /// Whether networks are served even if no credentials are required.
    pub allows_anonymous: bool,
}

impl Default for ListenerConfig {
    fn default() -> Self {
        Self {
            tls: None,
            unix_mode: 0o660,
            web_origins: Vec::new(),
            trusted_proxies: Vec::new(),
            allows_anonymous: false,
        }
    }
}
