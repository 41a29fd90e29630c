//! Choices of the fuzzer. After the end of its input every choice is 0, which is a sensible value.

#[derive(Clone, Copy, Debug)]
pub(crate) struct FuzzInput<'a>(pub(crate) &'a [u8]);

impl<'a> FuzzInput<'a> {
    pub(crate) fn byte(&mut self) -> usize {
        let Some((first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        usize::from(*first)
    }

    pub(crate) fn bytes(&mut self, count: usize) -> &'a [u8] {
        let (bytes, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        bytes
    }

    /// Takes a length from the next byte, and returns that many bytes.
    pub(crate) fn piece(&mut self) -> Self {
        let count = self.byte();
        Self(self.bytes(count))
    }

    pub(crate) fn word(&mut self) -> u64 {
        let mut word = [0; 8];
        let bytes = self.bytes(8);
        word[..bytes.len()].copy_from_slice(bytes);
        u64::from_le_bytes(word)
    }

    pub(crate) fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.byte() % all.len()]
    }
}
