//! One level of the tree of keys: the keys and the folders below a prefix.
use super::{describe_bytes, describe_key};
use bytes::Bytes;
use serde_json::{Value, json};
use statestored_broker::hub::inspect::MAX_PAGE_ITEMS;
use statestored_store::keyspace::EntryView;
use std::collections::BTreeMap;

/// The keys of a level, and the totals of its folders, as far as they were visited.
#[derive(Debug)]
pub(super) struct TreeLevel {
    prefix: Bytes,
    /// Bytes that end the name of a folder, not empty.
    delimiter: Bytes,
    folders: BTreeMap<Bytes, FolderTotals>,
    keys: BTreeMap<Bytes, EntryView>,
}

/// Totals of the visited keys in a folder.
#[derive(Debug, Default)]
struct FolderTotals {
    keys: usize,
    value_bytes: usize,
}

impl TreeLevel {
    pub(super) fn new(prefix: Bytes, delimiter: Bytes) -> Self {
        Self {
            prefix,
            delimiter,
            folders: BTreeMap::new(),
            keys: BTreeMap::new(),
        }
    }

    /// Returns the pattern of the keys below the prefix.
    pub(super) fn pattern(&self) -> Bytes {
        let mut pattern = Vec::with_capacity(self.prefix.len() + 1);
        for &byte in &self.prefix {
            if matches!(byte, b'*' | b'?' | b'[') {
                pattern.extend([b'[', byte, b']']);
            } else {
                pattern.push(byte);
            }
        }
        pattern.push(b'*');
        pattern.into()
    }

    /// Adds an entry below the prefix. Returns whether another item has room on the page.
    pub(super) fn add(&mut self, key: Bytes, entry: EntryView) -> bool {
        let below = &key[self.prefix.len().min(key.len())..];
        let mut places = below.windows(self.delimiter.len());
        match places.position(|place| place == &self.delimiter[..]) {
            Some(place) => {
                let end = self.prefix.len() + place + self.delimiter.len();
                let totals = self.folders.entry(key.slice(..end)).or_default();
                totals.keys += 1;
                totals.value_bytes += entry.value_bytes;
            }
            None => {
                self.keys.insert(key, entry);
            }
        }
        self.folders.len() + self.keys.len() < MAX_PAGE_ITEMS
    }

    /// Returns the items of the page: folders, then keys, each in their order.
    pub(super) fn into_items(self) -> Vec<Value> {
        let folders = self.folders.iter().map(|(prefix, totals)| {
            json!({
                "prefix": describe_bytes(prefix),
                "keys": totals.keys,
                "value_bytes": totals.value_bytes,
            })
        });
        let keys = self.keys.iter();
        let keys = keys.map(|(key, entry)| describe_key(key, entry));
        folders.chain(keys).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use statestore_protocol::glob::Glob;
    use statestored_store::keyspace::Fence;

    fn entry(value_bytes: usize) -> EntryView {
        EntryView {
            value: Bytes::new(),
            value_bytes,
            version: (1, 0),
            fence: Fence::None,
            expires_in_ms: None,
            since_ms: None,
        }
    }

    fn level(prefix: &'static str, delimiter: &'static str) -> TreeLevel {
        TreeLevel::new(prefix.into(), delimiter.into())
    }

    #[test]
    fn keys_are_grouped_by_the_first_delimiter_below_the_prefix() {
        let mut level = level("line/", "::");
        for key in ["line/", "line/a", "line/a::1", "line/a::b::2", "line/b::"] {
            assert!(level.add(key.into(), entry(10)), "{key}");
        }
        let items = level.into_items();
        let text = |item: &Value| {
            let name = item.get("prefix").unwrap_or(&item["key"]);
            let text = name["text"].as_str().unwrap();
            format!("{text} {} {}", item["keys"], item["value_bytes"])
        };
        assert_eq!(
            items.iter().map(text).collect::<Vec<_>>(),
            [
                "line/a:: 2 20",
                "line/b:: 1 10",
                "line/ null 10",
                "line/a null 10"
            ]
        );
    }

    #[test]
    fn the_pattern_takes_a_prefix_literally() {
        let level = level("a*[b]?", "/");
        let pattern = level.pattern();
        let glob = Glob::new(&pattern);
        assert!(glob.matches(b"a*[b]?") && glob.matches(b"a*[b]?/c"));
        assert!(!glob.matches(b"aXb?") && !glob.matches(b"a*[b]x"));
    }

    #[test]
    fn a_level_is_full_with_the_last_item_of_a_page() {
        let mut level = level("", "/");
        let mut added = 1;
        while level.add(format!("key-{added}").into(), entry(1)) {
            added += 1;
        }
        assert_eq!(added, MAX_PAGE_ITEMS);
    }
}
