//! Checks of the results that clients got against the log of the engine.
use super::client::{self, ClientRequest, PATTERNS, RequestKind, ResponseContent, WatchState};
use super::{CLIENTS, GroupSimulation, RECOVERED_MS, ReceivedNotification, RunMetrics, STORM_MS};
use crate::history::{CallResult, Invocation, Version};
use crate::shared::KEYS;
use crate::shared::ground_truth::{GroundTruth, KeyStates};
use bytes::Bytes;
use statestore_protocol::{Condition, Event, Notification};
use statestored_shared::{EngineKey, EngineValue, Record, RecordContent};
use std::sync::Arc;

/// Upper bound of the delay of a notification, under any fault.
const NOTIFICATION_DELAY_MS: u64 = 15_000;

/// Time until the group has a leader again after a storm.
const SETTLED_MS: u64 = 10_000;

/// Upper bound of the delay of an answer or a notification without faults.
const RESPONSE_DELAY_MS: u64 = 5_000;

impl GroupSimulation {
    /// Runs a storm and a calm, and checks the invariants.
    pub(super) fn run(&mut self) {
        for client in 0..self.clients.len() {
            self.connect(client);
        }
        // Time until the group has a leader.
        self.advance_to(RESPONSE_DELAY_MS);
        let (pace_ms, rarely_ms) = (
            self.chance.log_uniform(20, 1_000),
            self.chance.log_uniform(500, 20_000),
        );
        let (mut next_request_ms, mut next_trouble_ms) = (self.now_ms, self.now_ms + rarely_ms);
        while self.now_ms < STORM_MS && self.violation.is_none() {
            if self.now_ms >= next_request_ms {
                next_request_ms = self.now_ms + self.chance.below(2 * pace_ms) + 1;
                self.make_random_request();
            }
            if self.now_ms >= next_trouble_ms {
                next_trouble_ms = self.now_ms + self.chance.below(2 * rarely_ms) + 1;
                self.inject_fault();
            }
            self.advance_to(next_request_ms.min(next_trouble_ms).min(STORM_MS));
        }
        self.end_faults();
        self.advance_to(self.now_ms + SETTLED_MS);
        self.check_after_single_fault();
        self.end_faults();
        self.advance_to(self.now_ms + RECOVERED_MS);
        if self.violation.is_some() {
            return;
        }
        self.requires_responses = true;
        // A client that has watched all the time is notified.
        self.check_all_notified(false);
        for client in 0..self.clients.len() {
            for (key, watching) in self.clients[client].watches.clone() {
                // Former watches are checked with the rest.
                self.set_watch_state(client, key, watching);
            }
        }
        for client in 0..CLIENTS {
            for key in KEYS.iter() {
                self.make_request(client, RequestKind::Watch(key.clone()));
            }
        }
        if self.clients.len() > CLIENTS {
            for pattern in PATTERNS.map(Bytes::from_static) {
                self.make_request(CLIENTS, RequestKind::Watch(pattern));
            }
        }
        self.advance_to(self.now_ms + RESPONSE_DELAY_MS);
        self.check_all_notified(true);
        if self.violation.is_none()
            && let Err(violation) = self.check_against_log()
        {
            self.violated(violation);
        }
    }

    /// Causes a fault while there is little other load, changes all keys, and stays calm afterwards. A lost notification is then
    /// not made up for by a later change.
    fn check_after_single_fault(&mut self) {
        self.inject_fault();
        let later_ms = self.chance.below(RESPONSE_DELAY_MS);
        self.advance_to(self.now_ms + later_ms);
        for key in KEYS.iter() {
            let set = self.set(key, Condition::Always);
            self.make_request(0, set);
        }
        self.advance_to(self.now_ms + NOTIFICATION_DELAY_MS + RESPONSE_DELAY_MS);
    }

