//! Invariants at the end of a run, and some that hold all the time.
use super::Simulation;
use crate::ground_truth::StoreChange;
use crate::history::{CallResult, Invocation, Operation, operation_of, operation_of_token};
use crate::key_timeline::KeyTimeline;
use crate::linearizability::{CheckResult, Interval, check};
use crate::register::{Register, RegisterStep};
use bytes::Bytes;
use statestore::ErrorKind;
use statestore_protocol::mqtt::Packet;
use statestore_protocol::{Command, glob::Glob, property};

/// Recovery time after the faults: a client may wait for the end of a connection attempt, and then before the next one.
const RECOVERY_MS: u64 = 8_000;

/// Numbers of visited configurations after which a history counts as hard, and after which the search is abandoned.
const MAX_VISITS: [usize; 2] = [50_000, 500_000];

impl Simulation {
    /// Checks that requests leave in the order in which their calls began. A request that is sent again after a lost session
    /// precedes those that were not sent yet.
    pub(crate) fn check_order(&mut self, packets: &[Packet]) {
        for packet in packets {
            let Packet::Publish(publish) = packet else {
                continue;
            };
            let named = match Command::decode(&publish.payload()) {
                Ok(Command::Set { value, .. }) => operation_of(&value),
                _ => None,
            };
            let token = || {
                let mut pairs = publish.user_properties();
                let token = pairs.find(|(name, _)| *name == property::FENCING_TOKEN)?.1;
                operation_of_token(token)
            };
            let Some(number) = named.or_else(token) else {
                continue;
            };
            let Some(operation) = self.operations.get_mut(number) else {
                continue;
            };
            if std::mem::replace(&mut operation.is_written, true) {
                continue;
            }
            let (client, began) = (operation.client, operation.span.0);
            let latest = self
                .last_written
                .entry((client, operation.instance))
                .or_default();
            if began < *latest {
                let text = format!("c{client}: o{number} leaves after a call that began later");
                return self.violated(text);
            }
            *latest = began;
        }
    }

    /// Checks that a request of a client is not executed long after its caller has given up.
    /// The packets were made at `made_ms` or later, whenever the connection took them.
    pub(crate) fn check_requests(&mut self, link: usize, packets: &[Packet], made_ms: u64) {
        for packet in packets {
            let Packet::Publish(publish) = packet else {
                continue;
            };
            let Ok(Command::Set { value, .. }) = Command::decode(&publish.payload()) else {
                continue;
            };
            let Some(operation) = operation_of(&value).and_then(|it| self.operations.get(it))
            else {
                continue;
            };
            let expires_ms =
                made_ms + u64::from(publish.message_expiry().unwrap_or(u32::MAX)) * 1000;
            // A request may be sent again after its deadline only if it was sent before, and if other writes of the session need
            // it.
            if publish.dup() && !self.may_be_late(link, operation) {
                let text = format!("a request is sent again for nobody's sake: {operation:?}");
                return self.violated(text);
            }
            let wanted_ms = if publish.dup() {
                operation.deadline_ms().max(made_ms)
            } else {
                operation.deadline_ms()
            };
            // A whole second, because the expiry is rounded up, and the millisecond of the deadline.
            let latest_ms = wanted_ms + 1_001;
            if expires_ms > latest_ms {
                let late_ms = expires_ms - operation.deadline_ms();
                let text =
                    format!("a request expires {late_ms} ms after its deadline: {publish:?}");
                return self.violated(text);
            }
        }
    }

    /// Whether a request may be sent again on this connection. Either its deadline had not passed when the connection began, or
    /// another write of its client was pending since.
    fn may_be_late(&self, link: usize, request: &Operation) -> bool {
        let dialed_ms = self.links[link].dialed_ms;
        let is_write = |action: &Invocation| {
            !matches!(action, Invocation::Get { .. } | Invocation::Scan { .. })
        };
        let needs_session = |other: &Operation| {
            other.client == request.client
                && is_write(&other.invocation)
                && !std::ptr::eq(other, request)
                && other
                    .completion
                    .as_ref()
                    .is_none_or(|(at_ms, _)| *at_ms >= dialed_ms)
        };
        request.deadline_ms() + 1 >= dialed_ms || self.operations.iter().any(needs_session)
    }

