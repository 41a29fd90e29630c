//! Guessing of passwords is slow: refused logins make the next ones wait.
//!
//! A password is looked at after a delay, so that it is of no use to hang up and try the next one. There is a delay
//!
//! - for a user from an address, after three refusals: 250 ms, doubled by each further one up to five seconds;
//! - for an address, after 20 refusals of whatever users: 100 ms;
//! - for a user, after 20 refusals from wherever: one second, for each login by itself.
//!
//! The logins that the first two hold up wait in line, so that many connections are no faster than one, and a login that
//! would wait for more than five seconds is refused at once. The right password, then, gets in from any other address,
//! and a device with a wrong password does not lock out its neighbours behind the same address.
//!
//! A refusal is forgotten a quarter of an hour after the last one, and those of a user from an address when a login
//! succeeds. No more is remembered than fits in a table of fixed size.
use foldhash::quality::RandomState;
use std::collections::HashMap;
use std::hash::BuildHasher;
use std::net::IpAddr;

/// Most entries; the one whose last refusal is longest ago goes.
const MAX_ENTRIES: usize = 4096;
const FORGET_AFTER_MS: u64 = 15 * 60 * 1000;
const LONGEST_WAIT_MS: u64 = 5_000;

const FREE_OF_USER_FROM_ADDRESS: u32 = 3;
const FIRST_DELAY_MS: u64 = 250;
const FREE_OF_ADDRESS: u32 = 20;
const ADDRESS_DELAY_MS: u64 = 100;
const FREE_OF_USER: u32 = 20;
const USER_DELAY_MS: u64 = 1_000;

/// When a login is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    Now,
    /// At this time on the monotonic clock.
    At(u64),
    /// Not at all: too many wait already.
    Never,
}

/// The refused logins of an address, a user, or a user from an address.
#[derive(Debug, Default)]
struct Refused {
    count: u32,
    last_ms: u64,
    /// When the next login in line has its turn.
    next_ms: u64,
}

/// The hash of whose refusals an entry counts. Who finds two with the same hash waits for the other, no more.
pub(crate) type Whose = u64;

/// All refused logins that are remembered.
#[derive(Debug, Default)]
pub(crate) struct Logins {
    refused: HashMap<Whose, Refused>,
    hash: RandomState,
}

impl Logins {
    /// When a login has its turn that came just now. It is in line then. Without a user, only the address counts.
    pub(crate) fn turn<'a>(
        &mut self,
        peer: IpAddr,
        user: impl Into<Option<&'a str>>,
        now_ms: u64,
    ) -> Turn {
        if self.refused.is_empty() {
            return Turn::Now;
        }
        let [of_user_from_address, of_address, of_user] = self.whose(peer, user.into());
        let lines = [
            (of_user_from_address, FREE_OF_USER_FROM_ADDRESS),
            (of_address, FREE_OF_ADDRESS),
        ];
        let mut at_ms = now_ms;
        for (whose, free) in lines {
            if let Some(refused) = self.remembered(whose, free, now_ms) {
                at_ms = at_ms.max(refused.next_ms);
            }
        }
        if self.remembered(of_user, FREE_OF_USER, now_ms).is_some() {
            at_ms = at_ms.max(now_ms + USER_DELAY_MS);
        }
        if at_ms > now_ms + LONGEST_WAIT_MS {
            return Turn::Never;
        }
        if let Some(refused) = self.remembered(lines[0].0, lines[0].1, now_ms) {
            let doublings = (refused.count - FREE_OF_USER_FROM_ADDRESS - 1).min(16);
            refused.next_ms = at_ms + (FIRST_DELAY_MS << doublings).min(LONGEST_WAIT_MS);
        }
        if let Some(refused) = self.remembered(lines[1].0, lines[1].1, now_ms) {
            refused.next_ms = at_ms + ADDRESS_DELAY_MS;
        }
        if at_ms > now_ms {
            Turn::At(at_ms)
        } else {
            Turn::Now
        }
    }

    /// A login was refused for what it has shown.
    pub(crate) fn refused<'a>(
        &mut self,
        peer: IpAddr,
        user: impl Into<Option<&'a str>>,
        now_ms: u64,
    ) {
        for whose in self.whose(peer, user.into()).into_iter().flatten() {
            self.count(whose, now_ms);
        }
    }

    /// A login succeeded.
    pub(crate) fn succeeded<'a>(&mut self, peer: IpAddr, user: impl Into<Option<&'a str>>) {
        if !self.refused.is_empty() {
            let [of_user_from_address, ..] = self.whose(peer, user.into());
            if let Some(whose) = of_user_from_address {
                self.refused.remove(&whose);
            }
        }
    }

    /// Under what the logins of a user from an address are counted.
    pub(crate) fn line(&self, peer: IpAddr, user: &str) -> Option<Whose> {
        self.whose(peer, Some(user))[0]
    }

    /// The entries that a login concerns: the user from the address, the address, the user.
    fn whose(&self, peer: IpAddr, user: Option<&str>) -> [Option<Whose>; 3] {
        // Whoever has one address of IPv6 has at least 2^64 of them.
        let network = match peer.to_canonical() {
            IpAddr::V4(address) => u64::from(address.to_bits()),
            IpAddr::V6(address) => u64::try_from(address.to_bits() >> 64).unwrap_or(0) | 1 << 63,
        };
        [
            user.map(|user| self.hash.hash_one((0, network, user))),
            Some(self.hash.hash_one((1, network))),
            user.map(|user| self.hash.hash_one((2, user))),
        ]
    }

    /// An entry that has more refusals than are free.
    fn remembered(&mut self, whose: Option<Whose>, free: u32, now_ms: u64) -> Option<&mut Refused> {
        let refused = self.refused.get_mut(&whose?)?;
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
    use std::net::Ipv6Addr;

    const PEER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
    const OTHER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 2));

    fn refuse(logins: &mut Logins, times: u32, peer: IpAddr, user: &str, now_ms: u64) {
        for _ in 0..times {
            logins.refused(peer, user, now_ms);
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
    fn an_address_that_tries_many_users_is_slowed_down_but_not_locked_out() {
        let mut logins = Logins::default();
        for user in 0..21 {
            refuse(&mut logins, 1, PEER, &user.to_string(), 0);
        }
        assert_eq!(logins.turn(PEER, "ann", 0), Turn::Now);
        assert_eq!(logins.turn(PEER, "bob", 0), Turn::At(100));
        assert_eq!(logins.turn(OTHER, "ann", 0), Turn::Now);
    }

    #[test]
    fn a_user_who_is_tried_from_many_addresses_waits_a_second_and_no_more() {
        let mut logins = Logins::default();
        for number in 0..21 {
            refuse(&mut logins, 1, IpAddr::from([10, 0, 0, number]), "ann", 0);
        }
        for _ in 0..1000 {
            assert_eq!(logins.turn(PEER, "ann", 0), Turn::At(1000));
        }
        assert_eq!(logins.turn(PEER, "bob", 0), Turn::Now);
    }

    #[test]
    fn a_network_of_ipv6_counts_as_one_address() {
        let mut logins = Logins::default();
        let address = |last| IpAddr::from(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, last));
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
        let turns = [(); 2].map(|()| logins.turn(PEER, "ann", 20_000));
        assert_eq!(turns, [Turn::Now, Turn::At(20_100)]);
    }
}
