//! Rate limits: a connection that has sent more than it may in a second is not read from for a while. Nothing is lost.
//!
//! The amount of one second may arrive at once. More has to be paid off before anything else is read. So in the long run no client exceeds
//! its rate, however its packets are spread over time.
use super::{ConnectionId, Hub};
use crate::access::{LimitsOfUsers, Owner, Principal, Rates};
use crate::clock::Now;
use std::collections::HashMap;

const NANOSECONDS_PER_SECOND: u64 = 1_000_000_000;
const NANOSECONDS_PER_MILLISECOND: u64 = 1_000_000;
/// Burst that may arrive at once, as the time in which it is paid off.
const BURST_NS: u64 = NANOSECONDS_PER_SECOND;
/// Number of users at which those with nothing to pay off are forgotten.
const MOST_REMEMBERED: usize = 1024;

/// Time at which everything that arrived so far is paid off.
#[derive(Debug, Clone, Copy, Default)]
struct Debt {
    until_ns: u64,
}

impl Debt {
    /// Adds `amount`, of which `rate` may arrive in a second. Returns when the next packet is to be read, if not at once.
    fn add(&mut self, amount: u64, rate: u64, now_ns: u64) -> Option<u64> {
        let cost_ns = amount.saturating_mul(NANOSECONDS_PER_SECOND) / rate;
        self.until_ns = self.until_ns.max(now_ns).saturating_add(cost_ns);
        let free_ns = self.until_ns.saturating_sub(BURST_NS);
        (free_ns > now_ns).then_some(free_ns)
    }
}

#[derive(Debug, Default)]
struct Sender {
    requests: Debt,
    bytes: Debt,
}

impl Sender {
    /// Returns when the next packet of this sender is to be read, in nanoseconds, if not at once.
    fn sent(&mut self, sent: Sent, rates: Rates, now_ns: u64) -> Option<u64> {
        let of_requests = rates
            .requests
            .filter(|_| sent.is_publish)
            .and_then(|rate| self.requests.add(1, rate.into(), now_ns));
        let of_bytes = rates
            .bytes
            .and_then(|rate| self.bytes.add(sent.bytes as u64, rate, now_ns));
        of_requests.max(of_bytes)
    }
}

/// A packet, as far as rates need it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sent {
    pub(super) is_publish: bool,
    pub(super) bytes: usize,
}

/// Debts of all clients together, and of each user.
#[derive(Debug, Default)]
pub(super) struct Senders {
    all: Sender,
    by_user: HashMap<Owner, Sender>,
}

impl Senders {
    /// Returns when the next packet of this user is to be read, in milliseconds, if not at once.
    fn sent(
        &mut self,
        principal: &Principal,
        sent: Sent,
        all: Rates,
        users: &LimitsOfUsers,
        now: Now,
    ) -> Option<u64> {
        let now_ns = now.mono_ms.saturating_mul(NANOSECONDS_PER_MILLISECOND);
        let mut free_ns = self.all.sent(sent, all, now_ns);
        let rates = users.of(principal).rates;
        if rates != Rates::default() {
            if self.by_user.len() >= MOST_REMEMBERED {
                self.by_user.retain(|_, sender| {
                    sender.requests.until_ns > now_ns || sender.bytes.until_ns > now_ns
                });
            }
            let sender = match self.by_user.get_mut(principal.owner()) {
                Some(sender) => sender,
                None => self.by_user.entry(principal.owner().clone()).or_default(),
            };
            free_ns = free_ns.max(sender.sent(sent, rates, now_ns));
        }
        free_ns.map(|ns| ns.div_ceil(NANOSECONDS_PER_MILLISECOND))
    }
}

impl Hub {
    /// Counts a packet of a connection. If its user, or all clients together, have sent too much, the connection is not read from for a
    /// while.
    #[inline(never)]
    pub(super) fn count_rates(&mut self, id: ConnectionId, sent: Sent, now: Now) {
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        let Some(session) = connection.session().and_then(|id| self.sessions.get(id)) else {
            return;
        };
        let free_ms = self.senders.sent(
            &session.principal,
            sent,
            self.limits.rates,
            &self.limits.users,
            now,
        );
        if let Some(at_ms) = free_ms {
            self.statistics.pauses += 1;
            let next_ms = connection.pause(at_ms, now.mono_ms);
            self.set_connection_timer(id, next_ms);
        }
    }

    /// Ends the pause of a connection whose debt is paid off. Returns whether its timer was for that.
    pub(super) fn ends_pause(&mut self, id: ConnectionId, now: Now) -> bool {
        let Some(connection) = self.connections.get_mut(id) else {
            return false;
        };
        if !connection.end_pause(now.mono_ms) {
            return false;
        }
        let next_ms = connection.due_ms();
        self.set_connection_timer(id, next_ms);
        self.mark_dirty(id);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_may_come_at_once_and_what_is_more_is_paid_off() {
        let mut debt = Debt::default();
        let now_ns = 7 * NANOSECONDS_PER_SECOND;
        for _ in 0..10 {
            assert_eq!(debt.add(1, 10, now_ns), None);
        }
        let tenth = NANOSECONDS_PER_SECOND / 10;
        assert_eq!(debt.add(1, 10, now_ns), Some(now_ns + tenth));
        assert_eq!(debt.add(5, 10, now_ns), Some(now_ns + 6 * tenth));
        let later_ns = now_ns + 6 * tenth;
        assert_eq!(debt.add(1, 10, later_ns), Some(later_ns + tenth));
        let much_later_ns = now_ns + 100 * NANOSECONDS_PER_SECOND;
        assert_eq!(
            debt.add(10, 10, much_later_ns),
            None,
            "no more is saved than a second's worth"
        );
        assert!(debt.add(1, 10, much_later_ns).is_some());
    }

    #[test]
    fn absurd_amounts_do_not_overflow() {
        let mut debt = Debt::default();
        assert!(debt.add(u64::MAX, 1, u64::MAX - 5).is_none_or(|at| at > 0));
        debt.add(u64::MAX, u64::MAX, 0);
    }
}
