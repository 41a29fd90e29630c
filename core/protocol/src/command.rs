//! Requests: the six commands as RESP3 arrays of bulk strings ("Supported commands", "KEYNOTIFY request messages").
use super::{
    ServiceError,
    decimal::{self, Decimal},
    resp::{self, Decoder},
};
use bytes::{BufMut, Bytes, BytesMut};
use std::num::NonZeroU64;

/// The longest command: `SET key value NX PX ms`.
const MAX_ARGUMENTS: usize = 6;

/// When a SET applies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Condition {
    /// Always.
    #[default]
    Always,
    /// `NX`: only if the key is absent.
    IfAbsent,
    /// `NEX`: only if the key is absent or already holds the value being set.
    IfAbsentOrEqual,
}

impl Condition {
    /// The option's word, if there is one.
    const fn word(self) -> Option<&'static str> {
        match self {
            Self::Always => None,
            Self::IfAbsent => Some("NX"),
            Self::IfAbsentOrEqual => Some("NEX"),
        }
    }
}

/// The options of a SET as they stand in its payload.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct SetOptions {
    /// When it applies.
    pub condition: Condition,
    /// `PX`: milliseconds until the key expires; without it the key does not expire.
    pub expires_in_ms: Option<NonZeroU64>,
}

impl SetOptions {
    /// Reads the arguments behind the value: any order, each option at most once, NX and NEX exclude each other.
    fn decode(arguments: &[&[u8]]) -> Result<Self, ServiceError> {
        let mut options = Self::default();
        let mut rest = arguments.iter();
        while let Some(&word) = rest.next() {
            match word {
                b"NX" if options.condition == Condition::Always => {
                    options.condition = Condition::IfAbsent;
                }
                b"NEX" if options.condition == Condition::Always => {
                    options.condition = Condition::IfAbsentOrEqual;
                }
                b"PX" if options.expires_in_ms.is_none() => {
                    let ms = rest.next().and_then(|digits| decimal::parse(digits));
                    let ms = ms.and_then(NonZeroU64::new).ok_or(ServiceError::Syntax)?;
                    options.expires_in_ms = Some(ms);
                }
                _ => return Err(ServiceError::Syntax),
            }
        }
        Ok(options)
    }
}

/// A command to the state store, owned; its parts share the memory of the payload that it was decoded from.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Command {
    /// `SET key value [NX | NEX] [PX ms]`
    Set {
        /// The key, not empty.
        key: Bytes,
        /// The value.
        value: Bytes,
        /// Condition and expiry.
        options: SetOptions,
    },
    /// `GET key`
    Get {
        /// The key, not empty.
        key: Bytes,
    },
    /// `DEL key`
    Del {
        /// The key, not empty.
        key: Bytes,
    },
    /// `VDEL key value`
    Vdel {
        /// The key, not empty.
        key: Bytes,
        /// The value.
        value: Bytes,
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
    /// `SCAN pattern [token]`
    Scan {
        /// Glob over keys. The empty pattern is legal and matches no key.
        pattern: Bytes,
        /// Where the page before this one ended.
        token: Option<Bytes>,
    },
}

impl Command {
    /// Reads a request payload; the error is the one that the store answers. Keys and values are slices of `payload`.
    ///
    /// The checks, in this order; the first that fails is the answer:
    ///
    /// 1. the payload is one array of bulk strings, not empty, with nothing behind it: else `syntax error`;
    /// 2. the verb is known, in upper case: else `unknown command`;
    /// 3. the verb has the number of arguments that it needs: else `wrong number of arguments`
    ///    (whatever follows the value of a SET counts as options);
    /// 4. the key has a length (SCAN has no key): else `the key length is zero`;
    /// 5. the options of SET and KEYNOTIFY are known, in upper case, complete, each at most once, NX not together with
    ///    NEX, and PX at least 1: else `syntax error`.
    ///
    /// ```
    /// use bytes::Bytes;
    /// use statestore_protocol::{Command, ServiceError};
    ///
    /// let payload = Bytes::from_static(b"*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n");
    /// assert_eq!(Command::decode(&payload), Ok(Command::Get { key: Bytes::from_static(b"key") }));
    ///
    /// let payload = Bytes::from_static(b"*2\r\n$3\r\nget\r\n$3\r\nkey\r\n");
    /// assert_eq!(Command::decode(&payload), Err(ServiceError::UnknownCommand));
    /// ```
    pub fn decode(payload: &Bytes) -> Result<Self, ServiceError> {
        let mut buffer = [&[][..]; MAX_ARGUMENTS];
        let count = arguments(payload, &mut buffer)?;
        let (verb, arguments) = (buffer[0], &buffer[1..count.min(MAX_ARGUMENTS)]);
        let slice = |part: &[u8]| payload.slice_ref(part);
        let key = |part: &[u8]| match part {
            [] => Err(ServiceError::EmptyKey),
            part => Ok(slice(part)),
        };
        Ok(match (verb, arguments) {
            (b"GET", &[name]) => Self::Get { key: key(name)? },
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
            (b"DEL", &[name]) => Self::Del { key: key(name)? },
            (b"VDEL", &[name, value]) => Self::Vdel {
                key: key(name)?,
                value: slice(value),
            },
            (b"KEYNOTIFY", &[name]) => Self::Watch { key: key(name)? },
            (b"KEYNOTIFY", &[name, option]) => {
                let key = key(name)?;
                if option != b"STOP" {
                    return Err(ServiceError::Syntax);
                }
                Self::Unwatch { key }
            }
            (b"SCAN", &[pattern]) => Self::Scan {
                pattern: slice(pattern),
                token: None,
            },
            (b"SCAN", &[pattern, token]) => Self::Scan {
                pattern: slice(pattern),
                token: Some(slice(token)),
            },
            (b"GET" | b"SET" | b"DEL" | b"VDEL" | b"KEYNOTIFY" | b"SCAN", _) => {
                return Err(ServiceError::WrongArguments);
            }
            _ => return Err(ServiceError::UnknownCommand),
        })
    }

