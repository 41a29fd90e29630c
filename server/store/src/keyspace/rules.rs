//! The effect of one command on one entry, as pure functions.
//!
//! [`check`] validates the request alone; [`Operation::apply`] takes the request and its entry. Neither depends on where entries
//! are stored. The embedded keyspace calls `apply` on the entries of its table. A distributed one reads an entry, calls `apply`,
//! and commits the [`EntryChange`] by compare-and-swap on what it read. On a conflict it calls `apply` again. `service/execute.rs`
//! documents the order of the checks.
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

/// A borrowed fencing token, ordered like an HLC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Token<'a> {
    /// Milliseconds since the Unix epoch.
    pub wall_ms: u64,
    /// The logical counter.
    pub counter: u64,
    /// ID of the node that made the token.
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
    /// Value of the entry.
    pub value: &'a [u8],
    /// Version of the entry.
    pub version: Version,
    /// The fencing token that protects it.
    pub token: Option<Token<'a>>,
    /// Milliseconds until it expires; `None` if it does not expire.
    pub expires_in_ms: Option<u64>,
}

/// A request with a valid payload and valid timestamps.
#[derive(Debug, Clone, Copy)]
pub enum CheckedRequest<'a> {
    /// An operation on the entry of one key.
    Entry(&'a Bytes, Operation<'a>),
    /// Watch this key.
    Watch(&'a Bytes),
    /// Stop watching this key.
    Unwatch(&'a Bytes),
    /// Watch all keys that match this pattern.
    WatchPattern(&'a Bytes),
    /// Stop watching the keys that match this pattern.
    UnwatchPattern(&'a Bytes),
    /// Return a page of the keys that match a pattern, or of their entries.
    Scan {
        /// The pattern.
        pattern: &'a Bytes,
        /// The token of the page before; `None` starts the scan.
        token: Option<&'a Bytes>,
        /// Whether the page contains whole entries instead of keys.
        values: bool,
    },
    /// Return the entries of these keys at one moment.
    GetMany(&'a [Bytes]),
    /// Execute all operations, or none.
    Transact {
        /// The operations, in order of execution.
        operations: &'a [TransactionOperation],
        /// `__ts`.
        timestamp: &'a Hlc,
    },
    /// Return the capabilities of the store.
    Capabilities,
}

/// An operation on one entry.
#[derive(Debug, Clone, Copy)]
pub enum Operation<'a> {
    /// Read the entry.
    Get {
        /// Whether the response includes the time until the entry expires.
        remaining: bool,
        /// Whether the response may be an earlier state of the entry. The rules ignore it; the keyspace may use it.
        eventual: bool,
    },
    /// Create or replace the entry.
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
    /// Delete the entry.
    Del {
        /// The version that the entry must have; `None` accepts any.
        if_version: Option<Wanted>,
        /// `__ft`.
        token: Option<&'a Hlc>,
    },
    /// Delete the entry if it has this value.
    Vdel {
        /// The value.
        value: &'a Bytes,
        /// The version that the entry must have; `None` accepts any.
        if_version: Option<Wanted>,
        /// `__ft`.
        token: Option<&'a Hlc>,
    },
}

/// The inputs of an operation besides the entry.
#[derive(Debug, Clone, Copy)]
pub struct Context {
    /// The wall clock, milliseconds since the Unix epoch.
    pub wall_ms: u64,
    /// Highest version of all deletions. An entry that is created again gets a higher one.
    pub floor: Version,
    /// Whether the quota allows the entry that a SET would make.
    pub has_capacity: bool,
}

/// The response to an operation, and its effect on the entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome<'a> {
    /// The payload of the response.
    pub reply: Reply,
    /// `__ts` of the response.
    pub version: Option<Version>,
    /// Effect on the entry. Watching clients are notified of every change but `Keep`.
    pub change: EntryChange<'a>,
}

/// The effect of an operation on an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryChange<'a> {
    /// The entry stays as it is, or absent.
    Keep,
    /// The entry is created or replaced as a whole. A part that is `None` here is removed from the former entry.
    Put {
        /// The value.
        value: &'a Bytes,
        /// Version of the new entry.
        version: Version,
        /// The fencing token that protects it from now on.
        token: Option<&'a Hlc>,
        /// Milliseconds until it expires; `None` if it does not expire.
        ttl_ms: Option<NonZeroU64>,
    },
    /// The entry is removed.
    Remove {
        /// The version of the deletion.
        version: Version,
    },
}

/// Checks the parts of a request that do not depend on an entry.
///
/// - `__ts` and `__ft` are well formed, on any command.
/// - A SET or a TXN has a `__ts` at most a minute ahead of `wall_ms`.
/// - No `__ft` [is too far ahead](is_too_far_ahead).
/// - A TXN has no `__ft`: its operations have tokens of their own, which are not checked here.
///
/// # Errors
/// The first check that fails.
pub fn check<'a>(
    command: &'a Command,
    properties: &'a RequestProperties,
    wall_ms: u64,
    highest: Version,
) -> Result<CheckedRequest<'a>, ServiceError> {
    let timestamp = well_formed(properties.timestamp.as_ref())?;
    let token = well_formed(properties.fencing_token.as_ref())?;
    let timestamp_of_change = || match timestamp {
        None => Err(ServiceError::MissingTimestamp),
        Some(timestamp) if exceeds_skew(wall_ms, timestamp) => Err(ServiceError::TimestampSkew),
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
            CheckedRequest::Entry(key, operation)
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
            CheckedRequest::Entry(key, get)
        }
        Command::Del { key, if_version } => {
            let if_version = *if_version;
            CheckedRequest::Entry(key, Operation::Del { if_version, token })
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
            CheckedRequest::Entry(key, operation)
        }
        Command::Watch { key } => CheckedRequest::Watch(key),
        Command::Unwatch { key } => CheckedRequest::Unwatch(key),
        Command::WatchPattern { pattern } => CheckedRequest::WatchPattern(pattern),
        Command::UnwatchPattern { pattern } => CheckedRequest::UnwatchPattern(pattern),
        Command::Scan {
            pattern,
            token,
            values,
        } => CheckedRequest::Scan {
            pattern,
            token: token.as_ref(),
            values: *values,
        },
        Command::GetMany { keys } => CheckedRequest::GetMany(keys),
        Command::Transact { operations } => {
            if token.is_some() {
                return Err(ServiceError::Syntax);
            }
            CheckedRequest::Transact {
                operations,
                timestamp: timestamp_of_change()?,
            }
        }
        Command::Capabilities => CheckedRequest::Capabilities,
        _ => return Err(ServiceError::UnknownCommand),
    };
    if token.is_some_and(|token| is_too_far_ahead(token, wall_ms, highest)) {
        return Err(ServiceError::FencingTokenSkew);
    }
    Ok(step)
}

