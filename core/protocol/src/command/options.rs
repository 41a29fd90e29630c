//! The options of a SET.
use crate::{ServiceError, Version, decimal};
use std::num::NonZeroU64;
use std::slice;

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
    /// `IFV`: only if the key exists and has this version. An extension of `statestored`.
    IfVersion(Version),
}

/// The options in the payload of a SET.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct SetOptions {
    /// When it applies.
    pub condition: Condition,
    /// `PX`: milliseconds until the key expires; without it the key does not expire.
    pub expires_in_ms: Option<NonZeroU64>,
}

impl SetOptions {
    /// Reads the arguments behind the value: any order, each option at most once, one condition at most.
    pub(super) fn decode(arguments: &[&[u8]]) -> Result<Self, ServiceError> {
        let mut options = Self::default();
        let mut rest = arguments.iter();
        while let Some(&word) = rest.next() {
            options
                .decode_option(word, &mut rest)
                .ok_or(ServiceError::Syntax)?;
        }
        Ok(options)
    }

    /// Reads one option, its argument included; `None` is a syntax error.
    #[inline]
    pub(super) fn decode_option(
        &mut self,
        word: &[u8],
        rest: &mut slice::Iter<'_, &[u8]>,
    ) -> Option<()> {
        let is_unconditional = matches!(self.condition, Condition::Always);
        match word {
            b"NX" if is_unconditional => self.condition = Condition::IfAbsent,
            b"NEX" if is_unconditional => {
                self.condition = Condition::IfAbsentOrEqual;
            }
            b"IFV" if is_unconditional => {
                self.condition = Condition::IfVersion(version(rest.next())?);
            }
            b"PX" if self.expires_in_ms.is_none() => {
                let ms = rest.next().and_then(|digits| decimal::parse(digits));
                self.expires_in_ms = Some(ms.and_then(NonZeroU64::new)?);
            }
            _ => return None,
        }
        Some(())
    }

    /// Visits the arguments behind the value, in the order in which they are sent.
    pub(super) fn for_each_argument(self, visit: &mut impl FnMut(&[u8])) {
        match self.condition {
            Condition::Always => {}
            Condition::IfAbsent => visit(b"NX"),
            Condition::IfAbsentOrEqual => visit(b"NEX"),
            Condition::IfVersion(version) => for_each_version_argument(version, visit),
        }
        if let Some(ms) = self.expires_in_ms {
            visit(b"PX");
            visit(decimal::DecimalText::new(ms.get()).as_bytes());
        }
    }
}

/// Parses the argument of `IFV`. Not inlined, so that the usual options do not pay for it.
#[inline(never)]
pub(super) fn version(argument: Option<&&[u8]>) -> Option<Version> {
    Version::parse(argument?)
}

/// Visits `IFV` and its argument.
pub(super) fn for_each_version_argument(version: Version, visit: &mut impl FnMut(&[u8])) {
    visit(b"IFV");
    let (text, len) = version.text();
    visit(&text[..len]);
}
