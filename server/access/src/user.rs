//! A user and its password.
use super::hash::PasswordHash;
use super::hashing_memory::{HashingMemory, NoMemory};
use super::mosquitto_hash::MosquittoHash;
use super::scram::ScramKeys;
use ring::hmac::{self, HMAC_SHA256};
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

/// Form in which a password is known.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum StoredPassword {
    Plain(Zeroizing<Box<[u8]>>),
    Hash(Box<PasswordHash>),
    Mosquitto(Box<MosquittoHash>),
}

impl StoredPassword {
    pub(super) fn plain(password: &[u8]) -> Self {
        Self::Plain(Zeroizing::new(password.into()))
    }

    /// Returns whether it takes time to check a password.
    pub(super) fn is_hashed(&self) -> bool {
        !matches!(self, Self::Plain(_))
    }

    /// Returns a key that only readers of the hash can derive, always the same for the same hash. Returns `None` if
    /// there is no hash, because the key would confirm a guess of a plain password.
    pub(super) fn derived_key(&self) -> Option<hmac::Key> {
        let secret = Zeroizing::new(match self {
            Self::Plain(_) => return None,
            Self::Hash(hash) => hash.to_string().into_bytes(),
            Self::Mosquitto(hash) => hash.salt_and_hash(),
        });
        let purpose = b"statestored: SCRAM salts of unknown users";
        let key = hmac::sign(&hmac::Key::new(HMAC_SHA256, &secret), purpose);
        Some(hmac::Key::new(HMAC_SHA256, key.as_ref()))
    }

    /// Checks a password against the hash.
    fn verify(&self, password: &[u8], memory: &mut HashingMemory) -> Result<bool, NoMemory> {
        match self {
            Self::Plain(expected) => Ok(expected.ct_eq(password).into()),
            Self::Hash(hash) => hash.verify(password, memory),
            Self::Mosquitto(hash) => Ok(hash.verify(password)),
        }
    }
}

/// A user, with a password, SCRAM keys, or both.
pub(crate) struct User {
    name: Arc<str>,
    pub(super) password: Option<StoredPassword>,
    pub(super) scram_keys: Option<ScramKeys>,
    /// Tag of the last right password, under the [secret] of the process. A returning user need not wait for the hash.
    verified_tag: Mutex<Option<[u8; 32]>>,
}

/// Result of a check that takes no time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FastCheck {
    Match,
    Mismatch,
    /// Not known: the check takes time.
    Unknown,
}

impl User {
    /// Returns a user without a password.
    pub(super) fn new(name: &str) -> Self {
        Self {
            name: name.into(),
            password: None,
            scram_keys: None,
            verified_tag: Mutex::new(None),
        }
    }

    pub(super) fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Checks a password as far as that takes no time.
    pub(super) fn check_fast(&self, password: &[u8]) -> FastCheck {
        match &self.password {
            None => FastCheck::Mismatch,
            Some(StoredPassword::Plain(expected)) => {
                if bool::from(expected.ct_eq(password)) {
                    FastCheck::Match
                } else {
                    FastCheck::Mismatch
                }
            }
            Some(StoredPassword::Hash(_) | StoredPassword::Mosquitto(_)) => {
                let remembered = self.verified_tag.lock();
                let remembered = *remembered.unwrap_or_else(PoisonError::into_inner);
                let tag = tag(password);
                match remembered {
                    Some(remembered) if bool::from(remembered.ct_eq(&tag)) => FastCheck::Match,
                    _ => FastCheck::Unknown,
                }
            }
        }
    }

    /// Returns whether the password is right. May take tens of milliseconds.
    pub(super) fn verify(
        &self,
        password: &[u8],
        memory: &mut HashingMemory,
    ) -> Result<bool, NoMemory> {
        match (self.check_fast(password), &self.password) {
            (FastCheck::Unknown, Some(hash)) => {
                let is_right = hash.verify(password, memory)?;
                if is_right {
                    let remembered = self.verified_tag.lock();
                    *remembered.unwrap_or_else(PoisonError::into_inner) = Some(tag(password));
                }
                Ok(is_right)
            }
            (sight, _) => Ok(sight == FastCheck::Match),
        }
    }

    /// Returns the bytes of memory that the check of a password needs.
    pub(super) fn hashing_bytes(&self) -> usize {
        match &self.password {
            Some(StoredPassword::Hash(hash)) => hash.memory_bytes(),
            _ => 0,
        }
    }

    /// Takes as long as the check of a wrong password.
    pub(super) fn verify_decoy(
        &self,
        password: &[u8],
        memory: &mut HashingMemory,
    ) -> Result<(), NoMemory> {
        match &self.password {
            Some(hash) => hash.verify(password, memory).map(|_| ()),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("User").field(&self.name).finish()
    }
}

/// Returns a random key that only this process knows.
pub(super) fn secret() -> &'static hmac::Key {
    static SECRET: OnceLock<hmac::Key> = OnceLock::new();
    SECRET.get_or_init(|| {
        let mut key = Zeroizing::new([0; 32]);
        // The system has given random bytes for the hash tables before.
        getrandom::fill(&mut *key).expect("the system gives random bytes");
        hmac::Key::new(HMAC_SHA256, &*key)
    })
}

fn tag(password: &[u8]) -> [u8; 32] {
    let tag = hmac::sign(secret(), password);
    tag.as_ref().try_into().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verified_password_is_cached_and_a_wrong_one_is_not() {
        let mut user = User::new("ann");
        let hash = PasswordHash::compute(b"secret").unwrap();
        user.password = Some(StoredPassword::Hash(Box::new(hash)));
        let mut memory = HashingMemory::default();
        assert_eq!(user.check_fast(b"secret"), FastCheck::Unknown);
        assert_eq!(user.verify(b"wrong", &mut memory), Ok(false));
        assert_eq!(user.check_fast(b"wrong"), FastCheck::Unknown);
        assert_eq!(user.verify(b"secret", &mut memory), Ok(true));
        assert_eq!(user.check_fast(b"secret"), FastCheck::Match);
        assert_eq!(user.check_fast(b"wrong"), FastCheck::Unknown);
        assert_eq!(user.verify(b"wrong", &mut memory), Ok(false));
        assert_eq!(user.check_fast(b"secret"), FastCheck::Match);
    }
}
