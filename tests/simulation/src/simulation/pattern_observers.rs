//! Observers of patterns, and a model of what a reader knows: written from the documentation of the events, not from the client.
use super::Simulation;
use super::client_platform;
use crate::ground_truth::KeyContent;
use crate::history::{Version, version};
use bytes::Bytes;
use statestore::MatchObservation;
use std::collections::BTreeMap;
use std::time::Duration;

/// Maximum number of observers of patterns in a run.
const MAX_OBSERVERS: usize = 4;

/// A pattern, and whether it matches a key.
type Pattern = (&'static str, fn(&[u8]) -> bool);

const PATTERNS: [Pattern; 5] = [
    ("*", |_| true),
    ("k*", |key| key.starts_with(b"k")),
    ("k0", |key| key == b"k0"),
    ("k[12]", |key| key == b"k1" || key == b"k2"),
    ("x*", |_| false),
];

/// Knowledge of the reader of an observer.
// Each flag is independent of the others.
#[allow(clippy::struct_excessive_bools)]
#[derive(Debug)]
pub(crate) struct PatternObserver {
    client: usize,
    pattern: &'static str,
    matches: fn(&[u8]) -> bool,
    /// Versions of the matching keys without expiry time when the observer was created.
    initial: BTreeMap<Bytes, Version>,
    entries: BTreeMap<Bytes, (Bytes, Version)>,
    /// The highest version of each key since the last gap.
    versions: BTreeMap<Bytes, Version>,
    /// Number of events.
    pub(crate) events: usize,
    has_started: bool,
    is_complete: bool,
    has_gap: bool,
    has_ended: bool,
}

impl PatternObserver {
    /// Whether the reader should know the state of the store.
    fn is_settled(&self) -> bool {
        self.is_complete && !self.has_gap
    }

    /// Applies an event.
    ///
    /// # Errors
    /// The event contradicts the earlier ones.
    fn apply(&mut self, event: MatchObservation) -> Result<(), String> {
        self.events += 1;
        match event {
            MatchObservation::Set {
                key,
                value,
                version: it,
            } => {
                self.check_key(&key)?;
                self.raise_version(&key, version(&it))?;
                self.entries.insert(key, (value, version(&it)));
            }
            MatchObservation::Deleted { key, version: it } => {
                self.check_key(&key)?;
                if let Some(it) = it {
                    self.raise_version(&key, version(&it))?;
                }
                self.entries.remove(&key);
            }
            MatchObservation::Complete if self.is_complete => {
                return Err("a second Complete".to_owned());
            }
            MatchObservation::Complete => {
                self.is_complete = true;
                self.has_gap = false;
            }
            MatchObservation::Resync => {
                self.has_gap = true;
                self.versions.clear();
            }
            MatchObservation::Resynced if !self.is_complete || !self.has_gap => {
                return Err("a Resynced without a gap".to_owned());
            }
            MatchObservation::Resynced => self.has_gap = false,
            other => return Err(format!("{other:?} is unknown")),
        }
        Ok(())
    }

    /// Checks that the reader knows each key that has not changed since the observer was created.
    fn check_complete(&self, present: &BTreeMap<Bytes, KeyContent>) -> Result<(), String> {
        let mut initial = self.initial.iter();
        let missing = initial.find(|(key, version)| {
            let content = present.get(*key);
            content.is_some_and(|it| it.version == **version) && !self.entries.contains_key(*key)
        });
        match missing {
            Some((key, version)) => Err(format!("Complete without {key:?} of {version:?}")),
            None => Ok(()),
        }
    }

    fn check_key(&self, key: &Bytes) -> Result<(), String> {
        if (self.matches)(key) {
            Ok(())
        } else {
            Err(format!("{key:?} does not match"))
        }
    }

    fn raise_version(&mut self, key: &Bytes, version: Version) -> Result<(), String> {
        match self.versions.insert(key.clone(), version) {
            Some(last) if version <= last => {
                Err(format!("{key:?}: version {version:?} after {last:?}"))
            }
            _ => Ok(()),
        }
    }
}

impl Simulation {
    /// Lets a client observe a pattern, in a run with such observers.
    pub(crate) fn start_pattern_observer(&mut self, client: usize) {
        if self.pattern_observers.len() == MAX_OBSERVERS || !self.chance.percent(30) {
            return;
        }
        let Some(made) = self.machines[client].client.clone() else {
            return;
        };
        let (pattern, matches) = self.chance.pick(&PATTERNS);
        let is_slow = self.chance.percent(30);
        let number = self.pattern_observers.len();
        self.trace_event(|| format!("c{client} p{number}: observes {pattern}, slow: {is_slow}"));
        let present = self.ground_truth.present.iter();
        let lasting = present.filter(|(key, it)| matches(key) && it.expires_ms.is_none());
        let initial = lasting.map(|(key, it)| (key.clone(), it.version)).collect();
        self.pattern_observers.push(PatternObserver {
            client,
            pattern,
            matches,
            initial,
            entries: BTreeMap::new(),
            versions: BTreeMap::new(),
            events: 0,
            has_started: false,
            is_complete: false,
            has_gap: false,
            has_ended: false,
        });
        self.running += 1;
        let world = self.shared();
        let gate = self.machines[client].gate.clone();
        client_platform::spawn(&gate, async move {
            let observe = made.observe_matching(pattern).await;
            drop(made);
            match observe {
                Err(error) => {
                    let mut world = world.lock().unwrap();
                    world.trace_event(|| format!("c{client} p{number}: {error}"));
                }
                Ok(mut observer) => {
                    world.lock().unwrap().pattern_observers[number].has_started = true;
                    while let Some(event) = observer.next().await {
                        let pause_ms = world.lock().unwrap().observe_event(number, event, is_slow);
                        if pause_ms > 0 {
                            tokio::time::sleep(Duration::from_millis(pause_ms)).await;
                        }
                    }
                    let error = observer.error();
                    let mut world = world.lock().unwrap();
                    world.trace_event(|| format!("c{client} p{number}: ended by {error:?}"));
                }
            }
            let mut world = world.lock().unwrap();
            world.pattern_observers[number].has_ended = true;
            world.running -= 1;
            world.changed.notify_one();
        });
    }

    /// Records an event of an observer. Returns how long the reader pauses, in milliseconds.
    fn observe_event(&mut self, number: usize, event: MatchObservation, is_slow: bool) -> u64 {
        self.trace_event(|| format!("p{number}: told {event:?}"));
        if let MatchObservation::Set {
            key,
            value,
            version: it,
        } = &event
            && !self.ground_truth.changes_of(key).any(|it_was| {
                it_was.value.as_ref() == Some(value) && it_was.version == Some(version(it))
            })
        {
            self.violated(format!("p{number}: {key:?} never was {value:?} at {it}"));
        }
        let is_complete = matches!(event, MatchObservation::Complete);
        let observer = &mut self.pattern_observers[number];
        let mut result = observer.apply(event);
        if is_complete && result.is_ok() {
            result = observer.check_complete(&self.ground_truth.present);
        }
        let pattern = observer.pattern;
        self.expect(result.map_err(|why| format!("p{number} of {pattern}: {why}")));
        if is_slow && !self.is_healed {
            self.chance.log_uniform(1, 2_000)
        } else {
            0
        }
    }

    /// Checks that each observer of a pattern knows the state of the store, now that nothing changes.
    pub(crate) fn check_pattern_observers(&self) -> Result<(), String> {
        for (number, observer) in self.pattern_observers.iter().enumerate() {
            if !observer.has_started || observer.has_ended {
                continue;
            }
            let name = format!("c{} p{number} of {}", observer.client, observer.pattern);
            if !observer.is_settled() {
                return Err(format!("{name} waits for the state of the store"));
            }
            let present = self.ground_truth.present.iter();
            let present = present.filter(|(key, _)| (observer.matches)(key));
            let present: BTreeMap<_, _> = present.map(|(key, it)| (key, &it.value)).collect();
            let known = observer.entries.iter();
            let known: BTreeMap<_, _> = known.map(|(key, (value, _))| (key, value)).collect();
            if known != present {
                return Err(format!("{name} knows {known:?}, but there is {present:?}"));
            }
        }
        Ok(())
    }
}
