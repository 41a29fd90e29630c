//! Sets of keys: single ones, and those that match a pattern.
use super::template::{Subject, Template};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use foldhash::fast::RandomState;
use serde::Deserialize;
use statestore_protocol::glob::Glob;
use std::collections::HashSet;

/// Form of keys in a rule.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub enum KeyType {
    /// Patterns, as in a SCAN.
    #[default]
    #[serde(alias = "pattern")]
    Pattern,
    /// The keys themselves.
    #[serde(alias = "string")]
    String,
    /// The keys themselves, in base 64.
    #[serde(alias = "binary")]
    Binary,
}

/// Template of the keys that a rule is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum KeyTemplate {
    Pattern(Template),
    String(Template),
    Binary(Box<[u8]>),
}

/// Pattern of keys: a template whose tokens are replaced for one subject.
pub(super) enum KeyPattern {
    Glob(String),
    Exact(Box<[u8]>),
}

impl KeyTemplate {
    pub(super) fn parse(kind: KeyType, text: &str) -> Result<Self, String> {
        Ok(match kind {
            KeyType::Pattern => Self::Pattern(Template::parse(text)?),
            KeyType::String => Self::String(Template::parse(text)?),
            KeyType::Binary => Self::Binary(binary(text)?),
        })
    }

    pub(super) fn has_tokens(&self) -> bool {
        match self {
            Self::Pattern(template) | Self::String(template) => template.has_tokens(),
            Self::Binary(_) => false,
        }
    }

    /// Returns whether a token has a value of several segments, so that the template allows nothing.
    pub(super) fn is_barred(&self, subject: &Subject<'_>) -> bool {
        match self {
            Self::Pattern(template) | Self::String(template) => template.is_barred(subject),
            Self::Binary(_) => false,
        }
    }

    /// Returns the pattern for a subject; `None` if a token has no value or a value of several segments.
    pub(super) fn pattern(&self, subject: &Subject<'_>) -> Option<KeyPattern> {
        Some(match self {
            Self::Pattern(template) => KeyPattern::Glob(template.glob_text(subject)?),
            Self::String(template) => {
                KeyPattern::Exact(template.text(subject)?.into_bytes().into())
            }
            Self::Binary(key) => KeyPattern::Exact(key.clone()),
        })
    }
}

fn binary(text: &str) -> Result<Box<[u8]>, String> {
    BASE64_STANDARD
        .decode(text)
        .map(Into::into)
        .map_err(|error| format!("{text:?} is not base 64: {error}"))
}

/// Maximum number of bytes of a literal prefix by which a pattern is found. It limits the depth of the tree.
const MAX_DEPTH: usize = 64;

/// A set of keys, found by exact key or by the literal prefix of a pattern. Many patterns thereby cost little more than
/// one.
#[derive(Debug, Clone, Default)]
pub(super) struct KeyRules {
    exact: HashSet<Box<[u8]>, RandomState>,
    globs: Beginning,
}

/// A node of the prefix tree: the patterns with one prefix, and the nodes of longer prefixes.
#[derive(Debug, Clone, Default)]
struct Beginning {
    /// Whether one of the patterns is the prefix and a `*`.
    all: bool,
    /// Patterns for the rest of a key behind the prefix.
    globs: Vec<Glob>,
    /// Edges to longer prefixes, in ascending order of their first byte.
    longer: Vec<Longer>,
}

/// An edge of the prefix tree, to the patterns that continue with the same bytes.
#[derive(Debug, Clone)]
struct Longer {
    first: u8,
    /// Bytes that these patterns have in common, including the first byte.
    bytes: Box<[u8]>,
    beginning: Beginning,
}

impl Longer {
    fn new(bytes: &[u8], beginning: Beginning) -> Self {
        Self {
            first: bytes[0],
            bytes: bytes.into(),
            beginning,
        }
    }

    /// Splits the edge: it has only the first `at` bytes from now on.
    fn split(&mut self, at: usize) {
        let (common, rest) = self.bytes.split_at(at);
        let behind = Self::new(rest, std::mem::take(&mut self.beginning));
        self.bytes = common.into();
        self.beginning.longer.push(behind);
    }
}

impl Beginning {
    fn is_empty(&self) -> bool {
        !self.all && self.globs.is_empty() && self.longer.is_empty()
    }

    fn find(&self, byte: u8) -> Result<usize, usize> {
        self.longer.binary_search_by_key(&byte, |it| it.first)
    }

    /// Returns the node of a prefix, and creates it if there is none.
    fn of(&mut self, prefix: &[u8]) -> &mut Self {
        let Some(&first) = prefix.first() else {
            return self;
        };
        let place = self.find(first).unwrap_or_else(|place| {
            let new = Longer::new(prefix, Self::default());
            self.longer.insert(place, new);
            place
        });
        let longer = &mut self.longer[place];
        let pairs = longer.bytes.iter().zip(prefix);
        let common = pairs.take_while(|(own, other)| own == other).count();
        if common < longer.bytes.len() {
            longer.split(common);
        }
        longer.beginning.of(&prefix[common..])
    }

