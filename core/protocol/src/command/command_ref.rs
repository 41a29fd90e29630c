//! Requests as their senders have them.
use super::get_many;
use super::options::{self, SetOptions};
use super::transaction::TransactionOperation;
use crate::{Version, resp};
use bytes::{BufMut, Bytes, BytesMut};

/// A borrowed command to the state store, for senders that do not own key and value.
///
/// Nothing is checked when encoding: an empty key is written as it is, and the store refuses it.
///
/// ```
/// use bytes::BytesMut;
/// use statestore_protocol::CommandRef;
///
/// let command = CommandRef::Get { key: b"key", remaining: false, eventual: false };
/// let mut payload = BytesMut::with_capacity(command.encoded_len());
/// command.encode(&mut payload);
/// assert_eq!(payload, b"*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n"[..]);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CommandRef<'a> {
    /// `SET key value [NX | NEX | IFV version] [PX ms]`
    Set {
        /// The key, not empty.
        key: &'a [u8],
        /// The value.
        value: &'a [u8],
        /// Condition and expiry.
        options: SetOptions,
    },
    /// `GET key [PTTL] [EVENTUAL]`
    Get {
        /// The key, not empty.
        key: &'a [u8],
        /// `PTTL`: whether the reply contains the remaining time of the key.
        remaining: bool,
        /// `EVENTUAL`: whether the reply may contain a slightly outdated value.
        eventual: bool,
    },
    /// `DEL key [IFV version]`
    Del {
        /// The key, not empty.
        key: &'a [u8],
        /// `IFV`: only if the key exists and has this version.
        if_version: Option<Version>,
    },
    /// `VDEL key value [IFV version]`
    Vdel {
        /// The key, not empty.
        key: &'a [u8],
        /// The value.
        value: &'a [u8],
        /// `IFV`: only if the key exists and has this version.
        if_version: Option<Version>,
    },
    /// `KEYNOTIFY key`
    Watch {
        /// The key, not empty.
        key: &'a [u8],
    },
    /// `KEYNOTIFY key STOP`
    Unwatch {
        /// The key, not empty.
        key: &'a [u8],
    },
    /// `KEYNOTIFY pattern MATCH`
    WatchPattern {
        /// Glob over keys, not empty.
        pattern: &'a [u8],
    },
    /// `KEYNOTIFY pattern MATCH STOP`
    UnwatchPattern {
        /// Glob over keys, not empty.
        pattern: &'a [u8],
    },
    /// `SCAN pattern [token] [VALUES]`
    Scan {
        /// Glob over keys.
        pattern: &'a [u8],
        /// Where the page before this one ended.
        token: Option<&'a [u8]>,
        /// `VALUES`: whether the page contains whole entries instead of keys.
        values: bool,
    },
    /// `MGET key…`
    GetMany {
        /// The keys, not empty; one at least. A key may be repeated.
        keys: &'a [Bytes],
    },
    /// `CAPS`: which extensions the store has.
    Capabilities,
    /// `TXN n operation…`: several SETs and DELs, all of them or none, each behind the number of its arguments.
    Transact {
        /// The operations, in the order in which they are carried out; one at least.
        operations: &'a [TransactionOperation],
    },
}

