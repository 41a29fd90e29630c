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
const LONGEST_WAIT_MS: u64 = 5_000;

const FREE_OF_USER_FROM_SOURCE: u32 = 3;
const FIRST_DELAY_MS: u64 = 250;
const FREE_OF_ADDRESS: u32 = 20;
const FREE_OF_USER: u32 = 20;

/// Time from a login to its refusal, where refusals are held back.
pub(crate) const REFUSAL_DELAY_MS: u64 = 2_000;

/// The origin of logins, as far as their sender cannot choose it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum LoginSource {
    /// A network address.
    Network(Network),
    /// A user of this machine at the other end of a Unix socket; `None` if the system does not say which one.
    LocalUser(Option<u32>),
}

/// Time at which a login is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    Now,
    /// At this time on the monotonic clock.
    At(u64),
    /// Not at all: too many logins wait already.
    Never,
}

/// The refused logins of a source, a user, or a user from a source.
#[derive(Debug, Default)]
struct Refused {
    count: u32,
    last_ms: u64,
    /// Time at which the next login in line has its turn.
    next_ms: u64,
}

/// Hash of what an entry counts. Entries with the same hash delay each other, which is harmless.
pub(crate) type Whose = u64;

/// All refused logins that are remembered.
#[derive(Debug, Default)]
pub(crate) struct Logins {
    refused: HashMap<Whose, Refused>,
    hash: RandomState,
}

