//! The workload of the clients.
use super::client_platform::{self, ClientPlatform};
use super::{Event, Simulation};
use crate::faults::Mishap;
use crate::history::{self, CallResult, Invocation, Operation, version};
use bytes::Bytes;
use statestore::{
    Client, Condition, DelOptions, DelOutcome, Error, GetOptions, Hlc, ScanOptions, SetOptions,
    SetOutcome, Settings, VdelOutcome,
};
use std::time::Duration;

/// Maximum time that a client takes to close.
const CLOSING_MS: u64 = 1_100;

impl Simulation {
    /// Creates a client, which connects.
    pub(crate) fn start_client(&mut self, client: usize) {
        if self.machines[client].is_starting || self.machines[client].client.is_some() {
            return;
        }
        let settings = self.settings(client);
        let world = self.shared();
        self.machines[client].is_starting = true;
        self.machines[client].instances += 1;
        let gate = self.machines[client].gate.clone();
        client_platform::spawn(&gate, async move {
            let result = Client::connect(settings).await;
            let mut world = world.lock().unwrap();
            world.started(client, result);
            world.changed.notify_one();
        });
    }

    fn started(&mut self, client: usize, result: Result<Client, Error>) {
        self.machines[client].is_starting = false;
        match result {
            Ok(made) => {
                self.trace_event(|| format!("c{client}: is connected"));
                self.machines[client].client = Some(made);
            }
            Err(error) => {
                self.trace_event(|| format!("c{client}: {error}"));
                let at_ms = self.now_ms() + 50;
                self.schedule(at_ms, Event::StartClient(client));
            }
        }
    }

    fn settings(&mut self, client: usize) -> Settings {
        let ms = Duration::from_millis;
        let chance = &mut self.chance;
        let keep_alive_ms = chance.between(1, 4) * 1_000;
        let ping_timeout_ms = chance.log_uniform(200, 3_000);
        let connect_timeout_ms = chance.log_uniform(400, 4_000);
        let mut settings = Settings::new("simulated", 1883)
            .client_id(format!("c{client}"))
            .clean_start(chance.percent(50))
            .session_expiry(Duration::from_secs(chance.pick(&[0, 3, 60, 3600])))
            .keep_alive(ms(keep_alive_ms))
            .ping_timeout(ms(ping_timeout_ms))
            .connect_timeout(ms(connect_timeout_ms))
            .request_timeout(ms(chance.log_uniform(500, 6_000)))
            .reconnect_delay(
                ms(chance.log_uniform(1, 100)),
                ms(chance.log_uniform(100, 1_500)),
            );
        let (mut max_queued, mut max_in_flight) = (65_536, 65_536);
        if self.scenario.small_queues {
            max_queued = chance.log_uniform(2, 40);
            max_in_flight = chance.log_uniform(1, 40);
            let bytes = usize::try_from(chance.log_uniform(500, 100_000)).unwrap_or(500);
            settings = settings
                .max_queued(u32::try_from(max_queued).unwrap_or(2))
                .max_in_flight(u32::try_from(max_in_flight).unwrap_or(1))
                .max_buffered_bytes(bytes);
        }
        let computer = &mut self.machines[client];
        computer.silence_ms = connect_timeout_ms.max(keep_alive_ms + ping_timeout_ms) + CLOSING_MS;
        (computer.max_queued, computer.max_in_flight) = (max_queued, max_in_flight);
        settings.platform(ClientPlatform {
            world: self.shared(),
            client,
            gate: self.machines[client].gate.clone(),
        })
    }

    /// Closes a client, and creates it again a little later.
    pub(crate) fn restart_client(&mut self) {
        if self.is_healed {
            return;
        }
        let client = self.chance.index(self.machines.len());
        self.fault_counts.count(Mishap::Restarted);
        self.close_client(client);
        let at_ms = self.now_ms() + self.chance.log_uniform(1, 1_000);
        self.schedule(at_ms, Event::StartClient(client));
        let again_ms = self.now_ms() + 1 + self.chance.below(self.scenario.restart_every_ms * 2);
        self.schedule(again_ms, Event::RestartClient);
    }