    /// Changes all keys. Each watcher is notified exactly once, because there are no faults.
    fn check_all_notified(&mut self, is_everybody: bool) {
        let (first, since) = (self.requests.len(), self.notified.len());
        let watches = self.clients.iter().map(|it| it.watches.clone());
        let watches: Vec<_> = watches.collect();
        for key in KEYS.iter() {
            let set = self.set(key, Condition::Always);
            self.make_request(0, set);
        }
        self.advance_to(self.now_ms + RESPONSE_DELAY_MS);
        for (offset, key) in KEYS.iter().enumerate() {
            let RequestKind::Call(Invocation::Set { value, .. }) =
                &self.requests[first + offset].kind
            else {
                continue;
            };
            let change = Event::Set(value.clone());
            for (client, watches) in watches.iter().enumerate() {
                let watching = watches.iter().filter(|(its, _)| client::covers(its, key));
                let watching = watching.map(|(_, state)| *state).max_by_key(|it| match it {
                    WatchState::Off { .. } => 0,
                    WatchState::Unknown => 1,
                    WatchState::On { .. } => 2,
                });
                let watching = watching.unwrap_or(WatchState::Off { since_ms: 0 });
                let told = self.notified[since..].iter();
                let told = told.filter(|it| it.client == client && it.notification.key == *key);
                let count = told.filter(|it| it.notification.event == change).count();
                let is_on = matches!(watching, WatchState::On { .. });
                let is_wrong = match watching {
                    WatchState::On { .. } => count != 1,
                    WatchState::Off { .. } => count > 0,
                    WatchState::Unknown => count > 1,
                };
                if is_wrong || is_everybody && !is_on {
                    let text = format!(
                        "client-{client}, of which {key:?} is {watching:?}, is told {count} times of {change:?}"
                    );
                    return self.violated(text);
                }
                self.metrics.watched += u64::from(is_on && !is_everybody);
            }
        }
    }

    pub(super) fn counts(&self) -> RunMetrics {
        RunMetrics {
            redelivered: self.broker.redelivered,
            changes: self.engine.lock().unwrap().log.len() as u64,
            ..self.metrics
        }
    }

    fn check_against_log(&self) -> Result<(), String> {
        let engine = Arc::clone(&self.engine);
        let engine = engine.lock().unwrap();
        let truth = GroundTruth::new(&engine);
        for (number, asked) in self.requests.iter().enumerate() {
            let RequestKind::Call(action) = &asked.kind else {
                continue;
            };
            check_request(&truth, asked, action)
                .map_err(|violation| format!("{number}: {violation}: {asked:?}"))?;
        }
        for key in KEYS.iter() {
            self.check_removals(&truth, key)?;
        }
        self.check_last_states(&truth)?;
        for it in &self.notified {
            if it.notification.event == Event::Resync {
                continue;
            }
            let version = (
                it.notification.version.wall_ms(),
                it.notification.version.counter(),
            );
            let mut records = truth.records();
            let is_known = records.any(|(_, key, record)| {
                *key == it.notification.key
                    && record.version == version
                    && match (&record.content, &it.notification.event) {
                        (RecordContent::Entry { value, .. }, Event::Set(told)) => value == told,
                        (RecordContent::Tombstone, Event::Deleted) => true,
                        _ => false,
                    }
            });
            if !is_known {
                return Err(format!(
                    "a change was notified that there never was: {it:?}"
                ));
            }
        }
        Ok(())
    }

    /// Checks that a client that watched for long enough after a change was notified of it meanwhile, of a later change of the key, or of a
    /// gap.
    fn check_last_states(&self, truth: &GroundTruth<'_>) -> Result<(), String> {
        for watched in &self.watched {
            let told = self.notified.iter().filter(|it| {
                it.client == watched.client && client::covers(&watched.key, &it.notification.key)
            });
            let told: Vec<_> = told.collect();
            for (index, key, record) in truth.records() {
                let at_ms = truth.log[index].at_ms;
                let until_ms = at_ms + NOTIFICATION_DELAY_MS;
                if at_ms < watched.since_ms
                    || until_ms > watched.until_ms
                    || !client::covers(&watched.key, key)
                {
                    continue;
                }
                let is_told = |it: &&ReceivedNotification| {
                    let Notification {
                        key: its,
                        version,
                        event,
                    } = &it.notification;
                    let version = (version.wall_ms(), version.counter());
                    let is_gap = *event == Event::Resync && it.at_ms >= at_ms;
                    it.at_ms <= until_ms && (is_gap || *its == *key && version >= record.version)
                };
                if !told.iter().any(is_told) {
                    return Err(format!(
                        "{watched:?}: was not told in time that {key:?} changed to {:?} at {at_ms}",
                        record.version
                    ));
                }
            }
        }
        Ok(())
    }

