//! Metrics of requests: verbs, results and latencies.
use super::request::{NotExecutedReason, Outcome, READ_ONLY, error_of};
use statestore_protocol::{Command, Reply, ServiceError, TransactionOperation};
use statestored_common::histogram::{Histogram, LATENCY_BOUNDS};

/// Kind of a request, as metrics count it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// SET.
    Set,
    /// GET.
    Get,
    /// MGET.
    Mget,
    /// DEL.
    Del,
    /// VDEL.
    Vdel,
    /// KEYNOTIFY, begin and end.
    Keynotify,
    /// SCAN.
    Scan,
    /// TXN.
    Txn,
    /// CAPS.
    Caps,
    /// A payload that is no command.
    Invalid,
}

impl Verb {
    /// All verbs, in the order of [`RequestMetrics::counts`].
    pub const ALL: [Self; 10] = [
        Self::Set,
        Self::Get,
        Self::Mget,
        Self::Del,
        Self::Vdel,
        Self::Keynotify,
        Self::Scan,
        Self::Txn,
        Self::Caps,
        Self::Invalid,
    ];

    /// Returns the name of the verb in lower case.
    pub fn name(self) -> &'static str {
        match self {
            Self::Set => "set",
            Self::Get => "get",
            Self::Mget => "mget",
            Self::Del => "del",
            Self::Vdel => "vdel",
            Self::Keynotify => "keynotify",
            Self::Scan => "scan",
            Self::Txn => "txn",
            Self::Caps => "caps",
            Self::Invalid => "invalid",
        }
    }

    pub(super) fn of(command: &Command) -> Self {
        match command {
            Command::Set { .. } => Self::Set,
            Command::Get { .. } => Self::Get,
            Command::GetMany { .. } => Self::Mget,
            Command::Del { .. } => Self::Del,
            Command::Vdel { .. } => Self::Vdel,
            Command::Watch { .. }
            | Command::Unwatch { .. }
            | Command::WatchPattern { .. }
            | Command::UnwatchPattern { .. } => Self::Keynotify,
            Command::Scan { .. } => Self::Scan,
            Command::Transact { .. } => Self::Txn,
            Command::Capabilities => Self::Caps,
            _ => Self::Invalid,
        }
    }
}

/// Names of the results that metrics count, indexed by [`result`].
pub const RESULTS: [&str; 17] = [
    "ok",
    "absent",
    "not_applied",
    "expired",
    "no_room",
    "unknown",
    "timestamp_skew",
    "fence_required",
    "fence_skew",
    "fence_lower",
    "quota",
    "syntax",
    "not_authorized",
    "timestamp",
    "read_only",
    "other",
    "unavailable",
];

/// Returns the name of the result that metrics count for an outcome.
pub fn result_name(outcome: &Outcome) -> &'static str {
    RESULTS[result(outcome)]
}

fn result(outcome: &Outcome) -> usize {
    let error = match outcome {
        Outcome::Refused(NotExecutedReason::Expired) => return 3,
        Outcome::Refused(NotExecutedReason::NoCapacity) => return 4,
        Outcome::Refused(NotExecutedReason::Unavailable) => return 16,
        Outcome::Unknown => return 5,
        Outcome::Replied(response) => match (error_of(&response.reply), &response.reply) {
            (Some(error), _) => error,
            (None, Reply::Nil | Reply::Count(0)) => return 1,
            (None, Reply::NotApplied | Reply::Rejected { .. }) => return 2,
            _ => return 0,
        },
    };
    match error {
        ServiceError::TimestampSkew => 6,
        ServiceError::FencingTokenRequired => 7,
        ServiceError::FencingTokenSkew => 8,
        ServiceError::FencingTokenLower => 9,
        ServiceError::QuotaExceeded => 10,
        ServiceError::Syntax
        | ServiceError::UnknownCommand
        | ServiceError::WrongArguments
        | ServiceError::EmptyKey => 11,
        ServiceError::NotAuthorized => 12,
        ServiceError::MissingTimestamp | ServiceError::MalformedTimestamp => 13,
        ServiceError::Other(text) if text == READ_ONLY => 14,
        _ => 15,
    }
}

