//! The observations of observers.
use super::client_platform;
use super::{Event, Simulation};
use crate::history::{Version, version};
use bytes::Bytes;
use statestore::{Observation, ObserveOptions, Overflow};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

/// An observer, and its observations.
#[derive(Debug)]
pub(crate) struct ObserverRecord {
    pub(crate) client: usize,
    pub(crate) key: Bytes,
    /// Whether the observer wants every change, not only the last one.
    pub(crate) wants_all: bool,
    /// Start of the watch.
    pub(crate) started_ms: Option<u64>,
    pub(crate) observations: Vec<(u64, RecordedObservation)>,
    /// Whether the observer was dropped, or its stream has ended.
    pub(crate) has_ended: bool,
    pub(crate) stop: Arc<Notify>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RecordedObservation {
    Set(Bytes, Version),
    Deleted(Option<Version>),
    Resync,
    Lagged,
}

impl RecordedObservation {
    fn of(observation: Observation) -> Self {
        match observation {
            Observation::Set { value, version: it } => Self::Set(value, version(&it)),
            Observation::Deleted { version: it } => Self::Deleted(it.as_ref().map(version)),
            Observation::Lagged(_) => Self::Lagged,
            _ => Self::Resync,
        }
    }
}

impl Simulation {
    /// Lets a client observe a key.
    pub(crate) fn start_observer(&mut self, client: usize) {
        let Some(made) = self.machines[client].client.clone() else {
            return;
        };
        let key = self.chance.pick(&self.scenario.keys);
        let overflow = match self.chance.below(3) {
            0 => Overflow::Latest,
            1 => Overflow::All(2),
            _ => Overflow::All(1_000),
        };
        let is_slow = self.chance.percent(30);
        let stop = Arc::new(Notify::new());
        let number = self.observers.len();
        self.trace_event(|| {
            format!("c{client} f{number}: observes {key:?}, {overflow:?}, slow: {is_slow}")
        });
        self.observers.push(ObserverRecord {
            client,
            key: key.clone(),
            wants_all: matches!(overflow, Overflow::All(_)),
            started_ms: None,
            observations: Vec::new(),
            has_ended: false,
            stop: stop.clone(),
        });
        if self.chance.percent(40) {
            let at_ms = self.now_ms() + self.chance.log_uniform(1, 6_000);
            self.schedule(at_ms, Event::StopObserver(number));
        }
        self.running += 1;
        let world = self.shared();
        let gate = self.machines[client].gate.clone();
        client_platform::spawn(&gate, async move {
            let options = ObserveOptions::new().overflow(overflow);
            let following = made.observe_with(&key, &options).await;
            drop(made);
            match following {
                Err(error) => {
                    let mut world = world.lock().unwrap();
                    world.trace_event(|| format!("c{client} f{number}: {error}"));
                }
                Ok(mut observer) => {
                    {
                        let mut world = world.lock().unwrap();
                        let now_ms = world.now_ms();
                        world.trace_event(|| format!("c{client} f{number}: the watch has begun"));
                        world.observers[number].started_ms = Some(now_ms);
                    }
                    loop {
                        let next = tokio::select! {
                            biased;
                            () = stop.notified() => None,
                            next = observer.next() => next,
                        };
                        let Some(observation) = next else {
                            break;
                        };
                        let pause_ms = {
                            let mut world = world.lock().unwrap();
                            let now_ms = world.now_ms();
                            let told = RecordedObservation::of(observation);
                            world.trace_event(|| format!("c{client} f{number}: told {told:?}"));
                            world.observers[number].observations.push((now_ms, told));
                            if is_slow && !world.is_healed {
                                world.chance.log_uniform(1, 2_000)
                            } else {
                                0
                            }
                        };
                        if pause_ms > 0 {
                            tokio::time::sleep(Duration::from_millis(pause_ms)).await;
                        }
                    }
                    drop(observer);
                }
            }
            let mut world = world.lock().unwrap();
            world.trace_event(|| format!("c{client} f{number}: has ended"));
            world.observers[number].has_ended = true;
            world.running -= 1;
            world.changed.notify_one();
        });
    }

    /// Whether the watch of an observer was renewed after a change at `changed_ms`, over a connection that was reported to it.
    /// `marked_ms` is the time of the last such report.
    fn was_renewed(
        &self,
        following: &ObserverRecord,
        changed_ms: u64,
        told_ms: u64,
        marked_ms: Option<u64>,
    ) -> bool {
        let mut watches = self.watches.iter();
        !self.ground_truth.losses.is_empty()
            || watches.any(|(at_ms, link, key)| {
                let link = &self.links[*link];
                (changed_ms..=told_ms).contains(at_ms)
                    && link.client == following.client
                    && *key == following.key
                    && marked_ms >= Some(link.dialed_ms)
            })
    }

    /// Checks that an observer gets rising versions, only real changes, and in the end the last state.
    pub(crate) fn check_observer(&self, following: &ObserverRecord) -> Result<(), String> {
        let Some(began_ms) = following.started_ms else {
            return Ok(());
        };
        let mut last: Option<Version> = None;
        // Version of the last reported state, without a marker in between.
        let mut previous: Option<Version> = None;
        let mut state: Option<Option<&Bytes>> = None;
        let mut marked_ms = None;
        for (at_ms, told) in &following.observations {
            let (value, version) = match told {
                RecordedObservation::Resync | RecordedObservation::Lagged => {
                    previous = None;
                    marked_ms = Some(*at_ms);
                    // A store assigns lower versions again only after it has lost everything.
                    if *told == RecordedObservation::Resync && !self.ground_truth.losses.is_empty()
                    {
                        last = None;
                    }
                    continue;
                }
                RecordedObservation::Set(value, version) => (Some(value), Some(*version)),
                RecordedObservation::Deleted(version) => (None, *version),
            };
            state = Some(value);
            let Some(version) = version else {
                continue;
            };
            if last.is_some_and(|last| version <= last) {
                return Err(format!("at {at_ms} ms, version {version:?} after {last:?}"));
            }
            if let Some(value) = value
                && !self
                    .ground_truth
                    .changes_of(&following.key)
                    .any(|it| it.value.as_ref() == Some(value) && it.version == Some(version))
            {
                return Err(format!("at {at_ms} ms, {value:?} {version:?} never was"));
            }
            if following.wants_all
                && let Some(previous) = previous
                && let Some(missed) = self
                    .ground_truth
                    .changes_of(&following.key)
                    .find(|it| it.version.is_some_and(|it| it > previous && it < version))
                && !self.was_renewed(following, missed.at_ms, *at_ms, marked_ms)
            {
                return Err(format!(
                    "at {at_ms} ms, {version:?}: {missed:?} was not told"
                ));
            }
            last = Some(version);
            previous = Some(version);
        }
        if following.has_ended {
            return Ok(());
        }
        let held = self.ground_truth.present.get(&following.key);
        let held = held.map(|held| &held.value);
        match state {
            Some(state) if state != held => Err(format!(
                "was told {state:?} at last, but the store holds {held:?}"
            )),
            None if self
                .ground_truth
                .changes_of(&following.key)
                .any(|it| it.at_ms > began_ms) =>
            {
                Err(format!("was told nothing, but the store holds {held:?}"))
            }
            _ => Ok(()),
        }
    }
}
