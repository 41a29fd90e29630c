//! State that all parts of a run share.
use crate::client_slot::ClientSlot;
use crate::failure_log::FailureLog;
use crate::peer_line::PeerLine;
use crate::programs::Language;
use histories::{CallHistory, CounterTally, LockHoldings};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// Keys of the counters.
pub const COUNTERS: [&str; 2] = ["count-0", "count-1"];

/// Names of the locks.
pub const LOCKS: [&str; 2] = ["press", "valve"];

/// The state of a run.
#[derive(Debug)]
pub struct RunState {
    /// The client processes.
    pub slots: Vec<ClientSlot>,
    /// The failures that were found.
    pub failures: FailureLog,
    /// Whether the clients have to finish.
    pub is_finishing: Cell<bool>,
    /// Start of the run.
    pub started: Instant,
    /// The calls on the keys of `calls`.
    pub history: RefCell<CallHistory>,
    /// Holders of the locks, in the order of [`LOCKS`].
    pub holdings: [RefCell<LockHoldings>; 2],
    /// Tallies of the counters, in the order of [`COUNTERS`].
    pub tallies: [Cell<CounterTally>; 2],
    /// Number of observations.
    pub observations: Cell<u64>,
    values: Cell<u64>,
    results: RefCell<BTreeMap<(Language, String), u64>>,
}

impl RunState {
    /// Creates a world at the start of a run.
    pub fn new(seats: Vec<ClientSlot>) -> Self {
        Self {
            slots: seats,
            failures: FailureLog::default(),
            is_finishing: Cell::new(false),
            started: Instant::now(),
            history: RefCell::default(),
            holdings: Default::default(),
            tallies: Default::default(),
            observations: Cell::new(0),
            values: Cell::new(0),
            results: RefCell::default(),
        }
    }

    /// Returns a number that no other call sets.
    pub fn next_value(&self) -> u64 {
        self.values.set(self.values.get() + 1);
        self.values.get()
    }

    /// Whether the run continues.
    pub fn is_running(&self) -> bool {
        !self.is_finishing.get() && self.failures.is_empty()
    }

    /// Records the result of a call, for the report. Waits after a failure, so that it is not retried immediately.
    pub async fn record_result(&self, seat: &ClientSlot, end: &Result<PeerLine, u64>) {
        let how = match end {
            Ok(line) if line.told == "error" => {
                let (kind, outcome) = (line.kind.as_deref(), line.outcome.as_deref());
                format!("{} ({})", kind.unwrap_or("?"), outcome.unwrap_or("?"))
            }
            Ok(line) => line.told.clone(),
            Err(_) => "client killed (unknown)".to_owned(),
        };
        *self
            .results
            .borrow_mut()
            .entry((seat.language, how))
            .or_default() += 1;
        match end {
            Ok(line) if line.told == "error" => sleep(Duration::from_millis(10)).await,
            Ok(_) => {}
            // The process is being replaced.
            Err(_) => sleep(Duration::from_millis(50)).await,
        }
    }

    /// Returns the number of calls by language and result.
    pub fn results(&self) -> BTreeMap<(Language, String), u64> {
        self.results.borrow().clone()
    }

    /// Checks the results so far. A key counts as over if `is_over` returns true for it.
    pub fn check(&self, is_over: impl Fn(&str) -> bool) -> usize {
        let settled = self.history.borrow_mut().check_finished(is_over);
        for (lock, holdings) in LOCKS.iter().zip(&self.holdings) {
            let checked = holdings.borrow_mut().check();
            self.failures
                .check(checked.map_err(|problem| format!("{lock}: {problem}")));
        }
        self.failures.check(settled).unwrap_or(0)
    }
}
