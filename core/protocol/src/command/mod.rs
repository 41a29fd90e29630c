//! Requests: the commands as RESP3 arrays of bulk strings ("Supported commands", "KEYNOTIFY request messages").
//!
//! The document has six verbs. `statestored` also understands these extensions, which other stores refuse:
//!
//! - conditions on a version (`IFV`);
//! - the remaining time of a key (`GET key PTTL`);
//! - reads that may return a slightly outdated value (`GET key EVENTUAL`);
//! - reads of several keys at one moment (`MGET`);
//! - pages with values (`SCAN pattern VALUES`);
//! - watches of all keys that match a pattern (`KEYNOTIFY pattern MATCH`);
//! - transactions (`TXN`);
//! - the list of [supported extensions](Command::Capabilities) (`CAPS`).
mod command_ref;
mod fast_path;
mod get_many;
mod options;
mod transaction;

pub use command_ref::CommandRef;
pub use get_many::MAX_KEYS;
pub use options::{Condition, SetOptions};
pub use transaction::{MAX_OPERATIONS, TransactionOperation};

use super::{ServiceError, Version, resp::Decoder};
use bytes::{Bytes, BytesMut};

/// The longest command except MGET and TXN: `SET key value IFV version PX ms`.
const MAX_ARGUMENTS: usize = 7;

/// A command to the state store, owned; its parts share the memory of the payload that it was decoded from.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Command {
    /// `SET key value [NX | NEX | IFV version] [PX ms]`
    Set {
        /// The key, not empty.
        key: Bytes,
        /// The value.
        value: Bytes,
        /// Condition and expiry.
        options: SetOptions,
    },
    /// `GET key [PTTL] [EVENTUAL]`
    Get {
        /// The key, not empty.
        key: Bytes,
        /// `PTTL`: whether the reply contains the remaining time of the key.
        remaining: bool,
        /// `EVENTUAL`: whether the reply may contain a slightly outdated value.
        eventual: bool,
    },
    /// `DEL key [IFV version]`
    Del {
        /// The key, not empty.
        key: Bytes,
        /// `IFV`: only if the key exists and has this version.
        if_version: Option<Version>,
    },
    /// `VDEL key value [IFV version]`
    Vdel {
        /// The key, not empty.
        key: Bytes,
        /// The value.
        value: Bytes,
        /// `IFV`: only if the key exists and has this version.
        if_version: Option<Version>,
    },
    /// `KEYNOTIFY key`
    Watch {
        /// The key, not empty.
        key: Bytes,
    },
    /// `KEYNOTIFY key STOP`
    Unwatch {
        /// The key, not empty.
        key: Bytes,
    },
    /// `KEYNOTIFY pattern MATCH`
    WatchPattern {
        /// Glob over keys, not empty.
        pattern: Bytes,
    },
    /// `KEYNOTIFY pattern MATCH STOP`
    UnwatchPattern {
        /// Glob over keys, not empty.
        pattern: Bytes,
    },
    /// `SCAN pattern [token] [VALUES]`
    Scan {
        /// Glob over keys. The empty pattern is legal and matches no key.
        pattern: Bytes,
        /// Where the page before this one ended.
        token: Option<Bytes>,
        /// `VALUES`: whether the page contains whole entries instead of keys.
        values: bool,
    },
    /// `MGET key…`
    GetMany {
        /// The keys, not empty; one at least. A key may be repeated.
        keys: Vec<Bytes>,
    },
    /// `CAPS`: which extensions the store has.
    Capabilities,
    /// `TXN n operation…`: several SETs and DELs, all of them or none, each behind the number of its arguments.
    Transact {
        /// The operations, in the order in which they are carried out; one at least.
        operations: Vec<TransactionOperation>,
    },
}

