//! The last logged message, so that an event which happens ten times a second is not logged ten times a second.
//!
//! Messages that differ only in numbers are the same event: errors of TLS, for instance, contain the time of the handshake.
use std::sync::{Arc, Mutex, PoisonError};

/// The last logged message, shared by all clones.
#[derive(Debug, Clone, Default)]
pub struct LogDeduplicator(Arc<Mutex<Option<String>>>);

impl LogDeduplicator {
    /// Returns whether the last message was another one, or there was none. The text becomes the last message.
    pub fn is_new(&self, text: &str) -> bool {
        let event = without_numbers(text);
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = last.as_deref() != Some(&event);
        if is_new {
            *last = Some(event);
        }
        is_new
    }

    /// Forgets the last message, so that it is logged once more if it recurs.
    pub fn forget(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

fn without_numbers(text: &str) -> String {
    text.chars().filter(|char| !char.is_ascii_digit()).collect()
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
        assert!(!log_deduplicator.is_new("a"));
        log_deduplicator.forget();
        assert!(log_deduplicator.is_new("a"));
        assert!(log_deduplicator.is_new("expired: verified at 1764441000"));
        assert!(!log_deduplicator.is_new("expired: verified at 1764441002"));
    }
}
