//! The operations of a TXN.
use super::options::{self, SetOptions};
use crate::decimal::{self, DecimalText};
use crate::resp::Decoder;
use crate::{Hlc, ServiceError, Version};
use bytes::Bytes;

/// How many operations a transaction has at most.
pub const MAX_OPERATIONS: usize = 10_000;

/// The longest operation: `SET key value IFV version PX ms FT token`.
const MAX_ARGUMENTS: usize = 9;

/// The shortest operation with the number of its arguments: `2 DEL key`.
const MIN_ARGUMENTS: usize = 3;

/// Number of operations that are decoded without a reallocation.
const TYPICAL_OPERATIONS: usize = 64;

/// The verb as it is sent.
pub(super) const VERB: &[u8] = b"$3\r\nTXN\r\n";

/// The error text for a transaction of more operations than [`MAX_OPERATIONS`].
const TOO_MANY: &str = "a transaction has at most 10000 operations";

/// An operation of a transaction: a SET or a DEL in its standalone form, with its own fencing token.
///
/// Decoding accepts an empty key: the store refuses the operation and reports its position.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum TransactionOperation {
    /// `SET key value [NX | NEX | IFV version] [PX ms] [FT token]`
    Set {
        /// The key.
        key: Bytes,
        /// The value.
        value: Bytes,
        /// Condition and expiry.
        options: SetOptions,
        /// `FT`: the fencing token.
        token: Option<Hlc>,
    },
    /// `DEL key [IFV version] [FT token]`
    Del {
        /// The key.
        key: Bytes,
        /// `IFV`: only if the key exists and has this version.
        if_version: Option<Version>,
        /// `FT`: the fencing token.
        token: Option<Hlc>,
    },
}

impl TransactionOperation {
    /// Key of the entry that the operation changes.
    pub fn key(&self) -> &Bytes {
        match self {
            Self::Set { key, .. } | Self::Del { key, .. } => key,
        }
    }

    /// Returns the fencing token that it has.
    pub fn token(&self) -> Option<&Hlc> {
        match self {
            Self::Set { token, .. } | Self::Del { token, .. } => token.as_ref(),
        }
    }

    fn decode(arguments: &[&[u8]], payload: &Bytes) -> Result<Self, ServiceError> {
        let mut token = None;
        match *arguments {
            [b"SET", key, value, ref rest @ ..] => {
                let mut options = SetOptions::default();
                let mut rest = rest.iter();
                while let Some(&word) = rest.next() {
                    match word {
                        b"FT" if token.is_none() => token = Some(fencing_token(rest.next())?),
                        word => options
                            .decode_option(word, &mut rest)
                            .ok_or(ServiceError::Syntax)?,
                    }
                }
                Ok(Self::Set {
                    key: payload.slice_ref(key),
                    value: payload.slice_ref(value),
                    options,
                    token,
                })
            }
            [b"DEL", key, ref rest @ ..] => {
                let mut if_version = None;
                let mut rest = rest.iter();
                while let Some(&word) = rest.next() {
                    match word {
                        b"FT" if token.is_none() => token = Some(fencing_token(rest.next())?),
                        b"IFV" if if_version.is_none() => {
                            let version = options::version(rest.next());
                            if_version = Some(version.ok_or(ServiceError::Syntax)?);
                        }
                        _ => return Err(ServiceError::Syntax),
                    }
                }
                Ok(Self::Del {
                    key: payload.slice_ref(key),
                    if_version,
                    token,
                })
            }
            _ => Err(ServiceError::Syntax),
        }
    }

    /// Visits how many arguments there are, and then these, in the order in which they are sent.
    pub(super) fn for_each_argument(&self, visit: &mut impl FnMut(&[u8])) {
        let mut count = 0;
        self.for_each_own_argument(&mut |_| count += 1);
        visit(DecimalText::new(count).as_bytes());
        self.for_each_own_argument(visit);
    }

    fn for_each_own_argument(&self, visit: &mut impl FnMut(&[u8])) {
        match self {
            Self::Set {
                key,
                value,
                options,
                ..
            } => {
                visit(b"SET");
                visit(key);
                visit(value);
                options.for_each_argument(visit);
            }
            Self::Del {
                key, if_version, ..
            } => {
                visit(b"DEL");
                visit(key);
                if let Some(version) = *if_version {
                    options::for_each_version_argument(version, visit);
                }
            }
        }
        if let Some(token) = self.token() {
            visit(b"FT");
            let mut text = Vec::with_capacity(token.text_len());
            token.write_text(&mut text);
            visit(&text);
        }
    }
}

fn fencing_token(argument: Option<&&[u8]>) -> Result<Hlc, ServiceError> {
    argument
        .and_then(|text| Hlc::parse(text).ok())
        .ok_or(ServiceError::Syntax)
}

/// Reads the operations of a TXN, and the framing of the whole payload with them, from behind its verb. Not inlined, so that
/// other commands do not pay for it.
#[inline(never)]
pub(super) fn decode<'a>(
    payload: &Bytes,
    mut decoder: Decoder<'a>,
    mut left: usize,
) -> Result<Vec<TransactionOperation>, ServiceError> {
    let syntax = |_| ServiceError::Syntax;
    let mut operations = Vec::with_capacity(TYPICAL_OPERATIONS.min(left / MIN_ARGUMENTS));
    let mut arguments: [&'a [u8]; MAX_ARGUMENTS] = [&[]; MAX_ARGUMENTS];
    while left > 0 {
        if operations.len() == MAX_OPERATIONS {
            for _ in 0..left {
                decoder.bulk().map_err(syntax)?;
            }
            decoder.finish().map_err(syntax)?;
            return Err(ServiceError::Other(Bytes::from_static(TOO_MANY.as_bytes())));
        }
        let count = decimal::parse(decoder.bulk().map_err(syntax)?);
        let count = count.and_then(|count| usize::try_from(count).ok());
        let count = count.filter(|&count| count < left && count <= MAX_ARGUMENTS);
        let count = count.ok_or(ServiceError::Syntax)?;
        for argument in &mut arguments[..count] {
            *argument = decoder.bulk().map_err(syntax)?;
        }
        operations.push(TransactionOperation::decode(&arguments[..count], payload)?);
        left -= 1 + count;
    }
    decoder.finish().map_err(syntax)?;
    Ok(operations)
}

/// Decodes a payload whose verb has valid framing other than [the usual one](VERB).
pub(super) fn decode_slow(payload: &Bytes) -> Result<Vec<TransactionOperation>, ServiceError> {
    let syntax = |_| ServiceError::Syntax;
    let mut decoder = Decoder::new(payload);
    let count = decoder.array().map_err(syntax)?;
    decoder.bulk().map_err(syntax)?;
    decode(payload, decoder, count.saturating_sub(1))
}