/// Returns whether a fencing token is more than a minute ahead of both `wall_ms` and `highest`, the highest version that the
/// store ever gave.
pub fn is_too_far_ahead(token: &Hlc, wall_ms: u64, highest: Version) -> bool {
    exceeds_skew(wall_ms.max(highest.0), token)
}

fn exceeds_skew(wall_ms: u64, hlc: &Hlc) -> bool {
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
    /// Returns an operation of a transaction with the `__ts` `timestamp`.
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

    /// Returns the response to this operation, and its effect on `entry`.
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
                    return Outcome::rejected(error);
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
                Condition::IfVersion(wanted) => matches_version(entry.version, wanted),
                // NX, and conditions that are not known here, never overwrite an existing entry.
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
    if !context.has_capacity {
        return Outcome::rejected(ServiceError::QuotaExceeded);
    }
    let version = hlc::next_version(context.wall_ms, timestamp, Some(previous));
    Outcome {
        reply: Reply::Ok,
        version: Some(version),
        change: EntryChange::Put {
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
        return Outcome::rejected(error);
    }
    if if_version.is_some_and(|wanted| !matches_version(entry.version, wanted))
        || value.is_some_and(|value| entry.value != &value[..])
    {
        let version = if_version.map(|_| entry.version);
        return Outcome::unchanged(Reply::NotApplied, version);
    }
    let version = deletion_version(entry.version, context.wall_ms);
    Outcome {
        reply: Reply::Count(1),
        version: Some(version),
        change: EntryChange::Remove { version },
    }
}

/// Returns whether a version equals the one of a condition.
fn matches_version(version: Version, wanted: Wanted) -> bool {
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

/// Returns the version of a deletion by a command or by expiry: greater than that of the deleted entry. It does not depend on a
/// `__ts`, as the skew of that is not checked on commands that delete.
pub fn deletion_version(deleted: Version, wall_ms: u64) -> Version {
    hlc::next_version(wall_ms, &Hlc::store_version((0, 0)), Some(deleted))
}

impl Outcome<'_> {
    fn rejected(error: ServiceError) -> Self {
        Self::unchanged(Reply::Error(error), None)
    }

    fn unchanged(reply: Reply, version: Option<Version>) -> Self {
        Self {
            reply,
            version,
            change: EntryChange::Keep,
        }
    }
}
