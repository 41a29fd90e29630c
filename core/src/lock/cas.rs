//! Compare-and-set by a fence, as a sequence of requests without I/O.
use crate::error::Outcome;
use crate::{Condition, Entry, Hlc};
use bytes::Bytes;
use statestore_protocol::hlc;

/// Replaces a value that was read by one that was computed from it, unless somebody else did that first.
///
/// [`Client::update`](crate::Client::update) does all of this; these are its steps for programs that bring their own
/// transport, and for checking them against a model of the store. While [`request`](Self::request) gives a SET, it is to be
/// sent, and its result to be handed to [`answered`](Self::answered).
///
/// A value that is there is replaced in two steps. The first sets *the same value* with NEX and a fencing token just above
/// the version that was read: it applies only while the value is unchanged, and from then on keeps everybody out who has
/// read before. The second sets the new value with the same token: it is refused if somebody raised the fence higher in
/// between. A value that is not there is created with NX, which is a compare-and-set by itself.
///
/// Somebody may have protected the key with a token that is higher than its version. Then an attempt ends with
/// [`Progress::Outranked`], and the next one begins with [`outranking`](Self::outranking), whose token is also as high as the
/// caller's clock.
#[derive(Debug, Clone)]
pub struct CompareAndSet {
    stage: Stage,
    new: Bytes,
    token: Hlc,
}

#[derive(Debug, Clone)]
enum Stage {
    /// Set the value again that was read.
    Raise {
        old: Bytes,
    },
    Write,
    Create,
    Done,
}

/// A SET to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// The value.
    pub value: Bytes,
    /// When it applies.
    pub condition: Condition,
    /// The fencing token to send with it.
    pub token: Hlc,
    /// Whether it is the one that stores the new value.
    pub is_write: bool,
}

/// What came of a SET.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// It was applied, and the value has this version.
    Applied(Hlc),
    /// Its condition was not met.
    NotApplied,
    /// The key is protected by a higher token.
    Refused,
    /// There was no such answer.
    Failed {
        /// Whether the SET may have been applied nevertheless.
        outcome: Outcome,
        /// Whether another attempt may have more luck.
        may_pass: bool,
    },
}

/// What is known after an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// There is a next step.
    Continue,
    /// The new value was stored with this version.
    Applied(Hlc),
    /// Nothing was stored; read again.
    Conflict,
    /// Nothing was stored, because the key is protected by a higher token; read again, and begin with
    /// [`CompareAndSet::outranking`].
    Outranked,
    /// It cannot go on. If the outcome of the failed SET is unknown and it was [the one that
    /// writes](Step::is_write), the new value may have been stored.
    Failed,
}

impl CompareAndSet {
    /// Begins with what was read, the new value, and a timestamp of the caller whose node id nobody else uses and that was
    /// not used for another attempt.
    pub fn new(old: Option<Entry>, new: Bytes, timestamp: &Hlc) -> Self {
        let (stage, token) = match old {
            Some(Entry { value, version, .. }) => {
                let token = above(&version, timestamp);
                (Stage::Raise { old: value }, token)
            }
            None => (Stage::Create, timestamp.clone()),
        };
        Self { stage, new, token }
    }

    /// The same after an attempt was [outranked](Progress::Outranked): the token is not below `timestamp` either.
    ///
    /// That does not make it less safe. What keeps others out is that the store refuses lower tokens, and that no two attempts
    /// have the same one; how high they are decides only who is refused.
    pub fn outranking(old: Option<Entry>, new: Bytes, timestamp: &Hlc) -> Self {
        let mut this = Self::new(old, new, timestamp);
        this.token = this.token.max(timestamp.clone());
        this
    }

    /// The same with the token of a lock's [`Guard`](crate::Guard), which must not be used for two attempts at a time.
    pub fn with_token(old: Option<Entry>, new: Bytes, token: Hlc) -> Self {
        let stage = match old {
            Some(Entry { value, .. }) => Stage::Raise { old: value },
            None => Stage::Create,
        };
        Self { stage, new, token }
    }

    /// The SET to be sent next; `None` at the end.
    pub fn request(&self) -> Option<Step> {
        let (value, condition, is_write) = match &self.stage {
            Stage::Raise { old } => (old, Condition::IfAbsentOrEqual, false),
            Stage::Write => (&self.new, Condition::Always, true),
            Stage::Create => (&self.new, Condition::IfAbsent, true),
            Stage::Done => return None,
        };
        Some(Step {
            value: value.clone(),
            condition,
            token: self.token.clone(),
            is_write,
        })
    }

    /// Takes the answer to the SET that [`request`](Self::request) gave.
    pub fn answered(&mut self, answer: Answer) -> Progress {
        let stage = std::mem::replace(&mut self.stage, Stage::Done);
        match (stage, answer) {
            (Stage::Raise { .. }, Answer::Applied(_)) => {
                self.stage = Stage::Write;
                Progress::Continue
            }
            (_, Answer::Applied(version)) => Progress::Applied(version),
            (_, Answer::NotApplied) => Progress::Conflict,
            (_, Answer::Refused) => Progress::Outranked,
            // Raising a fence twice does no harm, storing a value twice may.
            (stage, Answer::Failed { outcome, may_pass })
                if may_pass
                    && (outcome == Outcome::NotDone || matches!(stage, Stage::Raise { .. })) =>
            {
                Progress::Conflict
            }
            (_, Answer::Failed { .. }) => Progress::Failed,
        }
    }
}

/// The token just above a version, made out to a name.
pub(crate) fn above(version: &Hlc, name: &Hlc) -> Hlc {
    let (wall_ms, counter) = hlc::next_after(0, Some((version.wall_ms(), version.counter())));
    name.at(wall_ms, counter)
}
