//! Runs of transactions, readers and updates in any order, with everything that can go wrong between them and the store.
use crate::actors::{Task, play, read};
use crate::faults::Fault;
use crate::history::{EventKind, History, KEYS, KeyOperation, Precondition};
use crate::store::{AwaitedEvent, SentRequest, StoreSimulation};
use statestore::Error;
use statestore_intents::{Record, settle};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// The tasks of all actors, and the faults.
#[derive(Debug, Clone)]
pub(crate) struct Scenario {
    seed: u64,
    tasks: Vec<Vec<Task>>,
    behind_ms: Vec<u64>,
    /// Whether each key is there at the beginning.
    exists: [bool; 3],
    /// How many things may go wrong.
    max_disturbances: u32,
}

type Actor = Pin<Box<dyn Future<Output = ()> + Send>>;

struct ScenarioRun {
    world: StoreSimulation,
    actors: Vec<Option<Actor>>,
    /// Requests that may still be executed, though no actor waits for them.
    delayed: Vec<SentRequest>,
    random: fastrand::Rng,
    disturbances_left: u32,
    /// Average number of events per execution of a late request.
    mean_delay: u32,
}

impl Scenario {
    /// Returns a random plan.
    pub(crate) fn random(seed: u64) -> Self {
        let mut chance = fastrand::Rng::with_seed(seed);
        if seed % 4 == 3 {
            return Self::crowded(seed, &mut chance);
        }
        let actors = chance.usize(2..=4);
        let mut number = 0;
        let mut tasks = Vec::new();
        for actor in 0..actors {
            let count = chance.usize(1..=2);
            // The first two change something.
            let kind = if actor < 2 { 0 } else { chance.u32(0..3) };
            tasks.push(
                (0..count)
                    .map(|_| {
                        number += 1;
                        task(&mut chance, kind, number)
                    })
                    .collect(),
            );
        }
        let behind_ms = (0..=actors).map(|_| chance.choice([0, 0, 30_000]).unwrap());
        Self {
            seed,
            behind_ms: behind_ms.collect(),
            tasks,
            exists: [chance.bool(), chance.bool(), chance.bool()],
            max_disturbances: chance.u32(0..=4),
        }
    }
}

impl Scenario {
    /// Returns a plan in which all actors want to create one key, so that the recipient of each result matters.
    fn crowded(seed: u64, chance: &mut fastrand::Rng) -> Self {
        let create = |number: u32| {
            let of_key = KeyOperation {
                key: 0,
                precondition: Precondition::Absent,
                value: Some(format!("t{number}")),
            };
            vec![Task::Transact(vec![of_key], Duration::from_secs(60))]
        };
        Self {
            seed,
            tasks: (1..=3).map(create).collect(),
            behind_ms: vec![0; 4],
            exists: [false; 3],
            max_disturbances: chance.u32(1..=3),
        }
    }
}

fn task(chance: &mut fastrand::Rng, kind: u32, number: u32) -> Task {
    match kind {
        0 => {
            let mut keys: Vec<_> = (0..KEYS.len()).collect();
            chance.shuffle(&mut keys);
            // Mostly they meet.
            keys.truncate(chance.usize(1..=KEYS.len()).max(chance.usize(1..=2)));
            if chance.u32(0..8) == 0 {
                // A key is listed twice.
                keys.push(keys[0]);
            }
            let of_key = |key| KeyOperation {
                key,
                precondition: match chance.u32(0..6) {
                    0 => Precondition::Absent,
                    1 => Precondition::AbsentOrSame,
                    2 => Precondition::Holds(String::new()),
                    _ => Precondition::Always,
                },
                value: (chance.u32(0..4) > 0).then(|| format!("t{number}")),
            };
            let changes = keys.into_iter().map(of_key).collect();
            let timeout = chance.choice([2, 20, 60, 600]).unwrap();
            Task::Transact(changes, Duration::from_secs(timeout))
        }
        1 => Task::Update(chance.usize(0..KEYS.len()), format!("u{number}")),
        _ => Task::Read(chance.usize(0..KEYS.len())),
    }
}

