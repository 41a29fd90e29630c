//! What names a request wherever it is delivered.
use ring::digest::{Context, SHA256};

/// Names a request that may be delivered to several servers: the same for each of them, and for no other request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestDigest(pub [u8; 16]);

impl RequestDigest {
    /// Of all that makes a request what it is, part by part; `None` is not the same as an empty part.
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
    /// In hexadecimal digits.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_do_not_run_into_each_other() {
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

    /// Servers of different releases have to agree, so it stays as it is.
    #[test]
    fn it_is_the_same_everywhere() {
        let digest = RequestDigest::of([Some(&b"client"[..]), None, Some(b"\0")]);
        assert_eq!(digest.to_string(), "9b492ce2355d195d00e88d132e5a87d0");
    }
}
