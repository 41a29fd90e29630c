//! An index of watched patterns by their literal prefixes: a radix tree. A lookup follows the bytes of a key, so patterns with other
//! prefixes are not visited.
use statestore_protocol::glob::Glob;
use statestored_access::Owner;
use std::collections::HashMap;
use std::sync::Arc;

/// Maximum number of different patterns with the same literal prefix that the clients of one user watch at a time. A key with this
/// prefix is compared with each of them.
pub(super) const MAX_PATTERNS_PER_PREFIX: usize = 32;

/// Memory of a watched pattern besides the bytes that depend on its length: its entry, two nodes and the slots for both.
const PATTERN_BYTES: usize = 480;
/// Memory of a byte of the literal prefix: the text of the pattern, the label of a node, and the slot in the parent.
const PREFIX_BYTE: usize = 4;
/// Upper bound of the memory of a byte behind the literal prefix: the text, the compiled token, and a long run's sets of positions.
const COMPILED_BYTE: usize = 80;

/// Cost of a visit of a node, roughly in nanoseconds.
const VISIT_STEPS: usize = 10;

/// The node of the empty prefix.
const ROOT: usize = 0;

/// Clients that watch the same, in the order of their client ids.
pub(super) type Watchers = Arc<Vec<Arc<str>>>;

/// The watched patterns of all clients.
pub(super) struct PatternIndex {
    nodes: Vec<Node>,
    /// Indices of unused nodes.
    free: Vec<usize>,
    /// Number of patterns.
    len: usize,
}

/// All patterns with the same literal prefix.
#[derive(Default)]
struct Node {
    parent: usize,
    /// The bytes of the prefix behind that of the parent.
    label: Box<[u8]>,
    /// Nodes with longer prefixes, by the first byte of their labels.
    children: Vec<(u8, usize)>,
    patterns: Vec<WatchedPattern>,
}

struct WatchedPattern {
    text: Arc<[u8]>,
    /// The pattern behind its literal prefix.
    rest: Glob,
    watchers: Watchers,
    /// Number of watching clients of each user.
    users: HashMap<Owner, usize>,
}

impl Default for PatternIndex {
    fn default() -> Self {
        Self {
            nodes: vec![Node::default()],
            free: Vec::new(),
            len: 0,
        }
    }
}

/// Returns the memory of a watched pattern by its length and that of its literal prefix.
pub(super) fn pattern_bytes(pattern: usize, prefix: usize) -> usize {
    PATTERN_BYTES + text_bytes(pattern, prefix)
}

/// Returns the memory of a watched pattern that depends on its length.
pub(super) fn text_bytes(pattern: usize, prefix: usize) -> usize {
    PREFIX_BYTE * prefix + COMPILED_BYTE * pattern.saturating_sub(prefix)
}

impl PatternIndex {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the clients that watch exactly this pattern.
    pub(super) fn watchers(&self, pattern: &[u8]) -> Option<&Watchers> {
        let glob = Glob::new(pattern);
        let node = self.find_node(glob.literal_prefix())?;
        let watched = self.nodes[node].find(pattern)?;
        Some(&self.nodes[node].patterns[watched].watchers)
    }