/// Counts and latencies since the start.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RequestMetrics {
    /// Requests by verb and result.
    pub counts: [[u64; RESULTS.len()]; Verb::ALL.len()],
    /// Microseconds from the turn in which a request was taken to the release of its answer, by verb.
    pub latencies: [Histogram; Verb::ALL.len()],
    /// SETs that created a key, including those of transactions.
    pub insertions: u64,
    /// SETs of transactions that were carried out.
    pub transacted_sets: u64,
    /// DELs of transactions that were carried out.
    pub transacted_dels: u64,
}

/// A request whose answer waits for a commit, or for its outcome.
#[derive(Debug, Clone, Copy)]
pub(super) struct RequestTimer {
    verb: Verb,
    taken_us: u64,
}

/// Meter of requests. It has no clock: [`set_time_us`](Self::set_time_us) sets the time. Latencies are not measured before the first
/// call.
#[derive(Debug, Default)]
pub(super) struct RequestMeter {
    pub(super) metrics: Box<RequestMetrics>,
    now_us: Option<u64>,
    /// Requests since the last call of `set_time_us` whose answers wait for nothing, by verb.
    immediate: [u32; Verb::ALL.len()],
    has_immediate: bool,
}

impl RequestMeter {
    /// Sets the time, in microseconds since any fixed moment. Records the latency of the requests answered since the
    /// last call.
    pub(super) fn set_time_us(&mut self, now_us: u64) {
        let before_us = self.now_us.replace(now_us).unwrap_or(now_us);
        if std::mem::take(&mut self.has_immediate) {
            let took_us = now_us.saturating_sub(before_us);
            for (histogram, count) in self.metrics.latencies.iter_mut().zip(&mut self.immediate) {
                let count = std::mem::take(count);
                if count > 0 {
                    histogram.record(&LATENCY_BOUNDS, took_us, count.into());
                }
            }
        }
    }

    /// Returns the time that was last set, in microseconds.
    pub(super) fn now_us(&self) -> Option<u64> {
        self.now_us
    }

    /// Begins to measure a request; `None` if the time is not set.
    pub(super) fn start(&self, verb: Verb) -> Option<RequestTimer> {
        let taken_us = self.now_us?;
        Some(RequestTimer { verb, taken_us })
    }

    /// Counts the outcome of a request.
    pub(super) fn count_outcome(&mut self, verb: Verb, outcome: &Outcome) {
        self.metrics.counts[verb as usize][result(outcome)] += 1;
    }

    /// Counts the operations of a request, if its reply shows a transaction that was carried out.
    pub(super) fn count_transaction(&mut self, command: &Command, reply: &Reply) {
        if let (Command::Transact { operations }, Reply::Transacted(_)) = (command, reply) {
            for operation in operations {
                *match operation {
                    TransactionOperation::Set { .. } => &mut self.metrics.transacted_sets,
                    TransactionOperation::Del { .. } => &mut self.metrics.transacted_dels,
                } += 1;
            }
        }
    }

    /// Records that the answer of a request is released at once.
    pub(super) fn record_immediate(&mut self, verb: Verb) {
        if self.now_us.is_some() {
            self.immediate[verb as usize] += 1;
            self.has_immediate = true;
        }
    }

    /// Records the latency of a request whose answer had to wait and is released now.
    pub(super) fn record_released(&mut self, RequestTimer { verb, taken_us }: RequestTimer) {
        if let Some(now_us) = self.now_us {
            let took_us = now_us.saturating_sub(taken_us);
            self.metrics.latencies[verb as usize].record(&LATENCY_BOUNDS, took_us, 1);
        }
    }
}
