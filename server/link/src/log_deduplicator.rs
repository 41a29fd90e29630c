//! The last logged message, so that an event which happens ten times a second is not logged ten times a second.
use std::sync::{Arc, Mutex, PoisonError};

/// The last logged message, shared by all clones.
#[derive(Debug, Clone, Default)]
pub struct LogDeduplicator(Arc<Mutex<Option<String>>>);

impl LogDeduplicator {
    /// Returns whether the last message was another one, or there was none. The text becomes the last message.
    pub fn is_new(&self, text: &str) -> bool {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = last.as_deref() != Some(text);
        if is_new {
            *last = Some(text.to_owned());
        }
        is_new
    }

    /// Forgets the last message, so that it is logged once more if it recurs.
    pub fn forget(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeated_message_is_logged_once() {
        let log_deduplicator = LogDeduplicator::default();
        assert!(log_deduplicator.is_new("a"));
        assert!(!log_deduplicator.clone().is_new("a"));
        assert!(log_deduplicator.is_new("b"));
        assert!(log_deduplicator.is_new("a"));
        log_deduplicator.forget();
        assert!(log_deduplicator.is_new("a"));
    }
}