    fn close_client(&mut self, client: usize) {
        let Some(made) = self.machines[client].client.take() else {
            return;
        };
        self.trace_event(|| format!("c{client}: closes"));
        let world = self.shared();
        let gate = self.machines[client].gate.clone();
        let began_ms = self.now_ms();
        self.running += 1;
        // Half of the clients finish their pending requests first.
        let timeout = if client.is_multiple_of(2) {
            Client::CLOSE_TIMEOUT
        } else {
            Duration::ZERO
        };
        client_platform::spawn(&gate, async move {
            made.close_within(timeout).await;
            drop(made);
            let mut world = world.lock().unwrap();
            world.running -= 1;
            let took_ms = world.now_ms() - began_ms;
            world.trace_event(|| format!("c{client}: is closed"));
            let most = timeout + Duration::from_millis(CLOSING_MS);
            if Duration::from_millis(took_ms) > most && !world.was_paused(client, began_ms) {
                world.violated(format!("c{client}: took {took_ms} ms to close"));
            }
        });
    }

    /// Closes all clients for good.
    pub(crate) fn close_all(&mut self) {
        for client in 0..self.machines.len() {
            self.close_client(client);
        }
    }

    /// Whether the machine of a client was paused at any time since `since_ms`.
    pub(crate) fn was_paused(&self, client: usize, since_ms: u64) -> bool {
        let mut pauses = self.machines[client].pauses.iter();
        pauses.any(|(_, to_ms)| *to_ms >= since_ms)
    }

    /// Lets a client do some work, and enters its next work.
    pub(crate) fn work(&mut self, client: usize) {
        if self.is_healed {
            return;
        }
        self.restart_if_closed(client);
        if self.scenario.has_patterns {
            self.start_pattern_observer(client);
        }
        for _ in 0..self.chance.between(1, self.scenario.burst) {
            if self.chance.percent(self.scenario.observe_percent) {
                self.start_observer(client);
            } else {
                let action = self.random_invocation(client);
                let timeout_ms = self.chance.log_uniform(1, 20_000);
                let cancel_ms = (self.chance.percent(self.scenario.cancel_percent))
                    .then(|| self.chance.log_uniform(1, 2_000));
                self.call(client, action, timeout_ms, cancel_ms);
            }
        }
        if self.chance.percent(60) {
            self.transact();
        }
        let at_ms = self.now_ms() + 1 + self.chance.below(self.scenario.work_every_ms);
        self.schedule(at_ms, Event::Work(client));
    }

    /// Replaces a client that has closed for good. That happens if another client with its name has taken its session over: one
    /// that was closed or could not connect, but its CONNECT arrives late.
    fn restart_if_closed(&mut self, client: usize) {
        let made = self.machines[client].client.as_ref();
        if made.is_some_and(|made| made.state().borrow().is_closed()) {
            if self.machines[client].instances == 1 {
                return self.violated(format!("c{client} gave up for good"));
            }
            self.trace_event(|| format!("c{client}: gave up for good"));
            self.close_client(client);
            self.start_client(client);
        }
    }

    fn random_invocation(&mut self, client: usize) -> Invocation {
        let key = self.chance.pick(&self.scenario.keys);
        let number = self.operations.len();
        let token = self.token();
        let own_token = self.own_token(number);
        let chance = &mut self.chance;
        let px = chance.percent(25).then(|| chance.log_uniform(1, 6_000));
        // Leases share their values, and use the last key.
        let is_lease = self.scenario.keys.len() > 1 && Some(&key) == self.scenario.keys.last();
        let lease = history::lease(client, 1_000);
        match chance.below(20) {
            0..9 if is_lease => Invocation::Set {
                key,
                value: lease,
                condition: Condition::IfAbsentOrEqual,
                px: Some(1_000),
                token: own_token,
            },
            0..9 => {
                let len = chance.pick(&[0, 0, 0, 300, 3_000]);
                Invocation::Set {
                    key,
                    value: history::value(number, px, len),
                    condition: chance.pick(&[
                        Condition::Always,
                        Condition::Always,
                        Condition::IfAbsent,
                        Condition::IfAbsentOrEqual,
                    ]),
                    px,
                    token,
                }
            }
            9..15 => Invocation::Get { key },
            15..17 => Invocation::Del {
                key,
                token: own_token,
            },
            17 | 18 => Invocation::Vdel {
                value: if is_lease {
                    lease
                } else {
                    self.ground_truth
                        .present
                        .get(&key)
                        .map_or_else(Bytes::new, |held| held.value.clone())
                },
                key,
                token: own_token,
            },
            _ => Invocation::Scan {
                pattern: chance.pick(&["*".into(), "k[0-1]".into(), key]),
            },
        }
    }

