//! What one command does to one entry, as a pure function.
//!
//! [`check`] looks at the request alone, [`Operation::apply`] at the request and the entry it is about. Neither
//! knows where entries are kept: the embedded keyspace folds `apply` over its table; a distributed one can read an
//! entry, call `apply`, and commit the [`Change`] by compare-and-swap on what it read, calling `apply` again on a
//! conflict. The order of the checks is written down in `service/execute.rs`.
use bytes::Bytes;
use statestore_protocol::hlc::{self, MAX_SKEW_MS};
use statestore_protocol::property::RequestProperties;
use statestore_protocol::{
    Command, Condition, Hlc, Reply, ServiceError, SetOptions, TransactionOperation,
    Version as Wanted,
};
use std::num::NonZeroU64;

/// Wall clock and counter of a version; its node id is always `StateStore`.
pub type Version = (u64, u64);

/// A fencing token, borrowed; ordered as an HLC is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Token<'a> {
    /// Milliseconds since the Unix epoch.
    pub wall_ms: u64,
    /// The logical counter.
    pub counter: u64,
    /// Who made it.
    pub node_id: &'a [u8],
}

impl<'a> From<&'a Hlc> for Token<'a> {
    fn from(hlc: &'a Hlc) -> Self {
        Self {
            wall_ms: hlc.wall_ms(),
            counter: hlc.counter(),
            node_id: hlc.node_id().as_bytes(),
        }
    }
}

/// A stored entry that has not expired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Its value.
    pub value: &'a [u8],
    /// Its version.
    pub version: Version,
    /// The fencing token that protects it.
    pub token: Option<Token<'a>>,
    /// Milliseconds until it expires.
    pub expires_in_ms: Option<u64>,
}

/// A request whose payload and timestamps are good.
#[derive(Debug, Clone, Copy)]
pub enum Step<'a> {
    /// An operation on the entry of one key.
    Entry(&'a Bytes, Operation<'a>),
    /// Watch this key.
    Watch(&'a Bytes),
    /// Stop watching this key.
    Unwatch(&'a Bytes),
    /// Give a page of the keys that match a pattern.
    Scan {
        /// The pattern.
        pattern: &'a Bytes,
        /// Where to go on.
        token: Option<&'a Bytes>,
    },
    /// Carry out all of these, or none.
    Transact {
        /// In their order.
        operations: &'a [TransactionOperation],
        /// `__ts`.
        timestamp: &'a Hlc,
    },
    /// Say what the store can do.
    Capabilities,
}

/// An operation on one entry.
#[derive(Debug, Clone, Copy)]
pub enum Operation<'a> {
    /// Read it.
    Get {
        /// Whether the answer says how much time it has left.
        remaining: bool,
        /// Whether the answer may be what the entry was a moment ago. The rules make no difference: who has the entry may.
        eventual: bool,
    },
    /// Make or replace it.
    Set {
        /// The value.
        value: &'a Bytes,
        /// Condition and expiry.
        options: SetOptions,
        /// `__ts`.
        timestamp: &'a Hlc,
        /// `__ft`.
        token: Option<&'a Hlc>,
    },
    /// Delete it.
    Del {
        /// Only if it has this version.
        if_version: Option<Wanted>,
        /// `__ft`.
        token: Option<&'a Hlc>,
    },
    /// Delete it if it has this value.
    Vdel {
        /// The value.
        value: &'a Bytes,
        /// Only if it has this version.
        if_version: Option<Wanted>,
        /// `__ft`.
        token: Option<&'a Hlc>,
    },
}

/// What an operation needs to know besides the entry.
#[derive(Debug, Clone, Copy)]
pub struct Context {
    /// The wall clock, milliseconds since the Unix epoch.
    pub wall_ms: u64,
    /// The highest version that a deletion was given; an entry made anew gets a higher one.
    pub floor: Version,
    /// Whether the quota allows what a SET would make of the entry.
    pub has_room: bool,
}

/// What an operation answers and does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome<'a> {
    /// The payload of the response.
    pub reply: Reply,
    /// `__ts` of the response.
    pub version: Option<Version>,
    /// What becomes of the entry. Watching clients are told of everything but `Keep`.
    pub change: Change<'a>,
}