    /// Checks, after the faults have ended, the state of the clients and the results that they were given.
    pub(crate) fn check_recovered(&mut self) {
        for client in 0..self.machines.len() {
            let Some(made) = self.machines[client].client.clone() else {
                self.violated(format!(
                    "c{client} is not connected long after the faults ended"
                ));
                return;
            };
            let counters = made.counters();
            if counters.in_flight > 0 || counters.queued > 0 {
                self.violated(format!("c{client} still holds requests: {counters:?}"));
            }
            if counters.protocol_errors > 0 {
                self.violated(format!("c{client} met a protocol error: {counters:?}"));
            }
        }
        for link in 0..self.links.len() {
            let result = self.check_acknowledged(link);
            self.expect(result);
        }
        for operation in &self.operations {
            if operation.completion.is_none() {
                let text = format!("a call never ended: {operation:?}");
                return self.violated(text);
            }
        }
        let result = (0..self.observers.len()).try_for_each(|number| {
            self.check_observer(&self.observers[number])
                .map_err(|why| format!("f{number}: {why}"))
        });
        self.expect(result);
        let result = self.check_pattern_observers();
        self.expect(result);
    }

    /// Checks the whole history at the end of the run.
    pub(crate) fn check_history(&mut self) {
        self.has_ended = true;
        if self.running > 0 {
            let text = format!("{} tasks of callers have not ended", self.running);
            return self.violated(text);
        }
        for number in 0..self.operations.len() {
            let result = self.check_operation(number);
            self.expect(result);
        }
        for key in self.scenario.keys.clone() {
            let result = self.check_key(&key);
            self.expect(result);
        }
    }

    /// Checks that an operation that was not done had no effect, and that no operation had its effect twice.
    fn check_operation(&self, number: usize) -> Result<(), String> {
        let operation = &self.operations[number];
        match &operation.invocation {
            Invocation::Set { key, value, .. } if operation_of(value).is_some() => {
                let times = self
                    .ground_truth
                    .changes
                    .iter()
                    .filter(|it| it.value.as_ref() == Some(value));
                let times = times.count();
                if times > 1 {
                    return Err(format!("o{number} was executed {times} times on {key:?}"));
                }
                if times > 0 && operation.is_not_done() {
                    return Err(format!("o{number} was executed: {operation:?}"));
                }
            }
            Invocation::Scan { pattern } => self.check_scan(number, pattern)?,
            _ => {}
        }
        let is_last = operation.called_ms >= self.scenario.heals_at_ms + 20_000;
        match operation.result() {
            Some(CallResult::Failed { kind, text, .. })
                if is_last && *kind != ErrorKind::QueueFull =>
            {
                Err(format!(
                    "o{number} failed long after all faults ended: {text}"
                ))
            }
            Some(CallResult::Failed {
                kind: ErrorKind::TimedOut,
                text,
                ..
            }) if operation.deadline_ms() > self.scenario.heals_at_ms + RECOVERY_MS
                && !self.may_be_lost(operation) =>
            {
                Err(format!(
                    "o{number} was not answered although all faults had ended: {text}"
                ))
            }
            Some(CallResult::Failed {
                kind: ErrorKind::OtherRefusal,
                text,
                ..
            }) if !self.was_read_only(operation) => Err(format!("o{number}: {text}")),
            Some(CallResult::Failed {
                kind: ErrorKind::InvalidResponse | ErrorKind::Rpc,
                text,
                ..
            }) => Err(format!("o{number}: {text}")),
            _ => Ok(()),
        }
    }

    /// Whether the request may be lost. The messages that a broker holds for the server are lost with the server's connection.
    /// The last such connection ended when all faults did.
    fn may_be_lost(&self, operation: &Operation) -> bool {
        self.broker.is_some() && operation.called_ms <= self.scenario.heals_at_ms
    }

