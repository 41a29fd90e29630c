//! The keys of a load.

/// Numbered keys: a prefix and ten digits.
#[derive(Debug, Clone)]
pub(crate) struct Keys {
    template: Vec<u8>,
    count: u64,
}

const DIGITS: usize = 10;

/// Maximum number of keys that the digits can distinguish.
pub(crate) const MAX_KEYS: u64 = 10_000_000_000;

impl Keys {
    /// Creates `count` keys with this prefix.
    pub(crate) fn new(prefix: &str, count: u64) -> Self {
        Self {
            template: [prefix.as_bytes(), &[b'0'; DIGITS]].concat(),
            count,
        }
    }

    /// Returns the number of keys.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Returns the key of this number, written over the previous one: no allocation per operation.
    pub(crate) fn at(&mut self, number: u64) -> &[u8] {
        let mut rest = number;
        for digit in self.template.iter_mut().rev().take(DIGITS) {
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        &self.template
    }
}

#[cfg(test)]
mod tests {
    use super::{Keys, MAX_KEYS};

    #[test]
    fn keys_have_one_length_and_differ() {
        let mut keys = Keys::new("bench:", MAX_KEYS);
        assert_eq!(keys.at(MAX_KEYS - 1), b"bench:9999999999");
        assert_eq!(keys.at(7), b"bench:0000000007");
    }
}
