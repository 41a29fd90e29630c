//! Observation of all keys that match a pattern. A [task](follower) for each observer sends the requests.
mod follower;
mod key_watches;
mod match_observer;
mod options;

pub use match_observer::MatchObserver;
pub use options::ObserveMatchingOptions;
