//! A user and its password.
use super::hash::{NoMemory, PasswordHash};
use super::hashing_memory::HashingMemory;
use super::mosquitto_hash::MosquittoHash;
use super::scram::ScramKeys;
use ring::hmac::{self, HMAC_SHA256};
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

/// Form in which a password is known.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Password {
    Plain(Zeroizing<Box<[u8]>>),
    Hash(Box<PasswordHash>),
    Mosquitto(Box<MosquittoHash>),
}

impl Password {
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
            Self::Mosquitto(hash) => hash.secret(),
        });
        let purpose = b"statestored: SCRAM salts of unknown users";
        let key = hmac::sign(&hmac::Key::new(HMAC_SHA256, &secret), purpose);
        Some(hmac::Key::new(HMAC_SHA256, key.as_ref()))
    }

    /// Checks a password against the hash.
    fn is_of(&self, password: &[u8], memory: &mut HashingMemory) -> Result<bool, NoMemory> {
        match self {
            Self::Plain(expected) => Ok(expected.ct_eq(password).into()),
            Self::Hash(hash) => hash.is_of(password, memory),
            Self::Mosquitto(hash) => Ok(hash.is_of(password)),
        }
    }
}

/// A user, with a password, SCRAM keys, or both.
pub(crate) struct User {
    name: Arc<str>,
    pub(super) password: Option<Password>,
    pub(super) keys: Option<ScramKeys>,
    /// Tag of the last right password, under the [secret] of the process. A returning user need not wait for the hash.
    remembered: Mutex<Option<[u8; 32]>>,
}

/// Result of a check that takes no time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sight {
    Right,
    Wrong,
    /// Not known: the check takes time.
    Unknown,
}

impl User {
    /// Returns a user without a password.
    pub(super) fn new(name: &str) -> Self {
        Self {
            name: name.into(),
            password: None,
            keys: None,
            remembered: Mutex::new(None),
        }
    }

    pub(super) fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Checks a password as far as that takes no time.
    pub(super) fn glance(&self, password: &[u8]) -> Sight {
        match &self.password {
            None => Sight::Wrong,
            Some(Password::Plain(expected)) => {
                if bool::from(expected.ct_eq(password)) {
                    Sight::Right
                } else {
                    Sight::Wrong
                }
            }
            Some(Password::Hash(_) | Password::Mosquitto(_)) => {
                let remembered = self.remembered.lock();
                let remembered = *remembered.unwrap_or_else(PoisonError::into_inner);
                let tag = tag(password);
                match remembered {
                    Some(remembered) if bool::from(remembered.ct_eq(&tag)) => Sight::Right,
                    _ => Sight::Unknown,
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
        match (self.glance(password), &self.password) {
            (Sight::Unknown, Some(hash)) => {
                let is_right = hash.is_of(password, memory)?;
                if is_right {
                    let remembered = self.remembered.lock();
                    *remembered.unwrap_or_else(PoisonError::into_inner) = Some(tag(password));
                }
                Ok(is_right)
            }
            (sight, _) => Ok(sight == Sight::Right),
        }
    }

    /// Returns the bytes of memory that the check of a password needs.
    pub(super) fn hashing_bytes(&self) -> usize {
        match &self.password {
            Some(Password::Hash(hash)) => hash.memory_bytes(),
            _ => 0,
        }
    }

    /// Takes as long as the check of a wrong password.
    pub(super) fn pretend(
        &self,
        password: &[u8],
        memory: &mut HashingMemory,
    ) -> Result<(), NoMemory> {
        match &self.password {
            Some(hash) => hash.is_of(password, memory).map(|_| ()),
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
    fn a_right_password_is_remembered_and_a_wrong_one_is_not() {
        let mut user = User::new("ann");
        let hash = PasswordHash::of(b"secret").unwrap();
        user.password = Some(Password::Hash(Box::new(hash)));
        let mut memory = HashingMemory::default();
        assert_eq!(user.glance(b"secret"), Sight::Unknown);
        assert_eq!(user.verify(b"wrong", &mut memory), Ok(false));
        assert_eq!(user.glance(b"wrong"), Sight::Unknown);
        assert_eq!(user.verify(b"secret", &mut memory), Ok(true));
        assert_eq!(user.glance(b"secret"), Sight::Right);
        assert_eq!(user.glance(b"wrong"), Sight::Unknown);
        assert_eq!(user.verify(b"wrong", &mut memory), Ok(false));
        assert_eq!(user.glance(b"secret"), Sight::Right);
    }
}
