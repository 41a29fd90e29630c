//! Rate limits: a connection that has sent more than it may in a second is not read from for a while. Nothing is lost.
//!
//! The amount of one second may arrive at once. More has to be paid off before anything else is read. So in the long run no client exceeds
//! its rate, however its packets are spread over time.
use super::{ConnectionId, Hub};
use statestored_access::{Owner, Principal, RateLimits, UserLimitsMap};
use statestored_common::ClockReading;
use std::collections::HashMap;

const NANOSECONDS_PER_SECOND: u64 = 1_000_000_000;
const NANOSECONDS_PER_MILLISECOND: u64 = 1_000_000;
/// Burst that may arrive at once, as the time in which it is paid off.
const BURST_NS: u64 = NANOSECONDS_PER_SECOND;
/// Number of users at which those with nothing to pay off are forgotten.
const MAX_REMEMBERED_USERS: usize = 1024;

/// Time at which everything that arrived so far is paid off.
#[derive(Debug, Clone, Copy, Default)]
struct LeakyBucket {
    empty_at_ns: u64,
}

impl LeakyBucket {
    /// Adds `amount`, of which `rate` may arrive in a second. Returns when the next packet is to be read, if not at once.
    fn add(&mut self, amount: u64, rate: u64, now_ns: u64) -> Option<u64> {
        let cost_ns = amount.saturating_mul(NANOSECONDS_PER_SECOND) / rate;
        self.empty_at_ns = self.empty_at_ns.max(now_ns).saturating_add(cost_ns);
        let free_ns = self.empty_at_ns.saturating_sub(BURST_NS);
        (free_ns > now_ns).then_some(free_ns)
    }
}

#[derive(Debug, Default)]
struct SenderBuckets {
    requests: LeakyBucket,
    bytes: LeakyBucket,
}

impl SenderBuckets {
    /// Returns when the next packet of this sender is to be read, in nanoseconds, if not at once.
    fn record(&mut self, sent: PacketCost, rates: RateLimits, now_ns: u64) -> Option<u64> {
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
pub(super) struct PacketCost {
    pub(super) is_publish: bool,
    pub(super) bytes: usize,
}

/// Debts of all clients together, and of each user.
#[derive(Debug, Default)]
pub(super) struct RateLimiter {
    all: SenderBuckets,
    by_user: HashMap<Owner, SenderBuckets>,
}

impl RateLimiter {
    /// Returns when the next packet of this user is to be read, in milliseconds, if not at once.
    fn record(
        &mut self,
        principal: &Principal,
        sent: PacketCost,
        all: RateLimits,
        users: &UserLimitsMap,
        now: ClockReading,
    ) -> Option<u64> {
        let now_ns = now.mono_ms.saturating_mul(NANOSECONDS_PER_MILLISECOND);
        let mut free_ns = self.all.record(sent, all, now_ns);
        let rates = users.get(principal).rates;
        if rates != RateLimits::default() {
            if self.by_user.len() >= MAX_REMEMBERED_USERS {
                self.by_user.retain(|_, sender| {
                    sender.requests.empty_at_ns > now_ns || sender.bytes.empty_at_ns > now_ns
                });
            }
            let sender = match self.by_user.get_mut(principal.owner()) {
                Some(sender) => sender,
                None => self.by_user.entry(principal.owner().clone()).or_default(),
            };
            free_ns = free_ns.max(sender.record(sent, rates, now_ns));
        }
        free_ns.map(|ns| ns.div_ceil(NANOSECONDS_PER_MILLISECOND))
    }
}

impl Hub {
    /// Counts a packet of a connection. If its user, or all clients together, have sent too much, the connection is not read from for a
    /// while.
    #[inline(never)]
    pub(super) fn limit_rate(&mut self, id: ConnectionId, sent: PacketCost, now: ClockReading) {
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        let Some(session) = connection.session().and_then(|id| self.sessions.get(id)) else {
            return;
        };
        let free_ms = self.rate_limiter.record(
            &session.principal,
            sent,
            self.limits.rates,
            &self.limits.users,
            now,
        );
        if let Some(at_ms) = free_ms {
            self.metrics.pauses += 1;
            let next_ms = connection.pause(at_ms, now.mono_ms);
            self.set_connection_timer(id, next_ms);
        }
    }

    /// Ends the pause of a connection whose debt is paid off. Returns whether its timer was for that.
    pub(super) fn end_rate_pause(&mut self, id: ConnectionId, now: ClockReading) -> bool {
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
    fn a_burst_of_one_second_passes_and_excess_is_delayed() {
        let mut debt = LeakyBucket::default();
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
        let mut debt = LeakyBucket::default();
        assert!(debt.add(u64::MAX, 1, u64::MAX - 5).is_none_or(|at| at > 0));
        debt.add(u64::MAX, u64::MAX, 0);
    }
}
