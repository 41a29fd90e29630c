//! Results as the scenarios write them.
use crate::step::text;
use serde_json::{Value, json};
use statestore::{
    Capabilities, DelOutcome, Entries, Entry, Error, Expiry, Hlc, Observation, Outcome, Release,
    SetOutcome, TransactionOutcome, UpdateOutcome, VdelOutcome,
};

pub(crate) fn version(version: Option<&Hlc>) -> Value {
    version.map_or(Value::Null, |version| version.to_string().into())
}

pub(crate) fn entry(entry: Option<&Entry>) -> Value {
    entry.map_or(Value::Null, |entry| {
        json!({
            "value": text(&entry.value),
            "version": version(Some(&entry.version)),
            "expires_in": expires_in(entry.expires_in),
        })
    })
}

pub(crate) fn entries(found: &Entries) -> Value {
    let entries: Value = found.iter().map(|found| entry(found.as_ref())).collect();
    json!({"entries": entries, "snapshot": found.is_snapshot()})
}

fn expires_in(expiry: Expiry) -> Value {
    match expiry {
        Expiry::Never => "never".into(),
        Expiry::After(left) => json!(left.as_millis()),
        _ => "unknown".into(),
    }
}

pub(crate) fn set(outcome: &SetOutcome) -> Value {
    json!({"applied": outcome.is_applied(), "version": version(outcome.version())})
}

pub(crate) fn del(outcome: &DelOutcome) -> Value {
    match outcome {
        DelOutcome::Deleted { version: at } => {
            json!({"is": "deleted", "version": version(at.as_ref())})
        }
        DelOutcome::Absent => json!({"is": "absent"}),
        DelOutcome::Mismatch { version: at } => {
            json!({"is": "mismatch", "version": version(Some(at))})
        }
    }
}

pub(crate) fn capabilities(store: Capabilities) -> Value {
    json!({
        "conditions": store.conditions,
        "remaining_time": store.remaining_time,
        "transactions": store.transactions,
        "eventual": store.eventual,
        "max_get_keys": store.max_get_keys,
    })
}

pub(crate) fn transacted(outcome: &TransactionOutcome) -> Value {
    match outcome {
        TransactionOutcome::Applied(versions) => {
            let versions: Value = versions.iter().map(|at| version(at.as_ref())).collect();
            json!({"applied": true, "versions": versions})
        }
        TransactionOutcome::NotApplied {
            operation,
            version: at,
        } => {
            json!({"applied": false, "operation": operation, "version": version(at.as_ref())})
        }
    }
}

pub(crate) fn updated(outcome: &UpdateOutcome) -> Value {
    match outcome {
        UpdateOutcome::Applied { version: at } => {
            json!({"is": "applied", "version": version(Some(at))})
        }
        UpdateOutcome::Unchanged => json!({"is": "unchanged"}),
    }
}

pub(crate) fn vdel(outcome: &VdelOutcome) -> Value {
    match outcome {
        VdelOutcome::Deleted { version: at } => {
            json!({"is": "deleted", "version": version(at.as_ref())})
        }
        VdelOutcome::Absent => json!({"is": "absent"}),
        VdelOutcome::Mismatch { version: at } => {
            json!({"is": "mismatch", "version": version(at.as_ref())})
        }
    }
}

pub(crate) fn release(outcome: Release) -> Value {
    match outcome {
        Release::Released => json!({"is": "released"}),
        Release::NotHeld => json!({"is": "not_held"}),
    }
}

pub(crate) fn holding(holding: Option<&statestore::Holding>) -> Value {
    holding.map_or(Value::Null, |holding| {
        json!({"holder": text(holding.holder.name()), "version": version(Some(&holding.version))})
    })
}

pub(crate) fn observation(observation: Option<&Observation>) -> Value {
    match observation {
        None => Value::Null,
        Some(Observation::Set { value, version: at }) => {
            json!({"is": "set", "value": text(value), "version": version(Some(at))})
        }
        Some(Observation::Deleted { version: at }) => {
            json!({"is": "deleted", "version": version(at.as_ref())})
        }
        Some(Observation::Resync) => json!({"is": "resync"}),
        Some(Observation::Lagged(count)) => json!({"is": "lagged", "count": count}),
        Some(other) => panic!("{other:?}"),
    }
}

/// Lists the result of each of several writes.
pub(crate) fn each<T>(outcomes: &[Result<T, Error>], outcome: impl Fn(&T) -> Value) -> Value {
    let outcomes = outcomes.iter();
    outcomes
        .map(|found| match found {
            Ok(found) => outcome(found),
            Err(error) => {
                json!({"error": {"kind": kind(error), "outcome": certainty(error)}})
            }
        })
        .collect()
}

pub(crate) fn kind(error: &Error) -> String {
    format!("{:?}", error.kind())
}

pub(crate) fn certainty(error: &Error) -> &'static str {
    match error.outcome() {
        Outcome::NotDone => "not_done",
        Outcome::Unknown => "unknown",
    }
}
