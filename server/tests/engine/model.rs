//! Random commands under random clocks, against a model that is too simple to be wrong.
#[path = "actions.rs"]
mod actions;

use crate::simulation::{MONO, Simulation, config, entry_page, hlc, page, payload, text, version};
use crate::store;
use crate::terms::StorageTraits;
use actions::{Action, CLIENTS, KEYS, PATTERNS, VALUES, VersionCondition, action, watch_pattern};
use proptest::prelude::*;
use statestore_protocol::{Hlc, PageEntry};
use statestored_common::ClockReading;
use std::collections::{BTreeMap, BTreeSet};

type Version = (u64, u64);

#[derive(Debug, Clone)]
struct ModelEntry {
    value: String,
    version: Version,
    token: Option<Hlc>,
    /// On the monotonic clock.
    deadline: Option<u64>,
    /// On the wall clock, as a restart counts.
    end: Option<(u64, u64)>,
}

#[derive(Debug)]
struct Model {
    terms: StorageTraits,
    items: BTreeMap<String, ModelEntry>,
    /// The last deletion of each key.
    deleted: BTreeMap<String, Version>,
    watchers: BTreeMap<String, BTreeSet<String>>,
    /// Watched patterns, each with the client.
    patterns: BTreeSet<(usize, &'static str)>,
    highest_deletion: Version,
    /// Minimum difference of the wall clock to the monotonic clock when expiry times were stored.
    ahead: Option<i64>,
    notified: Vec<String>,
}

impl Model {
    fn new() -> Self {
        Self {
            terms: StorageTraits::of(store::STORAGE),
            items: BTreeMap::new(),
            deleted: BTreeMap::new(),
            watchers: BTreeMap::new(),
            patterns: BTreeSet::new(),
            highest_deletion: (0, 0),
            ahead: None,
            notified: Vec::new(),
        }
    }

    /// Returns the lower bound of the version of a new key.
    fn floor(&self, key: &str) -> Version {
        if self.terms.has_version_floor_per_key {
            self.deleted.get(key).copied().unwrap_or_default()
        } else {
            self.highest_deletion
        }
    }

    fn after(now: ClockReading, highest: Version) -> Version {
        if now.wall_ms > highest.0 {
            (now.wall_ms, 0)
        } else {
            (highest.0, highest.1 + 1)
        }
    }

    fn notify(&mut self, key: &str, what: &str, (wall, counter): Version) {
        let matching = |&&(pattern, _): &&(usize, &str)| PATTERNS[pattern].1.contains(&key);
        let of_patterns = self.patterns.iter().filter(matching);
        let of_key = self.watchers.get(key).into_iter().flatten();
        let of_patterns = of_patterns.map(|(_, client)| *client);
        let clients = of_key.map(String::as_str).chain(of_patterns);
        for client in clients.collect::<BTreeSet<&str>>() {
            let line = format!("{client} {key} {what} @{wall}+{counter}");
            self.notified.push(line);
        }
    }

    fn delete(&mut self, key: &str, now: ClockReading) -> Version {
        let item = self.items.remove(key).unwrap();
        let version = Self::after(now, item.version);
        self.deleted.insert(key.into(), version);
        self.highest_deletion = self.highest_deletion.max(version);
        self.notify(key, "DELETE", version);
        version
    }

    fn expire(&mut self, now: ClockReading) {
        for key in KEYS {
            let item = self.items.get(key);
            if item.is_some_and(|item| item.deadline.is_some_and(|at| now.mono_ms >= at)) {
                self.delete(key, now);
            }
        }
    }

    fn fence(&self, key: &str, token: Option<&Hlc>) -> Option<String> {
        let stored = self.items.get(key)?.token.as_ref()?;
        match token {
            None => Some("-ERR a fencing token is required for this request".into()),
            Some(token) if token < stored => Some(
                "-ERR the request fencing token is a lower version than the fencing token protecting the resource".into(),
            ),
            Some(_) => None,
        }
    }

