//! The holder of a lock, which is the value of its key.
use bytes::Bytes;
use std::fmt;
use std::time::Duration;

/// Maximum length of a client id in MQTT, in bytes. No client library uses longer holder names.
const MAX_NAME_LEN: usize = 65_535;

/// Name under which a lock is held.
///
/// This library creates names of the form `{name}/{session}/{number}/{lease in ms}`:
///
/// - the name of [`LeaseOptions::holder`](super::LeaseOptions::holder), or the client id;
/// - 16 hexadecimal digits that no other session has;
/// - a number that no other attempt of the session has;
/// - the duration of the lease, from which waiting clients derive when it ends at the latest.
///
/// Other libraries use the client id alone, or a name from their caller.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Holder {
    name: Bytes,
}

impl Holder {
    /// Creates a name that no other attempt has.
    pub(super) fn unique(name: &str, session: &str, number: u64, lease: Duration) -> Self {
        let lease_ms = lease.as_nanos().div_ceil(1_000_000);
        // A client id may contain control characters; the name of a holder contains none.
        let name = name.replace(char::is_control, "_");
        Self {
            name: format!("{name}/{session}/{number}/{lease_ms}").into(),
        }
    }

    pub(super) fn new(name: Bytes) -> Self {
        Self { name }
    }

    /// Returns the name as it is stored.
    pub fn name(&self) -> &Bytes {
        &self.name
    }

    /// Returns the name chosen by the holder, or its MQTT client id, if this library created the name.
    pub fn client_id(&self) -> Option<&str> {
        self.parts().map(|(client_id, _)| client_id)
    }

    /// Returns the duration of the lease after each renewal, if this library created the name.
    pub(super) fn lease(&self) -> Option<Duration> {
        self.parts().map(|(_, lease)| lease)
    }

    fn parts(&self) -> Option<(&str, Duration)> {
        let text = std::str::from_utf8(&self.name).ok()?;
        let mut parts = text.rsplitn(4, '/');
        let (lease_ms, number) = (parts.next()?, parts.next()?);
        let (session, client_id) = (parts.next()?, parts.next()?);
        let is_session =
            session.len() == 16 && session.bytes().all(|byte| byte.is_ascii_hexdigit());
        let lease_ms: u32 = lease_ms.parse().ok()?;
        let number: Option<u64> = number.parse().ok();
        (is_session && number.is_some())
            .then(|| (client_id, Duration::from_millis(lease_ms.into())))
    }
}

/// Maximum length of the suffix that makes a name unique, in bytes.
const MAX_SUFFIX_LEN: usize = "/0123456789abcdef/18446744073709551615/86400000".len();

/// Returns whether a name can be that of a holder: unchanged, or with a suffix. Every client library uses the MQTT client id,
/// or a text that contains it.
pub(super) fn is_valid_name(name: &[u8], as_it_is: bool) -> bool {
    let suffix = if as_it_is { 0 } else { MAX_SUFFIX_LEN };
    !name.is_empty()
        && name.len() <= MAX_NAME_LEN - suffix
        && std::str::from_utf8(name).is_ok_and(|name| !name.contains(char::is_control))
}

impl fmt::Display for Holder {
    /// Writes the name escaped, and shortened if it is long.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 128;
        let dots = if self.name.len() > SHOWN { "…" } else { "" };
        let name = self.name.get(..SHOWN).unwrap_or(&self.name).escape_ascii();
        write!(f, "{name}{dots}")
    }
}

impl fmt::Debug for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Holder(\"{self}\")")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_names_contain_client_and_lease() {
        let lease = Duration::from_micros(1_500_500);
        let unique = Holder::unique("site/a/pump", "0123456789abcdef", 7, lease);
        assert_eq!(unique.to_string(), "site/a/pump/0123456789abcdef/7/1501");
        assert_eq!(unique.client_id(), Some("site/a/pump"));
        assert_eq!(unique.lease(), Some(Duration::from_millis(1501)));
        for other in [
            "pump",
            "a/b/c/d",
            "pump/0123456789abcdef/7",
            "p/0123456789abcdeg/7/1",
        ] {
            let holder = Holder::new(Bytes::from_static(other.as_bytes()));
            assert_eq!(
                (holder.client_id(), holder.lease()),
                (None, None),
                "{other}"
            );
        }
    }

    #[test]
    fn an_invalid_client_id_is_not_a_holder_name() {
        let longest = vec![b'x'; MAX_NAME_LEN];
        for name in [&b"client-1"[..], "Gerät 7".as_bytes(), &longest] {
            assert!(is_valid_name(name, true));
        }
        assert!(!is_valid_name(&longest, false));
        let long = vec![b'x'; MAX_NAME_LEN + 1];
        for data in [&b""[..], b"{\n}", b"\0", b"\xff\xfe", &long] {
            assert!(!is_valid_name(data, true));
        }
    }
}
