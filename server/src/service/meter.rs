//! What is counted of requests: verbs, results, and how long they took.
use super::request::{Outcome, Refusal};
use crate::histogram::{Histogram, TIMES};
use statestore_protocol::{Command, Rejection, Reply, ServiceError, TransactionOperation};

/// What is asked, as far as it is counted apart.
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
    /// All of them, in the order of [`RequestFigures::counts`].
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

    /// Its name in lower case.
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

/// What comes of requests, as far as it is counted apart. The names are in the order of [`result`].
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

/// What was counted since the start.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RequestFigures {
    /// Requests by verb and result.
    pub(crate) counts: [[u64; RESULTS.len()]; Verb::ALL.len()],
    /// Microseconds from the turn in which a request was taken to the release of its answer, by verb.
    pub(crate) latencies: [Histogram; Verb::ALL.len()],
    /// SETs that made a key, those of transactions included.
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

/// Counts requests. It has no clock: [`at`](Self::at) tells it the time, and as long as nobody does, nothing is measured.
#[derive(Debug, Default)]
pub(super) struct Meter {
    pub(super) figures: Box<RequestFigures>,
    now_us: Option<u64>,
    /// Requests since the last call of `at` whose answers wait for nothing, by verb.
    answered: [u32; Verb::ALL.len()],
    has_answered: bool,
}

impl Meter {
    /// It is so late now, in microseconds since any moment: what has been answered by now has taken so long.
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

    /// A request is taken now.
    pub(super) fn taken(&self, verb: Verb) -> Option<Measured> {
        let taken_us = self.now_us?;
        Some(Measured { verb, taken_us })
    }

    /// A request has this outcome.
    pub(super) fn ended(&mut self, verb: Verb, outcome: &Outcome) {
        self.figures.counts[verb as usize][result(outcome)] += 1;
    }

    /// A request has this reply: counts its operations, if it is a transaction that was carried out.
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

    /// Its answer may leave at once.
    pub(super) fn answered_at_once(&mut self, verb: Verb) {
        if self.now_us.is_some() {
            self.answered[verb as usize] += 1;
            self.has_answered = true;
        }
    }

    /// Its answer, which had to wait, may leave.
    pub(super) fn released(&mut self, Measured { verb, taken_us }: Measured) {
        if let Some(now_us) = self.now_us {
            let took_us = now_us.saturating_sub(taken_us);
            self.figures.latencies[verb as usize].record(&TIMES, took_us, 1);
        }
    }
}
