//! Actions that exercise the model.
use super::Model;
use crate::simulation::{Simulation, WALL};
use proptest::prelude::*;

#[derive(Debug, Clone)]
pub(crate) enum Action {
    Set {
        key: usize,
        value: usize,
        condition: usize,
        ttl: Option<u64>,
        ahead: i64,
        token: Option<u64>,
    },
    Get(usize, bool),
    GetMany(Vec<usize>),
    Del(usize, VersionCondition, Option<u64>),
    Vdel(usize, usize, VersionCondition, Option<u64>),
    Watch(usize, usize),
    Unwatch(usize, usize),
    /// Whether the watch begins; otherwise it ends.
    WatchPattern(usize, usize, bool),
    Disconnect(usize),
    Scan,
    ScanValues,
    Pass {
        mono: u64,
        wall: i64,
    },
    Expire,
    Restart,
}

/// Which version an IFV names, if there is one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum VersionCondition {
    None,
    /// The one that the key has.
    Present,
    Other,
}

pub(crate) const KEYS: [&str; 4] = ["a", "b", "c", "d"];
pub(crate) const VALUES: [&str; 3] = ["x", "y", "longer than the others"];
pub(crate) const CLIENTS: [&str; 2] = ["p", "q"];
/// Patterns, each with the keys that match.
pub(crate) const PATTERNS: [(&str, &[&str]); 4] = [
    ("*", &KEYS),
    ("[a-c]", &["a", "b", "c"]),
    ("a*", &["a"]),
    ("b", &["b"]),
];

pub(crate) fn action() -> impl Strategy<Value = Action> {
    let key = || 0..KEYS.len();
    let value = || 0..VALUES.len();
    let client = || 0..CLIENTS.len();
    let pattern = || 0..PATTERNS.len();
    let token = || {
        prop_oneof![
            2 => Just(None),
            2 => (1u64..4).prop_map(Some),
            1 => (WALL + 59_990..WALL + 60_010).prop_map(Some),
        ]
    };
    let named = || {
        prop_oneof![
            2 => Just(VersionCondition::None),
            1 => Just(VersionCondition::Present),
            1 => Just(VersionCondition::Other),
        ]
    };
    let ahead = prop_oneof![
        3 => Just(0),
        1 => -100i64..100,
        1 => 59_990i64..60_010,
    ];
    let set = (
        key(),
        value(),
        0..5usize,
        prop::option::of(1u64..200),
        ahead,
        token(),
    )
        .prop_map(|(key, value, condition, ttl, ahead, token)| Action::Set {
            key,
            value,
            condition,
            ttl,
            ahead,
            token,
        });
    let jump = prop_oneof![
        3 => Just(0i64),
        1 => -100_000i64..100_000,
        1 => -10i64..10,
    ];
    let pass = (0u64..150, jump).prop_map(|(mono, jump)| Action::Pass {
        mono,
        wall: jump + i64::try_from(mono).unwrap(),
    });
    prop_oneof![
        8 => set,
        3 => (key(), any::<bool>()).prop_map(|(key, remaining)| Action::Get(key, remaining)),
        2 => prop::collection::vec(key(), 1..6).prop_map(Action::GetMany),
        2 => (key(), named(), token()).prop_map(|(key, named, token)| Action::Del(key, named, token)),
        3 => (key(), value(), named(), token())
            .prop_map(|(key, value, named, token)| Action::Vdel(key, value, named, token)),
        1 => (client(), key()).prop_map(|(client, key)| Action::Watch(client, key)),
        1 => (client(), key()).prop_map(|(client, key)| Action::Unwatch(client, key)),
        2 => (client(), pattern(), any::<bool>())
            .prop_map(|(client, pattern, begins)| Action::WatchPattern(client, pattern, begins)),
        1 => client().prop_map(Action::Disconnect),
        1 => Just(Action::Scan),
        1 => Just(Action::ScanValues),
        4 => pass,
        1 => Just(Action::Expire),
        1 => Just(Action::Restart),
    ]
}

/// Begins or ends a watch of a pattern. Returns the response, and what the model expects.
pub(super) fn watch_pattern(
    sim: &mut Simulation,
    model: &mut Model,
    (client, pattern): (&'static str, usize),
    begins: bool,
) -> (String, String) {
    model.expire(sim.now);
    let watch = format!("KEYNOTIFY {} MATCH", PATTERNS[pattern].0);
    if begins {
        model.patterns.insert((pattern, client));
        return (sim.run_as(client, &watch), "+OK".into());
    }
    let was = model.patterns.remove(&(pattern, client));
    let got = sim.run_as(client, &format!("{watch} STOP"));
    (got, if was { "+OK" } else { ":0" }.into())
}
