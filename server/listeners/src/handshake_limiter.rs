//! A limit of handshakes, and the choice of the handshake to end when it is reached.
use statestored_access::Network;
use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// Time in which no handshake is ended, so that many simultaneous clients are served in sequence instead of not at all.
const GRACE: Duration = Duration::from_secs(1);

/// The handshakes in progress, each with the handle that ends it.
///
/// At the limit, the network with the most handshakes loses its oldest one, but none within its first second. A client that opens
/// connections and stays silent therefore takes room only from itself as soon as others connect.
#[derive(Debug)]
pub(super) struct HandshakeLimiter<T> {
    max_handshakes: usize,
    count: usize,
    next_number: u64,
    /// Handshakes by network, oldest first.
    networks: HashMap<Network, VecDeque<ActiveHandshake<T>>>,
}

#[derive(Debug)]
struct ActiveHandshake<T> {
    number: u64,
    since: Instant,
    handshake: T,
}

/// Key of a handshake.
#[derive(Debug, Clone, Copy)]
pub(super) struct HandshakeKey {
    network: Network,
    number: u64,
}

impl<T> HandshakeLimiter<T> {
    pub(super) fn new(max_handshakes: usize) -> Self {
        Self {
            max_handshakes: max_handshakes.max(1),
            count: 0,
            next_number: 0,
            networks: HashMap::new(),
        }
    }

    /// Changes the limit. Handshakes beyond it are ended when the next ones begin.
    pub(super) fn set_max_handshakes(&mut self, max_handshakes: usize) {
        self.max_handshakes = max_handshakes.max(1);
    }

    /// Returns the key of the next handshake to [`insert`](Self::insert) from this address.
    pub(super) fn next_key(&mut self, address: IpAddr) -> HandshakeKey {
        self.next_number += 1;
        HandshakeKey {
            network: address.into(),
            number: self.next_number,
        }
    }

    /// Makes room for another handshake. At the limit, returns the handshake to end, or the time of the next attempt if none may be
    /// ended yet.
    pub(super) fn make_room(&mut self, now: Instant) -> Result<Option<T>, Instant> {
        if self.count < self.max_handshakes {
            return Ok(None);
        }
        let Some((key, since)) = self.oldest_of_largest_network() else {
            return Ok(None);
        };
        if now < since + GRACE {
            return Err(since + GRACE);
        }
        Ok(self.take_handshake(key))
    }

    /// Adds a handshake.
    pub(super) fn insert(&mut self, key: HandshakeKey, handshake: T, now: Instant) {
        let of_network = self.networks.entry(key.network).or_default();
        of_network.push_back(ActiveHandshake {
            number: key.number,
            since: now,
            handshake,
        });
        self.count += 1;
    }

    /// Returns the oldest handshake of the network with the most. Of several such networks, it is the oldest one of all.
    fn oldest_of_largest_network(&self) -> Option<(HandshakeKey, Instant)> {
        let oldest = self.networks.iter().filter_map(|(&network, of_network)| {
            let oldest = of_network.front()?;
            let number = oldest.number;
            let key = HandshakeKey { network, number };
            Some((of_network.len(), key, oldest.since))
        });
        oldest
            .max_by_key(|(count, key, _)| (*count, std::cmp::Reverse(key.number)))
            .map(|(_, key, since)| (key, since))
    }

    /// Removes a handshake. Does nothing if it was ended for another one.
    pub(super) fn remove(&mut self, key: HandshakeKey) {
        self.take_handshake(key);
    }

    /// Moves a handshake to another address, with its former start time. Returns its new key.
    pub(super) fn move_to_address(&mut self, key: HandshakeKey, address: IpAddr) -> HandshakeKey {
        let new = self.next_key(address);
        if let Some(member) = self.take_active(key) {
            self.insert(new, member.handshake, member.since);
        }
        new
    }

    fn take_handshake(&mut self, key: HandshakeKey) -> Option<T> {
        self.take_active(key).map(|member| member.handshake)
    }

