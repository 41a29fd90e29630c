//! Shares of the store: how much there may be below a prefix of keys.
use crate::keyspace::Size;
use bytes::Bytes;

/// How much there may be of the keys that begin with a prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrefixLimit {
    /// What the keys begin with.
    pub prefix: Bytes,
    /// Most keys.
    pub max_keys: Option<u64>,
    /// Most bytes of memory that the entries take, without their deadlines.
    pub max_bytes: Option<u64>,
}

impl PrefixLimit {
    /// Reads words like `machines/ keys=1000 bytes=1000000`.
    ///
    /// # Errors
    /// What is wrong.
    pub fn parse(text: &str) -> Result<Self, String> {
        const FORM: &str = "expected PREFIX keys=N bytes=N, or one of the two";
        let mut words = text.split_whitespace();
        let prefix = words.next().ok_or(FORM)?;
        let mut limit = Self {
            prefix: Bytes::copy_from_slice(prefix.as_bytes()),
            max_keys: None,
            max_bytes: None,
        };
        for word in words {
            let (name, number) = word.split_once('=').ok_or(FORM)?;
            let number = number
                .parse()
                .map_err(|_| format!("{word:?}: {number:?} is no number"))?;
            match name {
                "keys" => limit.max_keys = Some(number),
                "bytes" => limit.max_bytes = Some(number),
                _ => return Err(format!("{word:?}: {FORM}")),
            }
        }
        if limit.max_keys.is_none() && limit.max_bytes.is_none() {
            return Err(FORM.into());
        }
        Ok(limit)
    }
}

/// The limits, with how much there is of each. A key may count for several.
#[derive(Debug, Clone, Default)]
pub(super) struct Prefixes(Vec<(PrefixLimit, Size)>);

impl Prefixes {
    pub(super) fn new(limits: &[PrefixLimit]) -> Self {
        let empty = Size { keys: 0, bytes: 0 };
        Self(limits.iter().map(|limit| (limit.clone(), empty)).collect())
    }

    /// Whether these are the limits.
    pub(super) fn are(&self, limits: &[PrefixLimit]) -> bool {
        self.0.iter().map(|(limit, _)| limit).eq(limits)
    }

    /// The whole store was of one size, and is of another one since the entry of this key has changed.
    pub(super) fn changed(&mut self, key: &[u8], from: Size, to: Size) {
        for (limit, size) in &mut self.0 {
            if key.starts_with(&limit.prefix) {
                size.keys = (size.keys + to.keys).saturating_sub(from.keys);
                size.bytes = (size.bytes + to.bytes).saturating_sub(from.bytes);
            }
        }
    }

    /// Whether so much more fits below all prefixes of a key.
    pub(super) fn have_room(&self, key: &[u8], more: Size) -> bool {
        let concerned = self.0.iter().filter(|(it, _)| key.starts_with(&it.prefix));
        concerned.into_iter().all(|(limit, size)| {
            let fits = |has: u64, more: u64, most: Option<u64>| {
                more == 0 || most.is_none_or(|most| has.saturating_add(more) <= most)
            };
            fits(size.keys, more.keys, limit.max_keys)
                && fits(size.bytes, more.bytes, limit.max_bytes)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_words() {
        let limit = PrefixLimit::parse("a/ bytes=2 keys=1").unwrap();
        assert_eq!(
            (&limit.prefix[..], limit.max_keys, limit.max_bytes),
            (&b"a/"[..], Some(1), Some(2))
        );
        for wrong in ["", "a/", "a/ keys", "a/ keys=x", "a/ entries=1"] {
            assert!(PrefixLimit::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_key_counts_for_each_of_its_prefixes() {
        let limits = ["a keys=2", "a/b bytes=10"].map(|it| PrefixLimit::parse(it).unwrap());
        let mut prefixes = Prefixes::new(&limits);
        assert!(prefixes.are(&limits) && !prefixes.are(&limits[..1]));
        let size = |keys, bytes| Size { keys, bytes };
        prefixes.changed(b"a/b/c", size(5, 100), size(6, 108));
        assert!(
            prefixes.have_room(b"a/b/d", size(1, 2)) && !prefixes.have_room(b"a/b/d", size(1, 3))
        );
        prefixes.changed(b"a/x", size(6, 108), size(7, 200));
        assert!(
            !prefixes.have_room(b"a/y", size(1, 1)) && prefixes.have_room(b"a/x", size(0, 999))
        );
        assert!(prefixes.have_room(b"b", size(1, 999)));
        prefixes.changed(b"a/b/c", size(7, 200), size(6, 192));
        assert!(prefixes.have_room(b"a/b/c", size(1, 10)));
    }
}