    fn set(
        &mut self,
        (key, value, condition): (&str, &str, usize),
        ttl: Option<u64>,
        timestamp: &Hlc,
        token: Option<Hlc>,
        now: ClockReading,
    ) -> String {
        if timestamp.wall_ms() > now.wall_ms + 60_000 {
            return "-ERR the request timestamp is too far in the future; ensure that the client and broker system clocks are synchronized".into();
        }
        if let Some(error) =
            skewed(token.as_ref(), now, self.highest()).or(self.fence(key, token.as_ref()))
        {
            return error;
        }
        let mut previous = self.floor(key);
        if let Some(item) = self.items.get(key) {
            if condition == 1 || (condition == 2 && item.value != value) || condition == 4 {
                return format!(":-1 @{}+{}", item.version.0, item.version.1);
            }
            previous = item.version;
        } else if condition > 2 {
            return ":-1".into();
        }
        let request = (timestamp.wall_ms(), timestamp.counter());
        let version = Self::after(now, previous.max(request));
        let item = ModelEntry {
            value: value.into(),
            version,
            token,
            deadline: ttl.map(|ttl| now.mono_ms + ttl),
            end: ttl.map(|ttl| (now.wall_ms + ttl, ttl)),
        };
        if ttl.is_some() {
            self.stored(now);
        }
        self.items.insert(key.into(), item);
        self.notify(key, &format!("SET {value}"), version);
        format!("+OK @{}+{}", version.0, version.1)
    }

    fn del(
        &mut self,
        (key, value, named): (&str, Option<&str>, VersionCondition),
        token: Option<&Hlc>,
        now: ClockReading,
    ) -> String {
        if let Some(error) = skewed(token, now, self.highest()) {
            return error;
        }
        let Some(item) = self.items.get(key) else {
            let is_conditional = named != VersionCondition::None;
            return if is_conditional { ":-1" } else { ":0" }.into();
        };
        if let Some(error) = self.fence(key, token) {
            return error;
        }
        let differs = value.is_some_and(|value| item.value != value);
        if named == VersionCondition::Other || (differs && named == VersionCondition::Present) {
            return format!(":-1 @{}+{}", item.version.0, item.version.1);
        }
        if value.is_some_and(|value| item.value != value) {
            return ":-1".into();
        }
        let version = self.delete(key, now);
        format!(":1 @{}+{}", version.0, version.1)
    }

    /// The words of an IFV.
    fn condition(&self, key: &str, named: VersionCondition) -> Vec<String> {
        let (wall, counter) = self.items.get(key).map_or((1, 1), |item| item.version);
        let counter = match named {
            VersionCondition::None => return Vec::new(),
            VersionCondition::Present => counter,
            VersionCondition::Other => counter + 1,
        };
        vec!["IFV".into(), format!("{wall}:{counter}:StateStore")]
    }

    fn get_with_time(&self, key: &str, now: ClockReading) -> String {
        match self.items.get(key) {
            None => "$-1".into(),
            Some(item) => {
                let ModelEntry { value, version, .. } = item;
                let left = item.deadline.map(|at| (at - now.mono_ms).to_string());
                let left = left.unwrap_or("-1".into());
                let len = value.len();
                let (wall, counter) = version;
                format!("*2\r\n${len}\r\n{value}\r\n:{left} @{wall}+{counter}")
            }
        }
    }

    fn get(&self, key: &str) -> String {
        match self.items.get(key) {
            None => "$-1".into(),
            Some(ModelEntry { value, version, .. }) => {
                let len = value.len();
                format!("${len}\r\n{value} @{}+{}", version.0, version.1)
            }
        }
    }

    fn get_many(&self, keys: &[&str]) -> String {
        let entries = keys.iter().map(|key| match self.items.get(*key) {
            None => "\r\n$-1".to_owned(),
            Some(ModelEntry { value, version, .. }) => {
                let version = self::version(version.0, version.1).to_string();
                let (len, text_len) = (value.len(), version.len());
                format!("\r\n*2\r\n${len}\r\n{value}\r\n${text_len}\r\n{version}")
            }
        });
        let entries: String = entries.collect();
        format!("*2\r\n:0\r\n*{}{entries}", keys.len())
    }

    /// Returns all entries as the only page of a SCAN has them.
    fn entries(&self, now: ClockReading) -> Vec<PageEntry> {
        let entries = self.items.iter().map(|(key, item)| PageEntry {
            key: key.clone().into(),
            value: item.value.clone().into(),
            version: version(item.version.0, item.version.1).into(),
            expires_in_ms: item.deadline.map(|at| at - now.mono_ms),
        });
        entries.collect()
    }

    fn highest(&self) -> Version {
        let versions = self.items.values().map(|item| item.version);
        versions.fold(self.highest_deletion, Version::max)
    }

    /// The storage has the end of an entry by the wall clock of now.
    fn stored(&mut self, now: ClockReading) {
        self.ahead = Some(self.ahead.map_or(ahead(now), |least| least.min(ahead(now))));
    }