    fn take_active(&mut self, key: HandshakeKey) -> Option<ActiveHandshake<T>> {
        let of_network = self.networks.get_mut(&key.network)?;
        // The handshakes are in the order of their numbers.
        let at = of_network
            .binary_search_by_key(&key.number, |member| member.number)
            .ok()?;
        let member = of_network.remove(at)?;
        if of_network.is_empty() {
            self.networks.remove(&key.network);
        }
        self.count -= 1;
        Some(member)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adds a handshake, a second after all earlier ones.
    fn insert(
        limiter: &mut HandshakeLimiter<&'static str>,
        now: &mut Instant,
        address: &str,
        name: &'static str,
    ) -> (HandshakeKey, Option<&'static str>) {
        *now += GRACE;
        let gone = limiter.make_room(*now).unwrap();
        let key = limiter.next_key(address.parse().unwrap());
        limiter.insert(key, name, *now);
        (key, gone)
    }

    #[test]
    fn the_network_with_most_handshakes_loses_its_oldest() {
        let (mut limiter, mut now) = (HandshakeLimiter::new(4), Instant::now());
        for (address, name, gone) in [
            ("192.0.2.1", "a1", None),
            ("192.0.2.2", "b1", None),
            ("192.0.2.2", "b2", None),
            ("192.0.2.2", "b3", None),
            ("192.0.2.2", "b4", Some("b1")),
            ("192.0.2.1", "a2", Some("b2")),
            // Each network has two.
            ("192.0.2.3", "c1", Some("a1")),
        ] {
            assert_eq!(
                insert(&mut limiter, &mut now, address, name).1,
                gone,
                "{name}"
            );
        }
        assert_eq!(limiter.count, 4);
    }

    #[test]
    fn no_handshake_is_ended_within_its_first_second() {
        let (mut limiter, mut now) = (HandshakeLimiter::new(1), Instant::now());
        insert(&mut limiter, &mut now, "192.0.2.1", "a1");
        assert_eq!(limiter.make_room(now), Err(now + GRACE));
        assert_eq!(limiter.make_room(now + GRACE), Ok(Some("a1")));
    }

    #[test]
    fn a_removed_handshake_frees_one_slot() {
        let (mut limiter, mut now) = (HandshakeLimiter::new(2), Instant::now());
        let (first, _) = insert(&mut limiter, &mut now, "192.0.2.1", "a1");
        let (second, _) = insert(&mut limiter, &mut now, "192.0.2.1", "a2");
        let (_, gone) = insert(&mut limiter, &mut now, "192.0.2.1", "a3");
        assert_eq!(gone, Some("a1"));
        limiter.remove(first);
        assert_eq!(limiter.count, 2);
        limiter.remove(second);
        limiter.remove(second);
        assert_eq!(limiter.count, 1);
        assert_eq!(insert(&mut limiter, &mut now, "192.0.2.9", "b1").1, None);
    }

    #[test]
    fn an_ipv6_network_counts_as_one() {
        let (mut limiter, mut now) = (HandshakeLimiter::new(3), Instant::now());
        insert(&mut limiter, &mut now, "192.0.2.1", "v4");
        insert(&mut limiter, &mut now, "2001:db8::1", "one");
        insert(&mut limiter, &mut now, "2001:db8::2", "two");
        let (_, gone) = insert(&mut limiter, &mut now, "192.0.2.2", "other");
        assert_eq!(gone, Some("one"));
    }

    #[test]
    fn a_proxied_handshake_counts_for_its_client() {
        let (mut limiter, mut now) = (HandshakeLimiter::new(3), Instant::now());
        let (first, _) = insert(&mut limiter, &mut now, "192.0.2.1", "a1");
        let (second, _) = insert(&mut limiter, &mut now, "192.0.2.1", "a2");
        let first = limiter.move_to_address(first, "198.51.100.1".parse().unwrap());
        let second = limiter.move_to_address(second, "198.51.100.2".parse().unwrap());
        insert(&mut limiter, &mut now, "198.51.100.2", "b1");
        let (_, gone) = insert(&mut limiter, &mut now, "192.0.2.1", "a3");
        assert_eq!(gone, Some("a2"));
        limiter.remove(first);
        limiter.remove(second);
        assert_eq!(limiter.count, 2);
    }

    #[test]
    fn networks_without_handshakes_are_removed() {
        let (mut limiter, mut now) = (HandshakeLimiter::new(1), Instant::now());
        for number in 0..100 {
            insert(&mut limiter, &mut now, &format!("192.0.2.{number}"), "x");
        }
        assert_eq!(limiter.networks.len(), 1);
    }
}