impl Command {
    /// Decodes a request payload. The error is the one with which the store replies. Keys and values are slices of
    /// `payload`.
    ///
    /// The checks run in this order, and the first failure is the error:
    ///
    /// 1. The payload is one non-empty array of bulk strings with nothing behind it: else `syntax error`.
    /// 2. The verb is known, in upper case: else `unknown command`.
    /// 3. The verb has the number of arguments that it needs: else `wrong number of arguments`. Everything after the
    ///    value of a SET, and after the verb of a TXN, counts as options. An MGET has at most [`MAX_KEYS`] keys.
    /// 4. The key, each key of an MGET, or the pattern of a KEYNOTIFY, is not empty: else `the key length is zero`. SCAN has
    ///    no key, and a TXN refuses single operations.
    /// 5. The options of SET and KEYNOTIFY are valid: else `syntax error`. They are known, in upper case, complete, and
    ///    each occurs at most once. NX, NEX and IFV exclude each other, PX is at least 1, and the argument of IFV is a
    ///    version of a store.
    /// 6. The operations of a TXN are complete, each a SET or a DEL with options of this kind: else `syntax error`.
    ///    Their number is at most [`MAX_OPERATIONS`].
    ///
    /// ```
    /// use bytes::Bytes;
    /// use statestore_protocol::{Command, ServiceError};
    ///
    /// let payload = Bytes::from_static(b"*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n");
    /// let get = Command::Get {
    ///     key: Bytes::from_static(b"key"),
    ///     remaining: false,
    ///     eventual: false,
    /// };
    /// assert_eq!(Command::decode(&payload), Ok(get));
    ///
    /// let payload = Bytes::from_static(b"*2\r\n$3\r\nget\r\n$3\r\nkey\r\n");
    /// assert_eq!(Command::decode(&payload), Err(ServiceError::UnknownCommand));
    /// ```
    pub fn decode(payload: &Bytes) -> Result<Self, ServiceError> {
        match fast_path::decode(payload) {
            Some(command) => Ok(command),
            None => Self::decode_slow(payload),
        }
    }

    fn decode_slow(payload: &Bytes) -> Result<Self, ServiceError> {
        let mut decoder = Decoder::new(payload);
        let count = decoder.array().map_err(|_| ServiceError::Syntax)?;
        // A transaction or an MGET can be long, so it is read only once.
        if count > 1 && decoder.skip(transaction::VERB) {
            let operations = transaction::decode(payload, decoder, count - 1)?;
            return Ok(Self::Transact { operations });
        }
        if count > 1 && decoder.skip(get_many::VERB) {
            let keys = get_many::decode(payload, decoder, count - 1)?;
            return Ok(Self::GetMany { keys });
        }
        let mut buffer = [&[][..]; MAX_ARGUMENTS];
        arguments(decoder, count, &mut buffer)?;
        let (verb, arguments) = (buffer[0], &buffer[1..count.min(MAX_ARGUMENTS)]);
        let slice = |part: &[u8]| payload.slice_ref(part);
        let condition = |part| options::version(Some(part)).ok_or(ServiceError::Syntax);
        let key = |part: &[u8]| match part {
            [] => Err(ServiceError::EmptyKey),
            part => Ok(slice(part)),
        };
        Ok(match (verb, arguments) {
            (b"GET", &[name]) => Self::Get {
                key: key(name)?,
                remaining: false,
                eventual: false,
            },
            (b"SET", &[name, value, ref options @ ..]) => {
                let key = key(name)?;
                if count > MAX_ARGUMENTS {
                    return Err(ServiceError::Syntax);
                }
                Self::Set {
                    key,
                    value: slice(value),
                    options: SetOptions::decode(options)?,
                }
            }
            (b"DEL", &[name]) => Self::Del {
                key: key(name)?,
                if_version: None,
            },
            (b"VDEL", &[name, value]) => Self::Vdel {
                key: key(name)?,
                value: slice(value),
                if_version: None,
            },
            (b"KEYNOTIFY", &[name, ref options @ ..]) => watch(key(name), options)?,
            (b"SCAN", &[pattern, ref options @ ..]) => {
                let (token, values) = scan_options(options)?;
                Self::Scan {
                    pattern: slice(pattern),
                    token: token.map(slice),
                    values,
                }
            }
            (b"GET", &[name, option @ (b"PTTL" | b"EVENTUAL")]) => Self::Get {
                key: key(name)?,
                remaining: option == b"PTTL",
                eventual: option == b"EVENTUAL",
            },
            (b"GET", &[name, b"PTTL", b"EVENTUAL"] | &[name, b"EVENTUAL", b"PTTL"]) => Self::Get {
                key: key(name)?,
                remaining: true,
                eventual: true,
            },
            (b"DEL", &[name, b"IFV", ref version]) => Self::Del {
                key: key(name)?,
                if_version: Some(condition(version)?),
            },
            (b"VDEL", &[name, value, b"IFV", ref version]) => Self::Vdel {
                key: key(name)?,
                value: slice(value),
                if_version: Some(condition(version)?),
            },
            (b"CAPS", []) => Self::Capabilities,
            // The length of its verb has leading zeros.
            (b"TXN", [_, ..]) => Self::Transact {
                operations: transaction::decode_slow(payload)?,
            },
            (b"MGET", [_, ..]) => Self::GetMany {
                keys: get_many::decode_slow(payload)?,
            },
            (
                b"GET" | b"SET" | b"DEL" | b"VDEL" | b"KEYNOTIFY" | b"SCAN" | b"CAPS" | b"TXN"
                | b"MGET",
                _,
            ) => {
                return Err(ServiceError::WrongArguments);
            }
            _ => return Err(ServiceError::UnknownCommand),
        })
    }

