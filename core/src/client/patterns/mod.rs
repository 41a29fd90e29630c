//! The observers of patterns, and what they know of the keys that match.
//!
//! The store watches the pattern (KEYNOTIFY … MATCH), and the client reads the keys with SCAN when the watch has started. The
//! [states of the keys](key_states) merge both by version. The driver passes notifications to the observers through the
//! [registry](pattern_registry).
mod change_queue;
mod key_states;
mod match_state;
mod observation;
mod pattern_registry;
mod state_lock;

pub(super) use change_queue::ChangeQueue;
pub(super) use match_state::{FoundEntry, MatchState, pattern_action};
pub use observation::MatchObservation;
pub(super) use pattern_registry::PatternRegistry;
pub(super) use state_lock::Gap;
