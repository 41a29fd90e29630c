//! Clients that read and write keys.
use crate::clock;
use crate::peer_line::PeerLine;
use crate::run_state::RunState;
use histories::{Call, CallResult, Condition, Invocation};
use statestore::Hlc;
use std::rc::Rc;
use std::time::Duration;
use tokio::time::sleep;

/// Number of keys that are in use at a time.
const KEYS: u64 = 4;

/// Time for which a key is in use. A shorter epoch gives an earlier verdict on its history.
const EPOCH: Duration = Duration::from_secs(1);

/// Number of epochs after which no call on a key is pending: a call with all its stops takes less time.
const SETTLED: u128 = 60;

/// Returns the number of the epoch.
fn epoch(world: &RunState) -> u128 {
    world.started.elapsed().as_millis() / EPOCH.as_millis()
}

/// Returns whether a key gets no more calls, and all its calls have ended.
pub fn is_finished(world: &RunState) -> impl Fn(&str) -> bool + use<> {
    let now = epoch(world);
    move |key| {
        let epoch = key
            .split('-')
            .nth(1)
            .and_then(|epoch| epoch.parse::<u128>().ok());
        epoch.is_some_and(|epoch| epoch + SETTLED < now)
    }
}

/// The last read of a client, for conditions.
type LastRead = Option<(String, u64, Hlc)>;

/// Calls until the run ends.
pub async fn run_calls(world: Rc<RunState>, seat: usize, client: usize, mut chance: fastrand::Rng) {
    let mut read: LastRead = None;
    while world.is_running() {
        let key = format!("register-{}-{}", epoch(&world), chance.u64(0..KEYS));
        let asked = choose_invocation(&world, &key, &mut read, &mut chance);
        let (verb, arguments) = command_words(&key, &asked);
        let place = &world.slots[seat];
        let end = place.call(&world.failures, verb, client, &arguments).await;
        record_result(&world, key, asked, &end, &mut read);
        world.record_result(place, &end).await;
        sleep(Duration::from_millis(chance.u64(1..25))).await;
    }
}

fn choose_invocation(
    world: &RunState,
    key: &str,
    read: &mut LastRead,
    chance: &mut fastrand::Rng,
) -> Invocation {
    let known = read.take().filter(|(of, ..)| of == key);
    match (chance.u32(0..12), known) {
        (4..6, _) => Invocation::Set(world.next_value(), None),
        (6, _) => Invocation::Set(world.next_value(), Some(Condition::IfAbsent)),
        (7, None) => Invocation::Set(world.next_value(), Some(Condition::IfAbsentOrEqual)),
        (7, Some((_, value, _))) => Invocation::Set(value, Some(Condition::IfAbsentOrEqual)),
        (8..10, Some((.., version))) => {
            let condition = Condition::IfVersion((&version).into());
            Invocation::Set(world.next_value(), Some(condition))
        }
        (10, Some((_, value, _))) => Invocation::Vdel(value),
        (11, _) => Invocation::Del,
        _ => Invocation::Get,
    }
}

fn command_words(key: &str, asked: &Invocation) -> (&'static str, String) {
    match asked {
        Invocation::Get => ("get", key.to_owned()),
        Invocation::Del => ("del", key.to_owned()),
        Invocation::Vdel(value) => ("vdel", format!("{key} {value}")),
        Invocation::Set(value, condition) => {
            let condition = match condition {
                None => "always".to_owned(),
                Some(Condition::IfAbsent) => "if_absent".to_owned(),
                Some(Condition::IfAbsentOrEqual) => "if_absent_or_equal".to_owned(),
                Some(Condition::IfVersion(version)) => format!("={version}"),
            };
            ("set", format!("{key} {value} {condition}"))
        }
    }
}

/// Records the result of a call, unless the call certainly did not happen.
fn record_result(
    world: &RunState,
    key: String,
    asked: Invocation,
    end: &Result<PeerLine, u64>,
    read: &mut LastRead,
) {
    let (from, to, told) = match end {
        Ok(line) if line.is_not_done() => return,
        Ok(line) if line.is_unknown() => (line.from, line.to, None),
        Ok(line) => match parse_result(line) {
            Some(told) => (line.from, line.to, Some(told)),
            None => {
                return world
                    .failures
                    .add(format!("{asked:?} was answered {line:?}"));
            }
        },
        Err(from) => (*from, clock::now(), None),
    };
    if let Some(CallResult::Read(Some((value, version)))) = &told {
        *read = Some((key.clone(), *value, version.clone()));
    }
    // A read without an answer has no information.
    if told.is_some() || !matches!(asked, Invocation::Get) {
        let call = Call {
            invocation: asked,
            result: told,
        };
        world.history.borrow_mut().add(key, from, to, call);
    }
}

fn parse_result(line: &PeerLine) -> Option<CallResult> {
    Some(match line.told.as_str() {
        "none" => CallResult::Read(None),
        "entry" => CallResult::Read(Some((line.number()?, line.version()?))),
        "applied" => CallResult::Applied(line.version()?),
        "not_applied" => CallResult::NotApplied(line.version()),
        "deleted" => CallResult::Deleted(line.version()),
        "absent" => CallResult::Absent,
        "mismatch" => CallResult::Mismatch,
        _ => return None,
    })
}