    /// Lets time pass. If the wall clock has jumped ahead, the remaining time of each entry is stored again.
    fn pass(&mut self, now: ClockReading) {
        self.expire(now);
        let has_jumped = self.ahead.is_some_and(|least| ahead(now) > least + 1_000);
        if has_jumped && store::REWRITES_AFTER_CLOCK_JUMPS {
            self.ahead = Some(ahead(now));
            for item in self.items.values_mut() {
                let left = item.deadline.map(|deadline| deadline - now.mono_ms);
                item.end = left.map(|left| (now.wall_ms + left, left));
            }
        }
    }

    fn restart(&mut self, now: ClockReading) {
        self.watchers.clear();
        self.patterns.clear();
        self.ahead = None;
        if self.items.values().any(|item| item.end.is_some()) {
            self.stored(now);
        }
        for item in self.items.values_mut() {
            item.deadline = item.end.map(|(end, ttl)| {
                let left = end.saturating_sub(now.wall_ms).min(ttl);
                now.mono_ms
                    + if self.terms.restarts_expiry {
                        ttl
                    } else {
                        left
                    }
            });
        }
    }
}

fn ahead(now: ClockReading) -> i64 {
    i64::try_from(now.wall_ms).unwrap() - i64::try_from(now.mono_ms).unwrap()
}

fn skewed(token: Option<&Hlc>, now: ClockReading, (highest_ms, _): Version) -> Option<String> {
    let reference_ms = now.wall_ms.max(highest_ms);
    let skewed = token.is_some_and(|token| token.wall_ms() > reference_ms + 60_000);
    skewed.then(|| "-ERR the request fencing token timestamp is too far in the future; ensure that the client and broker system clocks are synchronized".into())
}

fn token_of(token: Option<u64>) -> Option<Hlc> {
    token.map(|wall| hlc(wall, 0, "lock"))
}

fn words(words: &[&str]) -> bytes::Bytes {
    payload(words.iter().map(|word| word.as_bytes()))
}

fn delete(
    sim: &mut Simulation,
    model: &mut Model,
    (key, value, named): (&str, Option<&str>, VersionCondition),
    token: Option<u64>,
) -> (String, String) {
    model.expire(sim.now);
    let token = token_of(token);
    let ifv = model.condition(key, named);
    let mut command = vec![if value.is_some() { "VDEL" } else { "DEL" }, key];
    command.extend(value);
    command.extend(ifv.iter().map(String::as_str));
    let draft = sim.request().token(token.clone());
    let got = text(&draft.send(&words(&command)));
    let expected = model.del((key, value, named), token.as_ref(), sim.now);
    (got, expected)
}

fn get_many(sim: &mut Simulation, model: &mut Model, keys: &[usize]) -> (String, String) {
    model.expire(sim.now);
    let keys: Vec<_> = keys.iter().map(|key| KEYS[*key]).collect();
    let command = [&["MGET"][..], &keys].concat();
    let got = text(&sim.request().send(&words(&command)));
    (got, model.get_many(&keys))
}

fn scan(sim: &mut Simulation, model: &mut Model) {
    model.expire(sim.now);
    let (mut keys, token) = page(sim.request().send(&words(&["SCAN", "*"])));
    keys.sort();
    assert!(token.is_none());
    assert!(keys.iter().eq(model.items.keys()));
}

fn scan_values(sim: &mut Simulation, model: &mut Model) {
    model.expire(sim.now);
    let scan = words(&["SCAN", "*", "VALUES"]);
    let (mut entries, token) = entry_page(sim.request().send(&scan));
    entries.sort_by(|one, other| one.key.cmp(&other.key));
    assert!(token.is_none());
    assert_eq!(entries, model.entries(sim.now));
}

fn run(sim: &mut Simulation, model: &mut Model, action: &Action) {
    let (got, expected) = match *action {
        Action::Set {
            key,
            value,
            condition,
            ttl,
            ahead,
            token,
        } => {
            let now = sim.now;
            model.expire(now);
            let timestamp = hlc(now.wall_ms.saturating_add_signed(ahead), 2, "c");
            let (key, value, token) = (KEYS[key], VALUES[value], token_of(token));
            let px = ttl.map(|ttl| ttl.to_string());
            let mut command = vec!["SET", key, value];
            let named = match condition {
                3 => VersionCondition::Present,
                4 => VersionCondition::Other,
                _ => VersionCondition::None,
            };
            let ifv = model.condition(key, named);
            command.extend(["", "NX", "NEX"].get(condition).filter(|it| !it.is_empty()));
            command.extend(ifv.iter().map(String::as_str));
            command.extend(px.iter().flat_map(|px| ["PX", px]));
            let draft = sim.request().token(token.clone());
            let draft = draft.timestamp(Some(Ok(timestamp.clone())));
            let got = text(&draft.send(&words(&command)));
            let expected = model.set((key, value, condition), ttl, &timestamp, token, now);
            (got, expected)
        }
        Action::Get(key, true) => {
            model.expire(sim.now);
            let got = text(&sim.request().send(&words(&["GET", KEYS[key], "PTTL"])));
            (got, model.get_with_time(KEYS[key], sim.now))
        }
        Action::Get(key, false) => {
            model.expire(sim.now);
            let got = text(&sim.request().send(&words(&["GET", KEYS[key]])));
            (got, model.get(KEYS[key]))
        }
        Action::GetMany(ref keys) => get_many(sim, model, keys),
        Action::Del(key, named, token) => delete(sim, model, (KEYS[key], None, named), token),
        Action::Vdel(key, value, named, token) => {
            let what = (KEYS[key], Some(VALUES[value]), named);
            delete(sim, model, what, token)
        }
        Action::Watch(client, key) => {
            model.expire(sim.now);
            let watchers = model.watchers.entry(KEYS[key].into()).or_default();
            watchers.insert(CLIENTS[client].into());
            let got = sim.run_as(CLIENTS[client], &format!("KEYNOTIFY {}", KEYS[key]));
            (got, "+OK".into())
        }
        Action::Unwatch(client, key) => {
            model.expire(sim.now);
            let watchers = model.watchers.entry(KEYS[key].into()).or_default();
            let was = watchers.remove(CLIENTS[client]);
            let got = sim.run_as(CLIENTS[client], &format!("KEYNOTIFY {} STOP", KEYS[key]));
            (got, if was { "+OK" } else { ":0" }.into())
        }
        Action::WatchPattern(client, pattern, begins) => {
            watch_pattern(sim, model, (CLIENTS[client], pattern), begins)
        }
        Action::Disconnect(client) => {
            model.patterns.retain(|(_, its)| *its != CLIENTS[client]);
            sim.service.end_watches(CLIENTS[client]);
            for watchers in model.watchers.values_mut() {
                watchers.remove(CLIENTS[client]);
            }
            return;
        }
        Action::Scan => {
            scan(sim, model);
            return;
        }
        Action::ScanValues => {
            scan_values(sim, model);
            return;
        }
        Action::Pass { mono, wall } => {
            sim.now.mono_ms += mono;
            sim.now.wall_ms = sim.now.wall_ms.saturating_add_signed(wall);
            if store::EXPIRES_WITHOUT_REQUESTS {
                model.pass(sim.now);
                sim.expire();
            }
            return;
        }
        Action::Expire => {
            model.pass(sim.now);
            sim.expire();
            return;
        }
        Action::Restart => {
            sim.restart(config());
            model.restart(sim.now);
            return;
        }
    };
    assert_eq!(got, expected);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(store::CASES))]

    #[test]
    fn the_engine_matches_the_model(actions in prop::collection::vec(action(), 1..80)) {
        let mut sim = Simulation::new();
        let mut model = Model::new();
        let mut versions: BTreeMap<String, Vec<Version>> = BTreeMap::new();
        prop_assert_eq!(sim.now.mono_ms, MONO);
        for action in &actions {
            run(&mut sim, &mut model, action);
            for notify in &sim.notifications {
                let key = String::from_utf8_lossy(&notify.key).into_owned();
                let version = (notify.version.wall_ms(), notify.version.counter());
                let of_key = versions.entry(key).or_default();
                prop_assert!(of_key.last() < Some(&version), "versions of a key rise");
                of_key.push(version);
            }
            let mut notified = sim.notified();
            let mut expected = std::mem::take(&mut model.notified);
            // keys that expire at once do so in any order
            notified.sort();
            expected.sort();
            prop_assert_eq!(notified, expected);
            if !model.terms.counts_keys {
                continue;
            }
            if model.items.values().all(|item| item.deadline.is_none_or(|at| at > sim.now.mono_ms)) {
                prop_assert_eq!(sim.service.size().keys, model.items.len() as u64);
            }
            for (key, item) in &model.items {
                let record = &sim.stored[key.as_bytes()];
                prop_assert_eq!(&record.value[..], item.value.as_bytes());
                prop_assert_eq!(record.version, item.version);
                prop_assert_eq!(&record.fence, &item.token);
            }
            prop_assert_eq!(sim.stored.len(), model.items.len());
        }
    }
}