    fn matches(&self, key: &[u8]) -> bool {
        let mut beginning = self;
        let mut rest = key;
        loop {
            if beginning.all || beginning.globs.iter().any(|glob| glob.matches(rest)) {
                return true;
            }
            let Some(&first) = rest.first() else {
                return false;
            };
            let Ok(place) = beginning.find(first) else {
                return false;
            };
            let longer = &beginning.longer[place];
            let Some(behind) = rest.strip_prefix(&*longer.bytes) else {
                return false;
            };
            (beginning, rest) = (&longer.beginning, behind);
        }
    }
}

impl KeyRules {
    pub(super) fn add(&mut self, pattern: &KeyPattern) {
        match pattern {
            KeyPattern::Exact(key) => {
                self.exact.insert(key.clone());
            }
            KeyPattern::Glob(text) => self.add_glob(text.as_bytes()),
        }
    }

    fn add_glob(&mut self, text: &[u8]) {
        let glob = Glob::new(text);
        let prefix = glob.literal_prefix();
        if prefix == text {
            self.exact.insert(text.into());
            return;
        }
        let depth = prefix.len().min(MAX_DEPTH);
        let beginning = self.globs.of(&prefix[..depth]);
        if prefix.len() <= MAX_DEPTH && text == [prefix, b"*"].concat() {
            beginning.all = true;
            beginning.globs.clear();
        } else if !beginning.all {
            beginning.globs.push(glob.behind_prefix(depth));
        }
    }

    pub(super) fn contain(&self, key: &[u8]) -> bool {
        self.exact.contains(key) || self.globs.matches(key)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.exact.is_empty() && self.globs.is_empty()
    }
}

/// A set of keys that is the same for all clients.
#[derive(Debug, Clone, Default)]
pub struct KeyPatterns(KeyRules);

impl KeyPatterns {
    /// Adds the keys that a text describes. A pattern has no tokens here.
    ///
    /// # Errors
    /// Returns an error if a key of the type [`Binary`](KeyType::Binary) is not base 64.
    pub fn add(&mut self, kind: KeyType, text: &str) -> Result<(), String> {
        self.0.add(&match kind {
            KeyType::Pattern => KeyPattern::Glob(text.into()),
            KeyType::String => KeyPattern::Exact(text.as_bytes().into()),
            KeyType::Binary => KeyPattern::Exact(binary(text)?),
        });
        Ok(())
    }

    /// Returns whether the set contains a key.
    pub fn contain(&self, key: &[u8]) -> bool {
        self.0.contain(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn keys_are_told_by_pattern_text_or_bytes() {
        let mut keys = KeyPatterns::default();
        assert!(!keys.contain(b"a") && !keys.contain(b""));
        keys.add(KeyType::Pattern, "line-[0-9]/*").unwrap();
        keys.add(KeyType::String, "a*").unwrap();
        keys.add(KeyType::Binary, "AP8=").unwrap();
        for key in [&b"line-1/x"[..], b"a*", b"\0\xff"] {
            assert!(keys.contain(key), "{key:?}");
        }
        for key in [&b"line-x/x"[..], b"ab", b"\0", b"", b"AP8="] {
            assert!(!keys.contain(key), "{key:?}");
        }
        assert!(keys.add(KeyType::Binary, "AP8").is_err());
        keys.add(KeyType::Pattern, "*").unwrap();
        assert!(keys.contain(b"anything"));
    }

    #[test]
    fn what_a_pattern_begins_with_may_be_long() {
        let mut keys = KeyPatterns::default();
        let long = "x".repeat(100_000);
        for pattern in [format!("{long}/*"), format!("{long}/?/*")] {
            keys.add(KeyType::Pattern, &pattern).unwrap();
        }
        assert!(keys.contain(format!("{long}/y").as_bytes()));
        assert!(!keys.contain(long.as_bytes()) && !keys.contain(b"x"));
    }

    proptest! {
        #[test]
        fn many_patterns_match_what_each_matches(
            patterns in prop::collection::vec("[ab*?\\[\\]]{0,5}", 0..12),
            key in "[ab\\[\\]]{0,6}",
        ) {
            let mut keys = KeyPatterns::default();
            for pattern in &patterns {
                keys.add(KeyType::Pattern, pattern).unwrap();
            }
            let expected = patterns.iter().any(|it| Glob::new(it.as_bytes()).matches(key.as_bytes()));
            prop_assert_eq!(keys.contain(key.as_bytes()), expected);
        }
    }
}
