//! The options of runs behind a broker.
use crate::seeded_rng::SeededRng;

/// Rates of the events between server and broker.
#[derive(Debug, Clone)]
pub(crate) struct BrokerScenario {
    /// Whether the server and the broker share a machine and end together. A server that ends alone forgets which requests it has
    /// answered, and executes a request that a client sends again. It forgets all watches too. Runs in which it ends alone
    /// therefore have neither repeated requests nor watches.
    pub(crate) shares_machine: bool,
    /// Scale of the time after which the server's connection is cut, at most four times this; 0 is never.
    pub(crate) cut_after_ms: u64,
    /// Mean time between two ends of the broker; 0 is never.
    pub(crate) restart_every_ms: u64,
}

impl BrokerScenario {
    pub(crate) fn new(chance: &mut SeededRng) -> Self {
        let is_with_broker = chance.percent(70);
        let mut sometimes = |percent, low, high| {
            if chance.percent(percent) {
                chance.log_uniform(low, high)
            } else {
                0
            }
        };
        let (cut_after_ms, lose_every_ms) = (sometimes(60, 100, 4_000), sometimes(30, 500, 8_000));
        Self {
            shares_machine: is_with_broker,
            cut_after_ms,
            restart_every_ms: if is_with_broker { lose_every_ms } else { 0 },
        }
    }
}
