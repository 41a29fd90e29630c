//! The actors and their tasks.
use crate::history::{EventKind, KEYS, KeyOperation, Precondition, ReportedOutcome};
use crate::store::Port;
use statestore::lock::{CompareAndSet, Progress};
use statestore::{
    Condition, DelOptions, Entry, Error, Outcome, SetOptions, Transaction, TransactionOutcome,
};
use statestore_intents::{self as intents, Set, Store as _};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

/// A task of an actor. An actor executes its tasks in order.
#[derive(Debug, Clone)]
pub(crate) enum Task {
    /// The changes and their time-out. Changes that require what the key [holds](Precondition::Holds) read it first.
    Transact(Vec<KeyOperation>, Duration),
    Read(usize),
    /// Adds this to what is there.
    Update(usize, String),
}

pub(crate) async fn play(port: Port, tasks: Vec<Task>) {
    for task in tasks {
        match task {
            Task::Transact(changes, timeout) => transact(&port, changes, timeout).await,
            Task::Read(key) => {
                // A read without a response is ignored.
                let _ = read(&port, key).await;
            }
            Task::Update(key, letter) => update(&port, key, &letter).await,
        }
    }
}

fn text(entry: &Entry) -> String {
    String::from_utf8(entry.value.to_vec()).expect("no reader is shown a record")
}

pub(crate) async fn read(port: &Port, key: usize) -> Result<Option<Entry>, Error> {
    let event = port.world.inner().history.begin(EventKind::Read(key, None));
    let name = KEYS[key].as_bytes();
    let stored = port.get(name, 10 * SECOND).await?;
    let found = intents::read(port, name, stored, 10 * SECOND).await?;
    let what = EventKind::Read(key, found.as_ref().map(text));
    port.world.inner().history.end(event, what);
    Ok(found)
}

async fn transact(port: &Port, mut changes: Vec<KeyOperation>, timeout: Duration) {
    let mut transaction = Transaction::new();
    for change in &mut changes {
        let mut condition = match change.precondition {
            Precondition::Always | Precondition::Holds(_) => Condition::Always,
            Precondition::Absent => Condition::IfAbsent,
            Precondition::AbsentOrSame => Condition::IfAbsentOrEqual,
        };
        if let Precondition::Holds(_) = change.precondition {
            match read(port, change.key).await {
                Ok(Some(entry)) => {
                    change.precondition = Precondition::Holds(text(&entry));
                    condition = Condition::IfVersion((&entry.version).into());
                }
                _ => change.precondition = Precondition::Always,
            }
        }
        let key = KEYS[change.key];
        transaction = match (&change.value, condition) {
            (Some(value), _) => {
                transaction.set(key, value, &SetOptions::new().condition(condition))
            }
            (None, Condition::IfVersion(version)) => {
                transaction.del(key, &DelOptions::new().if_version(version))
            }
            (None, _) => {
                change.precondition = Precondition::Always;
                transaction.del(key, &DelOptions::new())
            }
        };
    }
    let what = |told| EventKind::Transaction(changes.clone(), told);
    let event = port
        .world
        .inner()
        .history
        .begin(what(ReportedOutcome::Unknown));
    let told = match intents::transact(port, &transaction, timeout).await {
        Ok(TransactionOutcome::Applied(_)) => ReportedOutcome::Applied,
        Ok(TransactionOutcome::NotApplied { operation, .. }) => {
            ReportedOutcome::NotApplied(operation)
        }
        Err(error) if error.outcome() == Outcome::NotDone => ReportedOutcome::NotExecuted,
        Err(_) => ReportedOutcome::Unknown,
    };
    port.world.inner().history.end(event, what(told));
}

/// Updates a key as [`IntentsClient::update_with`](intents::IntentsClient::update_with) does.
async fn update(port: &Port, key: usize, letter: &str) {
    let name = KEYS[key].as_bytes();
    let mut is_outranked = false;
    for _ in 0..3 {
        let Ok(settled) = intents::settle(port, name, 10 * SECOND).await else {
            continue;
        };
        let saw = settled.entry().map(text);
        let new = saw.clone().unwrap_or_default() + letter;
        let what = |told| EventKind::Update(key, saw.clone(), new.clone(), told);
        let event = port
            .world
            .inner()
            .history
            .begin(what(ReportedOutcome::Unknown));
        let begin = if is_outranked {
            CompareAndSet::outranking
        } else {
            CompareAndSet::new
        };
        let timestamp = port.timestamp();
        let is_tombstone = settled.stored.is_some() && saw.is_none();
        let mut steps = begin(settled.stored, new.clone().into(), &timestamp);
        let mut told = ReportedOutcome::NotExecuted;
        while let Some(step) = steps.request() {
            let set = Set {
                key: name,
                value: &step.value,
                condition: step.condition,
                token: Some(step.token.clone()),
                expires_in: (is_tombstone && !step.is_write).then_some(intents::TOMBSTONE),
            };
            let result = port.set(set, 10 * SECOND).await;
            match steps.handle_outcome((&result).into()) {
                Progress::Applied(_) => told = ReportedOutcome::Applied,
                Progress::Failed => told = ReportedOutcome::Unknown,
                Progress::Outranked => is_outranked = true,
                Progress::Continue | Progress::Conflict => {}
            }
        }
        let is_over = told != ReportedOutcome::NotExecuted;
        port.world.inner().history.end(event, what(told));
        if is_over {
            return;
        }
    }
}
