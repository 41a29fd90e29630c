//! Clients that read and write keys.
use crate::clock;
use crate::line::Line;
use crate::world::World;
use histories::{Asked, Call, Condition, Told};
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
fn epoch(world: &World) -> u128 {
    world.begun.elapsed().as_millis() / EPOCH.as_millis()
}

/// Returns whether a key gets no more calls, and all its calls have ended.
pub fn is_over(world: &World) -> impl Fn(&str) -> bool + use<> {
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
type Read = Option<(String, u64, Hlc)>;

/// Calls until the run ends.
pub async fn call(world: Rc<World>, seat: usize, client: usize, mut chance: fastrand::Rng) {
    let mut read: Read = None;
    while world.goes_on() {
        let key = format!("register-{}-{}", epoch(&world), chance.u64(0..KEYS));
        let asked = choose(&world, &key, &mut read, &mut chance);
        let (verb, arguments) = words(&key, &asked);
        let place = &world.seats[seat];
        let end = place.call(&world.findings, verb, client, &arguments).await;
        note(&world, key, asked, &end, &mut read);
        world.ended(place, &end).await;
        sleep(Duration::from_millis(chance.u64(1..25))).await;
    }
}

fn choose(world: &World, key: &str, read: &mut Read, chance: &mut fastrand::Rng) -> Asked {
    let known = read.take().filter(|(of, ..)| of == key);
    match (chance.u32(0..12), known) {
        (4..6, _) => Asked::Set(world.next_value(), None),
        (6, _) => Asked::Set(world.next_value(), Some(Condition::IfAbsent)),
        (7, None) => Asked::Set(world.next_value(), Some(Condition::IfAbsentOrEqual)),
        (7, Some((_, value, _))) => Asked::Set(value, Some(Condition::IfAbsentOrEqual)),
        (8..10, Some((.., version))) => {
            let condition = Condition::IfVersion((&version).into());
            Asked::Set(world.next_value(), Some(condition))
        }
        (10, Some((_, value, _))) => Asked::Vdel(value),
        (11, _) => Asked::Del,
        _ => Asked::Get,
    }
}

fn words(key: &str, asked: &Asked) -> (&'static str, String) {
    match asked {
        Asked::Get => ("get", key.to_owned()),
        Asked::Del => ("del", key.to_owned()),
        Asked::Vdel(value) => ("vdel", format!("{key} {value}")),
        Asked::Set(value, condition) => {
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
fn note(world: &World, key: String, asked: Asked, end: &Result<Line, u64>, read: &mut Read) {
    let (from, to, told) = match end {
        Ok(line) if line.is_not_done() => return,
        Ok(line) if line.is_unknown() => (line.from, line.to, None),
        Ok(line) => match told(line) {
            Some(told) => (line.from, line.to, Some(told)),
            None => {
                return world
                    .findings
                    .add(format!("{asked:?} was answered {line:?}"));
            }
        },
        Err(from) => (*from, clock::now(), None),
    };
    if let Some(Told::Entry(Some((value, version)))) = &told {
        *read = Some((key.clone(), *value, version.clone()));
    }
    // A read without an answer has no information.
    if told.is_some() || !matches!(asked, Asked::Get) {
        let call = Call { asked, told };
        world.history.borrow_mut().add(key, from, to, call);
    }
}

fn told(line: &Line) -> Option<Told> {
    Some(match line.told.as_str() {
        "none" => Told::Entry(None),
        "entry" => Told::Entry(Some((line.number()?, line.version()?))),
        "applied" => Told::Applied(line.version()?),
        "not_applied" => Told::NotApplied(line.version()),
        "deleted" => Told::Deleted(line.version()),
        "absent" => Told::Absent,
        "mismatch" => Told::Mismatch,
        _ => return None,
    })
}
