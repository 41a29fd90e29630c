//! The last refusals, and their numbers by cause.
use bytes::Bytes;
use statestore_protocol::mqtt::ReasonCode;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::Arc;

/// Maximum number of entries in the list.
const MAX_ENTRIES: usize = 100;
/// Maximum number of entries of one client.
const MAX_CLIENT_ENTRIES: usize = 20;

/// Cause of a refusal, as refusals are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RefusalCause {
    /// Credentials that are not accepted.
    Login,
    /// Something that this client or user may not do.
    Authorization,
    /// Too much is held, or there are too many of something.
    Quota,
    /// An exceeded rate limit.
    Rate,
    /// Too many connections.
    Connections,
    /// Something that the protocol does not allow, or this server does not offer.
    Protocol,
    /// A timestamp or fencing token too far ahead of the server's clock.
    Clock,
    /// A fencing token that is missing or too low.
    Fencing,
    /// The storage takes no changes now, the request waited for too long, or the server is being drained.
    Unavailable,
}

impl RefusalCause {
    /// All causes, in the order of [`RefusalLog::counts`].
    pub const ALL: [Self; 9] = [
        Self::Login,
        Self::Authorization,
        Self::Quota,
        Self::Rate,
        Self::Connections,
        Self::Protocol,
        Self::Clock,
        Self::Fencing,
        Self::Unavailable,
    ];

    /// Returns the name in lower case.
    pub fn name(self) -> &'static str {
        match self {
            Self::Login => "login",
            Self::Authorization => "authorization",
            Self::Quota => "quota",
            Self::Rate => "rate",
            Self::Connections => "connections",
            Self::Protocol => "protocol",
            Self::Clock => "clock",
            Self::Fencing => "fencing",
            Self::Unavailable => "unavailable",
        }
    }

    /// Returns the cause that belongs to a reason code.
    pub(super) fn from_reason_code(reason: ReasonCode) -> Self {
        match reason {
            ReasonCode::BAD_USER_NAME_OR_PASSWORD | ReasonCode::BAD_AUTHENTICATION_METHOD => {
                Self::Login
            }
            ReasonCode::NOT_AUTHORIZED => Self::Authorization,
            ReasonCode::QUOTA_EXCEEDED => Self::Quota,
            ReasonCode::CONNECTION_RATE_EXCEEDED => Self::Rate,
            ReasonCode::SERVER_BUSY
            | ReasonCode::USE_ANOTHER_SERVER
            | ReasonCode::NO_MATCHING_SUBSCRIBERS => Self::Unavailable,
            _ => Self::Protocol,
        }
    }
}

/// A refusal of a client or of a request.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RefusalDetails {
    /// Address of the client; `None` behind a broker.
    pub peer: Option<IpAddr>,
    /// The client id; empty if none is known.
    pub client: Arc<str>,
    /// The user, or the name that it claims.
    pub user: Option<Arc<str>>,
    /// The cause.
    pub cause: RefusalCause,
    /// The reason in words.
    pub reason: Arc<str>,
    /// The key, if keys are logged.
    pub key: Option<Bytes>,
}

impl RefusalDetails {
    /// Returns the client that something was refused to, as far as the list keeps clients apart.
    fn source(&self) -> (Option<IpAddr>, &str, Option<&str>) {
        (self.peer, &self.client, self.user.as_deref())
    }
}

/// Equal refusals, as one entry.
#[derive(Debug, Clone)]
pub struct RefusalEntry {
    /// Details that the refusals have in common.
    pub details: RefusalDetails,
    /// Number of refusals.
    pub count: u64,
    /// Time of the first one, on the wall clock.
    pub first_ms: u64,
    /// Time of the last one.
    pub last_ms: u64,
    digest: u64,
}

/// The last refusals, and their numbers since the start.
///
/// Equal refusals are one entry. A client has at most `MAX_CLIENT_ENTRIES`, of which a further one replaces the oldest. When the list is
/// full, an entry is removed of the client with most entries at the address with most. So no client displaces the refusals of others.
#[derive(Debug, Clone, Default)]
pub struct RefusalLog {
    /// Entries, the one with the oldest last refusal first.
    entries: Vec<RefusalEntry>,
    /// Numbers of refusals by cause.
    pub counts: [u64; RefusalCause::ALL.len()],
    hash: RandomState,
}

