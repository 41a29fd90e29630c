//! Origins of web pages that may connect.
//!
//! A browser lets every page open a WebSocket to every host in the network of its user. It sends the origin of the page in `Origin`. A
//! page is therefore rejected unless its origin is configured, or is the host that it connects to.
//!
//! Even the latter can be forged: the owner of a name can make it resolve to this machine after the page was loaded. That is impossible
//! if the host is an IP address or `localhost`, or if the connection has TLS with a certificate for that name.
use std::net::IpAddr;

/// Returns whether a page of this origin may connect. `allowed` is in lower case.
pub(super) fn is_allowed(origin: &str, host: &str, has_tls: bool, allowed: &[String]) -> bool {
    let origin = origin.to_ascii_lowercase();
    if allowed.contains(&origin) {
        return true;
    }
    let Some((_, of_origin)) = origin.split_once("://") else {
        return false;
    };
    of_origin == host.to_ascii_lowercase() && (has_tls || is_safe_from_rebinding(of_origin))
}

/// Returns whether the host is a number or `localhost`, which the owner of a page cannot make resolve to this machine.
fn is_safe_from_rebinding(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    name == "localhost" || name.parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_other_origins_are_rejected() {
        let allowed = ["https://page.example:8443".to_owned()];
        for (origin, host, has_tls, expected) in [
            ("https://page.example:8443", "store:1", false, true),
            ("HTTPS://Page.Example:8443", "store:1", false, true),
            ("https://page.example", "store:1", false, false),
            ("http://127.0.0.1:8080", "127.0.0.1:8080", false, true),
            ("http://[::1]:8080", "[::1]:8080", false, true),
            ("http://localhost:8080", "LOCALHOST:8080", false, true),
            ("http://localhost:1", "localhost:8080", false, false),
            (
                "http://borrowed.example:80",
                "borrowed.example:80",
                false,
                false,
            ),
            ("https://store:443", "store:443", true, true),
            ("https://other", "store", true, false),
            ("null", "null", true, false),
            ("", "", true, false),
            ("://", "", false, false),
        ] {
            let is_allowed = is_allowed(origin, host, has_tls, &allowed);
            assert_eq!(is_allowed, expected, "{origin} {host} {has_tls}");
        }
    }
}
