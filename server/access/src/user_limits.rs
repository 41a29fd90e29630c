//! Limits of each user, and of all users together.
use super::Principal;
use statestored_common::byte_size::parse_size;
use std::collections::BTreeMap;

/// Maximum amount that one user, or all users together, may send in a second. `None` means no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RateLimits {
    /// PUBLISH packets: requests to the store, and messages to others.
    pub requests: Option<u32>,
    /// Bytes of all packets.
    pub bytes: Option<u64>,
}

/// Limits of one user. `None` means only the limits of all users together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct UserLimits {
    /// Connections at a time.
    pub connections: Option<usize>,
    /// Sessions, connected or not.
    pub sessions: Option<usize>,
    /// Watched keys, of all clients of the user together.
    pub watches: Option<usize>,
    /// Subscriptions to filters with wildcards; `None` is [`MAX_WILDCARD_SUBSCRIPTIONS`](Self::MAX_WILDCARD_SUBSCRIPTIONS).
    pub subscriptions: Option<usize>,
    /// Bytes of messages that wait for the user's clients, or are not acknowledged yet.
    pub held_bytes: Option<usize>,
    /// Amount that the user's clients may send together. Beyond it, the server stops reading from them for a while.
    pub rates: RateLimits,
}

impl UserLimits {
    /// Maximum number of wildcard subscriptions of a user without an own limit. Each message may have to be compared
    /// with each of them.
    pub const MAX_WILDCARD_SUBSCRIPTIONS: usize = 65_536;

    /// Parses words like
    /// `connections=10 sessions=20 requests=500 bytes=1000000 watches=100 subscriptions=1000 held=8MiB`. Requests and
    /// bytes are per second.
    ///
    /// # Errors
    /// Returns the problem.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut limits = Self::default();
        for word in text.split_whitespace() {
            const FORM: &str = "expected connections=N, sessions=N, watches=N, subscriptions=N, held=SIZE, requests=N or bytes=SIZE";
            let (name, number) = word
                .split_once('=')
                .ok_or_else(|| format!("{word:?}: {FORM}"))?;
            let number = if matches!(name, "held" | "bytes") {
                parse_size::<0, { u64::MAX }>(number)
                    .map_err(|problem| format!("{word:?}: {problem}"))?
            } else {
                number
                    .parse::<u64>()
                    .map_err(|_| format!("{word:?}: {number:?} is not a number"))?
            };
            let count = usize::try_from(number).unwrap_or(usize::MAX);
            match name {
                "connections" => limits.connections = Some(count),
                "sessions" => limits.sessions = Some(count),
                "watches" => limits.watches = Some(count),
                "subscriptions" => limits.subscriptions = Some(count),
                "held" => limits.held_bytes = Some(count),
                "requests" | "bytes" if number == 0 => {
                    return Err(format!("{word:?}: the limit must be at least 1"));
                }
                "requests" => {
                    limits.rates.requests = Some(u32::try_from(number).unwrap_or(u32::MAX));
                }
                "bytes" => limits.rates.bytes = Some(number),
                _ => return Err(format!("{word:?}: {FORM}")),
            }
        }
        Ok(limits)
    }
}

/// Limits of all users.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UserLimitsMap {
    /// Limits of each user that is not named. Clients without a user name count as one user.
    pub default_limits: UserLimits,
    /// Limits of named users.
    pub named: BTreeMap<String, UserLimits>,
}

impl UserLimitsMap {
    /// Returns the limits of a principal.
    pub fn get(&self, principal: &Principal) -> &UserLimits {
        principal
            .name()
            .and_then(|name| self.named.get(name))
            .unwrap_or(&self.default_limits)
    }

    /// Returns whether nothing is limited.
    pub fn is_empty(&self) -> bool {
        self.named.is_empty() && self.default_limits == UserLimits::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_parsed_from_words() {
        let limits = UserLimits::parse(
            "connections=1 sessions=2 watches=3 held=4 requests=5 bytes=6 subscriptions=7",
        );
        assert_eq!(
            limits.unwrap(),
            UserLimits {
                connections: Some(1),
                sessions: Some(2),
                watches: Some(3),
                held_bytes: Some(4),
                subscriptions: Some(7),
                rates: RateLimits {
                    requests: Some(5),
                    bytes: Some(6)
                },
            }
        );
        let limits = UserLimits::parse("held=2KiB bytes=1MiB").unwrap();
        assert_eq!(limits.held_bytes, Some(2 << 10));
        assert_eq!(limits.rates.bytes, Some(1 << 20));
        let error = UserLimits::parse("held=1GB").unwrap_err();
        assert!(error.contains("512MiB or 2GiB"), "{error}");
        assert_eq!(UserLimits::parse(""), Ok(UserLimits::default()));
        for wrong in [
            "connections",
            "connections=",
            "connections=x",
            "connections=1KiB",
            "keys=1",
            "requests=0",
            "bytes=-1",
        ] {
            assert!(UserLimits::parse(wrong).is_err(), "{wrong}");
        }
    }
}