    /// The same command, borrowed.
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
            Self::Get { key } => CommandRef::Get { key },
            Self::Del { key } => CommandRef::Del { key },
            Self::Vdel { key, value } => CommandRef::Vdel { key, value },
            Self::Watch { key } => CommandRef::Watch { key },
            Self::Unwatch { key } => CommandRef::Unwatch { key },
            Self::Scan { pattern, token } => CommandRef::Scan {
                pattern,
                token: token.as_deref(),
            },
        }
    }

    /// Appends the request payload.
    pub fn encode(&self, out: &mut BytesMut) {
        self.borrowed().encode(out);
    }

    /// How many bytes [`encode`](Self::encode) appends.
    pub fn encoded_len(&self) -> usize {
        self.borrowed().encoded_len()
    }

    /// The verb, as on the wire.
    pub fn verb(&self) -> &'static str {
        self.borrowed().verb()
    }
}

/// A command to the state store, borrowed: what a sender encodes without owning key and value.
///
/// Nothing is checked when encoding: an empty key is written as it is, and the store refuses it.
///
/// ```
/// use bytes::BytesMut;
/// use statestore_protocol::CommandRef;
///
/// let command = CommandRef::Get { key: b"key" };
/// let mut payload = BytesMut::with_capacity(command.encoded_len());
/// command.encode(&mut payload);
/// assert_eq!(payload, b"*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n"[..]);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CommandRef<'a> {
    /// `SET key value [NX | NEX] [PX ms]`
    Set {
        /// The key, not empty.
        key: &'a [u8],
        /// The value.
        value: &'a [u8],
        /// Condition and expiry.
        options: SetOptions,
    },
    /// `GET key`
    Get {
        /// The key, not empty.
        key: &'a [u8],
    },
    /// `DEL key`
    Del {
        /// The key, not empty.
        key: &'a [u8],
    },
    /// `VDEL key value`
    Vdel {
        /// The key, not empty.
        key: &'a [u8],
        /// The value.
        value: &'a [u8],
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
    /// `SCAN pattern [token]`
    Scan {
        /// Glob over keys.
        pattern: &'a [u8],
        /// Where the page before this one ended.
        token: Option<&'a [u8]>,
    },
}

impl CommandRef<'_> {
    /// Appends the request payload. Room for all of it is reserved first, once.
    pub fn encode(&self, out: &mut BytesMut) {
        out.reserve(self.encoded_len());
        let mut count = 1;
        self.each_argument(|_| count += 1);
        resp::put_array(count, out);
        out.put_slice(self.encoded_verb());
        self.each_argument(|argument| resp::put_bulk(argument, out));
    }

    /// How many bytes [`encode`](Self::encode) appends.
    pub fn encoded_len(&self) -> usize {
        let (mut count, mut len) = (1, self.encoded_verb().len());
        self.each_argument(|argument| {
            count += 1;
            len += resp::bulk_len(argument.len());
        });
        resp::array_len(count) + len
    }

    /// The verb, as on the wire.
    pub const fn verb(&self) -> &'static str {
        match self {
            Self::Set { .. } => "SET",
            Self::Get { .. } => "GET",
            Self::Del { .. } => "DEL",
            Self::Vdel { .. } => "VDEL",
            Self::Watch { .. } | Self::Unwatch { .. } => "KEYNOTIFY",
            Self::Scan { .. } => "SCAN",
        }
    }

    /// The verb as a bulk string.
    const fn encoded_verb(&self) -> &'static [u8] {
        match self {
            Self::Set { .. } => b"$3\r\nSET\r\n",
            Self::Get { .. } => b"$3\r\nGET\r\n",
            Self::Del { .. } => b"$3\r\nDEL\r\n",
            Self::Vdel { .. } => b"$4\r\nVDEL\r\n",
            Self::Watch { .. } | Self::Unwatch { .. } => b"$9\r\nKEYNOTIFY\r\n",
            Self::Scan { .. } => b"$4\r\nSCAN\r\n",
        }
    }

    /// Visits all that follows the verb, in order.
    fn each_argument(&self, mut visit: impl FnMut(&[u8])) {
        match *self {
            Self::Set {
                key,
                value,
                options,
            } => {
                visit(key);
                visit(value);
                if let Some(word) = options.condition.word() {
                    visit(word.as_bytes());
                }
                if let Some(ms) = options.expires_in_ms {
                    visit(b"PX");
                    visit(Decimal::new(ms.get()).as_bytes());
                }
            }
            Self::Get { key } | Self::Del { key } | Self::Watch { key } => visit(key),
            Self::Vdel { key, value } => {
                visit(key);
                visit(value);
            }
            Self::Unwatch { key } => {
                visit(key);
                visit(b"STOP");
            }
            Self::Scan { pattern, token } => {
                visit(pattern);
                token.into_iter().for_each(visit);
            }
        }
    }
}

/// Checks the framing of the whole payload, keeps the first arguments, and returns how many there are in all.
fn arguments<'a>(
    payload: &'a Bytes,
    kept: &mut [&'a [u8]; MAX_ARGUMENTS],
) -> Result<usize, ServiceError> {
    let mut decoder = Decoder::new(payload);
    let count = decoder.array().map_err(|_| ServiceError::Syntax)?;
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
    Ok(count)
}