    /// Returns a fencing token for a SET: that of an earlier one, or one made from the time.
    fn token(&mut self) -> Option<Hlc> {
        if !self.chance.percent(self.scenario.fence_percent) {
            return None;
        }
        let applied = self
            .operations
            .iter()
            .rev()
            .filter_map(|it| match it.result() {
                Some(CallResult::Set { version, .. }) => Some(*version),
                _ => None,
            });
        let recent: Vec<_> = applied.take(4).collect();
        if !recent.is_empty() && self.chance.percent(60) {
            return Some(Hlc::store_version(self.chance.pick(&recent)));
        }
        let ahead_ms = self.chance.pick(&[0, 0, 5_000, 100_000]);
        let wall_ms = self.wall_ms(self.server.clock_error_ms) + ahead_ms;
        Hlc::new(wall_ms, self.chance.below(3), "token").ok()
    }

    /// Creates a fencing token with the number of the call, for calls without another mark. The token is high enough if the
    /// clocks are right.
    fn own_token(&mut self, number: usize) -> Option<Hlc> {
        let ahead_ms = self.chance.pick(&[0, 0, 0, 5_000]);
        let wall_ms = self.wall_ms(self.server.clock_error_ms) + ahead_ms;
        history::token(number, wall_ms)
    }

    /// Makes a call of a client.
    pub(crate) fn call(
        &mut self,
        client: usize,
        action: Invocation,
        timeout_ms: u64,
        cancel_ms: Option<u64>,
    ) {
        let Some(made) = self.machines[client].client.clone() else {
            return;
        };
        let number = self.operations.len();
        self.trace_event(|| {
            format!(
                "c{client} o{number}: calls {action:?} within {timeout_ms} ms, cancel {cancel_ms:?}"
            )
        });
        self.operations.push(Operation {
            client,
            instance: self.machines[client].instances,
            invocation: action.clone(),
            called_ms: self.now_ms(),
            timeout_ms,
            completion: None,
            span: (0, 0),
            taken: Vec::new(),
            is_written: false,
        });
        self.running += 1;
        let world = self.shared();
        let gate = self.machines[client].gate.clone();
        client_platform::spawn(&gate, async move {
            {
                let mut world = world.lock().unwrap();
                // The machine may have been paused in between.
                world.operations[number].called_ms = world.now_ms();
                world.operations[number].span.0 = world.stamp();
            }
            let calling = execute(&made, &action, timeout_ms);
            let cancel = Duration::from_millis(cancel_ms.unwrap_or(u64::MAX / 2));
            let answer = match tokio::time::timeout(cancel, calling).await {
                Ok(answer) => answer,
                Err(_) => CallResult::Cancelled,
            };
            drop(made);
            let mut world = world.lock().unwrap();
            if let CallResult::Cancelled = answer {
                world.fault_counts.count(Mishap::Cancelled);
            }
            world.call_completed(number, answer);
        });
    }

    /// Checks that a client holds at most as many requests as it may. Requests of a lost session may have to wait once more.
    fn check_bounds(&mut self, client: usize) {
        let computer = &self.machines[client];
        let Some(counters) = computer.client.as_ref().map(Client::counters) else {
            return;
        };
        if counters.in_flight > computer.max_in_flight
            || counters.queued > computer.max_queued + computer.max_in_flight
        {
            self.violated(format!("c{client} holds too many requests: {counters:?}"));
        }
    }