    /// Returns all patterns with their clients, in an order that depends only on the calls so far.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Arc<[u8]>, &Watchers)> {
        let patterns = self.nodes.iter().flat_map(|node| &node.patterns);
        patterns.map(|watched| (&watched.text, &watched.watchers))
    }

    /// Begins a watch that the client does not have yet. Returns the shared text of the pattern, or `None` if the user watches too many
    /// patterns with this prefix.
    pub(super) fn watch(
        &mut self,
        pattern: &[u8],
        glob: Glob,
        client: &Arc<str>,
        user: &Owner,
    ) -> Option<Arc<[u8]>> {
        let prefix = glob.literal_prefix().to_vec();
        if let Some(node) = self.find_node(&prefix) {
            let is_other = |watched: &&WatchedPattern| {
                *watched.text != *pattern && watched.users.contains_key(user)
            };
            let others = self.nodes[node].patterns.iter().filter(is_other);
            if others.count() >= MAX_PATTERNS_PER_PREFIX {
                return None;
            }
        }
        let node = self.make_node(&prefix);
        let node = &mut self.nodes[node];
        let found = node.find(pattern);
        let place = found.unwrap_or_else(|| {
            self.len += 1;
            node.patterns.push(WatchedPattern {
                text: pattern.into(),
                rest: glob.without_prefix(prefix.len()),
                watchers: Watchers::default(),
                users: HashMap::new(),
            });
            node.patterns.len() - 1
        });
        let watched = &mut node.patterns[place];
        if let Err(place) = watched.watchers.binary_search(client) {
            Arc::make_mut(&mut watched.watchers).insert(place, Arc::clone(client));
            *watched.users.entry(user.clone()).or_default() += 1;
        }
        Some(Arc::clone(&watched.text))
    }

    /// Ends a watch.
    pub(super) fn unwatch(&mut self, pattern: &[u8], prefix: &[u8], client: &str, user: &Owner) {
        let Some(at) = self.find_node(prefix) else {
            return;
        };
        let node = &mut self.nodes[at];
        let Some(place) = node.find(pattern) else {
            return;
        };
        let watched = &mut node.patterns[place];
        if let Ok(place) = watched.watchers.binary_search_by(|it| (**it).cmp(client)) {
            Arc::make_mut(&mut watched.watchers).remove(place);
            if let Some(count) = watched.users.get_mut(user) {
                *count -= 1;
                if *count == 0 {
                    watched.users.remove(user);
                }
            }
        }
        if watched.watchers.is_empty() {
            node.patterns.remove(place);
            self.len -= 1;
            self.prune(at);
        }
    }

    /// Visits the clients of each pattern that the key matches. Adds the cost to `steps`, roughly in nanoseconds.
    pub(super) fn for_each_match<'a>(
        &'a self,
        key: &[u8],
        steps: &mut usize,
        mut visit: impl FnMut(&'a Watchers),
    ) {
        self.for_each_prefix(key, |node, rest| {
            *steps += VISIT_STEPS;
            for watched in &node.patterns {
                if watched.rest.matches_counted(rest, steps) {
                    visit(&watched.watchers);
                }
            }
        });
    }

    /// Returns whether the client watches a pattern that the key matches. Adds the cost to `steps`, roughly in nanoseconds.
    pub(super) fn is_notified(&self, client: &str, key: &[u8], steps: &mut usize) -> bool {
        let mut is_notified = false;
        self.for_each_prefix(key, |node, rest| {
            *steps += VISIT_STEPS;
            for watched in &node.patterns {
                *steps += VISIT_STEPS;
                is_notified |= watched
                    .watchers
                    .binary_search_by(|it| (**it).cmp(client))
                    .is_ok()
                    && watched.rest.matches_counted(rest, steps);
            }
        });
        is_notified
    }

    /// Visits the nodes whose prefixes the key has, each with the bytes behind the prefix.
    fn for_each_prefix<'a>(&'a self, key: &[u8], mut visit: impl FnMut(&'a Node, &[u8])) {
        let (mut node, mut rest) = (&self.nodes[ROOT], key);
        loop {
            visit(node, rest);
            let Some(child) = rest.first().and_then(|&first| node.child(first).ok()) else {
                return;
            };
            node = &self.nodes[node.children[child].1];
            let Some(behind) = rest.strip_prefix(&*node.label) else {
                return;
            };
            rest = behind;
        }
    }

    /// Returns the node of exactly this prefix.
    fn find_node(&self, prefix: &[u8]) -> Option<usize> {
        let (mut at, mut rest) = (ROOT, prefix);
        while let Some(&first) = rest.first() {
            let child = self.nodes[at].child(first).ok()?;
            at = self.nodes[at].children[child].1;
            rest = rest.strip_prefix(&*self.nodes[at].label)?;
        }
        Some(at)
    }

    /// Returns the node of exactly this prefix, and creates it if necessary.
    fn make_node(&mut self, prefix: &[u8]) -> usize {
        let (mut at, mut rest) = (ROOT, prefix);
        while let Some(&first) = rest.first() {
            match self.nodes[at].child(first) {
                Ok(child) => {
                    let (above, below) = (at, self.nodes[at].children[child].1);
                    let label = &self.nodes[below].label;
                    let bytes = label.iter().zip(rest);
                    let common = bytes.take_while(|(its, own)| its == own).count();
                    at = if common == label.len() {
                        below
                    } else {
                        self.split(above, child, common)
                    };
                    rest = &rest[common..];
                }
                Err(place) => {
                    let new = self.add_node(at, rest);
                    self.nodes[at].children.insert(place, (first, new));
                    return new;
                }
            }
        }
        at
    }

    /// Puts a node between a node and its child, after the first `bytes` bytes of the child's label. Returns the new node.
    fn split(&mut self, above: usize, child: usize, bytes: usize) -> usize {
        let below = self.nodes[above].children[child].1;
        let label = std::mem::take(&mut self.nodes[below].label);
        let (first, rest) = label.split_at(bytes);
        let middle = self.add_node(above, first);
        self.nodes[middle].children.push((rest[0], below));
        self.nodes[below].parent = middle;
        self.nodes[below].label = rest.into();
        self.nodes[above].children[child].1 = middle;
        middle
    }

    fn add_node(&mut self, parent: usize, label: &[u8]) -> usize {
        let node = Node {
            parent,
            label: label.into(),
            ..Node::default()
        };
        if let Some(at) = self.free.pop() {
            self.nodes[at] = node;
            return at;
        }
        self.nodes.push(node);
        self.nodes.len() - 1
    }

    /// Removes a node without patterns, and those above it that are not needed any more.
    fn prune(&mut self, mut at: usize) {
        if self.is_empty() {
            *self = Self::default();
            return;
        }
        while at != ROOT && self.nodes[at].patterns.is_empty() && self.nodes[at].children.len() < 2
        {
            let node = std::mem::take(&mut self.nodes[at]);
            self.free.push(at);
            let above = node.parent;
            let Ok(place) = self.nodes[above].child(node.label[0]) else {
                return;
            };
            if let Some(&(_, below)) = node.children.first() {
                self.nodes[above].children[place].1 = below;
                let below = &mut self.nodes[below];
                below.parent = above;
                below.label = [&*node.label, &*below.label].concat().into();
                return;
            }
            self.nodes[above].children.remove(place);
            at = above;
        }
    }
}

