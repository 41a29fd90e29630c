//! A limit of connections, and the choice of the connection to close when it is reached.
//!
//! A client can open connections and stay silent, or not read its responses, and needs no token for that. A connection that does
//! nothing therefore keeps its place only until another connection needs one:
//!
//! | a connection | is closed |
//! |---|---|
//! | waits for a request, the rest of one, or until its response is read | first |
//! | sent a request without the token for changes, and is being answered | if there is none of the former |
//! | sent a request with it, and is being answered | never |
//!
//! Among these, the network with the most connections loses the one that has been idle for longest. A client that fills the port
//! therefore closes its own connections, and a probe is always answered.
use statestored_access::Network;
use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::net::IpAddr;
use std::rc::{Rc, Weak};
use tokio::task::AbortHandle;
use tokio::time::Instant;

/// Maximum number of connections.
const MAX_CONNECTIONS: usize = 64;

/// State of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum ActivityState {
    /// Waits for its client.
    Idle,
    /// Receives a response.
    Responding,
    /// Receives a response to a request with the token.
    RespondingToOperator,
}

/// The place of a connection; free once all references to it are dropped.
#[derive(Debug)]
pub(super) struct ConnectionPermit {
    network: Network,
    state: Cell<ActivityState>,
    last_active: Cell<Instant>,
}

impl ConnectionPermit {
    fn new(address: IpAddr) -> Self {
        Self {
            network: address.into(),
            state: Cell::new(ActivityState::Idle),
            last_active: Cell::new(Instant::now()),
        }
    }

    /// Returns when the connection was last active.
    pub(super) fn last_active(&self) -> Instant {
        self.last_active.get()
    }

    /// Marks the connection as active now.
    pub(super) fn touch(&self) {
        self.last_active.set(Instant::now());
    }

    /// Marks the connection as being answered until the returned guard is dropped.
    pub(super) fn begin_response(self: &Rc<Self>, has_token: bool) -> ResponseGuard {
        self.set_state(if has_token {
            ActivityState::RespondingToOperator
        } else {
            ActivityState::Responding
        });
        ResponseGuard(Rc::clone(self))
    }

    fn set_state(&self, state: ActivityState) {
        self.state.set(state);
        self.touch();
    }
}

/// A guard that exists while a request is answered.
#[derive(Debug)]
pub(super) struct ResponseGuard(Rc<ConnectionPermit>);

impl ResponseGuard {
    /// Marks the connection as active, since a part of the response was taken.
    pub(super) fn touch(&self) {
        self.0.touch();
    }
}

impl Drop for ResponseGuard {
    fn drop(&mut self) {
        self.0.set_state(ActivityState::Idle);
    }
}

/// All places, each with the handle that aborts its connection.
#[derive(Debug, Default)]
pub(super) struct ConnectionLimiter(RefCell<Vec<(Weak<ConnectionPermit>, AbortHandle)>>);

/// Result of making room for a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Admission {
    /// A place was free.
    Free,
    /// Another connection was closed.
    Evicted,
    /// All connections are being answered with the token.
    Full,
}

impl ConnectionLimiter {
    /// Makes room for one more connection.
    pub(super) fn admit(&self) -> Admission {
        let mut connections = self.0.borrow_mut();
        connections.retain(|(permit, _)| permit.strong_count() > 0);
        if connections.len() < MAX_CONNECTIONS {
            return Admission::Free;
        }
        // All upgrades succeed after `retain`.
        let permits: Vec<_> = connections
            .iter()
            .filter_map(|(permit, _)| permit.upgrade())
            .collect();
        let Some(at) = eviction_candidate(&permits) else {
            return Admission::Full;
        };
        let (_, connection) = connections.swap_remove(at);
        connection.abort();
        Admission::Evicted
    }

    /// Adds a connection from `address`; `begin` starts it.
    pub(super) fn insert(
        &self,
        address: IpAddr,
        begin: impl FnOnce(Rc<ConnectionPermit>) -> AbortHandle,
    ) {
        let permit = Rc::new(ConnectionPermit::new(address));
        let weak = Rc::downgrade(&permit);
        self.0.borrow_mut().push((weak, begin(permit)));
    }
}

/// Returns the index of the connection to close, if one may be closed.
fn eviction_candidate(permits: &[Rc<ConnectionPermit>]) -> Option<usize> {
    let least = permits.iter().map(|permit| permit.state.get()).min()?;
    if least == ActivityState::RespondingToOperator {
        return None;
    }
    let is_least = |permit: &ConnectionPermit| permit.state.get() == least;
    let of_network = |network| {
        let of_network = permits.iter().filter(|it| it.network == network);
        of_network.filter(|it| is_least(it)).count()
    };
    let ranked = permits
        .iter()
        .enumerate()
        .filter(|(_, permit)| is_least(permit))
        .map(|(at, permit)| {
            (
                (of_network(permit.network), Reverse(permit.last_active())),
                at,
            )
        });
    // Among equal ones, the oldest.
    let first = ranked.rev().max_by_key(|(rank, _)| *rank);
    first.map(|(_, at)| at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn permit(address: &str, state: ActivityState, idle_ms: u64) -> Rc<ConnectionPermit> {
        let permit = ConnectionPermit::new(address.parse().unwrap());
        permit.state.set(state);
        let moved = permit.last_active() + Duration::from_secs(60) - Duration::from_millis(idle_ms);
        permit.last_active.set(moved);
        Rc::new(permit)
    }

    #[test]
    fn the_longest_idle_connection_of_the_largest_network_is_evicted() {
        use ActivityState::Idle;
        let mut permits = vec![
            permit("192.0.2.1", Idle, 900),
            permit("192.0.2.2", Idle, 10),
            permit("192.0.2.2", Idle, 30),
            permit("192.0.2.2", Idle, 20),
        ];
        assert_eq!(eviction_candidate(&permits), Some(2));
        permits.truncate(2);
        assert_eq!(eviction_candidate(&permits), Some(0));
        permits.push(permit("2001:db8::1", Idle, 5));
        permits.push(permit("2001:db8::2", Idle, 6));
        assert_eq!(eviction_candidate(&permits), Some(3), "one network of IPv6");
        assert_eq!(eviction_candidate(&[]), None);
    }

    #[test]
    fn idle_connections_are_evicted_first_and_operators_never() {
        use ActivityState::{Idle, Responding, RespondingToOperator};
        let mut permits = vec![
            permit("192.0.2.1", RespondingToOperator, 900),
            permit("192.0.2.1", Responding, 800),
            permit("192.0.2.1", Responding, 700),
            permit("192.0.2.2", Idle, 1),
        ];
        assert_eq!(eviction_candidate(&permits), Some(3));
        permits.pop();
        assert_eq!(eviction_candidate(&permits), Some(1));
        permits.truncate(1);
        assert_eq!(eviction_candidate(&permits), None);
    }

    #[test]
    fn a_connection_is_idle_again_after_its_response() {
        let permit = Rc::new(ConnectionPermit::new(IpAddr::from([127, 0, 0, 1])));
        for (has_token, state) in [
            (false, ActivityState::Responding),
            (true, ActivityState::RespondingToOperator),
        ] {
            let answering = permit.begin_response(has_token);
            assert_eq!(permit.state.get(), state);
            drop(answering);
            assert_eq!(permit.state.get(), ActivityState::Idle);
        }
    }
}
