//! Which web pages may connect.
//!
//! A browser lets every page open a WebSocket to every host, in the network of whoever looks at the page, and says in `Origin` where the
//! page is from. So a page counts as a stranger unless it is named, or comes from the very host that it connects to. Even that can be
//! a lie: the owner of a name can have it lead to this machine, after the page was loaded. It is none if the host is a number or
//! `localhost`, or if the connection is one of TLS, whose certificate has that name.
use std::net::IpAddr;

/// Whether a request may come from there. `allowed` is in lower case.
pub(super) fn is_allowed(origin: &str, host: &str, has_tls: bool, allowed: &[String]) -> bool {
    let origin = origin.to_ascii_lowercase();
    if allowed.contains(&origin) {
        return true;
    }
    let Some((_, of_origin)) = origin.split_once("://") else {
        return false;
    };
    of_origin == host.to_ascii_lowercase() && (has_tls || cannot_be_borrowed(of_origin))
}

/// Whether nobody can have this host lead elsewhere.
fn cannot_be_borrowed(host: &str) -> bool {
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
    fn pages_of_others_are_strangers() {
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
