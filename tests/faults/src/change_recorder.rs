//! A witness, which observes all changes that the store makes to some keys.
use super::within;
use statestore::{Client, Hlc, Observation, ObserveOptions, Overflow};
use std::collections::BTreeMap;
use tokio::task::JoinHandle;

/// The changes of a key, in order: each value with its version; `None` for a deletion.
pub type KeyHistory = Vec<(Option<Vec<u8>>, Hlc)>;

/// The value that marks the end of the changes.
const END_MARKER: &[u8] = b"the end";

/// A client, connected without a proxy, that records every change of its keys.
#[derive(Debug)]
pub struct ChangeRecorder {
    client: Client,
    keys: BTreeMap<String, JoinHandle<KeyHistory>>,
}

impl ChangeRecorder {
    /// Starts to watch the keys.
    pub async fn start(client: Client, keys: impl IntoIterator<Item = String>) -> Self {
        let options = ObserveOptions::new().overflow(Overflow::All(1 << 20));
        let mut watched = BTreeMap::new();
        for key in keys {
            let mut observer = client.observe_with(&key, &options).await.unwrap();
            let noting = tokio::spawn(async move {
                let mut history = KeyHistory::new();
                loop {
                    match observer.next().await {
                        Some(Observation::Set { value, .. }) if value == END_MARKER => {
                            return history;
                        }
                        Some(Observation::Set { value, version }) => {
                            history.push((Some(value.to_vec()), version));
                        }
                        Some(Observation::Deleted {
                            version: Some(version),
                        }) => history.push((None, version)),
                        other => panic!("a witness may not miss anything: {other:?}"),
                    }
                }
            });
            watched.insert(key, noting);
        }
        Self {
            client,
            keys: watched,
        }
    }

    /// Returns all changes up to now.
    pub async fn histories(self) -> BTreeMap<String, KeyHistory> {
        let mut histories = BTreeMap::new();
        for (key, noting) in self.keys {
            self.client.set(&key, END_MARKER).await.unwrap();
            histories.insert(key, within(noting).await.unwrap());
        }
        histories
    }
}
