//! Passwords that are kept as a hash: argon2id in the PHC string format.
use super::hashing_memory::{HashingMemory, NoMemory};
use argon2::password_hash::phc;
use argon2::{Algorithm, Argon2, Block, Params, Version};
use std::fmt;
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

/// Maximum memory that the check of a password takes, in KiB.
const MAX_MEMORY_KIB: u32 = 1024 * 1024;
/// Maximum memory times passes of a check, in KiB. It limits the check to seconds.
const MAX_PASSED_KIB: u64 = 4 * 1024 * 1024;
const MAX_LANES: u32 = 64;
const MIN_OUTPUT_BYTES: usize = 16;
const SALT_BYTES: usize = 16;

/// The hash of a password.
#[derive(Clone)]
pub struct PasswordHash {
    phc: phc::PasswordHash,
    params: Params,
}

impl PasswordHash {
    /// Returns whether a text is meant to be a hash of argon2.
    pub(super) fn has_prefix(text: &str) -> bool {
        text.starts_with("$argon2")
    }

    /// Reads `$argon2id$v=19$m=…,t=…,p=…$salt$hash`.
    pub(super) fn parse(text: &str) -> Result<Self, &'static str> {
        let phc = phc::PasswordHash::new(text).map_err(|_| "this is not a hash of argon2id")?;
        if phc.algorithm.as_str() != "argon2id" {
            return Err("only hashes of argon2id are supported");
        }
        if phc.version != Some(Version::V0x13.into()) {
            return Err("only hashes of argon2id version 19 are supported");
        }
        let params =
            Params::try_from(&phc).map_err(|_| "the parameters of the hash are not possible")?;
        if phc
            .salt
            .is_none_or(|salt| salt.len() < argon2::MIN_SALT_LEN)
        {
            return Err("the salt of the hash is too short");
        }
        if phc.hash.is_none_or(|hash| hash.len() < MIN_OUTPUT_BYTES) {
            return Err("the hash is too short");
        }
        if params.m_cost() > MAX_MEMORY_KIB || params.p_cost() > MAX_LANES {
            return Err("the hash exceeds the maximum of 1 GiB of memory and 64 lanes");
        }
        if u64::from(params.m_cost()) * u64::from(params.t_cost()) > MAX_PASSED_KIB {
            return Err("the hash exceeds the maximum of 4 GiB for memory times passes");
        }
        Ok(Self { phc, params })
    }

    /// Hashes a password with a new random salt.
    pub fn compute(password: &[u8]) -> Result<Self, NoMemory> {
        let mut salt = [0; SALT_BYTES];
        getrandom::fill(&mut salt).map_err(|_| NoMemory)?;
        let params = Params::default();
        let mut output = Zeroizing::new([0; Params::DEFAULT_OUTPUT_LEN]);
        HashingMemory::default().hash(&argon2(&params), password, &salt, &mut *output)?;
        let phc = phc::PasswordHash {
            algorithm: Algorithm::Argon2id.ident(),
            version: Some(Version::V0x13.into()),
            params: phc::ParamsString::try_from(&params).map_err(|_| NoMemory)?,
            salt: Some(phc::Salt::new(&salt).map_err(|_| NoMemory)?),
            hash: Some(phc::Output::new(&*output).map_err(|_| NoMemory)?),
        };
        Ok(Self { phc, params })
    }

    /// Returns the bytes of memory that the check of a password needs.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.params.block_count() * Block::SIZE
    }

    /// Returns whether this is its password. Takes tens of milliseconds.
    ///
    /// # Errors
    /// Returns [`NoMemory`] if there is less memory than the hash asks for.
    pub(crate) fn verify(
        &self,
        password: &[u8],
        memory: &mut HashingMemory,
    ) -> Result<bool, NoMemory> {
        let (Some(salt), Some(expected)) = (self.phc.salt, self.phc.hash) else {
            return Ok(false);
        };
        let mut output = Zeroizing::new([0; phc::Output::MAX_LENGTH]);
        let output = &mut output[..expected.len()];
        memory.hash(&argon2(&self.params), password, &salt, output)?;
        Ok(output.ct_eq(expected.as_bytes()).into())
    }
}