/// What becomes of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change<'a> {
    /// It stays as it is, or absent.
    Keep,
    /// It is made or replaced, whole: what is `None` here, a former entry loses.
    Put {
        /// The value.
        value: &'a Bytes,
        /// Its version.
        version: Version,
        /// The fencing token that protects it from now on.
        token: Option<&'a Hlc>,
        /// In how many milliseconds it expires.
        ttl_ms: Option<NonZeroU64>,
    },
    /// It is removed.
    Remove {
        /// The version of the deletion.
        version: Version,
    },
}

/// Checks all that does not depend on an entry: that `__ts` and `__ft` are well formed on whatever command carries
/// them, that a SET or a TXN has a `__ts` at most a minute ahead of `wall_ms`, and that no `__ft` [is too far
/// ahead](is_ahead). A TXN has no `__ft`: its operations have tokens of their own, which are not checked here.
pub fn check<'a>(
    command: &'a Command,
    properties: &'a RequestProperties,
    wall_ms: u64,
    highest: Version,
) -> Result<Step<'a>, ServiceError> {
    let timestamp = well_formed(properties.timestamp.as_ref())?;
    let token = well_formed(properties.fencing_token.as_ref())?;
    let timestamp_of_change = || match timestamp {
        None => Err(ServiceError::MissingTimestamp),
        Some(timestamp) if is_ahead_of(wall_ms, timestamp) => Err(ServiceError::TimestampSkew),
        Some(timestamp) => Ok(timestamp),
    };
    let step = match command {
        Command::Set {
            key,
            value,
            options,
        } => {
            let operation = Operation::Set {
                value,
                options: *options,
                timestamp: timestamp_of_change()?,
                token,
            };
            Step::Entry(key, operation)
        }
        Command::Get {
            key,
            remaining,
            eventual,
        } => {
            let get = Operation::Get {
                remaining: *remaining,
                eventual: *eventual,
            };
            Step::Entry(key, get)
        }
        Command::Del { key, if_version } => {
            let if_version = *if_version;
            Step::Entry(key, Operation::Del { if_version, token })
        }
        Command::Vdel {
            key,
            value,
            if_version,
        } => {
            let operation = Operation::Vdel {
                value,
                if_version: *if_version,
                token,
            };
            Step::Entry(key, operation)
        }
        Command::Watch { key } => Step::Watch(key),
        Command::Unwatch { key } => Step::Unwatch(key),
        Command::Scan { pattern, token } => Step::Scan {
            pattern,
            token: token.as_ref(),
        },
        Command::Transact { operations } => {
            if token.is_some() {
                return Err(ServiceError::Syntax);
            }
            Step::Transact {
                operations,
                timestamp: timestamp_of_change()?,
            }
        }
        Command::Capabilities => Step::Capabilities,
        _ => return Err(ServiceError::UnknownCommand),
    };
    if token.is_some_and(|token| is_ahead(token, wall_ms, highest)) {
        return Err(ServiceError::FencingTokenSkew);
    }
    Ok(step)
}

/// Whether a fencing token is more than a minute ahead of both `wall_ms` and `highest`, the highest version that the
/// store ever gave.
pub fn is_ahead(token: &Hlc, wall_ms: u64, highest: Version) -> bool {
    is_ahead_of(wall_ms.max(highest.0), token)
}

fn is_ahead_of(wall_ms: u64, hlc: &Hlc) -> bool {
    hlc.wall_ms().saturating_sub(wall_ms) > MAX_SKEW_MS
}

fn well_formed<E>(property: Option<&Result<Hlc, E>>) -> Result<Option<&Hlc>, ServiceError> {
    match property {
        None => Ok(None),
        Some(Ok(hlc)) => Ok(Some(hlc)),
        Some(Err(_)) => Err(ServiceError::MalformedTimestamp),
    }
}

impl<'a> Operation<'a> {
    /// An operation of a transaction whose `__ts` is this.
    pub fn of(operation: &'a TransactionOperation, timestamp: &'a Hlc) -> Self {
        match operation {
            TransactionOperation::Set {
                value,
                options,
                token,
                ..
            } => Self::Set {
                value,
                options: *options,
                timestamp,
                token: token.as_ref(),
            },
            TransactionOperation::Del {
                if_version, token, ..
            } => Self::Del {
                if_version: *if_version,
                token: token.as_ref(),
            },
        }
    }

