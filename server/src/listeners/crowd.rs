//! A limit of handshakes, and the choice of the handshake to end when it is reached.
use crate::access::Network;
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
pub(super) struct Crowd<T> {
    most: usize,
    count: usize,
    next: u64,
    /// Handshakes by network, oldest first.
    networks: HashMap<Network, VecDeque<Member<T>>>,
}

#[derive(Debug)]
struct Member<T> {
    number: u64,
    since: Instant,
    handshake: T,
}

/// Key of a handshake.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ticket {
    network: Network,
    number: u64,
}

impl<T> Crowd<T> {
    pub(super) fn new(most: usize) -> Self {
        Self {
            most: most.max(1),
            count: 0,
            next: 0,
            networks: HashMap::new(),
        }
    }

    /// Changes the limit. Handshakes beyond it are ended when the next ones begin.
    pub(super) fn set_most(&mut self, most: usize) {
        self.most = most.max(1);
    }

    /// Returns the key of the next handshake to [`come`](Self::come) from this address.
    pub(super) fn ticket(&mut self, address: IpAddr) -> Ticket {
        self.next += 1;
        Ticket {
            network: address.into(),
            number: self.next,
        }
    }

    /// Makes room for another handshake. At the limit, returns the handshake to end, or the time of the next attempt if none may be
    /// ended yet.
    pub(super) fn make_room(&mut self, now: Instant) -> Result<Option<T>, Instant> {
        if self.count < self.most {
            return Ok(None);
        }
        let Some((ticket, since)) = self.oldest_of_most() else {
            return Ok(None);
        };
        if now < since + GRACE {
            return Err(since + GRACE);
        }
        Ok(self.take(ticket))
    }

    /// Adds a handshake.
    pub(super) fn come(&mut self, ticket: Ticket, handshake: T, now: Instant) {
        let of_network = self.networks.entry(ticket.network).or_default();
        of_network.push_back(Member {
            number: ticket.number,
            since: now,
            handshake,
        });
        self.count += 1;
    }

    /// Returns the oldest handshake of the network with the most. Of several such networks, it is the oldest one of all.
    fn oldest_of_most(&self) -> Option<(Ticket, Instant)> {
        let oldest = self.networks.iter().filter_map(|(&network, of_network)| {
            let oldest = of_network.front()?;
            let number = oldest.number;
            let ticket = Ticket { network, number };
            Some((of_network.len(), ticket, oldest.since))
        });
        oldest
            .max_by_key(|(count, ticket, _)| (*count, std::cmp::Reverse(ticket.number)))
            .map(|(_, ticket, since)| (ticket, since))
    }

    /// Removes a handshake. Does nothing if it was ended for another one.
    pub(super) fn go(&mut self, ticket: Ticket) {
        self.take(ticket);
    }

    /// Moves a handshake to another address, with its former start time. Returns its new key.
    pub(super) fn change(&mut self, ticket: Ticket, address: IpAddr) -> Ticket {
        let new = self.ticket(address);
        if let Some(member) = self.take_member(ticket) {
            self.come(new, member.handshake, member.since);
        }
        new
    }

    fn take(&mut self, ticket: Ticket) -> Option<T> {
        self.take_member(ticket).map(|member| member.handshake)
    }

    fn take_member(&mut self, ticket: Ticket) -> Option<Member<T>> {
        let of_network = self.networks.get_mut(&ticket.network)?;
        // The handshakes are in the order of their numbers.
        let at = of_network
            .binary_search_by_key(&ticket.number, |member| member.number)
            .ok()?;
        let member = of_network.remove(at)?;
        if of_network.is_empty() {
            self.networks.remove(&ticket.network);
        }
        self.count -= 1;
        Some(member)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adds a handshake, a second after all earlier ones.
    fn come(
        crowd: &mut Crowd<&'static str>,
        now: &mut Instant,
        address: &str,
        name: &'static str,
    ) -> (Ticket, Option<&'static str>) {
        *now += GRACE;
        let gone = crowd.make_room(*now).unwrap();
        let ticket = crowd.ticket(address.parse().unwrap());
        crowd.come(ticket, name, *now);
        (ticket, gone)
    }

    #[test]
    fn the_oldest_of_whoever_has_most_gives_way() {
        let (mut crowd, mut now) = (Crowd::new(4), Instant::now());
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
            assert_eq!(come(&mut crowd, &mut now, address, name).1, gone, "{name}");
        }
        assert_eq!(crowd.count, 4);
    }

    #[test]
    fn nobody_is_cut_in_the_first_second() {
        let (mut crowd, mut now) = (Crowd::new(1), Instant::now());
        come(&mut crowd, &mut now, "192.0.2.1", "a1");
        assert_eq!(crowd.make_room(now), Err(now + GRACE));
        assert_eq!(crowd.make_room(now + GRACE), Ok(Some("a1")));
    }

    #[test]
    fn what_is_over_gives_room_once() {
        let (mut crowd, mut now) = (Crowd::new(2), Instant::now());
        let (first, _) = come(&mut crowd, &mut now, "192.0.2.1", "a1");
        let (second, _) = come(&mut crowd, &mut now, "192.0.2.1", "a2");
        let (_, gone) = come(&mut crowd, &mut now, "192.0.2.1", "a3");
        assert_eq!(gone, Some("a1"));
        crowd.go(first);
        assert_eq!(crowd.count, 2);
        crowd.go(second);
        crowd.go(second);
        assert_eq!(crowd.count, 1);
        assert_eq!(come(&mut crowd, &mut now, "192.0.2.9", "b1").1, None);
    }

    #[test]
    fn a_network_of_ipv6_is_one() {
        let (mut crowd, mut now) = (Crowd::new(3), Instant::now());
        come(&mut crowd, &mut now, "192.0.2.1", "v4");
        come(&mut crowd, &mut now, "2001:db8::1", "one");
        come(&mut crowd, &mut now, "2001:db8::2", "two");
        let (_, gone) = come(&mut crowd, &mut now, "192.0.2.2", "other");
        assert_eq!(gone, Some("one"));
    }

    #[test]
    fn one_that_comes_through_a_proxy_counts_as_of_its_client() {
        let (mut crowd, mut now) = (Crowd::new(3), Instant::now());
        let (first, _) = come(&mut crowd, &mut now, "192.0.2.1", "a1");
        let (second, _) = come(&mut crowd, &mut now, "192.0.2.1", "a2");
        let first = crowd.change(first, "198.51.100.1".parse().unwrap());
        let second = crowd.change(second, "198.51.100.2".parse().unwrap());
        come(&mut crowd, &mut now, "198.51.100.2", "b1");
        let (_, gone) = come(&mut crowd, &mut now, "192.0.2.1", "a3");
        assert_eq!(gone, Some("a2"));
        crowd.go(first);
        crowd.go(second);
        assert_eq!(crowd.count, 2);
    }

    #[test]
    fn nothing_stays_of_networks_without_handshakes() {
        let (mut crowd, mut now) = (Crowd::new(1), Instant::now());
        for number in 0..100 {
            come(&mut crowd, &mut now, &format!("192.0.2.{number}"), "x");
        }
        assert_eq!(crowd.networks.len(), 1);
    }
}
