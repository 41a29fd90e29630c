//! Compare-and-set by a fencing token, as a sequence of requests without I/O.
use crate::error::{Error, ErrorKind, Outcome};
use crate::{Condition, Entry, Hlc, SetOutcome};
use bytes::Bytes;
use statestore_protocol::hlc;

/// A compare-and-set: replaces a value by one computed from it, unless another client changes the key first.
///
/// [`Client::update`](crate::Client::update) performs all steps. This type is for programs with a transport of their own, and
/// for checks against a model of the store. While [`request`](Self::request) returns a SET, send it and pass its result to
/// [`handle_outcome`](Self::handle_outcome).
///
/// An existing value is replaced in two steps:
///
/// 1. A SET of *the same value* with NEX and a fencing token just above the version that was read. It applies only while the
///    value is unchanged. From then on it excludes every client that read the key before.
/// 2. A SET of the new value with the same token. The store rejects it if another client raised the fence in between.
///
/// An absent value is created with NX, which is a compare-and-set by itself.
///
/// The key may be protected with a token that is higher than its version. An attempt then ends with [`Progress::Outranked`].
/// Start the next one with [`outranking`](Self::outranking), whose token is at least as high as the caller's clock.
#[derive(Debug, Clone)]
pub struct CompareAndSet {
    state: CompareAndSetState,
    new: Bytes,
    token: Hlc,
}

#[derive(Debug, Clone)]
enum CompareAndSetState {
    /// Set the old value again, to raise the fence.
    Raise {
        old: Bytes,
    },
    Write,
    Create,
    Done,
}

/// A SET that must be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// The value.
    pub value: Bytes,
    /// Condition under which it applies.
    pub condition: Condition,
    /// Fencing token of the request.
    pub token: Hlc,
    /// Whether this SET stores the new value.
    pub is_write: bool,
}

/// Result of a SET.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StepOutcome {
    /// The SET was applied, and the value has this version.
    Applied(Hlc),
    /// The condition was not met.
    NotApplied,
    /// A higher token protects the key.
    Refused,
    /// No such response arrived.
    Failed {
        /// Whether the SET may have been applied.
        outcome: Outcome,
        /// Whether another attempt may succeed.
        may_pass: bool,
    },
}

impl From<&Result<SetOutcome, Error>> for StepOutcome {
    fn from(result: &Result<SetOutcome, Error>) -> Self {
        match result {
            Ok(SetOutcome::Applied { version }) => Self::Applied(version.clone()),
            Ok(SetOutcome::NotApplied { .. }) => Self::NotApplied,
            Err(error) if error.kind() == ErrorKind::FencingTokenLower => Self::Refused,
            Err(error) => Self::Failed {
                outcome: error.outcome(),
                may_pass: error.is_transient(),
            },
        }
    }
}

/// State after a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// A further step follows.
    Continue,
    /// The new value was stored with this version.
    Applied(Hlc),
    /// No value was stored: read the key again.
    Conflict,
    /// No value was stored, because a higher token protects the key. Read the key again, and start with
    /// [`CompareAndSet::outranking`].
    Outranked,
    /// The attempt cannot continue. If the outcome of the failed SET is unknown and it was [the write](Step::is_write), the new
    /// value may have been stored.
    Failed,
}

impl CompareAndSet {
    /// Starts with the entry that was read, the new value, and a timestamp of the caller. No other client may use its node id,
    /// and no other attempt the timestamp.
    pub fn new(old: Option<Entry>, new: Bytes, timestamp: &Hlc) -> Self {
        let (stage, token) = match old {
            Some(Entry { value, version, .. }) => {
                let token = token_above(&version, timestamp);
                (CompareAndSetState::Raise { old: value }, token)
            }
            None => (CompareAndSetState::Create, timestamp.clone()),
        };
        Self {
            state: stage,
            new,
            token,
        }
    }

    /// Starts after an attempt that was [outranked](Progress::Outranked), with a token that is at least `timestamp`.
    ///
    /// A higher token is just as safe. The exclusion rests on two facts: the store rejects lower tokens, and no two attempts
    /// have the same one. The height of the token only decides which attempt is rejected.
    pub fn outranking(old: Option<Entry>, new: Bytes, timestamp: &Hlc) -> Self {
        let mut this = Self::new(old, new, timestamp);
        this.token = this.token.max(timestamp.clone());
        this
    }

    /// Starts with the token of a lock's [`Guard`](crate::Guard), which must not be used for two attempts at a time.
    pub fn with_token(old: Option<Entry>, new: Bytes, token: Hlc) -> Self {
        let stage = match old {
            Some(Entry { value, .. }) => CompareAndSetState::Raise { old: value },
            None => CompareAndSetState::Create,
        };
        Self {
            state: stage,
            new,
            token,
        }
    }

    /// Returns the next SET; `None` at the end.
    pub fn request(&self) -> Option<Step> {
        let (value, condition, is_write) = match &self.state {
            CompareAndSetState::Raise { old } => (old, Condition::IfAbsentOrEqual, false),
            CompareAndSetState::Write => (&self.new, Condition::Always, true),
            CompareAndSetState::Create => (&self.new, Condition::IfAbsent, true),
            CompareAndSetState::Done => return None,
        };
        Some(Step {
            value: value.clone(),
            condition,
            token: self.token.clone(),
            is_write,
        })
    }

    /// Handles the response to the SET of [`request`](Self::request).
    pub fn handle_outcome(&mut self, answer: StepOutcome) -> Progress {
        let stage = std::mem::replace(&mut self.state, CompareAndSetState::Done);
        match (stage, answer) {
            (CompareAndSetState::Raise { .. }, StepOutcome::Applied(_)) => {
                self.state = CompareAndSetState::Write;
                Progress::Continue
            }
            (_, StepOutcome::Applied(version)) => Progress::Applied(version),
            (_, StepOutcome::NotApplied) => Progress::Conflict,
            (_, StepOutcome::Refused) => Progress::Outranked,
            // Raising a fence twice is harmless; storing a value twice may not be.
            (stage, StepOutcome::Failed { outcome, may_pass })
                if may_pass
                    && (outcome == Outcome::NotDone
                        || matches!(stage, CompareAndSetState::Raise { .. })) =>
            {
                Progress::Conflict
            }
            (_, StepOutcome::Failed { .. }) => Progress::Failed,
        }
    }
}

/// Returns the token just above a version, with the node id of `name`.
pub fn token_above(version: &Hlc, name: &Hlc) -> Hlc {
    let (wall_ms, counter) = hlc::next_after(0, Some((version.wall_ms(), version.counter())));
    name.at(wall_ms, counter)
}
