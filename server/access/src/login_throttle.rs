//! Delays of logins after refused ones, so that passwords cannot be guessed quickly.
//!
//! | refused logins of | more than | then |
//! |---|---|---|
//! | a user from one source | 3 | the next ones wait in line before the password is checked: 250 ms, doubled by each refusal up to five seconds |
//! | users from one address | 20 | each refusal leaves two seconds after the login |
//! | a user, from any source | 20 | each refusal leaves two seconds after the login |
//!
//! So a right password waits only for refusals of the same user from the same source. The other two delays are the same for
//! users that exist and for users that do not. A login that would wait in line for more than five seconds is refused at once.
//!
//! A refusal is forgotten a quarter of an hour after the last one, and those of a user from a source when a login
//! succeeds. The table of refusals has a fixed size.
use super::Network;
use foldhash::quality::RandomState;
use std::collections::HashMap;
use std::hash::BuildHasher;

/// Maximum number of entries. The entry whose last refusal is oldest is evicted.
const MAX_ENTRIES: usize = 4096;
const FORGET_AFTER_MS: u64 = 15 * 60 * 1000;
const MAX_WAIT_MS: u64 = 5_000;

const FREE_REFUSALS_PER_USER_AND_SOURCE: u32 = 3;
const FIRST_DELAY_MS: u64 = 250;
const FREE_REFUSALS_PER_ADDRESS: u32 = 20;
const FREE_REFUSALS_PER_USER: u32 = 20;

/// Time from a login to its refusal, where refusals are held back.
pub const REFUSAL_DELAY_MS: u64 = 2_000;

/// The origin of logins, as far as their sender cannot choose it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LoginSource {
    /// A network address.
    Network(Network),
    /// A user of this machine at the other end of a Unix socket; `None` if the system does not say which one.
    LocalUser(Option<u32>),
}

/// Time at which a login is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThrottleDecision {
    /// The login may be checked at once.
    Immediate,
    /// At this time on the monotonic clock.
    At(u64),
    /// Not at all: too many logins wait already.
    Reject,
}

/// The refused logins of a source, a user, or a user from a source.
#[derive(Debug, Default)]
struct RefusalRecord {
    count: u32,
    last_ms: u64,
    /// Time at which the next login in line has its turn.
    next_check_ms: u64,
}

/// Hash of what an entry counts. Entries with the same hash delay each other, which is harmless.
pub(crate) type ThrottleKey = u64;

/// All refused logins that are remembered.
#[derive(Debug, Default)]
pub struct LoginThrottle {
    refusals: HashMap<ThrottleKey, RefusalRecord>,
    hash: RandomState,
}

