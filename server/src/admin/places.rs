//! A limit of connections, and the choice of the connection to close when it is reached.
//!
//! A client can open connections and stay silent, or not read its responses, and needs no token for that. A connection that does
//! nothing therefore keeps its place only until another connection needs one:
//!
//! | a connection | is closed |
//! |---|---|
//! | waits for a request, the rest of one, or until its response is read | first |
//! | sent a request without the token, and is being answered | if there is none of the former |
//! | sent a request with the token, and is being answered | never |
//!
//! Among these, the network with the most connections loses the one that has been idle for longest. A client that fills the port
//! therefore closes its own connections, and a probe is always answered.
use crate::access::Network;
use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::net::IpAddr;
use std::rc::{Rc, Weak};
use tokio::task::AbortHandle;
use tokio::time::Instant;

/// Maximum number of connections.
const MOST_CONNECTIONS: usize = 64;

/// State of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Standing {
    /// Waits for its client.
    Waiting,
    /// Receives a response.
    Answered,
    /// Receives a response to a request with the token.
    Trusted,
}

/// The place of a connection; free once all references to it are dropped.
#[derive(Debug)]
pub(super) struct Seat {
    network: Network,
    standing: Cell<Standing>,
    moved: Cell<Instant>,
}

impl Seat {
    fn new(address: IpAddr) -> Self {
        Self {
            network: address.into(),
            standing: Cell::new(Standing::Waiting),
            moved: Cell::new(Instant::now()),
        }
    }

    /// Returns when the connection was last active.
    pub(super) fn moved(&self) -> Instant {
        self.moved.get()
    }

    /// Marks the connection as active now.
    pub(super) fn touch(&self) {
        self.moved.set(Instant::now());
    }

    /// Marks the connection as being answered until the returned guard is dropped.
    pub(super) fn answering(self: &Rc<Self>, has_token: bool) -> Answering {
        self.stand(if has_token {
            Standing::Trusted
        } else {
            Standing::Answered
        });
        Answering(Rc::clone(self))
    }

    fn stand(&self, standing: Standing) {
        self.standing.set(standing);
        self.touch();
    }
}

/// A guard that exists while a request is answered.
#[derive(Debug)]
pub(super) struct Answering(Rc<Seat>);

impl Answering {
    /// Marks the connection as active, since a part of the response was taken.
    pub(super) fn moves(&self) {
        self.0.touch();
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.stand(Standing::Waiting);
    }
}

/// All places, each with the handle that aborts its connection.
#[derive(Debug, Default)]
pub(super) struct Places(RefCell<Vec<(Weak<Seat>, AbortHandle)>>);

/// Result of making room for a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Room {
    /// A place was free.
    Free,
    /// Another connection was closed.
    Given,
    /// All connections are being answered with the token.
    None,
}

impl Places {
    /// Makes room for one more connection.
    pub(super) fn make_room(&self) -> Room {
        let mut places = self.0.borrow_mut();
        places.retain(|(seat, _)| seat.strong_count() > 0);
        if places.len() < MOST_CONNECTIONS {
            return Room::Free;
        }
        // All upgrades succeed after `retain`.
        let seats: Vec<_> = places
            .iter()
            .filter_map(|(seat, _)| seat.upgrade())
            .collect();
        let Some(at) = gives_way(&seats) else {
            return Room::None;
        };
        let (_, connection) = places.swap_remove(at);
        connection.abort();
        Room::Given
    }

    /// Adds a connection from `address`; `begin` starts it.
    pub(super) fn take(&self, address: IpAddr, begin: impl FnOnce(Rc<Seat>) -> AbortHandle) {
        let seat = Rc::new(Seat::new(address));
        let place = Rc::downgrade(&seat);
        self.0.borrow_mut().push((place, begin(seat)));
    }
}

/// Returns the index of the connection to close, if one may be closed.
fn gives_way(seats: &[Rc<Seat>]) -> Option<usize> {
    let least = seats.iter().map(|seat| seat.standing.get()).min()?;
    if least == Standing::Trusted {
        return None;
    }
    let is_least = |seat: &Seat| seat.standing.get() == least;
    let of_network = |network| {
        let of_network = seats.iter().filter(|it| it.network == network);
        of_network.filter(|it| is_least(it)).count()
    };
    let ranked = seats
        .iter()
        .enumerate()
        .filter(|(_, seat)| is_least(seat))
        .map(|(at, seat)| ((of_network(seat.network), Reverse(seat.moved())), at));
    // Among equal ones, the oldest.
    let first = ranked.rev().max_by_key(|(rank, _)| *rank);
    first.map(|(_, at)| at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn seat(address: &str, standing: Standing, idle_ms: u64) -> Rc<Seat> {
        let seat = Seat::new(address.parse().unwrap());
        seat.standing.set(standing);
        let moved = seat.moved() + Duration::from_secs(60) - Duration::from_millis(idle_ms);
        seat.moved.set(moved);
        Rc::new(seat)
    }

    #[test]
    fn the_idlest_of_whoever_has_most_gives_way() {
        use Standing::Waiting;
        let mut seats = vec![
            seat("192.0.2.1", Waiting, 900),
            seat("192.0.2.2", Waiting, 10),
            seat("192.0.2.2", Waiting, 30),
            seat("192.0.2.2", Waiting, 20),
        ];
        assert_eq!(gives_way(&seats), Some(2));
        seats.truncate(2);
        assert_eq!(gives_way(&seats), Some(0));
        seats.push(seat("2001:db8::1", Waiting, 5));
        seats.push(seat("2001:db8::2", Waiting, 6));
        assert_eq!(gives_way(&seats), Some(3), "one network of IPv6");
        assert_eq!(gives_way(&[]), None);
    }

    #[test]
    fn who_waits_gives_way_before_who_is_answered_and_the_token_to_nobody() {
        use Standing::{Answered, Trusted, Waiting};
        let mut seats = vec![
            seat("192.0.2.1", Trusted, 900),
            seat("192.0.2.1", Answered, 800),
            seat("192.0.2.1", Answered, 700),
            seat("192.0.2.2", Waiting, 1),
        ];
        assert_eq!(gives_way(&seats), Some(3));
        seats.pop();
        assert_eq!(gives_way(&seats), Some(1));
        seats.truncate(1);
        assert_eq!(gives_way(&seats), None);
    }

    #[test]
    fn a_seat_waits_again_when_its_answer_is_over() {
        let seat = Rc::new(Seat::new(IpAddr::from([127, 0, 0, 1])));
        for (has_token, standing) in [(false, Standing::Answered), (true, Standing::Trusted)] {
            let answering = seat.answering(has_token);
            assert_eq!(seat.standing.get(), standing);
            drop(answering);
            assert_eq!(seat.standing.get(), Standing::Waiting);
        }
    }
}
