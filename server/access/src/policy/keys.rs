//! Sets of keys: single ones, and those that match a pattern.
use super::template::{PolicySubject, Template};
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
            KeyType::Binary => Self::Binary(decode_base64(text)?),
        })
    }

    pub(super) fn has_tokens(&self) -> bool {
        match self {
            Self::Pattern(template) | Self::String(template) => template.has_tokens(),
            Self::Binary(_) => false,
        }
    }

    /// Returns whether a token has a value of several segments, so that the template allows nothing.
    pub(super) fn has_multi_segment_value(&self, subject: &PolicySubject<'_>) -> bool {
        match self {
            Self::Pattern(template) | Self::String(template) => {
                template.has_multi_segment_value(subject)
            }
            Self::Binary(_) => false,
        }
    }

    /// Returns the pattern for a subject; `None` if a token has no value or a value of several segments.
    pub(super) fn pattern(&self, subject: &PolicySubject<'_>) -> Option<KeyPattern> {
        Some(match self {
            Self::Pattern(template) => KeyPattern::Glob(template.glob_text(subject)?),
            Self::String(template) => {
                KeyPattern::Exact(template.key_text(subject)?.into_bytes().into())
            }
            Self::Binary(key) => KeyPattern::Exact(key.clone()),
        })
    }
}

fn decode_base64(text: &str) -> Result<Box<[u8]>, String> {
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
    globs: PrefixNode,
}

/// A node of the prefix tree: the patterns with one prefix, and the nodes of longer prefixes.
#[derive(Debug, Clone, Default)]
struct PrefixNode {
    /// Whether one of the patterns is the prefix and a `*`.
    matches_all: bool,
    /// Patterns for the rest of a key behind the prefix.
    globs: Vec<Glob>,
    /// Edges to longer prefixes, in ascending order of their first byte.
    edges: Vec<PrefixEdge>,
}

/// An edge of the prefix tree, to the patterns that continue with the same bytes.
#[derive(Debug, Clone)]
struct PrefixEdge {
    first_byte: u8,
    /// Bytes that these patterns have in common, including the first byte.
    bytes: Box<[u8]>,
    node: PrefixNode,
}

impl PrefixEdge {
    fn new(bytes: &[u8], beginning: PrefixNode) -> Self {
        Self {
            first_byte: bytes[0],
            bytes: bytes.into(),
            node: beginning,
        }
    }

    /// Splits the edge: it has only the first `at` bytes from now on.
    fn split(&mut self, at: usize) {
        let (common, rest) = self.bytes.split_at(at);
        let behind = Self::new(rest, std::mem::take(&mut self.node));
        self.bytes = common.into();
        self.node.edges.push(behind);
    }
}

impl PrefixNode {
    fn is_empty(&self) -> bool {
        !self.matches_all && self.globs.is_empty() && self.edges.is_empty()
    }

    fn find(&self, byte: u8) -> Result<usize, usize> {
        self.edges.binary_search_by_key(&byte, |it| it.first_byte)
    }

    /// Returns the node of a prefix, and creates it if there is none.
    fn get_or_insert(&mut self, prefix: &[u8]) -> &mut Self {
        let Some(&first) = prefix.first() else {
            return self;
        };
        let place = self.find(first).unwrap_or_else(|place| {
            let new = PrefixEdge::new(prefix, Self::default());
            self.edges.insert(place, new);
            place
        });
        let longer = &mut self.edges[place];
        let pairs = longer.bytes.iter().zip(prefix);
        let common = pairs.take_while(|(own, other)| own == other).count();
        if common < longer.bytes.len() {
            longer.split(common);
        }
        longer.node.get_or_insert(&prefix[common..])
    }

    fn matches(&self, key: &[u8]) -> bool {
        let mut beginning = self;
        let mut rest = key;
        loop {
            if beginning.matches_all || beginning.globs.iter().any(|glob| glob.matches(rest)) {
                return true;
            }
            let Some(&first) = rest.first() else {
                return false;
            };
            let Ok(place) = beginning.find(first) else {
                return false;
            };
            let longer = &beginning.edges[place];
            let Some(behind) = rest.strip_prefix(&*longer.bytes) else {
                return false;
            };
            (beginning, rest) = (&longer.node, behind);
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
        let beginning = self.globs.get_or_insert(&prefix[..depth]);
        if prefix.len() <= MAX_DEPTH && text == [prefix, b"*"].concat() {
            beginning.matches_all = true;
            beginning.globs.clear();
        } else if !beginning.matches_all {
            beginning.globs.push(glob.without_prefix(depth));
        }
    }

    pub(super) fn contains(&self, key: &[u8]) -> bool {
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
            KeyType::Binary => KeyPattern::Exact(decode_base64(text)?),
        });
        Ok(())
    }

    /// Returns whether the set contains a key.
    pub fn contains(&self, key: &[u8]) -> bool {
        self.0.contains(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn keys_are_matched_by_pattern_text_or_bytes() {
        let mut keys = KeyPatterns::default();
        assert!(!keys.contains(b"a") && !keys.contains(b""));
        keys.add(KeyType::Pattern, "line-[0-9]/*").unwrap();
        keys.add(KeyType::String, "a*").unwrap();
        keys.add(KeyType::Binary, "AP8=").unwrap();
        for key in [&b"line-1/x"[..], b"a*", b"\0\xff"] {
            assert!(keys.contains(key), "{key:?}");
        }
        for key in [&b"line-x/x"[..], b"ab", b"\0", b"", b"AP8="] {
            assert!(!keys.contains(key), "{key:?}");
        }
        assert!(keys.add(KeyType::Binary, "AP8").is_err());
        keys.add(KeyType::Pattern, "*").unwrap();
        assert!(keys.contains(b"anything"));
    }

    #[test]
    fn a_pattern_may_have_a_long_literal_prefix() {
        let mut keys = KeyPatterns::default();
        let long = "x".repeat(100_000);
        for pattern in [format!("{long}/*"), format!("{long}/?/*")] {
            keys.add(KeyType::Pattern, &pattern).unwrap();
        }
        assert!(keys.contains(format!("{long}/y").as_bytes()));
        assert!(!keys.contains(long.as_bytes()) && !keys.contains(b"x"));
    }

    proptest! {
        #[test]
        fn a_set_of_patterns_matches_the_union_of_its_patterns(
            patterns in prop::collection::vec("[ab*?\\[\\]]{0,5}", 0..12),
            key in "[ab\\[\\]]{0,6}",
        ) {
            let mut keys = KeyPatterns::default();
            for pattern in &patterns {
                keys.add(KeyType::Pattern, pattern).unwrap();
            }
            let expected = patterns.iter().any(|it| Glob::new(it.as_bytes()).matches(key.as_bytes()));
            prop_assert_eq!(keys.contains(key.as_bytes()), expected);
        }
    }
}