impl CommandRef<'_> {
    /// Appends the request payload. Room for all of it is reserved first, once.
    pub fn encode(&self, out: &mut BytesMut) {
        out.reserve(self.encoded_len());
        self.append(out);
    }

    /// Appends like [`encode`](Self::encode), to a buffer with enough reserved capacity.
    pub fn append(&self, out: &mut BytesMut) {
        match *self {
            Self::Get {
                key,
                remaining: false,
                eventual: false,
            } => {
                out.put_slice(b"*2\r\n$3\r\nGET\r\n");
                return resp::put_bulk(key, out);
            }
            Self::Set {
                key,
                value,
                options,
            } if options == SetOptions::default() => {
                out.put_slice(b"*3\r\n$3\r\nSET\r\n");
                resp::put_bulk(key, out);
                return resp::put_bulk(value, out);
            }
            _ => {}
        }
        let mut count = 1;
        self.for_each_argument(|_| count += 1);
        resp::put_array(count, out);
        out.put_slice(self.encoded_verb());
        self.for_each_argument(|argument| resp::put_bulk(argument, out));
    }

    /// Returns the number of bytes that [`encode`](Self::encode) appends.
    pub fn encoded_len(&self) -> usize {
        let (mut count, mut len) = (1, self.encoded_verb().len());
        self.for_each_argument(|argument| {
            count += 1;
            len += resp::bulk_len(argument.len());
        });
        resp::array_len(count) + len
    }

    /// Returns the verb, as on the wire.
    pub const fn verb(&self) -> &'static str {
        match self {
            Self::Set { .. } => "SET",
            Self::Get { .. } => "GET",
            Self::Del { .. } => "DEL",
            Self::Vdel { .. } => "VDEL",
            Self::Watch { .. }
            | Self::Unwatch { .. }
            | Self::WatchPattern { .. }
            | Self::UnwatchPattern { .. } => "KEYNOTIFY",
            Self::Scan { .. } => "SCAN",
            Self::GetMany { .. } => "MGET",
            Self::Capabilities => "CAPS",
            Self::Transact { .. } => "TXN",
        }
    }

    /// Returns the verb as a bulk string.
    const fn encoded_verb(&self) -> &'static [u8] {
        match self {
            Self::Set { .. } => b"$3\r\nSET\r\n",
            Self::Get { .. } => b"$3\r\nGET\r\n",
            Self::Del { .. } => b"$3\r\nDEL\r\n",
            Self::Vdel { .. } => b"$4\r\nVDEL\r\n",
            Self::Watch { .. }
            | Self::Unwatch { .. }
            | Self::WatchPattern { .. }
            | Self::UnwatchPattern { .. } => b"$9\r\nKEYNOTIFY\r\n",
            Self::Scan { .. } => b"$4\r\nSCAN\r\n",
            Self::GetMany { .. } => get_many::VERB,
            Self::Capabilities => b"$4\r\nCAPS\r\n",
            Self::Transact { .. } => b"$3\r\nTXN\r\n",
        }
    }

    /// Visits all that follows the verb, in order.
    fn for_each_argument(&self, mut visit: impl FnMut(&[u8])) {
        match *self {
            Self::Set {
                key,
                value,
                options,
            } => {
                visit(key);
                visit(value);
                options.for_each_argument(&mut visit);
            }
            Self::Get {
                key,
                remaining,
                eventual,
            } => {
                visit(key);
                if remaining {
                    visit(b"PTTL");
                }
                if eventual {
                    visit(b"EVENTUAL");
                }
            }
            Self::Watch { key } => visit(key),
            Self::Del { key, if_version } => {
                visit(key);
                if let Some(version) = if_version {
                    options::for_each_version_argument(version, &mut visit);
                }
            }
            Self::Vdel {
                key,
                value,
                if_version,
            } => {
                visit(key);
                visit(value);
                if let Some(version) = if_version {
                    options::for_each_version_argument(version, &mut visit);
                }
            }
            Self::Unwatch { key } => {
                visit(key);
                visit(b"STOP");
            }
            Self::WatchPattern { pattern } => {
                visit(pattern);
                visit(b"MATCH");
            }
            Self::UnwatchPattern { pattern } => {
                visit(pattern);
                visit(b"MATCH");
                visit(b"STOP");
            }
            Self::Scan {
                pattern,
                token,
                values,
            } => {
                visit(pattern);
                if let Some(token) = token {
                    visit(token);
                }
                if values {
                    visit(b"VALUES");
                }
            }
            Self::GetMany { keys } => {
                for key in keys {
                    visit(key);
                }
            }
            Self::Capabilities => {}
            Self::Transact { operations } => {
                for operation in operations {
                    operation.for_each_argument(&mut visit);
                }
            }
        }
    }
}
