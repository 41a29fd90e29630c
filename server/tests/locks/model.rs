//! Every order in which the store can execute the requests of three updates of one key, and the end of its time.
//!
//! Each writer adds its letter to the value that it read. No write is lost if the value has the letter of each writer whose
//! write was applied since the key was last gone. No letter may occur twice.
use crate::model_config::{ModelConfig, PLAIN};
use bytes::Bytes;
use statestore::lock::{CompareAndSet, Progress, Step, StepOutcome};
use statestore::{Entry, Hlc};
use statestore_protocol::property::RequestProperties;
use statestore_protocol::{Clock, Command, Reply, ServiceError, SetOptions};
use statestored_access::Principal;
use statestored_store::service::{
    ClockReading, Outcome, ReplyEnvelope, Request, RequestEnvelope, RequestProgress, Service,
    ServiceConfig,
};
use std::num::NonZeroU64;
use std::sync::Arc;

const WRITERS: usize = 3;
const TTL_MS: u64 = 1_000;

struct Writer {
    letter: u8,
    clock: Clock,
    behind_ms: u64,
    steps: Option<CompareAndSet>,
    attempts: usize,
    is_outranked: bool,
    is_done: bool,
    /// When it last raised a fence and when its write was applied, as counts of the times that the key was gone.
    raised_in: usize,
    written_in: Option<usize>,
}

struct ModelRun<'e> {
    service: &'e mut Service,
    now: ClockReading,
    key: Bytes,
    setup: ModelConfig,
    sent: u64,
    writers: Vec<Writer>,
    retries: usize,
    has_expired: bool,
    /// How often the key was gone.
    absences: usize,
}

/// Result of a schedule.
#[derive(Debug, Default)]
struct ScheduleOutcome {
    lost: Vec<u8>,
    /// How many have written.
    written: usize,
    /// A writer wrote over the end of the fence that it had raised.
    outlived_fence: bool,
}

