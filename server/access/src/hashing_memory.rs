//! The memory that Argon2 fills for each password.
use argon2::{Argon2, Block};
use std::fmt;
use zeroize::Zeroize;

/// Maximum size of the buffer that is kept for the next password, in bytes. Allocators return larger buffers to the
/// system when they are freed.
const MAX_KEPT_BYTES: usize = 32 * 1024 * 1024;

/// An error: there is not enough memory to check a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoMemory;

/// The buffer of one hashing slot, reused for one password after the other. It holds zeros between two uses.
#[derive(Default)]
pub struct HashingMemory(Vec<Block>);

impl HashingMemory {
    /// Returns the bytes of memory that the buffer takes.
    pub fn bytes(&self) -> usize {
        self.0.capacity() * Block::SIZE
    }

    /// Writes the hash of a password to `output`.
    pub(super) fn hash(
        &mut self,
        argon2: &Argon2<'_>,
        password: &[u8],
        salt: &[u8],
        output: &mut [u8],
    ) -> Result<(), NoMemory> {
        let blocks = self.blocks(argon2.params().block_count())?;
        let hashed = argon2.hash_password_into_with_memory(password, salt, output, &mut blocks[..]);
        blocks.iter_mut().for_each(Zeroize::zeroize);
        if self.bytes() > MAX_KEPT_BYTES {
            self.0 = Vec::new();
        }
        hashed.map_err(|_| NoMemory)
    }

    fn blocks(&mut self, count: usize) -> Result<&mut [Block], NoMemory> {
        if self.0.len() < count {
            // The old content needs no copy, and the old buffer is freed first.
            self.0 = Vec::new();
            self.0.try_reserve_exact(count).map_err(|_| NoMemory)?;
            self.0.resize(count, Block::new());
        }
        Ok(&mut self.0[..count])
    }
}

impl fmt::Debug for HashingMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HashingMemory({} bytes)", self.bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use argon2::{Algorithm, Params, Version};

    fn hash(memory: &mut HashingMemory, kib: u32) -> [u8; 32] {
        let params = Params::new(kib, 1, 1, Some(32)).unwrap();
        let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
        let mut output = [0; 32];
        memory
            .hash(&argon2, b"password", b"somesalt", &mut output)
            .unwrap();
        output
    }

    #[test]
    fn memory_is_reused_and_zeroed_between_uses() {
        let mut memory = HashingMemory::default();
        let first = hash(&mut memory, 1024);
        let place = memory.0.as_ptr();
        assert_eq!(memory.bytes(), 1024 * 1024);
        // A smaller one uses a part of it.
        hash(&mut memory, 64);
        assert_eq!(hash(&mut memory, 1024), first);
        assert_eq!(memory.0.as_ptr(), place);
        let words = memory.0.iter().flat_map(AsRef::as_ref);
        assert!(words.into_iter().all(|word: &u64| *word == 0));
    }

    #[test]
    fn memory_grows_on_demand_and_large_buffers_are_freed() {
        let mut memory = HashingMemory::default();
        hash(&mut memory, 64);
        hash(&mut memory, 1024);
        assert_eq!(memory.bytes(), 1024 * 1024);
        hash(&mut memory, 33 * 1024);
        assert_eq!(memory.bytes(), 0);
    }
}
