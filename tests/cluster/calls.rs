//! Clients that read and write keys, and record the results.
use crate::stalls::Stalls;
use histories::{Call, CallHistory, CallResult, Condition, Invocation};
use statestore::{
    Client, DelOutcome, Error, Outcome, SetOptions, SetOutcome, Settings, VdelOutcome, Version,
};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// How many keys are in use at a time.
const KEYS: u64 = 3;

/// How long a key is in use: the shorter, the sooner it is known whether its history has an order.
const EPOCH: Duration = Duration::from_secs(2);

/// State that all clients share.
pub(crate) struct Shared {
    /// Prefix of the keys: no earlier run has used it.
    keys: &'static str,
    pub(crate) history: RefCell<CallHistory>,
    pub(crate) is_over: Cell<bool>,
    begun: Instant,
    values: Cell<u64>,
    pub(crate) stalls: RefCell<Stalls>,
}

impl Shared {
    pub(crate) fn new(keys: &'static str) -> Rc<Self> {
        Rc::new(Self {
            keys,
            history: RefCell::default(),
            is_over: Cell::new(false),
            begun: Instant::now(),
            values: Cell::new(0),
            stalls: RefCell::default(),
        })
    }

    /// Nanoseconds since it began.
    pub(crate) fn now(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_nanos()).unwrap()
    }

    fn next_value(&self) -> u64 {
        self.values.set(self.values.get() + 1);
        self.values.get()
    }

    fn key(&self, chance: &mut fastrand::Rng) -> String {
        let epoch = self.begun.elapsed().as_millis() / EPOCH.as_millis();
        format!("{}-{epoch}-{}", self.keys, chance.u64(0..KEYS))
    }
}

/// Number of calls after which a client is replaced by another one, which may begin with another server. Otherwise all
/// clients gather at a server that was not killed.
const CALLS: u32 = 300;

/// Calls until the test is over. There are settings for each server to begin with.
pub(crate) async fn call(settings: Vec<Settings>, shared: Rc<Shared>, mut chance: fastrand::Rng) {
    // The last key that was read, with its value and version, for conditions.
    let mut read: Option<(String, u64, Version)> = None;
    let number = shared.stalls.borrow_mut().begin();
    while !shared.is_over.get() {
        let settings = settings[chance.usize(..settings.len())].clone();
        let client = match Client::connect(settings).await {
            Ok(client) => client,
            Err(error) => {
                shared.stalls.borrow_mut().told(number, &error);
                continue;
            }
        };
        for _ in 0..CALLS {
            if shared.is_over.get() {
                break;
            }
            one(&client, number, &shared, &mut chance, &mut read).await;
        }
    }
}

/// Makes a call.
async fn one(
    client: &Client,
    number: usize,
    shared: &Shared,
    chance: &mut fastrand::Rng,
    read: &mut Option<(String, u64, Version)>,
) {
    let key = shared.key(chance);
    let asked = match chance.u32(0..10) {
        0..4 => Invocation::Get,
        4..6 => Invocation::Set(shared.next_value(), None),
        6 => Invocation::Set(shared.next_value(), Some(Condition::IfAbsent)),
        7..9 => match read.take() {
            Some((of, _, version)) if of == key => {
                Invocation::Set(shared.next_value(), Some(Condition::IfVersion(version)))
            }
            _ => Invocation::Get,
        },
        _ => match read.take() {
            Some((of, value, _)) if of == key => Invocation::Vdel(value),
            _ => Invocation::Del,
        },
    };
    let from = shared.now();
    let told = match ask(client, &key, &asked).await {
        Ok(told) => {
            shared.stalls.borrow_mut().answered(number);
            Some(told)
        }
        Err(error) => {
            shared.stalls.borrow_mut().failed(number, &error);
            if error.outcome() == Outcome::NotDone {
                // The call had no effect. The next attempt need not come at once.
                return tokio::time::sleep(Duration::from_millis(5)).await;
            }
            None
        }
    };
    if let Some(CallResult::Read(Some((value, version)))) = &told {
        *read = Some((key.clone(), *value, version.into()));
    }
    // A read without a response constrains nothing.
    if told.is_some() || !matches!(asked, Invocation::Get) {
        let call = Call {
            invocation: asked,
            result: told,
        };
        let mut history = shared.history.borrow_mut();
        history.add(key, from, shared.now(), call);
    }
}

async fn ask(client: &Client, key: &str, asked: &Invocation) -> Result<CallResult, Error> {
    Ok(match asked {
        Invocation::Get => CallResult::Read(client.get(key).await?.map(|entry| {
            let value = std::str::from_utf8(&entry.value).unwrap();
            (value.parse().unwrap(), entry.version)
        })),
        Invocation::Set(value, condition) => {
            let options = match condition {
                None => SetOptions::new(),
                Some(Condition::IfAbsent) => {
                    SetOptions::new().condition(statestore::Condition::IfAbsent)
                }
                Some(Condition::IfAbsentOrEqual) => {
                    SetOptions::new().condition(statestore::Condition::IfAbsentOrEqual)
                }
                Some(Condition::IfVersion(version)) => {
                    SetOptions::new().condition(statestore::Condition::IfVersion(*version))
                }
            };
            match client.set_with(key, value.to_string(), &options).await? {
                SetOutcome::Applied { version } => CallResult::Applied(version),
                SetOutcome::NotApplied { version } => CallResult::NotApplied(version),
            }
        }
        Invocation::Del => match client.del(key).await? {
            DelOutcome::Deleted { version } => CallResult::Deleted(version),
            DelOutcome::Absent => CallResult::Absent,
            DelOutcome::Mismatch { .. } => CallResult::Mismatch,
        },
        Invocation::Vdel(value) => match client.vdel(key, value.to_string()).await? {
            VdelOutcome::Deleted { version } => CallResult::Deleted(version),
            VdelOutcome::Absent => CallResult::Absent,
            VdelOutcome::Mismatch { .. } => CallResult::Mismatch,
        },
    })
}