impl ModelRun<'_> {
    fn execute(&mut self, command: &Command, clock: Hlc, token: Option<Hlc>) -> ReplyEnvelope {
        self.sent += 1;
        let mut payload = bytes::BytesMut::new();
        command.encode(&mut payload);
        let client: Arc<str> = "writer".into();
        let mut correlation = self.key.to_vec();
        correlation.extend(self.sent.to_be_bytes());
        let request = Request {
            client: &client,
            principal: &Principal::default(),
            rights: None,
            correlation: &correlation,
            payload: &payload.freeze(),
            properties: RequestProperties {
                timestamp: Some(Ok(clock)),
                fencing_token: token.map(Ok),
                persist: false,
            },
            may_be_redelivered: true,
        };
        let envelope = RequestEnvelope {
            request,
            deadline_ms: None,
            has_capacity: true,
            max_reply_bytes: usize::MAX,
            is_shared: false,
        };
        match self.service.submit(&envelope, self.now) {
            RequestProgress::Complete(Outcome::Replied(response)) => response,
            other => panic!("{other:?}"),
        }
    }

    fn get(&mut self, key: Bytes, clock: Hlc) -> ReplyEnvelope {
        let get = Command::Get {
            key,
            remaining: false,
            eventual: false,
        };
        self.execute(&get, clock, None)
    }

    fn value(&mut self) -> Option<Bytes> {
        let clock = Hlc::new(0, 0, "reader").unwrap();
        match self.get(self.key.clone(), clock).reply {
            Reply::Value(value) => Some(value),
            _ => None,
        }
    }

    fn key_of(&self, writer: usize) -> Bytes {
        if self.setup.is_apart {
            [&self.key[..], &[self.writers[writer].letter]]
                .concat()
                .into()
        } else {
            self.key.clone()
        }
    }

    fn set(&mut self, key: Bytes, step: &Step, clock: Hlc) -> ReplyEnvelope {
        let expires = self.setup.updates_expire.then_some(TTL_MS);
        let command = Command::Set {
            key,
            value: step.value.clone(),
            options: SetOptions {
                condition: step.condition,
                expires_in_ms: expires.and_then(NonZeroU64::new),
            },
        };
        self.execute(&command, clock, Some(step.token.clone()))
    }

    /// Executes the next request of a writer.
    fn step(&mut self, number: usize) {
        let now_ms = self.now.wall_ms;
        let key = self.key_of(number);
        let writer = &mut self.writers[number];
        let local_ms = now_ms - writer.behind_ms;
        let clock = writer.clock.tick(local_ms);
        let letter = writer.letter;
        let Some(step) = writer.steps.as_ref().and_then(CompareAndSet::request) else {
            let response = self.get(key, clock);
            let old = response.version.map(|version| {
                let Reply::Value(value) = response.reply else {
                    panic!("a version without a value");
                };
                Entry::new(value, version)
            });
            let writer = &mut self.writers[number];
            let mut new = Vec::new();
            if let Some(old) = &old {
                new.extend_from_slice(&old.value);
                writer.clock.merge(&old.version, local_ms).unwrap();
            }
            new.push(letter);
            let timestamp = writer.clock.tick(local_ms);
            let name = format!("{}.{}", timestamp.node_id(), writer.attempts);
            let timestamp = Hlc::new(timestamp.wall_ms(), timestamp.counter(), &name).unwrap();
            writer.attempts += 1;
            let begin = if writer.is_outranked {
                CompareAndSet::outranking
            } else {
                CompareAndSet::new
            };
            writer.steps = Some(begin(old, new.into(), &timestamp));
            return;
        };
        if self.setup.is_naive && !step.is_write {
            let raised = StepOutcome::Applied(step.token);
            writer.steps.as_mut().unwrap().handle_outcome(raised);
            return self.step(number);
        }
        let response = self.set(key, &step, clock);
        let gone = self.absences;
        let writer = &mut self.writers[number];
        if let Some(version) = &response.version {
            writer.clock.merge(version, local_ms).unwrap();
        }
        let answer = match response.reply {
            Reply::Ok => StepOutcome::Applied(response.version.unwrap()),
            Reply::NotApplied => StepOutcome::NotApplied,
            Reply::Error(ServiceError::FencingTokenLower) => StepOutcome::Refused,
            other => panic!("{other:?}"),
        };
        if matches!(answer, StepOutcome::Applied(_)) {
            if step.is_write {
                writer.written_in = Some(gone);
            } else if writer.written_in.is_none() {
                writer.raised_in = gone;
            }
        }
        match writer.steps.as_mut().unwrap().handle_outcome(answer) {
            Progress::Continue => {}
            Progress::Applied(_) => writer.is_done = true,
            progress @ (Progress::Conflict | Progress::Outranked) => {
                writer.steps = None;
                writer.is_outranked |= progress == Progress::Outranked;
                writer.is_done = self.retries == 0;
                self.retries = self.retries.saturating_sub(1);
            }
            Progress::Failed => panic!("nothing fails here"),
        }
    }

    /// Lets the key expire if it has a time to live.
    fn expire(&mut self) {
        self.has_expired = true;
        let was_there = self.value().is_some();
        self.now.wall_ms += TTL_MS;
        self.now.mono_ms += TTL_MS;
        self.service.advance(self.now);
        if was_there && self.value().is_none() {
            self.absences += 1;
        }
    }

    fn choices(&self) -> Vec<usize> {
        let open = (0..WRITERS).filter(|number| !self.writers[*number].is_done);
        let expiry = (self.setup.expires && !self.has_expired).then_some(WRITERS);
        open.chain(expiry).collect()
    }

    fn outcome(&mut self) -> ScheduleOutcome {
        let value = self.value().unwrap_or_default();
        for letter in b'a'..b'd' {
            let times = value.split(|other| *other == letter).count() - 1;
            assert!(times <= 1, "{value:?}: an update was applied twice");
        }
        let gone = self.absences;
        let lost = self
            .writers
            .iter()
            .filter(|writer| writer.written_in == Some(gone) && !value.contains(&writer.letter));
        let outlived = |writer: &Writer| writer.written_in.is_some_and(|at| at > writer.raised_in);
        ScheduleOutcome {
            written: self
                .writers
                .iter()
                .filter(|it| it.written_in.is_some())
                .count(),
            lost: lost.map(|writer| writer.letter).collect(),
            outlived_fence: self.writers.iter().any(outlived),
        }
    }
}

/// Runs every schedule; `check` gets the verdict after each step of each of them. Gives the number of schedules.
fn explore(setup: ModelConfig, mut check: impl FnMut(&[usize], &ScheduleOutcome)) -> usize {
    let mut service = Service::embedded(ServiceConfig {
        hash_key: [1, 2],
        replay_per_client: 1,
        ..ServiceConfig::default()
    });
    let mut schedule = Vec::new();
    let mut count = 0_u64;
    let mut checked = 0;
    loop {
        count += 1;
        let mut run = begin(&mut service, setup, count);
        let mut alternatives = Vec::new();
        for depth in 0.. {
            let choices = run.choices();
            if choices.is_empty() {
                break;
            }
            let chosen = schedule.get(depth).copied().unwrap_or(0);
            if depth == schedule.len() {
                schedule.push(0);
            }
            alternatives.push(choices.len());
            match choices[chosen] {
                WRITERS => run.expire(),
                writer => run.step(writer),
            }
            // The common part with the last schedule was checked then.
            if depth >= checked {
                let verdict = run.outcome();
                check(&schedule[..=depth], &verdict);
            }
        }
        // The next schedule: the last choice that has an alternative left takes it.
        while let (Some(last), Some(of)) = (schedule.pop(), alternatives.pop()) {
            if last + 1 < of {
                schedule.push(last + 1);
                break;
            }
        }
        if schedule.is_empty() {
            return usize::try_from(count).unwrap();
        }
        checked = schedule.len() - 1;
    }
}