impl Node {
    /// Returns the index of the child whose label begins with this byte, or where it would be.
    fn child(&self, first: u8) -> Result<usize, usize> {
        self.children
            .binary_search_by_key(&first, |(byte, _)| *byte)
    }

    /// Returns the index of a pattern.
    fn find(&self, pattern: &[u8]) -> Option<usize> {
        self.patterns
            .iter()
            .position(|watched| *watched.text == *pattern)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn watch(index: &mut PatternIndex, pattern: &str, client: &Arc<str>) -> bool {
        let glob = Glob::new(pattern.as_bytes());
        index
            .watch(pattern.as_bytes(), glob, client, &Owner::Anonymous)
            .is_some()
    }

    fn unwatch(index: &mut PatternIndex, pattern: &str, client: &str) {
        let glob = Glob::new(pattern.as_bytes());
        let pattern = pattern.as_bytes();
        index.unwatch(pattern, glob.literal_prefix(), client, &Owner::Anonymous);
    }

    fn matches(index: &PatternIndex, key: &str) -> Vec<Arc<str>> {
        let mut found: Vec<Arc<str>> = Vec::new();
        index.for_each_match(key.as_bytes(), &mut 0, |clients| {
            found.extend(clients.iter().cloned());
        });
        found.sort_unstable();
        found.dedup();
        found
    }

    proptest! {
        #[test]
        fn the_index_finds_the_same_as_a_comparison_with_all_patterns(
            calls in prop::collection::vec((any::<bool>(), "[abc*?]{1,5}", 0..3_usize), 1..40),
            keys in prop::collection::vec("[abc]{0,6}", 1..8),
        ) {
            let clients: [Arc<str>; 3] = ["x".into(), "y".into(), "z".into()];
            let mut index = PatternIndex::default();
            let mut model: Vec<(String, usize)> = Vec::new();
            for (is_begin, pattern, client) in calls {
                model.retain(|watch| *watch != (pattern.clone(), client));
                if is_begin {
                    if watch(&mut index, &pattern, &clients[client]) {
                        model.push((pattern, client));
                    }
                } else {
                    unwatch(&mut index, &pattern, &clients[client]);
                }
                for key in &keys {
                    let matching = |client: usize| model.iter().any(|(pattern, its)| {
                        *its == client && Glob::new(pattern.as_bytes()).matches(key.as_bytes())
                    });
                    let expected = (0..3).filter(|&client| matching(client));
                    let expected: Vec<_> = expected.map(|client| clients[client].clone()).collect();
                    prop_assert_eq!(matches(&index, key), expected);
                    for (number, client) in clients.iter().enumerate() {
                        let is_notified = index.is_notified(client, key.as_bytes(), &mut 0);
                        prop_assert_eq!(is_notified, matching(number));
                    }
                }
            }
            for (pattern, client) in model {
                unwatch(&mut index, &pattern, &clients[client]);
            }
            prop_assert!(index.is_empty() && index.nodes.len() == 1);
        }
    }

    #[test]
    fn patterns_with_other_prefixes_are_not_compared() {
        let (mut index, client) = (PatternIndex::default(), "me".into());
        for number in 0..10_000 {
            assert!(watch(&mut index, &format!("line/{number}/*"), &client));
        }
        let mut steps = 0;
        index.for_each_match(b"line/77777/speed", &mut steps, |_| panic!("no match"));
        index.for_each_match(b"other", &mut steps, |_| panic!("no match"));
        assert!(steps < 200, "{steps}");
        let mut found = 0;
        index.for_each_match(b"line/777/speed", &mut steps, |_| found += 1);
        assert_eq!(found, 1);
    }

    #[test]
    fn a_user_watches_few_different_patterns_with_the_same_prefix() {
        let (mut index, a, b): (_, Arc<str>, Arc<str>) =
            (PatternIndex::default(), "a".into(), "b".into());
        for number in 0..MAX_PATTERNS_PER_PREFIX {
            assert!(watch(&mut index, &format!("*{number}"), &a));
        }
        assert!(!watch(&mut index, "*", &a) && !watch(&mut index, "?", &b));
        assert!(watch(&mut index, "*0", &b), "it is watched already");
        assert!(watch(&mut index, "k*", &a), "it has another prefix");
        let other = Owner::User("other".into());
        let begun = index.watch(b"*", Glob::new(b"*"), &"c".into(), &other);
        assert!(begun.is_some());
        unwatch(&mut index, "*0", "a");
        assert!(!watch(&mut index, "?", &a), "the other client watches it");
        unwatch(&mut index, "*0", "b");
        assert!(watch(&mut index, "?", &a));
    }
}