/// Runs a plan. Returns the error and its history if the run fails.
pub(crate) fn run(plan: &Scenario, fault: Fault) -> Result<(), String> {
    let mut run = ScenarioRun::new(plan, fault);
    run.play(ScenarioRun::random_event);
    run.settle(plan.tasks.len())?;
    run.check()
}

impl ScenarioRun {
    fn new(plan: &Scenario, fault: Fault) -> Self {
        let world = StoreSimulation::new(&plan.behind_ms, fault);
        {
            let mut inner = world.inner();
            inner.history = History::default();
            inner.pass(60_000);
            for (key, exists) in plan.exists.iter().enumerate() {
                if *exists {
                    let value = format!("{}0", KEYS[key]);
                    inner.store(KEYS[key].as_bytes(), &value);
                    inner.history.initial[key] = Some(value);
                }
            }
        }
        let actor = |(number, tasks): (usize, &Vec<Task>)| {
            let actor: Actor = Box::pin(play(world.port(number), tasks.clone()));
            Some(actor)
        };
        Self {
            actors: plan.tasks.iter().enumerate().map(actor).collect(),
            world,
            delayed: Vec::new(),
            mean_delay: [2, 8, 32][usize::try_from(plan.seed % 3).unwrap()],
            random: fastrand::Rng::with_seed(plan.seed ^ 0x5eed),
            disturbances_left: plan.max_disturbances,
        }
    }

    /// Runs until no actor has anything left to do.
    fn play(&mut self, mut event: impl FnMut(&mut Self)) {
        for actor in 0..self.actors.len() {
            self.poll(actor);
        }
        for _ in 0..100_000 {
            if self.actors.iter().all(Option::is_none) {
                return;
            }
            event(self);
        }
        panic!("it does not end");
    }

    fn poll(&mut self, number: usize) {
        if let Some(actor) = &mut self.actors[number] {
            let mut context = Context::from_waker(Waker::noop());
            if let Poll::Ready(()) = actor.as_mut().poll(&mut context) {
                self.actors[number] = None;
            }
        }
    }

    fn awaited(&self, actor: usize) -> AwaitedEvent {
        self.world.inner().awaited(actor).unwrap().clone()
    }

    /// Delivers what the actor waits for, unless it is too late.
    fn deliver(&mut self, actor: usize) {
        let asked = self.awaited(actor);
        {
            let mut inner = self.world.inner();
            let answer = match asked {
                AwaitedEvent::Pause { until_ms } => {
                    inner.pass(until_ms);
                    None
                }
                AwaitedEvent::Request(sent) => {
                    let response = inner.execute(&sent);
                    response.filter(|_| inner.now_ms <= sent.until_ms)
                }
            };
            inner.answer(actor, answer);
        }
        self.poll(actor);
    }

    /// The request is executed now or later or never, and no answer comes.
    fn lose(&mut self, actor: usize, sent: &SentRequest) {
        if self.random.bool() {
            self.world.inner().execute(sent);
        } else {
            self.delayed.push(sent.clone());
        }
        let mut inner = self.world.inner();
        if self.random.bool() {
            // Others go on before it gives up.
            let until_ms = sent.until_ms;
            inner.pass(until_ms);
        }
        inner.answer(actor, None);
        drop(inner);
        self.poll(actor);
    }

    fn crash(&mut self, actor: usize) {
        if let AwaitedEvent::Request(sent) = self.awaited(actor) {
            match self.random.u32(0..3) {
                0 => {
                    self.world.inner().execute(&sent);
                }
                1 => self.delayed.push(sent),
                _ => {}
            }
        }
        self.actors[actor] = None;
        self.world.inner().crashed(actor);
    }