    /// Returns the same command, borrowed.
    pub fn borrowed(&self) -> CommandRef<'_> {
        match self {
            Self::Set {
                key,
                value,
                options,
            } => CommandRef::Set {
                key,
                value,
                options: *options,
            },
            Self::Get {
                key,
                remaining,
                eventual,
            } => CommandRef::Get {
                key,
                remaining: *remaining,
                eventual: *eventual,
            },
            Self::Del { key, if_version } => CommandRef::Del {
                key,
                if_version: *if_version,
            },
            Self::Vdel {
                key,
                value,
                if_version,
            } => CommandRef::Vdel {
                key,
                value,
                if_version: *if_version,
            },
            Self::Watch { key } => CommandRef::Watch { key },
            Self::Unwatch { key } => CommandRef::Unwatch { key },
            Self::WatchPattern { pattern } => CommandRef::WatchPattern { pattern },
            Self::UnwatchPattern { pattern } => CommandRef::UnwatchPattern { pattern },
            Self::Scan {
                pattern,
                token,
                values,
            } => CommandRef::Scan {
                pattern,
                token: token.as_deref(),
                values: *values,
            },
            Self::GetMany { keys } => CommandRef::GetMany { keys },
            Self::Capabilities => CommandRef::Capabilities,
            Self::Transact { operations } => CommandRef::Transact { operations },
        }
    }

    /// Appends the request payload.
    pub fn encode(&self, out: &mut BytesMut) {
        self.borrowed().encode(out);
    }

    /// Returns the number of bytes that [`encode`](Self::encode) appends.
    pub fn encoded_len(&self) -> usize {
        self.borrowed().encoded_len()
    }

    /// Returns the verb, as on the wire.
    pub fn verb(&self) -> &'static str {
        self.borrowed().verb()
    }
}

/// Returns the command of a KEYNOTIFY about this key, or pattern, with these options.
fn watch(name: Result<Bytes, ServiceError>, options: &[&[u8]]) -> Result<Command, ServiceError> {
    match *options {
        [] => Ok(Command::Watch { key: name? }),
        [b"STOP"] => Ok(Command::Unwatch { key: name? }),
        [b"MATCH"] => Ok(Command::WatchPattern { pattern: name? }),
        [b"MATCH", b"STOP"] => Ok(Command::UnwatchPattern { pattern: name? }),
        [_] | [b"MATCH", _] => name.and(Err(ServiceError::Syntax)),
        _ => Err(ServiceError::WrongArguments),
    }
}

/// Returns the token and whether values are requested: the arguments of a SCAN behind its pattern.
fn scan_options<'a>(arguments: &[&'a [u8]]) -> Result<(Option<&'a [u8]>, bool), ServiceError> {
    match *arguments {
        [] => Ok((None, false)),
        [b"VALUES"] => Ok((None, true)),
        [token] => Ok((Some(token), false)),
        [token, b"VALUES"] => Ok((Some(token), true)),
        _ => Err(ServiceError::WrongArguments),
    }
}

/// Checks the framing of all arguments, and that nothing follows, and keeps the first of them.
fn arguments<'a>(
    mut decoder: Decoder<'a>,
    count: usize,
    kept: &mut [&'a [u8]; MAX_ARGUMENTS],
) -> Result<(), ServiceError> {
    for index in 0..count {
        let argument = decoder.bulk().map_err(|_| ServiceError::Syntax)?;
        if let Some(place) = kept.get_mut(index) {
            *place = argument;
        }
    }
    decoder.finish().map_err(|_| ServiceError::Syntax)?;
    if count == 0 {
        return Err(ServiceError::Syntax);
    }
    Ok(())
}