fn begin(service: &mut Service, setup: ModelConfig, number: u64) -> ModelRun<'_> {
    let now = ClockReading {
        // Later than all that earlier schedules did.
        wall_ms: 1_700_000_000_000 + number * 2 * TTL_MS,
        mono_ms: number * 2 * TTL_MS,
    };
    let writer = |number: usize| {
        let letter = b'a' + u8::try_from(number).unwrap();
        Writer {
            letter,
            clock: Clock::new(&format!("w{number}")).unwrap(),
            behind_ms: if number == WRITERS - 1 {
                setup.behind_ms
            } else {
                0
            },
            steps: None,
            attempts: 0,
            is_outranked: number < setup.by_clock,
            is_done: false,
            raised_in: 0,
            written_in: None,
        }
    };
    let mut run = ModelRun {
        service,
        now,
        key: Bytes::copy_from_slice(&number.to_be_bytes()),
        setup,
        sent: 0,
        writers: (0..WRITERS).map(writer).collect(),
        retries: setup.retries,
        has_expired: false,
        absences: 0,
    };
    if setup.exists {
        let command = Command::Set {
            key: run.key.clone(),
            value: "-".into(),
            options: SetOptions {
                expires_in_ms: setup.expires.then_some(TTL_MS).and_then(NonZeroU64::new),
                ..SetOptions::default()
            },
        };
        let clock = Hlc::new(run.now.wall_ms, 0, "setup").unwrap();
        let highest = Hlc::new(run.now.wall_ms, u64::MAX, "z").unwrap();
        let token = setup.is_protected.then_some(highest);
        assert_eq!(run.execute(&command, clock, token).reply, Reply::Ok);
        run.now.wall_ms += 1;
    }
    run
}

fn assert_nothing_is_lost(setup: ModelConfig) {
    let schedules = explore(setup, |schedule, verdict| {
        assert!(
            verdict.lost.is_empty(),
            "{setup:?} {schedule:?} {verdict:?}"
        );
    });
    assert!(schedules > 300, "{schedules}");
}

#[test]
fn no_interleaving_of_three_updates_loses_one() {
    for exists in [true, false] {
        for behind_ms in [0, 30_000] {
            assert_nothing_is_lost(ModelConfig {
                exists,
                behind_ms,
                ..PLAIN
            });
        }
    }
}

#[test]
fn no_interleaving_loses_an_update_if_the_first_value_expires() {
    for behind_ms in [0, 30_000] {
        assert_nothing_is_lost(ModelConfig {
            expires: true,
            behind_ms,
            retries: 0,
            ..PLAIN
        });
    }
}

/// Checks that tokens of the clock outrank a token that is higher than the version. They lose no write, also beside tokens
/// that are made of the version alone.
#[test]
fn no_interleaving_loses_an_update_with_tokens_from_the_clock() {
    for by_clock in 1..=WRITERS {
        for behind_ms in [0, 30_000] {
            for is_protected in [true, false] {
                let setup = ModelConfig {
                    behind_ms,
                    is_protected,
                    by_clock,
                    ..PLAIN
                };
                let mut most_written = 0;
                explore(setup, |schedule, verdict| {
                    most_written = most_written.max(verdict.written);
                    let is_safe = verdict.lost.is_empty();
                    assert!(is_safe, "{setup:?} {schedule:?} {verdict:?}");
                });
                assert!(most_written > 0, "{setup:?}");
            }
        }
    }
}

#[test]
fn a_token_of_the_version_is_refused_by_a_higher_token() {
    let protected = ModelConfig {
        is_protected: true,
        retries: 0,
        ..PLAIN
    };
    explore(protected, |schedule, verdict| {
        assert_eq!(verdict.written, 0, "{schedule:?}");
    });
}

/// Shows why an update that expires does not send its write when the fence may be gone.
#[test]
fn with_expiring_values_only_a_write_after_its_fence_expired_loses_an_update() {
    let mut losses = 0;
    for exists in [true, false] {
        for behind_ms in [0, 30_000] {
            let setup = ModelConfig {
                exists,
                expires: true,
                updates_expire: true,
                behind_ms,
                retries: 0,
                ..PLAIN
            };
            explore(setup, |schedule, verdict| {
                let is_limit = verdict.lost.is_empty() || verdict.outlived_fence;
                assert!(is_limit, "{setup:?} {schedule:?} {verdict:?}");
                losses += verdict.lost.len();
            });
        }
    }
    assert!(losses > 0, "the limit is documented, and real");
}

/// The fence is what makes the difference, and the checks above would notice.
#[test]
fn without_raising_the_fence_an_interleaving_loses_an_update() {
    let mut losses = 0;
    let naive = ModelConfig {
        is_naive: true,
        retries: 0,
        ..PLAIN
    };
    explore(naive, |_, verdict| losses += verdict.lost.len());
    assert!(losses > 0);
}

/// Writers that do not meet take two steps each in every order, so the orders can be counted by hand.
#[test]
fn every_interleaving_is_explored() {
    let apart = ModelConfig {
        exists: false,
        is_apart: true,
        ..PLAIN
    };
    // 6! / (2! 2! 2!)
    assert_eq!(explore(apart, |_, _| {}), 90);
}
