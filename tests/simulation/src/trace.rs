//! The trace of a run, a line per event, to be read by people.

#[derive(Debug, Default)]
pub(crate) struct Trace {
    lines: Option<Vec<String>>,
}

impl Trace {
    pub(crate) fn new(is_kept: bool) -> Self {
        Self {
            lines: is_kept.then(Vec::new),
        }
    }
    pub(crate) fn is_kept(&self) -> bool {
        self.lines.is_some()
    }
    pub(crate) fn line(&mut self, at_ms: u64, text: impl FnOnce() -> String) {
        if let Some(lines) = &mut self.lines {
            lines.push(format!("{at_ms:>6} ms  {}", text()));
        }
    }
    pub(crate) fn into_lines(self) -> Vec<String> {
        self.lines.unwrap_or_default()
    }
}
