//! Checks of the results that clients got against the log of the engine.
use super::client::{Asked, Told, Watching, What};
use super::{CLIENTS, Counts, RECOVERED_MS, STORM_MS, World};
use crate::elsewhere::KEYS;
use crate::elsewhere::truth::{States, Truth};
use crate::history::{Action, Answer, Version};
use bytes::Bytes;
use statestore_protocol::{Condition, Event};
use statestored::keyspace::remote::{Content, Place, Put, Record};
use std::sync::Arc;

/// Upper bound of the delay of a notification, under any fault.
const TOLD_MS: u64 = 15_000;

/// Time until the group has a leader again after a storm.
const SETTLED_MS: u64 = 10_000;

/// Upper bound of the delay of an answer or a notification without faults.
const SOON_MS: u64 = 5_000;

impl World {
    /// Runs a storm and a calm, and checks the invariants.
    pub(super) fn run(&mut self) {
        for client in 0..CLIENTS {
            self.connect(client);
        }
        // Time until the group has a leader.
        self.pass(SOON_MS);
        let (pace_ms, rarely_ms) = (
            self.chance.spread(20, 1_000),
            self.chance.spread(500, 20_000),
        );
        let (mut next_request_ms, mut next_trouble_ms) = (self.now_ms, self.now_ms + rarely_ms);
        while self.now_ms < STORM_MS && self.violation.is_none() {
            if self.now_ms >= next_request_ms {
                next_request_ms = self.now_ms + self.chance.below(2 * pace_ms) + 1;
                self.ask();
            }
            if self.now_ms >= next_trouble_ms {
                next_trouble_ms = self.now_ms + self.chance.below(2 * rarely_ms) + 1;
                self.trouble();
            }
            self.pass(next_request_ms.min(next_trouble_ms).min(STORM_MS));
        }
        self.calm_down();
        self.pass(self.now_ms + SETTLED_MS);
        self.one_more_trouble();
        self.calm_down();
        self.pass(self.now_ms + RECOVERED_MS);
        if self.violation.is_some() {
            return;
        }
        self.is_well = true;
        // A client that has watched all the time is notified.
        self.all_are_told(false);
        for client in 0..CLIENTS {
            for (key, watching) in self.clients[client].watches.clone() {
                // Former watches are checked with the rest.
                self.watches(client, key, watching);
            }
        }
        for client in 0..CLIENTS {
            for key in KEYS.iter() {
                self.ask_for(client, What::Watch(key.clone()));
            }
        }
        self.pass(self.now_ms + SOON_MS);
        self.all_are_told(true);
        if self.violation.is_none()
            && let Err(violation) = self.held_against_log()
        {
            self.violated(violation);
        }
    }

    /// Causes a fault while there is little other load, changes all keys, and stays calm afterwards. A lost notification is then
    /// not made up for by a later change.
    fn one_more_trouble(&mut self) {
        self.trouble();
        let later_ms = self.chance.below(SOON_MS);
        self.pass(self.now_ms + later_ms);
        for key in KEYS.iter() {
            let set = self.set(key, Condition::Always);
            self.ask_for(0, set);
        }
        self.pass(self.now_ms + TOLD_MS + SOON_MS);
    }

    /// Changes all keys. Each watcher is notified exactly once, because there are no faults.
    fn all_are_told(&mut self, is_everybody: bool) {
        let (first, since) = (self.asked.len(), self.notified.len());
        let watches = self.clients.iter().map(|it| it.watches.clone());
        let watches: Vec<_> = watches.collect();
        for key in KEYS.iter() {
            let set = self.set(key, Condition::Always);
            self.ask_for(0, set);
        }
        self.pass(self.now_ms + SOON_MS);
        for (offset, key) in KEYS.iter().enumerate() {
            let What::Call(Action::Set { value, .. }) = &self.asked[first + offset].what else {
                continue;
            };
            let change = Event::Set(value.clone());
            for (client, watches) in watches.iter().enumerate() {
                let watching = watches.get(key).copied();
                let watching = watching.unwrap_or(Watching::Off { since_ms: 0 });
                let told = self.notified[since..].iter();
                let told = told.filter(|it| it.client == client && it.notification.key == *key);
                let count = told.filter(|it| it.notification.event == change).count();
                let is_on = matches!(watching, Watching::On { .. });
                let is_wrong = match watching {
                    Watching::On { .. } => count != 1,
                    Watching::Off { .. } => count > 0,
                    Watching::Unsure => count > 1,
                };
                if is_wrong || is_everybody && !is_on {
                    let text = format!(
                        "client-{client}, of which {key:?} is {watching:?}, is told {count} times of {change:?}"
                    );
                    return self.violated(text);
                }
                self.counts.watched += u64::from(is_on && !is_everybody);
            }
        }
    }

    pub(super) fn counts(&self) -> Counts {
        Counts {
            given_on: self.broker.given_on,
            changes: self.engine.lock().unwrap().log.len() as u64,
            ..self.counts
        }
    }