    /// Whether the disk was full at some time while a client waited for an answer.
    fn was_read_only(&self, operation: &Operation) -> bool {
        let ended_ms = operation
            .completion
            .as_ref()
            .map_or(u64::MAX, |(at_ms, _)| *at_ms);
        let mut periods = self.server.read_only.iter();
        periods.any(|(from_ms, to_ms)| *from_ms <= ended_ms && operation.called_ms <= *to_ms)
    }

    /// Checks that a scan has each key that existed during the whole scan, and none that never existed.
    fn check_scan(&self, number: usize, pattern: &[u8]) -> Result<(), String> {
        let operation = &self.operations[number];
        let Some((ended_ms, CallResult::Keys(found))) = &operation.completion else {
            return Ok(());
        };
        for key in &self.scenario.keys {
            let (always, ever) = self.was_present(key, operation.called_ms, *ended_ms);
            let matches = Glob::new(pattern).matches(key);
            let times = found.iter().filter(|it| *it == key).count();
            if matches && always && times == 0 {
                return Err(format!("o{number} missed {key:?}"));
            }
            if times > 0 && (!ever || !matches) || times > 1 {
                return Err(format!("o{number} found {key:?} {times} times"));
            }
        }
        Ok(())
    }

    /// Whether a key existed all the time, and at any time.
    fn was_present(&self, key: &[u8], from_ms: u64, to_ms: u64) -> (bool, bool) {
        let (mut always, mut ever) = (None, false);
        let mut is_present = false;
        let losses = self
            .ground_truth
            .losses
            .iter()
            .map(|(at_ms, _)| (*at_ms, false));
        let changes = self
            .ground_truth
            .changes_of(key)
            .map(|it| (it.at_ms, it.value.is_some()));
        let mut events: Vec<_> = losses.chain(changes).collect();
        events.sort_by_key(|(at_ms, _)| *at_ms);
        for (at_ms, is_there) in events {
            if at_ms > to_ms {
                break;
            }
            if at_ms >= from_ms {
                ever |= is_present;
                always = Some(always.unwrap_or(true) && is_present && is_there);
            }
            is_present = is_there;
        }
        (always.unwrap_or(true) && is_present, ever || is_present)
    }

    /// Checks that the history of a key is that of a single register.
    fn check_key(&mut self, key: &Bytes) -> Result<(), String> {
        let mut intervals: Vec<Interval<RegisterStep>> = Vec::new();
        for operation in self
            .operations
            .iter()
            .filter(|it| it.invocation.key() == Some(key))
        {
            let Some(answer) = operation.result() else {
                continue;
            };
            let fence = matches!(
                answer,
                CallResult::Failed {
                    kind: ErrorKind::FencingTokenRequired | ErrorKind::FencingTokenLower,
                    ..
                }
            );
            let is_unknown =
                !fence && matches!(answer, CallResult::Failed { .. } | CallResult::Cancelled);
            if operation.is_not_done() && !fence
                || is_unknown && matches!(operation.invocation, Invocation::Get { .. })
                || is_unknown && self.had_no_effect(&operation.invocation)
            {
                continue;
            }
            let is_read = matches!(operation.invocation, Invocation::Get { .. });
            let (called, ended) = operation.span;
            let taken = operation.taken.first().zip(operation.taken.last());
            let (from, to) = match taken {
                // The time of the effect is almost known, which shortens the search.
                Some((first, last)) => (*first, *last),
                None if is_read => (called, ended),
                None if is_unknown => continue,
                None => return Err(format!("was answered and never executed: {operation:?}")),
            };
            if from < called || !is_unknown && from > ended {
                return Err(format!("was executed at another time: {operation:?}"));
            }
            // A request that came through a broker may wait at the server.
            let to = if self.broker.is_some() { u64::MAX } else { to };
            let to = if is_unknown { to } else { to.min(ended) };
            intervals.push(Interval {
                from,
                to,
                is_certain: !is_unknown,
                step: RegisterStep::Call(
                    operation.invocation.clone(),
                    (!is_unknown).then(|| answer.clone()),
                ),
            });
        }
        for change in self.ground_truth.changes_of(key) {
            if let Some(value) = &change.expired {
                intervals.push(Interval {
                    from: change.span.0,
                    to: change.span.1,
                    is_certain: true,
                    step: RegisterStep::Expired {
                        value: value.clone(),
                    },
                });
            }
        }
        for (_, stamp) in &self.ground_truth.losses {
            intervals.push(Interval {
                from: *stamp,
                to: *stamp,
                is_certain: true,
                step: RegisterStep::Lost,
            });
        }
        intervals.sort_by_key(|interval| interval.from);
        let may_be_lost = !self.ground_truth.losses.is_empty();
        let register = Register { may_be_lost };
        let mut verdict = check(&register, &intervals, MAX_VISITS[0]);
        if verdict == CheckResult::Undecided {
            self.slow_histories.push(key.clone());
            if KeyTimeline::new(&self.ground_truth, key).allows(&intervals, MAX_VISITS[1]) {
                return Ok(());
            }
            self.narrow_intervals(key, &mut intervals);
            verdict = check(&register, &intervals, MAX_VISITS[1]);
        }
        match verdict {
            CheckResult::Linearizable => Ok(()),
            CheckResult::Undecided => {
                self.undecided += 1;
                Ok(())
            }
            CheckResult::Violated(order) => {
                let taken = |index: &usize| format!("{:?}", intervals[*index]);
                let best: Vec<_> = order.iter().rev().take(5).rev().map(taken).collect();
                let mut left = (0..intervals.len()).filter(|index| !order.contains(index));
                let left: Vec<_> = left.by_ref().take(8).map(|index| taken(&index)).collect();
                Err(format!(
                    "the history of {key:?} has no order; the best attempt ends with\n  {}\nand cannot go on with\n  {}",
                    best.join("\n  "),
                    left.join("\n  ")
                ))
            }
        }
    }