fn argon2(params: &Params) -> Argon2<'static> {
    Argon2::new(Algorithm::Argon2id, Version::V0x13, params.clone())
}

impl PartialEq for PasswordHash {
    fn eq(&self, other: &Self) -> bool {
        self.phc == other.phc
    }
}

impl Eq for PasswordHash {}

impl fmt::Display for PasswordHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.phc.fmt(f)
    }
}

impl fmt::Debug for PasswordHash {
    /// Omits salt and hash.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PasswordHash")
            .field("m", &self.params.m_cost())
            .field("t", &self.params.t_cost())
            .field("p", &self.params.p_cost())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_verifies_only_its_own_password() {
        let hash = PasswordHash::compute(b"secret").unwrap();
        assert_ne!(
            hash,
            PasswordHash::compute(b"secret").unwrap(),
            "salts differ"
        );
        let text = hash.to_string();
        assert!(
            text.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"),
            "{text}"
        );
        let read = PasswordHash::parse(&text).unwrap();
        assert_eq!(read, hash);
        let mut memory = HashingMemory::default();
        assert_eq!(read.verify(b"secret", &mut memory), Ok(true));
        for wrong in [&b"secre"[..], b"secret2", b"Secret", b""] {
            assert_eq!(read.verify(wrong, &mut memory), Ok(false));
        }
        let shown = format!("{hash:?}");
        let secret = text.rsplit('$').next().unwrap();
        assert!(!shown.contains(secret), "{shown}");
    }

    /// Vector of the reference implementation.
    #[test]
    fn a_hash_of_the_reference_implementation_is_accepted() {
        let text = "$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ\
            $CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc";
        let hash = PasswordHash::parse(text).unwrap();
        assert_eq!(hash.to_string(), text);
        let mut memory = HashingMemory::default();
        assert_eq!(hash.verify(b"password", &mut memory), Ok(true));
        assert_eq!(hash.verify(b"differentpassword", &mut memory), Ok(false));
    }

    #[test]
    fn parameters_outside_the_limits_are_refused() {
        let salt = "c29tZXNhbHQ";
        let output = "RdescudvJCsgt3ub+b1dWRWJTmaaJObG";
        for (text, problem) in [
            (
                format!("$argon2id$v=19$m=1048577,t=1,p=1${salt}${output}"),
                "exceeds the maximum",
            ),
            (
                format!("$argon2id$v=19$m=1048576,t=5,p=1${salt}${output}"),
                "exceeds the maximum",
            ),
            (
                format!("$argon2id$v=19$m=4294967295,t=4294967295,p=1${salt}${output}"),
                "exceeds the maximum",
            ),
            (
                format!("$argon2id$v=19$m=65536,t=1,p=65${salt}${output}"),
                "exceeds the maximum",
            ),
            (
                format!("$argon2id$v=19$m=7,t=1,p=1${salt}${output}"),
                "not possible",
            ),
            (
                format!("$argon2id$v=19$m=4294967296,t=1,p=1${salt}${output}"),
                "not possible",
            ),
            (
                format!("$argon2id$v=16$m=65536,t=1,p=1${salt}${output}"),
                "version 19",
            ),
            (
                format!("$argon2id$m=65536,t=1,p=1${salt}${output}"),
                "version 19",
            ),
            (
                format!("$argon2i$v=19$m=65536,t=1,p=1${salt}${output}"),
                "only hashes of argon2id are supported",
            ),
            (
                format!("$argon2id$v=19$m=65536,t=1,p=1$c2Fs${output}"),
                "not a hash",
            ),
            (
                format!("$argon2id$v=19$m=65536,t=1,p=1${salt}$RdescudvJCsgt3ub"),
                "too short",
            ),
            (
                format!("$argon2id$v=19$m=65536,t=1,p=1${salt}"),
                "too short",
            ),
            ("$argon2id$v=19$m=65536,t=1,p=1".into(), "too short"),
            ("$argon2".into(), "only hashes of argon2id are supported"),
            ("$argon2id$v=19$m=x".into(), "not"),
        ] {
            let refused = PasswordHash::parse(&text).unwrap_err();
            assert!(refused.contains(problem), "{text}: {refused}");
        }
    }
}
