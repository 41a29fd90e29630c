//! Metrics of requests: verbs, results and latencies.
use super::request::{Outcome, Refusal};
use crate::histogram::{Histogram, TIMES};
use statestore_protocol::{Command, Rejection, Reply, ServiceError, TransactionOperation};

/// Kind of a request, as metrics count it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verb {
    /// SET.
    Set,
    /// GET.
    Get,
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
    /// All verbs, in the order of [`RequestFigures::counts`].
    pub(crate) const ALL: [Self; 9] = [
        Self::Set,
        Self::Get,
        Self::Del,
        Self::Vdel,
        Self::Keynotify,
        Self::Scan,
        Self::Txn,
        Self::Caps,
        Self::Invalid,
    ];

    /// Returns the name of the verb in lower case.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Set => "set",
            Self::Get => "get",
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
            Command::Del { .. } => Self::Del,
            Command::Vdel { .. } => Self::Vdel,
            Command::Watch { .. } | Command::Unwatch { .. } => Self::Keynotify,
            Command::Scan { .. } => Self::Scan,
            Command::Transact { .. } => Self::Txn,
            Command::Capabilities => Self::Caps,
            _ => Self::Invalid,
        }
    }
}

/// Names of the results that metrics count, indexed by [`result`].
pub(crate) const RESULTS: [&str; 17] = [
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

fn result(outcome: &Outcome) -> usize {
    let error = match outcome {
        Outcome::Refused(Refusal::Expired) => return 3,
        Outcome::Refused(Refusal::NoRoom) => return 4,
        Outcome::Refused(Refusal::Away) => return 16,
        Outcome::Unknown => return 5,
        Outcome::Answered(answered) => match &answered.response.reply {
            Reply::Error(error)
            | Reply::Rejected {
                reason: Rejection::Error(error),
                ..
            } => error,
            Reply::Nil | Reply::Count(0) => return 1,
            Reply::NotApplied | Reply::Rejected { .. } => return 2,
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
        ServiceError::Other(text) if text == super::READ_ONLY => 14,
        _ => 15,
    }
}

/// Counts and latencies since the start.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RequestFigures {
    /// Requests by verb and result.
    pub(crate) counts: [[u64; RESULTS.len()]; Verb::ALL.len()],
    /// Microseconds from the turn in which a request was taken to the release of its answer, by verb.
    pub(crate) latencies: [Histogram; Verb::ALL.len()],
    /// SETs that created a key, including those of transactions.
    pub(crate) insertions: u64,
    /// SETs of transactions that were carried out.
    pub(crate) transacted_sets: u64,
    /// DELs of transactions that were carried out.
    pub(crate) transacted_dels: u64,
}

/// A request whose answer waits for a commit, or for its outcome.
#[derive(Debug, Clone, Copy)]
pub(super) struct Measured {
    verb: Verb,
    taken_us: u64,
}

/// Meter of requests. It has no clock: [`at`](Self::at) sets the time. Latencies are not measured before the first
/// call.
#[derive(Debug, Default)]
pub(super) struct Meter {
    pub(super) figures: Box<RequestFigures>,
    now_us: Option<u64>,
    /// Requests since the last call of `at` whose answers wait for nothing, by verb.
    answered: [u32; Verb::ALL.len()],
    has_answered: bool,
}

impl Meter {
    /// Sets the time, in microseconds since any fixed moment. Records the latency of the requests answered since the
    /// last call.
    pub(super) fn at(&mut self, now_us: u64) {
        let before_us = self.now_us.replace(now_us).unwrap_or(now_us);
        if std::mem::take(&mut self.has_answered) {
            let took_us = now_us.saturating_sub(before_us);
            for (histogram, count) in self.figures.latencies.iter_mut().zip(&mut self.answered) {
                let count = std::mem::take(count);
                if count > 0 {
                    histogram.record(&TIMES, took_us, count.into());
                }
            }
        }
    }

    /// Begins to measure a request; `None` if the time is not set.
    pub(super) fn taken(&self, verb: Verb) -> Option<Measured> {
        let taken_us = self.now_us?;
        Some(Measured { verb, taken_us })
    }

    /// Counts the outcome of a request.
    pub(super) fn ended(&mut self, verb: Verb, outcome: &Outcome) {
        self.figures.counts[verb as usize][result(outcome)] += 1;
    }

    /// Counts the operations of a request, if its reply shows a transaction that was carried out.
    pub(super) fn transacted(&mut self, command: &Command, reply: &Reply) {
        if let (Command::Transact { operations }, Reply::Transacted(_)) = (command, reply) {
            for operation in operations {
                *match operation {
                    TransactionOperation::Set { .. } => &mut self.figures.transacted_sets,
                    TransactionOperation::Del { .. } => &mut self.figures.transacted_dels,
                } += 1;
            }
        }
    }

    /// Records that the answer of a request is released at once.
    pub(super) fn answered_at_once(&mut self, verb: Verb) {
        if self.now_us.is_some() {
            self.answered[verb as usize] += 1;
            self.has_answered = true;
        }
    }

    /// Records the latency of a request whose answer had to wait and is released now.
    pub(super) fn released(&mut self, Measured { verb, taken_us }: Measured) {
        if let Some(now_us) = self.now_us {
            let took_us = now_us.saturating_sub(taken_us);
            self.figures.latencies[verb as usize].record(&TIMES, took_us, 1);
        }
    }
}
