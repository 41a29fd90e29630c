//! The random decisions of a run, derived from its seed.

#[derive(Debug)]
pub(crate) struct SeededRng(fastrand::Rng);

impl SeededRng {
    pub(crate) fn new(seed: u64) -> Self {
        // Neighbouring seeds must not give similar runs.
        let mut scrambled =
            fastrand::Rng::with_seed(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ seed);
        Self(scrambled.fork())
    }
    /// Returns an independent generator, which does not disturb this one.
    pub(crate) fn fork(&mut self) -> Self {
        Self(self.0.fork())
    }
    pub(crate) fn u64(&mut self) -> u64 {
        self.0.u64(..)
    }
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0.u64(..end)
    }
    /// Returns a number between the bounds, both included.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        self.0.u64(low..=high)
    }
    /// Returns a number between the bounds, both included; each order of magnitude is equally likely. `low` is at least 1.
    pub(crate) fn log_uniform(&mut self, low: u64, high: u64) -> u64 {
        #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)]
        #[allow(clippy::cast_sign_loss)]
        let value =
            ((low as f64).ln() + self.0.f64() * (high as f64 / low as f64).ln()).exp() as u64;
        value.clamp(low, high)
    }
    pub(crate) fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
    pub(crate) fn index(&mut self, len: usize) -> usize {
        self.0.usize(..len)
    }
    pub(crate) fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.index(from.len())].clone()
    }
}