impl Logins {
    /// Returns when a login that came just now has its turn, and puts it in line. Without a user it never waits.
    pub(crate) fn turn<'a>(
        &mut self,
        source: LoginSource,
        user: impl Into<Option<&'a str>>,
        now_ms: u64,
    ) -> Turn {
        let Some(user) = user.into().filter(|_| !self.refused.is_empty()) else {
            return Turn::Now;
        };
        let whose = self.of_user_from_source(source, user);
        let Some(refused) = self.remembered(whose, FREE_OF_USER_FROM_SOURCE, now_ms) else {
            return Turn::Now;
        };
        let at_ms = refused.next_ms.max(now_ms);
        if at_ms > now_ms + LONGEST_WAIT_MS {
            return Turn::Never;
        }
        let doublings = (refused.count - FREE_OF_USER_FROM_SOURCE - 1).min(16);
        refused.next_ms = at_ms + (FIRST_DELAY_MS << doublings).min(LONGEST_WAIT_MS);
        if at_ms > now_ms {
            Turn::At(at_ms)
        } else {
            Turn::Now
        }
    }

    /// Returns whether a refusal of this login [is held back](REFUSAL_DELAY_MS).
    pub(crate) fn holds_back(&mut self, source: LoginSource, user: &str, now_ms: u64) -> bool {
        if self.refused.is_empty() {
            return false;
        }
        let of_address = self.of_source(source, true);
        let of_user = self.of_user(user);
        // A Unix socket is no address: all clients of a machine may come through one.
        let is_address = matches!(source, LoginSource::Network(_));
        (is_address
            && self
                .remembered(of_address, FREE_OF_ADDRESS, now_ms)
                .is_some())
            || self.remembered(of_user, FREE_OF_USER, now_ms).is_some()
    }

    /// Counts a login that was refused for what it has shown. Without a user it delays no login.
    pub(crate) fn refused<'a>(
        &mut self,
        source: LoginSource,
        user: impl Into<Option<&'a str>>,
        now_ms: u64,
    ) {
        let user = user.into();
        if let Some(user) = user {
            for whose in [self.of_user_from_source(source, user), self.of_user(user)] {
                self.count(whose, now_ms);
            }
        }
        self.count(self.of_source(source, user.is_some()), now_ms);
    }

    /// Forgets the refusals of a user from a source, as a login has succeeded.
    pub(crate) fn succeeded(&mut self, source: LoginSource, user: &str) {
        if !self.refused.is_empty() {
            let whose = self.of_user_from_source(source, user);
            self.refused.remove(&whose);
        }
    }

    /// Returns the entry that counts the logins of a user from a source.
    pub(crate) fn of_user_from_source(&self, source: LoginSource, user: &str) -> Whose {
        self.hash.hash_one((0, source, user))
    }

    /// Returns the entry that counts the logins from a source: those that name a user, or those that do not.
    fn of_source(&self, source: LoginSource, has_user: bool) -> Whose {
        self.hash.hash_one((1, source, has_user))
    }

    fn of_user(&self, user: &str) -> Whose {
        self.hash.hash_one((2, user))
    }

    /// Returns an entry that has more refusals than are free.
    fn remembered(&mut self, whose: Whose, free: u32, now_ms: u64) -> Option<&mut Refused> {
        let refused = self.refused.get_mut(&whose)?;
        (refused.count > free && now_ms < refused.last_ms + FORGET_AFTER_MS).then_some(refused)
    }

    fn count(&mut self, whose: Whose, now_ms: u64) {
        if self.refused.len() >= MAX_ENTRIES && !self.refused.contains_key(&whose) {
            let oldest = self
                .refused
                .iter()
                .min_by_key(|(_, refused)| refused.last_ms);
            if let Some(oldest) = oldest.map(|(whose, _)| *whose) {
                self.refused.remove(&oldest);
            }
        }
        let refused = self.refused.entry(whose).or_default();
        if now_ms >= refused.last_ms + FORGET_AFTER_MS {
            *refused = Refused::default();
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

    fn refuse(logins: &mut Logins, times: u32, source: LoginSource, user: &str, now_ms: u64) {
        for _ in 0..times {
            logins.refused(source, user, now_ms);
        }
    }

    #[test]
    fn each_refusal_makes_the_next_login_wait_longer() {
        let mut logins = Logins::default();
        refuse(&mut logins, 3, PEER, "ann", 0);
        assert_eq!(logins.turn(PEER, "ann", 0), Turn::Now);
        let mut now_ms = 0;
        for delay_ms in [250, 500, 1000, 2000, 4000, 5000, 5000] {
            refuse(&mut logins, 1, PEER, "ann", now_ms);
            assert_eq!(logins.turn(PEER, "ann", now_ms), Turn::Now);
            let next = logins.turn(PEER, "ann", now_ms);
            assert_eq!(next, Turn::At(now_ms + delay_ms));
            now_ms += 2 * delay_ms;
        }
        assert_eq!(logins.turn(PEER, "bob", now_ms), Turn::Now);
        assert_eq!(logins.turn(OTHER, "ann", now_ms), Turn::Now);
    }

    #[test]
    fn many_connections_are_no_faster_than_one() {
        let mut logins = Logins::default();
        refuse(&mut logins, 6, PEER, "ann", 0);
        let turns: Vec<_> = (0..8).map(|_| logins.turn(PEER, "ann", 0)).collect();
        let at = [1000, 2000, 3000, 4000, 5000].map(Turn::At);
        assert_eq!(turns[0], Turn::Now);
        assert_eq!(turns[1..6], at);
        assert_eq!(turns[6..], [Turn::Never; 2]);
    }

    #[test]
    fn refusals_of_an_address_are_held_back_and_right_passwords_are_not() {
        let mut logins = Logins::default();
        let near = address([192, 0, 2, 1]);
        for user in 0..20 {
            refuse(&mut logins, 1, near, &user.to_string(), 0);
        }
        assert!(!logins.holds_back(near, "ann", 0));
        refuse(&mut logins, 1, near, "20", 0);
        assert!(logins.holds_back(near, "ann", 0));
        assert!(!logins.holds_back(address([192, 0, 2, 2]), "ann", 0));
        for _ in 0..1000 {
            assert_eq!(logins.turn(near, "ann", 0), Turn::Now);
        }
        assert!(!logins.holds_back(near, "ann", FORGET_AFTER_MS));
    }

    #[test]
    fn refusals_of_a_user_who_is_tried_from_many_addresses_are_held_back() {
        let mut logins = Logins::default();
        for number in 0..21 {
            refuse(&mut logins, 1, address([10, 0, 0, number]), "ann", 0);
        }
        assert!(logins.holds_back(PEER, "ann", 0));
        assert!(!logins.holds_back(PEER, "bob", 0));
        for _ in 0..1000 {
            assert_eq!(logins.turn(PEER, "ann", 0), Turn::Now);
        }
    }

    #[test]
    fn a_unix_socket_is_no_address_and_tokens_delay_nothing() {
        let mut logins = Logins::default();
        let near = address([192, 0, 2, 1]);
        for user in 0..100 {
            refuse(&mut logins, 1, PEER, &user.to_string(), 0);
            logins.refused(near, None::<&str>, 0);
        }
        for source in [PEER, near] {
            assert!(!logins.holds_back(source, "ann", 0));
            assert_eq!(logins.turn(source, "ann", 0), Turn::Now);
            assert_eq!(logins.turn(source, None::<&str>, 0), Turn::Now);
        }
        // Each user of the machine is a source.
        refuse(&mut logins, 9, PEER, "ann", 0);
        logins.turn(PEER, "ann", 0);
        assert_ne!(logins.turn(PEER, "ann", 0), Turn::Now);
        assert_eq!(logins.turn(OTHER, "ann", 0), Turn::Now);
    }

    #[test]
    fn a_network_of_ipv6_counts_as_one_address() {
        let mut logins = Logins::default();
        let address = |last| address(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, last));
        for last in 0..6 {
            refuse(&mut logins, 1, address(last), "ann", 0);
        }
        assert_eq!(logins.turn(address(100), "ann", 0), Turn::Now);
        assert_eq!(logins.turn(address(101), "ann", 0), Turn::At(1000));
    }

    #[test]
    fn success_and_time_forget() {
        let mut logins = Logins::default();
        refuse(&mut logins, 9, PEER, "ann", 0);
        logins.turn(PEER, "ann", 0);
        assert_ne!(logins.turn(PEER, "ann", 0), Turn::Now);
        logins.succeeded(PEER, "ann");
        assert_eq!(logins.turn(PEER, "ann", 0), Turn::Now);
        refuse(&mut logins, 9, PEER, "ann", 0);
        assert_eq!(logins.turn(PEER, "ann", FORGET_AFTER_MS), Turn::Now);
        assert_eq!(logins.turn(PEER, "ann", FORGET_AFTER_MS), Turn::Now);
        refuse(&mut logins, 1, PEER, "ann", FORGET_AFTER_MS);
        assert_eq!(logins.turn(PEER, "ann", FORGET_AFTER_MS), Turn::Now);
    }

    #[test]
    fn the_table_is_bounded_and_keeps_who_is_at_work() {
        let mut logins = Logins::default();
        for number in 0..20_000 {
            refuse(&mut logins, 1, PEER, &number.to_string(), number);
        }
        assert_eq!(logins.refused.len(), MAX_ENTRIES);
        refuse(&mut logins, 3, PEER, "19999", 20_000);
        let turns = [(); 2].map(|()| logins.turn(PEER, "19999", 20_000));
        assert_eq!(turns, [Turn::Now, Turn::At(20_250)]);
    }
}
