//! Many concurrent SETs, each with its own value, and their results.
use super::{KeyHistory, within};
use statestore::{Client, Error, Outcome, SetOutcome};
use std::collections::{BTreeMap, HashMap};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// A SET that has ended.
#[derive(Debug)]
pub struct SetAttempt {
    /// Number of the SET, which is also its value.
    pub number: usize,
    /// The key.
    pub key: String,
    /// Result of the SET.
    pub result: Result<SetOutcome, Error>,
}

/// Pending SETs: `workers` tasks share the numbers `0..total` and spread them over the keys.
#[derive(Debug)]
pub struct SetLoad {
    attempts: Vec<SetAttempt>,
    ended: mpsc::UnboundedReceiver<SetAttempt>,
    workers: JoinSet<()>,
    total: usize,
}

/// The keys of a load.
pub fn keys(count: usize) -> impl Iterator<Item = String> {
    (0..count).map(|number| format!("key-{number:03}"))
}

impl SetLoad {
    /// Starts the load.
    pub fn start(client: &Client, total: usize, workers: usize, key_count: usize) -> Self {
        let (sender, ended) = mpsc::unbounded_channel();
        let mut tasks = JoinSet::new();
        let keys: Vec<_> = keys(key_count).collect();
        for worker in 0..workers {
            let (client, sender, keys) = (client.clone(), sender.clone(), keys.clone());
            tasks.spawn(async move {
                for number in (worker..total).step_by(workers) {
                    let key = keys[number % keys.len()].clone();
                    let result = client.set(&key, number.to_string()).await;
                    let attempt = SetAttempt {
                        number,
                        key,
                        result,
                    };
                    // The receiver is gone if the test has failed.
                    let _ = sender.send(attempt);
                }
            });
        }
        Self {
            attempts: Vec::new(),
            ended,
            workers: tasks,
            total,
        }
    }

    /// Waits until this number of SETs have ended.
    pub async fn wait_for_ended(&mut self, count: usize) {
        while self.attempts.len() < count {
            let attempt = within(self.ended.recv()).await;
            self.attempts.push(attempt.expect("more ended than began"));
        }
    }

    /// Waits for the remaining SETs. Checks that each ended exactly once.
    pub async fn finish(mut self) -> Vec<SetAttempt> {
        self.wait_for_ended(self.total).await;
        assert!(within(self.ended.recv()).await.is_none());
        while let Some(worker) = self.workers.join_next().await {
            worker.unwrap();
        }
        let mut numbers: Vec<_> = self.attempts.iter().map(|attempt| attempt.number).collect();
        numbers.sort_unstable();
        assert!(numbers.into_iter().eq(0..self.total), "each SET ends once");
        self.attempts
    }
}

/// Checks the result of each SET against the changes of each key in the store, in their order:
/// - versions rise, and no value is stored twice;
/// - each SET that succeeded is there with the version that it returned;
/// - no SET that failed as *not done* is there.
pub fn check(attempts: &[SetAttempt], histories: &BTreeMap<String, KeyHistory>) {
    let mut stored = HashMap::new();
    for (key, history) in histories {
        assert!(
            history.windows(2).all(|pair| pair[0].1 < pair[1].1),
            "the versions of {key} do not rise"
        );
        for (value, version) in history {
            let value = value.as_ref().expect("nobody deletes");
            let before = stored.insert((key.as_str(), value.as_slice()), version);
            assert!(before.is_none(), "{key}: {value:?} was stored twice");
        }
    }
    for attempt in attempts {
        let value = attempt.number.to_string();
        let found = stored.get(&(attempt.key.as_str(), value.as_bytes()));
        match &attempt.result {
            Ok(SetOutcome::Applied { version }) => {
                assert_eq!(found, Some(&version), "SET {value} succeeded");
            }
            Ok(other) => panic!("an unconditional SET applies: {other:?}"),
            Err(error) if error.outcome() == Outcome::NotDone => {
                assert_eq!(found, None, "{error}, and yet it is stored");
            }
            Err(_) => {}
        }
    }
}