    fn random_event(&mut self) {
        let alive: Vec<_> = (0..self.actors.len())
            .filter(|actor| self.actors[*actor].is_some())
            .collect();
        let rarely = self.mean_delay;
        if !self.delayed.is_empty() && self.random.u32(0..rarely) == 0 {
            let index = self.random.usize(0..self.delayed.len());
            let sent = self.delayed.swap_remove(index);
            self.world.inner().execute(&sent);
            return;
        }
        // Mostly the same one goes on, so that there are long rows of one and interruptions anywhere.
        let actor = self.random.choice(alive).unwrap();
        let longest = self.random.choice([1, 8, 30, 200]).unwrap();
        let row = self.random.usize(1..=longest);
        for _ in 0..row {
            if self.actors[actor].is_none() {
                return;
            }
            let is_decision = match self.awaited(actor) {
                AwaitedEvent::Request(sent) => sent.is_decision(),
                AwaitedEvent::Pause { .. } => false,
            };
            let rarely = if is_decision { 3 } else { 15 };
            if self.disturbances_left > 0 && self.random.u32(0..rarely) == 0 {
                self.disturbances_left -= 1;
                return self.disturb(actor);
            }
            self.deliver(actor);
        }
    }

    fn disturb(&mut self, actor: usize) {
        let asked = self.awaited(actor);
        match (self.random.u32(0..8), asked) {
            (0 | 1, AwaitedEvent::Request(sent)) => self.lose(actor, &sent),
            (2 | 6 | 7, AwaitedEvent::Request(sent)) => {
                // The request is delivered twice.
                if sent.is_set() {
                    self.delayed.push(sent);
                }
                self.deliver(actor);
            }
            (3, _) => self.crash(actor),
            (4, _) => {
                let leap_ms = self
                    .random
                    .choice([3_500, 11_000, 65_000, 3_700_000])
                    .unwrap();
                let mut inner = self.world.inner();
                let now_ms = inner.now_ms;
                inner.pass(now_ms + leap_ms);
            }
            _ => self.deliver(actor),
        }
    }

    /// Reads all keys as a later client, and checks that no records of transactions remain.
    fn settle(&mut self, number: usize) -> Result<(), String> {
        let port = self.world.port(number);
        let finish = async move {
            for key in 0..KEYS.len() {
                read(&port, key).await?;
            }
            for key in KEYS {
                settle(&port, key.as_bytes(), Duration::from_secs(60)).await?;
            }
            for key in 0..KEYS.len() {
                read(&port, key).await?;
            }
            Ok::<_, Error>(())
        };
        let (tell, told) = std::sync::mpsc::channel();
        self.actors.resize_with(number + 1, || None);
        self.actors[number] = Some(Box::pin(async move {
            tell.send(finish.await).unwrap();
        }));
        self.poll(number);
        while self.actors[number].is_some() {
            if let Some(sent) = self.delayed.pop() {
                self.world.inner().execute(&sent);
            }
            self.deliver(number);
        }
        told.recv().unwrap().map_err(|error| error.to_string())?;
        let mut inner = self.world.inner();
        let end_ms = inner.now_ms + 70_000;
        inner.pass(end_ms);
        for (index, key) in KEYS.iter().enumerate() {
            let stored = inner.stored(key.as_bytes());
            let record = stored.as_ref().and_then(Record::decode);
            if let Some(record) = record {
                return Err(format!("{record:?} is left at {key}"));
            }
            let value = stored.map(|value| String::from_utf8(value.to_vec()).unwrap());
            let what = EventKind::Read(index, value);
            let event = inner.history.begin(what.clone());
            inner.history.end(event, what);
        }
        Ok(())
    }

    fn check(&self) -> Result<(), String> {
        let inner = self.world.inner();
        if inner.history.is_linearizable() {
            Ok(())
        } else {
            Err(format!(
                "{:?} {:#?}",
                inner.history.initial, inner.history.events
            ))
        }
    }
}

/// A disturbance in an otherwise undisturbed sequence of requests.
#[derive(Debug, Clone, Copy)]
enum Disturbance {
    /// Another actor, with this number, continues instead.
    Switch(usize),
    /// The request is executed, and its answer gets lost.
    Executed,
    /// No answer comes, and the request may be executed later.
    Delayed,
    /// The request is delivered twice.
    Twice,
    /// A request that was delayed or duplicated is executed.
    DelayedExecution,
    Crash,
}