    /// What this operation answers, and what it makes of `entry`.
    pub fn apply(&self, entry: Option<&Entry<'_>>, context: &Context) -> Outcome<'a> {
        match *self {
            Operation::Get { remaining, .. } => get(entry, remaining),
            Operation::Set {
                value,
                options,
                timestamp,
                token,
            } => {
                if let Err(error) = check_fence(entry, token) {
                    return Outcome::refused(error);
                }
                set(entry, value, options, timestamp, token, context)
            }
            Operation::Del { if_version, token } => delete(entry, None, if_version, token, context),
            Operation::Vdel {
                value,
                if_version,
                token,
            } => delete(entry, Some(value), if_version, token, context),
        }
    }
}

fn get(entry: Option<&Entry<'_>>, remaining: bool) -> Outcome<'static> {
    let Some(entry) = entry else {
        return Outcome::unchanged(Reply::Nil, None);
    };
    let value = Bytes::copy_from_slice(entry.value);
    let reply = if remaining {
        Reply::ValueAndTime {
            value,
            expires_in_ms: entry.expires_in_ms,
        }
    } else {
        Reply::Value(value)
    };
    Outcome::unchanged(reply, Some(entry.version))
}

fn set<'a>(
    entry: Option<&Entry<'_>>,
    value: &'a Bytes,
    options: SetOptions,
    timestamp: &Hlc,
    token: Option<&'a Hlc>,
    context: &Context,
) -> Outcome<'a> {
    let previous = match entry {
        Some(entry) => {
            let applies = match options.condition {
                Condition::Always => true,
                Condition::IfAbsentOrEqual => entry.value == &value[..],
                Condition::IfVersion(wanted) => is(entry.version, wanted),
                // NX, and whatever is not known here: an entry that exists is not overwritten
                _ => false,
            };
            if !applies {
                return Outcome::unchanged(Reply::NotApplied, Some(entry.version));
            }
            entry.version
        }
        None if matches!(options.condition, Condition::IfVersion(_)) => {
            return Outcome::unchanged(Reply::NotApplied, None);
        }
        None => context.floor,
    };
    if !context.has_room {
        return Outcome::refused(ServiceError::QuotaExceeded);
    }
    let version = hlc::next_version(context.wall_ms, timestamp, Some(previous));
    Outcome {
        reply: Reply::Ok,
        version: Some(version),
        change: Change::Put {
            value,
            version,
            token,
            ttl_ms: options.expires_in_ms,
        },
    }
}

fn delete(
    entry: Option<&Entry<'_>>,
    value: Option<&Bytes>,
    if_version: Option<Wanted>,
    token: Option<&Hlc>,
    context: &Context,
) -> Outcome<'static> {
    let Some(entry) = entry else {
        let reply = match if_version {
            Some(_) => Reply::NotApplied,
            None => Reply::Count(0),
        };
        return Outcome::unchanged(reply, None);
    };
    if let Err(error) = check_fence(Some(entry), token) {
        return Outcome::refused(error);
    }
    if if_version.is_some_and(|wanted| !is(entry.version, wanted))
        || value.is_some_and(|value| entry.value != &value[..])
    {
        let version = if_version.map(|_| entry.version);
        return Outcome::unchanged(Reply::NotApplied, version);
    }
    let version = deletion_version(entry.version, context.wall_ms);
    Outcome {
        reply: Reply::Count(1),
        version: Some(version),
        change: Change::Remove { version },
    }
}

/// Whether a version is the one that a condition names.
fn is(version: Version, wanted: Wanted) -> bool {
    version == (wanted.wall_ms(), wanted.counter())
}

fn check_fence(entry: Option<&Entry<'_>>, token: Option<&Hlc>) -> Result<(), ServiceError> {
    let Some(stored) = entry.and_then(|entry| entry.token) else {
        return Ok(());
    };
    match token.map(Token::from) {
        None => Err(ServiceError::FencingTokenRequired),
        Some(token) if token < stored => Err(ServiceError::FencingTokenLower),
        Some(_) => Ok(()),
    }
}

/// The version of a deletion, whatever its cause: greater than that of the deleted entry. A `__ts` plays no part in
/// it, since it is not checked on the commands that delete.
pub fn deletion_version(deleted: Version, wall_ms: u64) -> Version {
    hlc::next_version(wall_ms, &Hlc::store_version((0, 0)), Some(deleted))
}

impl Outcome<'_> {
    fn refused(error: ServiceError) -> Self {
        Self::unchanged(Reply::Error(error), None)
    }

    fn unchanged(reply: Reply, version: Option<Version>) -> Self {
        Self {
            reply,
            version,
            change: Change::Keep,
        }
    }
}