    fn held_against_log(&self) -> Result<(), String> {
        let engine = Arc::clone(&self.engine);
        let engine = engine.lock().unwrap();
        let truth = Truth::new(&engine);
        for (number, asked) in self.asked.iter().enumerate() {
            let What::Call(action) = &asked.what else {
                continue;
            };
            held(&truth, asked, action)
                .map_err(|violation| format!("{number}: {violation}: {asked:?}"))?;
        }
        for key in KEYS.iter() {
            self.removals(&truth, key)?;
        }
        self.watchers_reached_the_last_state(&truth)?;
        for it in &self.notified {
            let version = (
                it.notification.version.wall_ms(),
                it.notification.version.counter(),
            );
            let mut records = truth.records();
            let is_known = records.any(|(_, key, record)| {
                *key == it.notification.key
                    && record.version == version
                    && match (&record.content, &it.notification.event) {
                        (Content::Entry { value, .. }, Event::Set(told)) => value == told,
                        (Content::Tombstone, Event::Deleted) => true,
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

    /// Checks that a client that watched for long enough after a change was notified of it meanwhile, or of a later change.
    fn watchers_reached_the_last_state(&self, truth: &Truth<'_>) -> Result<(), String> {
        for watched in &self.watched {
            let told = self
                .notified
                .iter()
                .filter(|it| it.client == watched.client && it.notification.key == watched.key);
            let told = told.map(|it| {
                let version = &it.notification.version;
                (it.at_ms, (version.wall_ms(), version.counter()))
            });
            let told: Vec<_> = told.collect();
            for (index, key, record) in truth.records() {
                let at_ms = truth.log[index].at_ms;
                let until_ms = at_ms + TOLD_MS;
                if *key != watched.key || at_ms < watched.since_ms || until_ms > watched.until_ms {
                    continue;
                }
                let is_told = |(told_ms, version): &(u64, Version)| {
                    *told_ms <= until_ms && *version >= record.version
                };
                if !told.iter().any(is_told) {
                    return Err(format!(
                        "{watched:?}: was not told in time that the key changed to {:?} at {at_ms}",
                        record.version
                    ));
                }
            }
        }
        Ok(())
    }

    /// Checks that each removal was requested.
    fn removals(&self, truth: &Truth<'_>, key: &Bytes) -> Result<(), String> {
        let records = truth.records().filter(|(_, its, _)| *its == key);
        let removed = records.filter(|(_, _, record)| record.content == Content::Tombstone);
        let removed = removed.count();
        let asked = self.asked.iter().filter(|it| it.what.key() == key);
        let may_have = asked.filter(|it| {
            let is_removal = matches!(
                it.what,
                What::Call(Action::Del { .. } | Action::Vdel { .. })
            );
            is_removal
                && match &it.ended {
                    Some((_, Told::Answer(answer))) => matches!(answer, Answer::Deleted(_)),
                    Some((_, Told::Refused(_))) => it.times > 1,
                    Some((_, Told::Watch(_))) => false,
                    Some((_, Told::Unavailable)) | None => true,
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
fn held(truth: &Truth<'_>, asked: &Asked, action: &Action) -> Result<(), String> {
    let key = asked.what.key();
    let done = match action {
        Action::Set { value, .. } => truth.of_value(value),
        _ => Vec::new(),
    };
    if done.len() > 1 {
        return Err(format!("it was done more than once, at {done:?}"));
    }
    let Some((ended_ms, told)) = &asked.ended else {
        return Ok(());
    };
    let span = (asked.called_ms, *ended_ms);
    let answer = match told {
        Told::Refused(_) if asked.times == 1 && !done.is_empty() => {
            return Err(format!("it was done, at {done:?}"));
        }
        Told::Refused(_) | Told::Unavailable | Told::Watch(_) => return Ok(()),
        Told::Answer(answer) => answer,
    };
    match answer {
        Answer::Set {
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
                Action::Set {
                    condition: Condition::IfAbsent,
                    ..
                }
            ) && entry(&truth.states[index], key).is_some()
            {
                return Err("its condition was not met".into());
            }
            in_time(truth, index, span)
        }
        _ if !done.is_empty() => Err(format!("it was done, at {done:?}")),
        Answer::Deleted(version) => {
            let mut records = truth.records();
            let found = records.find(|(_, its, record)| {
                *its == key
                    && record.content == Content::Tombstone
                    && version.is_none_or(|version| record.version == version)
            });
            let Some((index, ..)) = found else {
                return Err("it was not done".into());
            };
            in_time(truth, index, span)
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

fn in_time(truth: &Truth<'_>, index: usize, (from_ms, to_ms): (u64, u64)) -> Result<(), String> {
    let at_ms = truth.log[index].at_ms;
    if (from_ms..=to_ms).contains(&at_ms) {
        Ok(())
    } else {
        Err(format!("it was done at {at_ms} ms"))
    }
}

/// Returns the record of a key after a change of the log.
fn record<'t>(truth: &'t Truth<'_>, index: usize, key: &Bytes) -> Option<&'t Record> {
    let mut changes = truth.log[index].changes.iter();
    changes.find_map(|change| match change {
        (Place::Entry(its), Put::Record(record)) if its == key => Some(record),
        _ => None,
    })
}

fn entry<'s>(states: &'s States, key: &Bytes) -> Option<(&'s Bytes, Version)> {
    let record = states.get(key)?;
    match &record.content {
        Content::Entry { value, .. } => Some((value, record.version)),
        Content::Tombstone => None,
    }
}

/// Whether this is the answer of an operation without a change in this state.
fn explains(entry: Option<(&Bytes, Version)>, answer: &Answer) -> bool {
    match answer {
        Answer::Got(got) => entry == got.as_ref().map(|(value, version)| (value, *version)),
        Answer::Set { version, .. } => entry.is_some_and(|(_, its)| its == *version),
        Answer::Absent => entry.is_none(),
        _ => false,
    }
}