    /// Narrows the intervals by the log of the store. A SET whose value the store held took effect between two observations of
    /// the store. A deletion can only have removed an entry where the store saw the key deleted; a deletion of unknown outcome
    /// has no other effect.
    fn narrow_intervals(&self, key: &[u8], intervals: &mut Vec<Interval<RegisterStep>>) {
        let changes = || self.ground_truth.changes_of(key);
        intervals.retain_mut(|interval| match &interval.step {
            RegisterStep::Call(Invocation::Set { value, .. }, _)
                if operation_of(value).is_some() =>
            {
                if let Some(change) = changes().find(|it| it.value.as_ref() == Some(value)) {
                    interval.from = interval.from.max(change.span.0);
                    interval.to = interval.to.min(change.span.1);
                    interval.is_certain = true;
                }
                true
            }
            RegisterStep::Call(
                Invocation::Del { .. } | Invocation::Vdel { .. },
                None | Some(CallResult::Deleted(_)),
            ) => {
                let (from, to) = (interval.from, interval.to);
                let is_one = |it: &&StoreChange| {
                    let is_removal = it.value.is_none() && it.expired.is_none();
                    is_removal && it.span.0 <= to && from <= it.span.1
                };
                let first = changes().filter(is_one).map(|it| it.span.0).min();
                let last = changes().filter(is_one).map(|it| it.span.1).max();
                if let Some((first, last)) = first.zip(last) {
                    interval.from = from.max(first);
                    interval.to = to.min(last);
                }
                first.is_some() || interval.is_certain
            }
            _ => true,
        });
        intervals.sort_by_key(|interval| interval.from);
    }

    /// Whether a SET of unknown outcome had no effect: the store never held its value, or lost it before any client could see it.
    fn had_no_effect(&self, action: &Invocation) -> bool {
        let Invocation::Set { key, value, .. } = action else {
            return false;
        };
        operation_of(value).is_some()
            && !self
                .ground_truth
                .changes_of(key)
                .any(|it| it.value.as_ref() == Some(value))
    }
}

impl Simulation {
    pub(crate) fn count_unknown(&self) -> usize {
        let unknown = |it: &&crate::history::Operation| {
            matches!(
                it.result(),
                Some(CallResult::Failed {
                    outcome: statestore::Outcome::Unknown,
                    ..
                })
            )
        };
        self.operations.iter().filter(unknown).count()
    }
}
