//! Digests that identify a request on every server that receives it.
use ring::digest::{Context, SHA256};

/// A digest of a request: equal on all servers to which the request is delivered, and different for every other request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestDigest(pub [u8; 16]);

impl RequestDigest {
    /// Computes the digest of all parts that distinguish a request from others. `None` differs from an empty part.
    pub fn of<'a>(parts: impl IntoIterator<Item = Option<&'a [u8]>>) -> Self {
        let mut context = Context::new(&SHA256);
        for part in parts {
            context.update(&[u8::from(part.is_some())]);
            let part = part.unwrap_or_default();
            context.update(&(part.len() as u64).to_be_bytes());
            context.update(part);
        }
        let whole = context.finish();
        let first = whole.as_ref().first_chunk();
        Self(first.copied().unwrap_or_default())
    }
}

impl std::fmt::Display for RequestDigest {
    /// Writes 32 hexadecimal digits.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moving_bytes_between_parts_changes_the_digest() {
        let all: [&[Option<&[u8]>]; 5] = [
            &[Some(b"ab"), Some(b"c")],
            &[Some(b"a"), Some(b"bc")],
            &[Some(b"abc")],
            &[Some(b"abc"), None],
            &[Some(b"abc"), Some(b"")],
        ];
        let mut digests = all.map(|parts| RequestDigest::of(parts.iter().copied()));
        digests.sort();
        assert!(digests.is_sorted_by(|one, next| one < next), "{digests:?}");
    }

    /// Checks a fixed digest: servers of different releases have to agree, so the function must not change.
    #[test]
    fn the_digest_of_a_fixed_input_never_changes() {
        let digest = RequestDigest::of([Some(&b"client"[..]), None, Some(b"\0")]);
        assert_eq!(digest.to_string(), "9b492ce2355d195d00e88d132e5a87d0");
    }
}