/// Runs a plan with these disturbances, each before the request with its number. Returns the number of requests.
fn run_with(plan: &Scenario, between: &[(usize, Disturbance)]) -> Result<usize, String> {
    let mut run = ScenarioRun::new(plan, Fault::None);
    let mut current = 0;
    let mut number = 0;
    let mut between = between.iter().peekable();
    run.play(|run| {
        while run.actors[current].is_none() {
            current = (current + 1) % run.actors.len();
        }
        if let AwaitedEvent::Pause { .. } = run.awaited(current) {
            return run.deliver(current);
        }
        let now = between.next_if(|(at, _)| *at == number);
        number += 1;
        let AwaitedEvent::Request(sent) = run.awaited(current) else {
            return;
        };
        match now.map(|(_, what)| *what) {
            Some(Disturbance::Switch(to)) if run.actors[to].is_some() => current = to,
            Some(Disturbance::Executed) => {
                run.world.inner().execute(&sent);
                run.world.inner().answer(current, None);
                run.poll(current);
            }
            Some(Disturbance::Delayed) => {
                run.delayed.push(sent);
                run.world.inner().answer(current, None);
                run.poll(current);
            }
            Some(Disturbance::Twice) => {
                run.delayed.push(sent);
                run.deliver(current);
            }
            Some(Disturbance::DelayedExecution) => {
                if let Some(sent) = run.delayed.pop() {
                    run.world.inner().execute(&sent);
                }
            }
            Some(Disturbance::Crash) => run.crash(current),
            Some(Disturbance::Switch(_)) | None => run.deliver(current),
        }
    });
    run.settle(plan.tasks.len())?;
    run.check().map(|()| number)
}

/// Runs everything with up to `more` things between, after those that are given. Gives the number of runs.
fn explore(plan: &Scenario, between: &mut Vec<(usize, Disturbance)>, more: usize) -> usize {
    let requests = run_with(plan, between).unwrap_or_else(|history| {
        panic!("{plan:#?} {between:?}\n{history}");
    });
    if more == 0 {
        return 1;
    }
    let first = between.last().map_or(0, |(at, _)| at + 1);
    let is_late = between
        .iter()
        .any(|(_, what)| matches!(what, Disturbance::Delayed | Disturbance::Twice));
    let mut runs = 1;
    for at in first..requests {
        let switches = (0..plan.tasks.len()).map(Disturbance::Switch);
        let troubles = [
            Disturbance::Executed,
            Disturbance::Delayed,
            Disturbance::Twice,
            Disturbance::Crash,
        ];
        let late = is_late.then_some(Disturbance::DelayedExecution);
        for what in switches.chain(troubles).chain(late) {
            between.push((at, what));
            runs += explore(plan, between, more - 1);
            between.pop();
        }
    }
    runs
}

/// Returns a plan of two transactions on two keys, and a reader of both.
fn small(first: [Option<&str>; 2], second: [Option<&str>; 2], exists: bool) -> Scenario {
    let transact = |new: [Option<&str>; 2]| {
        let change = |key: usize| KeyOperation {
            key,
            precondition: Precondition::Always,
            value: new[key].map(str::to_owned),
        };
        let changes = [0, 1].map(change).into();
        vec![Task::Transact(changes, Duration::from_secs(60))]
    };
    Scenario {
        seed: 0,
        tasks: vec![
            transact(first),
            transact(second),
            vec![Task::Read(1), Task::Read(0)],
        ],
        behind_ms: vec![0; 4],
        exists: [exists; 3],
        max_disturbances: 0,
    }
}

#[test]
fn no_two_disturbances_expose_a_partial_transaction() {
    let sets = [Some("1"), Some("1")];
    for (second, exists) in [([Some("2"), Some("2")], true), ([None, Some("2")], false)] {
        let runs = explore(&small(sets, second, exists), &mut Vec::new(), 2);
        println!("{runs} runs");
        assert!(runs > 10_000, "{runs}");
    }
}

fn runs(of: u64) -> u64 {
    std::env::var("INTENTS_RUNS").map_or(of, |runs| runs.parse().unwrap())
}

#[test]
fn no_random_run_exposes_a_partial_transaction() {
    for seed in 0..runs(20_000) {
        let plan = Scenario::random(seed);
        if let Err(history) = run(&plan, Fault::None) {
            panic!("{plan:#?}\n{history}");
        }
    }
}