impl RefusalLog {
    pub(super) fn record(&mut self, refused: RefusalDetails, wall_ms: u64) {
        self.counts[refused.cause as usize] += 1;
        let digest = self.hash.hash_one(&refused);
        let same = |entry: &RefusalEntry| entry.digest == digest && entry.details == refused;
        if let Some(at) = self.entries.iter().rposition(same) {
            self.entries[at].count += 1;
            self.entries[at].last_ms = wall_ms;
            self.entries[at..].rotate_left(1);
            return;
        }
        let evicted = match self.own_eviction_index(&refused) {
            None if self.entries.len() >= MAX_ENTRIES => self.eviction_index(),
            own => own,
        };
        if let Some(at) = evicted {
            self.entries.remove(at);
        }
        self.entries.push(RefusalEntry {
            details: refused,
            count: 1,
            first_ms: wall_ms,
            last_ms: wall_ms,
            digest,
        });
    }

    /// Returns the oldest entry of the client, if it has as many as it may have.
    fn own_eviction_index(&self, refused: &RefusalDetails) -> Option<usize> {
        let source = refused.source();
        let entries = self.entries.iter().enumerate();
        let mut own = entries.filter(|(_, entry)| entry.details.source() == source);
        let (oldest, _) = own.next()?;
        (own.count() + 1 >= MAX_CLIENT_ENTRIES).then_some(oldest)
    }

    /// Returns the entry that makes room: the oldest of the client with most entries, at the address with most.
    fn eviction_index(&self) -> Option<usize> {
        let mut of_address: HashMap<_, usize> = HashMap::new();
        for RefusalEntry {
            details: refused, ..
        } in &self.entries
        {
            *of_address.entry(refused.peer).or_default() += 1;
        }
        let most = *of_address.values().max()?;
        let is_of_most = |entry: &&RefusalEntry| of_address.get(&entry.details.peer) == Some(&most);
        let mut of_client: HashMap<_, usize> = HashMap::new();
        for entry in self.entries.iter().filter(is_of_most) {
            *of_client.entry(entry.details.source()).or_default() += 1;
        }
        let most = *of_client.values().max()?;
        let entries = &mut self.entries.iter();
        entries.position(|entry| of_client.get(&entry.details.source()) == Some(&most))
    }

    /// Returns the last refusals, newest first.
    pub fn recent(&self) -> impl Iterator<Item = &RefusalEntry> {
        self.entries.iter().rev()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(address: u8, client: &str, why: &str) -> RefusalDetails {
        RefusalDetails {
            peer: Some(IpAddr::from([192, 0, 2, address])),
            client: client.into(),
            user: None,
            cause: RefusalCause::Rate,
            reason: why.into(),
            key: None,
        }
    }

    #[test]
    fn equal_refusals_are_one_entry_and_all_are_counted() {
        let mut refusals = RefusalLog::default();
        refusals.record(refused(1, "other", "too often"), 1);
        for wall_ms in 2..152 {
            refusals.record(refused(1, "loop", "too often"), wall_ms);
        }
        assert_eq!(refusals.counts[RefusalCause::Rate as usize], 151);
        let entries: Vec<_> = refusals
            .recent()
            .map(|it| (&*it.details.client, it.count, it.first_ms, it.last_ms))
            .collect();
        assert_eq!(entries, [("loop", 150, 2, 151), ("other", 1, 1, 1)]);
    }

    #[test]
    fn a_client_has_a_share_of_an_empty_list() {
        let mut refusals = RefusalLog::default();
        for number in 0..50 {
            refusals.record(refused(1, "loop", &number.to_string()), number);
            refusals.record(refused(1, "good", "always the same"), number);
        }
        let reasons: Vec<_> = refusals
            .recent()
            .filter(|it| &*it.details.client == "loop")
            .map(|it| it.details.reason.parse::<u64>().unwrap())
            .collect();
        assert_eq!(reasons, (30..50).rev().collect::<Vec<_>>());
        assert_eq!(refusals.recent().next().unwrap().count, 50);
    }

    #[test]
    fn one_client_or_address_does_not_remove_the_refusals_of_others() {
        let mut refusals = RefusalLog::default();
        refusals.record(refused(1, "good", "first"), 0);
        refusals.record(refused(2, "other", "second"), 0);
        for number in 0..500 {
            refusals.record(refused(2, "loop", &number.to_string()), 1);
        }
        for number in 0..500 {
            refusals.record(refused(3, &number.to_string(), "w"), 2);
        }
        let all: Vec<_> = refusals.recent().collect();
        assert_eq!(all.len(), MAX_ENTRIES);
        let of_loop = all.iter().filter(|it| &*it.details.client == "loop");
        assert_eq!(of_loop.count(), MAX_CLIENT_ENTRIES);
        for client in ["good", "other", "loop", "499"] {
            assert!(
                all.iter().any(|it| &*it.details.client == client),
                "{client}"
            );
        }
    }
}
