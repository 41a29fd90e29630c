//! Patterns of SCAN: `* ? [ab] [0-9] [!x] [*]`; `^` does not negate.

/// A compiled pattern.
#[derive(Debug, Clone)]
pub struct Glob {}

impl Glob {
    /// Compiles a pattern. Every byte string is one: an unclosed `[` stands for itself.
    pub fn new(pattern: &[u8]) -> Self {
        unimplemented!()
    }
    /// Whether the whole key matches; time linear in pattern and key, never exponential.
    pub fn matches(&self, key: &[u8]) -> bool {
        unimplemented!()
    }
    /// The bytes that every match begins with.
    pub fn literal_prefix(&self) -> &[u8] {
        unimplemented!()
    }
}