    /// Checks that each removal was requested.
    fn check_removals(&self, truth: &GroundTruth<'_>, key: &Bytes) -> Result<(), String> {
        let records = truth.records().filter(|(_, its, _)| *its == key);
        let removed = records.filter(|(_, _, record)| record.content == RecordContent::Tombstone);
        let removed = removed.count();
        let asked = self.requests.iter().filter(|it| it.kind.key() == key);
        let may_have = asked.filter(|it| {
            let is_removal = matches!(
                it.kind,
                RequestKind::Call(Invocation::Del { .. } | Invocation::Vdel { .. })
            );
            is_removal
                && match &it.response {
                    Some((_, ResponseContent::Result(answer))) => {
                        matches!(answer, CallResult::Deleted(_))
                    }
                    Some((_, ResponseContent::Rejected(_))) => it.attempts > 1,
                    Some((_, ResponseContent::Watch(_))) => false,
                    Some((_, ResponseContent::Unavailable)) | None => true,
                }
        });
        let may_have = may_have.count();
        if removed > may_have {
            return Err(format!(
                "{key:?} was removed {removed} times, and {may_have} requests may have done that"
            ));
        }
        Ok(())
    }
}

/// Whether the log explains the answer to a request, and whether a request without an answer was executed at most once.
fn check_request(
    truth: &GroundTruth<'_>,
    asked: &ClientRequest,
    action: &Invocation,
) -> Result<(), String> {
    let key = asked.kind.key();
    let done = match action {
        Invocation::Set { value, .. } => truth.positions_of_value(value),
        _ => Vec::new(),
    };
    if done.len() > 1 {
        return Err(format!("it was done more than once, at {done:?}"));
    }
    let Some((ended_ms, told)) = &asked.response else {
        return Ok(());
    };
    let span = (asked.started_ms, *ended_ms);
    let answer = match told {
        ResponseContent::Rejected(_) if asked.attempts == 1 && !done.is_empty() => {
            return Err(format!("it was done, at {done:?}"));
        }
        ResponseContent::Rejected(_) | ResponseContent::Unavailable | ResponseContent::Watch(_) => {
            return Ok(());
        }
        ResponseContent::Result(answer) => answer,
    };
    match answer {
        CallResult::Set {
            applied: true,
            version,
        } => {
            let Some(index) = done.first().copied() else {
                return Err("it was not done".into());
            };
            let made = record(truth, index, key);
            if made.is_none_or(|record| record.version != *version) {
                return Err(format!("it has another version: {made:?}"));
            }
            if matches!(
                action,
                Invocation::Set {
                    condition: Condition::IfAbsent,
                    ..
                }
            ) && entry(&truth.states[index], key).is_some()
            {
                return Err("its condition was not met".into());
            }
            is_within(truth, index, span)
        }
        _ if !done.is_empty() => Err(format!("it was done, at {done:?}")),
        CallResult::Deleted(version) => {
            let mut records = truth.records();
            let found = records.find(|(_, its, record)| {
                *its == key
                    && record.content == RecordContent::Tombstone
                    && version.is_none_or(|version| record.version == version)
            });
            let Some((index, ..)) = found else {
                return Err("it was not done".into());
            };
            is_within(truth, index, span)
        }
        answer => {
            let mut states = truth.between(span.0, span.1);
            if states.any(|states| explains(entry(states, key), answer)) {
                Ok(())
            } else {
                Err("no state explains it".into())
            }
        }
    }
}

fn is_within(
    truth: &GroundTruth<'_>,
    index: usize,
    (from_ms, to_ms): (u64, u64),
) -> Result<(), String> {
    let at_ms = truth.log[index].at_ms;
    if (from_ms..=to_ms).contains(&at_ms) {
        Ok(())
    } else {
        Err(format!("it was done at {at_ms} ms"))
    }
}

/// Returns the record of a key after a change of the log.
fn record<'t>(truth: &'t GroundTruth<'_>, index: usize, key: &Bytes) -> Option<&'t Record> {
    let mut changes = truth.log[index].changes.iter();
    changes.find_map(|change| match change {
        (EngineKey::Entry(its), EngineValue::Record(record)) if its == key => Some(record),
        _ => None,
    })
}

fn entry<'s>(states: &'s KeyStates, key: &Bytes) -> Option<(&'s Bytes, Version)> {
    let record = states.get(key)?;
    match &record.content {
        RecordContent::Entry { value, .. } => Some((value, record.version)),
        RecordContent::Tombstone => None,
    }
}

/// Whether this is the answer of an operation without a change in this state.
fn explains(entry: Option<(&Bytes, Version)>, answer: &CallResult) -> bool {
    match answer {
        CallResult::Read(got) => entry == got.as_ref().map(|(value, version)| (value, *version)),
        CallResult::Set { version, .. } => entry.is_some_and(|(_, its)| its == *version),
        CallResult::Absent => entry.is_none(),
        _ => false,
    }
}