impl LoginThrottle {
    /// Returns when a login that came just now has its turn, and puts it in line. Without a user it never waits.
    pub fn schedule<'a>(
        &mut self,
        source: LoginSource,
        user: impl Into<Option<&'a str>>,
        now_ms: u64,
    ) -> ThrottleDecision {
        let Some(user) = user.into().filter(|_| !self.refusals.is_empty()) else {
            return ThrottleDecision::Immediate;
        };
        let whose = self.user_and_source_key(source, user);
        let Some(refused) = self.entry_over_limit(whose, FREE_REFUSALS_PER_USER_AND_SOURCE, now_ms)
        else {
            return ThrottleDecision::Immediate;
        };
        let at_ms = refused.next_check_ms.max(now_ms);
        if at_ms > now_ms + MAX_WAIT_MS {
            return ThrottleDecision::Reject;
        }
        let doublings = (refused.count - FREE_REFUSALS_PER_USER_AND_SOURCE - 1).min(16);
        refused.next_check_ms = at_ms + (FIRST_DELAY_MS << doublings).min(MAX_WAIT_MS);
        if at_ms > now_ms {
            ThrottleDecision::At(at_ms)
        } else {
            ThrottleDecision::Immediate
        }
    }

    /// Returns whether a refusal of this login [is held back](REFUSAL_DELAY_MS).
    pub fn delays_refusal(&mut self, source: LoginSource, user: &str, now_ms: u64) -> bool {
        if self.refusals.is_empty() {
            return false;
        }
        let of_address = self.source_key(source, true);
        let of_user = self.user_key(user);
        // A Unix socket is no address: all clients of a machine may come through one.
        let is_address = matches!(source, LoginSource::Network(_));
        (is_address
            && self
                .entry_over_limit(of_address, FREE_REFUSALS_PER_ADDRESS, now_ms)
                .is_some())
            || self
                .entry_over_limit(of_user, FREE_REFUSALS_PER_USER, now_ms)
                .is_some()
    }

    /// Counts a login that was refused for what it has shown. Without a user it delays no login.
    pub fn record_refusal<'a>(
        &mut self,
        source: LoginSource,
        user: impl Into<Option<&'a str>>,
        now_ms: u64,
    ) {
        let user = user.into();
        if let Some(user) = user {
            for whose in [self.user_and_source_key(source, user), self.user_key(user)] {
                self.count(whose, now_ms);
            }
        }
        self.count(self.source_key(source, user.is_some()), now_ms);
    }

    /// Forgets the refusals of a user from a source, as a login has succeeded.
    pub fn record_success(&mut self, source: LoginSource, user: &str) {
        if !self.refusals.is_empty() {
            let whose = self.user_and_source_key(source, user);
            self.refusals.remove(&whose);
        }
    }

    /// Returns the entry that counts the logins of a user from a source.
    pub fn user_and_source_key(&self, source: LoginSource, user: &str) -> ThrottleKey {
        self.hash.hash_one((0, source, user))
    }

    /// Returns the entry that counts the logins from a source: those that name a user, or those that do not.
    fn source_key(&self, source: LoginSource, has_user: bool) -> ThrottleKey {
        self.hash.hash_one((1, source, has_user))
    }

    fn user_key(&self, user: &str) -> ThrottleKey {
        self.hash.hash_one((2, user))
    }

    /// Returns an entry that has more refusals than are free.
    fn entry_over_limit(
        &mut self,
        key: ThrottleKey,
        free: u32,
        now_ms: u64,
    ) -> Option<&mut RefusalRecord> {
        let refused = self.refusals.get_mut(&key)?;
        (refused.count > free && now_ms < refused.last_ms + FORGET_AFTER_MS).then_some(refused)
    }

    fn count(&mut self, key: ThrottleKey, now_ms: u64) {
        if self.refusals.len() >= MAX_ENTRIES && !self.refusals.contains_key(&key) {
            let oldest = self
                .refusals
                .iter()
                .min_by_key(|(_, refused)| refused.last_ms);
            if let Some(oldest) = oldest.map(|(key, _)| *key) {
                self.refusals.remove(&oldest);
            }
        }
        let refused = self.refusals.entry(key).or_default();
        if now_ms >= refused.last_ms + FORGET_AFTER_MS {
            *refused = RefusalRecord::default();
        }
        refused.count = refused.count.saturating_add(1);
        refused.last_ms = now_ms;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{IpAddr, Ipv6Addr};

    const PEER: LoginSource = LoginSource::LocalUser(Some(1));
    const OTHER: LoginSource = LoginSource::LocalUser(Some(2));

    fn address(address: impl Into<IpAddr>) -> LoginSource {
        LoginSource::Network(address.into().into())
    }

    fn refuse(
        logins: &mut LoginThrottle,
        times: u32,
        source: LoginSource,
        user: &str,
        now_ms: u64,
    ) {
        for _ in 0..times {
            logins.record_refusal(source, user, now_ms);
        }
    }

    #[test]
    fn each_refusal_makes_the_next_login_wait_longer() {
        let mut logins = LoginThrottle::default();
        refuse(&mut logins, 3, PEER, "ann", 0);
        assert_eq!(logins.schedule(PEER, "ann", 0), ThrottleDecision::Immediate);
        let mut now_ms = 0;
        for delay_ms in [250, 500, 1000, 2000, 4000, 5000, 5000] {
            refuse(&mut logins, 1, PEER, "ann", now_ms);
            assert_eq!(
                logins.schedule(PEER, "ann", now_ms),
                ThrottleDecision::Immediate
            );
            let next = logins.schedule(PEER, "ann", now_ms);
            assert_eq!(next, ThrottleDecision::At(now_ms + delay_ms));
            now_ms += 2 * delay_ms;
        }
        assert_eq!(
            logins.schedule(PEER, "bob", now_ms),
            ThrottleDecision::Immediate
        );
        assert_eq!(
            logins.schedule(OTHER, "ann", now_ms),
            ThrottleDecision::Immediate
        );
    }

    #[test]
    fn concurrent_connections_share_one_delay() {
        let mut logins = LoginThrottle::default();
        refuse(&mut logins, 6, PEER, "ann", 0);
        let turns: Vec<_> = (0..8).map(|_| logins.schedule(PEER, "ann", 0)).collect();
        let at = [1000, 2000, 3000, 4000, 5000].map(ThrottleDecision::At);
        assert_eq!(turns[0], ThrottleDecision::Immediate);
        assert_eq!(turns[1..6], at);
        assert_eq!(turns[6..], [ThrottleDecision::Reject; 2]);
    }

    #[test]
    fn refusals_of_an_address_are_delayed_and_successful_logins_are_not() {
        let mut logins = LoginThrottle::default();
        let near = address([192, 0, 2, 1]);
        for user in 0..20 {
            refuse(&mut logins, 1, near, &user.to_string(), 0);
        }
        assert!(!logins.delays_refusal(near, "ann", 0));
        refuse(&mut logins, 1, near, "20", 0);
        assert!(logins.delays_refusal(near, "ann", 0));
        assert!(!logins.delays_refusal(address([192, 0, 2, 2]), "ann", 0));
        for _ in 0..1000 {
            assert_eq!(logins.schedule(near, "ann", 0), ThrottleDecision::Immediate);
        }
        assert!(!logins.delays_refusal(near, "ann", FORGET_AFTER_MS));
    }

    #[test]
    fn refusals_of_a_user_attacked_from_many_addresses_are_delayed() {
        let mut logins = LoginThrottle::default();
        for number in 0..21 {
            refuse(&mut logins, 1, address([10, 0, 0, number]), "ann", 0);
        }
        assert!(logins.delays_refusal(PEER, "ann", 0));
        assert!(!logins.delays_refusal(PEER, "bob", 0));
        for _ in 0..1000 {
            assert_eq!(logins.schedule(PEER, "ann", 0), ThrottleDecision::Immediate);
        }
    }

    #[test]
    fn unix_sockets_and_tokens_do_not_count_against_an_address() {
        let mut logins = LoginThrottle::default();
        let near = address([192, 0, 2, 1]);
        for user in 0..100 {
            refuse(&mut logins, 1, PEER, &user.to_string(), 0);
            logins.record_refusal(near, None::<&str>, 0);
        }
        for source in [PEER, near] {
            assert!(!logins.delays_refusal(source, "ann", 0));
            assert_eq!(
                logins.schedule(source, "ann", 0),
                ThrottleDecision::Immediate
            );
            assert_eq!(
                logins.schedule(source, None::<&str>, 0),
                ThrottleDecision::Immediate
            );
        }
        // Each user of the machine is a source.
        refuse(&mut logins, 9, PEER, "ann", 0);
        logins.schedule(PEER, "ann", 0);
        assert_ne!(logins.schedule(PEER, "ann", 0), ThrottleDecision::Immediate);
        assert_eq!(
            logins.schedule(OTHER, "ann", 0),
            ThrottleDecision::Immediate
        );
    }

    #[test]
    fn a_network_of_ipv6_counts_as_one_address() {
        let mut logins = LoginThrottle::default();
        let address = |last| address(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, last));
        for last in 0..6 {
            refuse(&mut logins, 1, address(last), "ann", 0);
        }
        assert_eq!(
            logins.schedule(address(100), "ann", 0),
            ThrottleDecision::Immediate
        );
        assert_eq!(
            logins.schedule(address(101), "ann", 0),
            ThrottleDecision::At(1000)
        );
    }

    #[test]
    fn refusals_are_forgotten_after_success_or_timeout() {
        let mut logins = LoginThrottle::default();
        refuse(&mut logins, 9, PEER, "ann", 0);
        logins.schedule(PEER, "ann", 0);
        assert_ne!(logins.schedule(PEER, "ann", 0), ThrottleDecision::Immediate);
        logins.record_success(PEER, "ann");
        assert_eq!(logins.schedule(PEER, "ann", 0), ThrottleDecision::Immediate);
        refuse(&mut logins, 9, PEER, "ann", 0);
        assert_eq!(
            logins.schedule(PEER, "ann", FORGET_AFTER_MS),
            ThrottleDecision::Immediate
        );
        assert_eq!(
            logins.schedule(PEER, "ann", FORGET_AFTER_MS),
            ThrottleDecision::Immediate
        );
        refuse(&mut logins, 1, PEER, "ann", FORGET_AFTER_MS);
        assert_eq!(
            logins.schedule(PEER, "ann", FORGET_AFTER_MS),
            ThrottleDecision::Immediate
        );
    }

    #[test]
    fn the_table_is_bounded_and_evicts_the_oldest_entries() {
        let mut logins = LoginThrottle::default();
        for number in 0..20_000 {
            refuse(&mut logins, 1, PEER, &number.to_string(), number);
        }
        assert_eq!(logins.refusals.len(), MAX_ENTRIES);
        refuse(&mut logins, 3, PEER, "19999", 20_000);
        let turns = [(); 2].map(|()| logins.schedule(PEER, "19999", 20_000));
        assert_eq!(
            turns,
            [ThrottleDecision::Immediate, ThrottleDecision::At(20_250)]
        );
    }
}
