//! Hashes of passwords as Mosquitto 2 writes them (`mosquitto_passwd`): PBKDF2 with HMAC-SHA-512.
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::pbkdf2;
use std::fmt;
use std::num::NonZeroU32;

/// Maximum number of iterations, which takes seconds of one core.
const MAX_ITERATIONS: u32 = 2_000_000;
const MIN_SALT_BYTES: usize = 8;
const MAX_SALT_BYTES: usize = 64;
const HASH_BYTES: usize = 64;

/// The hash of a password: `$7$ITERATIONS$SALT$HASH`, the last two in base64.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct MosquittoHash {
    iterations: NonZeroU32,
    salt: Box<[u8]>,
    hash: [u8; HASH_BYTES],
}

impl MosquittoHash {
    /// Returns whether a text is meant to be such a hash.
    pub(super) fn has_prefix(text: &str) -> bool {
        text.starts_with("$7$")
    }

    /// Reads what `mosquitto_passwd` writes behind the name of a user.
    pub(super) fn parse(text: &str) -> Result<Self, &'static str> {
        const FORM: &str = "expected $7$ITERATIONS$SALT$HASH as mosquitto_passwd writes it, with 64 bytes of hash in base64";
        let mut parts = text.split('$').skip(2);
        let (Some(iterations), Some(salt), Some(hash), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(FORM);
        };
        let iterations: NonZeroU32 = iterations.parse().map_err(|_| FORM)?;
        if iterations.get() > MAX_ITERATIONS {
            return Err("the hash asks for more than 2000000 iterations");
        }
        let salt = STANDARD.decode(salt).map_err(|_| FORM)?;
        if !(MIN_SALT_BYTES..=MAX_SALT_BYTES).contains(&salt.len()) {
            return Err("the salt of the hash has 8 to 64 bytes");
        }
        let hash = STANDARD.decode(hash).map_err(|_| FORM)?;
        Ok(Self {
            iterations,
            salt: salt.into(),
            hash: hash.try_into().map_err(|_| FORM)?,
        })
    }

    /// Returns whether this is its password.
    pub(super) fn verify(&self, password: &[u8]) -> bool {
        let algorithm = pbkdf2::PBKDF2_HMAC_SHA512;
        pbkdf2::verify(algorithm, self.iterations, &self.salt, password, &self.hash).is_ok()
    }

    /// Returns salt and hash, which only readers of the file know.
    pub(super) fn salt_and_hash(&self) -> Vec<u8> {
        [&self.salt[..], &self.hash].concat()
    }
}

impl fmt::Debug for MosquittoHash {
    /// Omits salt and hash.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MosquittoHash")
            .field("iterations", &self.iterations)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Written by `mosquitto_passwd` of Mosquitto 2.0.11 for the password `secret`.
    const WRITTEN: &str = "$7$101$CueZz0BsBOIKqFwd$7QM/nmnzfxUlNb0P1ipZuct58Mh5V9ZkxXdxubCEKqn2G260sfvUp4RLECQJRPzqhTdzqq38vMspR27CSP4Ijg==";

    #[test]
    fn a_mosquitto_hash_verifies_only_its_own_password() {
        let hash = MosquittoHash::parse(WRITTEN).unwrap();
        assert!(hash.verify(b"secret"));
        for wrong in [&b"Secret"[..], b"secret ", b"", WRITTEN.as_bytes()] {
            assert!(!hash.verify(wrong));
        }
        assert!(!format!("{hash:?}").contains('/'));
    }

    #[test]
    fn malformed_hashes_are_refused() {
        for (from, to) in [
            ("$101$", "$0$"),
            ("$101$", "$2000001$"),
            ("$101$", "$x$"),
            ("$101$", "$"),
            ("CueZz0BsBOIKqFwd", "CueZ"),
            ("CueZz0BsBOIKqFwd", "=ueZ"),
            ("Ijg==", "IjgAA"),
            ("Ijg==", "Ijg==$"),
            ("$7QM/", "$"),
        ] {
            let text = WRITTEN.replacen(from, to, 1);
            assert_ne!(text, WRITTEN);
            assert!(MosquittoHash::parse(&text).is_err(), "{text}");
        }
    }
}