    fn call_completed(&mut self, number: usize, answer: CallResult) {
        let now_ms = self.now_ms();
        let client = self.operations[number].client;
        let stamp = self.stamp();
        self.running -= 1;
        self.trace_event(|| format!("c{client} o{number}: {answer:?}"));
        self.check_bounds(client);
        let operation = &mut self.operations[number];
        if operation.completion.is_some() {
            return self.violated(format!("o{number} ended twice"));
        }
        operation.completion = Some((now_ms, answer));
        operation.span.1 = stamp;
        let operation = &self.operations[number];
        let (called_ms, deadline_ms) = (operation.called_ms, operation.deadline_ms());
        let is_scan = matches!(operation.invocation, Invocation::Scan { .. });
        // Two milliseconds after the deadline: a timeout is never early, and the timer adds one.
        if now_ms > deadline_ms + 2 && !is_scan && !self.was_paused(client, called_ms) {
            self.violated(format!(
                "o{number} ended {} ms after its deadline",
                now_ms - deadline_ms
            ));
        }
        self.changed.notify_one();
    }

    /// Lets each client read each key, now that there are no faults.
    pub(crate) fn read_all_keys(&mut self) {
        for client in 0..self.machines.len() {
            self.restart_if_closed(client);
            for key in self.scenario.keys.clone() {
                self.call(client, Invocation::Get { key }, 4_000, None);
            }
        }
    }
}

async fn execute(client: &Client, action: &Invocation, timeout_ms: u64) -> CallResult {
    let timeout = Some(Duration::from_millis(timeout_ms));
    let result = match action {
        Invocation::Set {
            key,
            value,
            condition,
            px,
            token,
        } => {
            let options = SetOptions::new()
                .condition(*condition)
                .expires_in(px.map(Duration::from_millis))
                .fencing_token(token.clone())
                .timeout(timeout);
            let outcome = client.set_with(key, value, &options).await;
            outcome.map(|outcome| CallResult::Set {
                applied: matches!(outcome, SetOutcome::Applied { .. }),
                version: version(outcome.version().expect("no condition is on a version")),
            })
        }
        Invocation::Get { key } => {
            let outcome = client
                .get_with(key, &GetOptions::new().timeout(timeout))
                .await;
            outcome.map(|entry| CallResult::Read(entry.map(|it| (it.value, version(&it.version)))))
        }
        Invocation::Del { key, token } => {
            let options = DelOptions::new()
                .fencing_token(token.clone())
                .timeout(timeout);
            client
                .del_with(key, &options)
                .await
                .map(|outcome| match outcome {
                    DelOutcome::Deleted { version: it } => {
                        CallResult::Deleted(it.as_ref().map(version))
                    }
                    DelOutcome::Absent => CallResult::Absent,
                    DelOutcome::Mismatch { .. } => CallResult::Mismatch,
                })
        }
        Invocation::Vdel { key, value, token } => {
            let options = DelOptions::new()
                .fencing_token(token.clone())
                .timeout(timeout);
            let outcome = client.vdel_with(key, value, &options).await;
            outcome.map(|outcome| match outcome {
                VdelOutcome::Deleted { version: it } => {
                    CallResult::Deleted(it.as_ref().map(version))
                }
                VdelOutcome::Absent => CallResult::Absent,
                VdelOutcome::Mismatch { .. } => CallResult::Mismatch,
            })
        }
        Invocation::Scan { pattern } => scan(client, pattern, timeout).await,
    };
    result.unwrap_or_else(|error| CallResult::Failed {
        kind: error.kind(),
        outcome: error.outcome(),
        text: error.to_string(),
    })
}

async fn scan(
    client: &Client,
    pattern: &Bytes,
    timeout: Option<Duration>,
) -> Result<CallResult, Error> {
    let mut scan = client.scan_with(pattern, ScanOptions::new().timeout(timeout));
    let mut keys = Vec::new();
    while let Some(page) = scan.next_page().await? {
        keys.extend(page);
    }
    Ok(CallResult::Keys(keys))
}
