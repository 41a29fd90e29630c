//! MGET, and pages of a SCAN with values: limits, order and expiry.
use crate::simulation::{Simulation, WALL, config, entry_page, page, payload, text, version};
use bytes::Bytes;
use statestore_protocol::{Reply, Version};
use statestored_store::service::{ReplyEnvelope, ServiceConfig};
use std::collections::BTreeMap;

const MIB: usize = 1024 * 1024;

fn set(sim: &mut Simulation, key: &str, value: &[u8]) {
    let set = payload([&b"SET"[..], key.as_bytes(), value]);
    assert!(text(&sim.request().send(&set)).starts_with("+OK"));
}

fn get_many(sim: &mut Simulation, keys: &[&str]) -> (Vec<Option<(Bytes, Version)>>, u64) {
    let words = ["MGET"].iter().chain(keys).map(|word| word.as_bytes());
    let response = sim.request().send(&payload(words));
    assert_eq!(response.version, None);
    match response.reply {
        Reply::Entries { entries, omitted } => (entries, omitted),
        other => panic!("{other:?}"),
    }
}

fn scan(sim: &mut Simulation, token: Option<&[u8]>, values: bool) -> ReplyEnvelope {
    let words = [&b"SCAN"[..], b"*"].into_iter().chain(token);
    let words = words.chain(values.then_some(&b"VALUES"[..]));
    sim.request().send(&payload(words))
}

#[test]
fn entries_are_returned_in_the_order_of_the_keys() {
    let mut sim = Simulation::new();
    sim.run("SET a 1");
    sim.run("SET b 2 PX 10");
    let entry = |value: &'static str| Some((value.into(), version(WALL, 1).into()));
    assert_eq!(
        get_many(&mut sim, &["b", "absent", "a", "b"]),
        (vec![entry("2"), None, entry("1"), entry("2")], 0)
    );
    sim.pass(10);
    assert_eq!(get_many(&mut sim, &["b", "a"]), (vec![None, entry("1")], 0));
    assert!(!sim.stored.contains_key(&b"b"[..]), "b has expired");
}

#[test]
fn keys_beyond_a_mebibyte_of_values_are_omitted() {
    let mut sim = Simulation::new();
    set(&mut sim, "half", &vec![b'h'; MIB / 2]);
    set(&mut sim, "byte", b"b");
    set(&mut sim, "huge", &vec![b'v'; 2 * MIB]);
    for (keys, returned) in [
        (&["half", "half"][..], 2),
        (&["half", "half", "absent"], 3),
        (&["half", "half", "absent", "byte", "absent"], 3),
        (&["byte", "half", "half"], 2),
        (&["huge"], 1),
        (&["huge", "absent", "byte"], 1),
        (&["byte", "huge"], 1),
    ] {
        let (entries, omitted) = get_many(&mut sim, keys);
        assert_eq!(entries.len(), returned, "{keys:?}");
        assert_eq!(omitted, (keys.len() - returned) as u64, "{keys:?}");
    }
}

#[test]
fn ten_thousand_keys_are_read_at_once() {
    let mut sim = Simulation::new();
    let keys: Vec<_> = (0..10_000).map(|key| key.to_string()).collect();
    for key in keys.iter().step_by(2) {
        sim.run(&format!("SET {key} {key}"));
    }
    sim.work = 0;
    let keys: Vec<_> = keys.iter().map(String::as_str).collect();
    let (entries, omitted) = get_many(&mut sim, &keys);
    assert_eq!((entries.len(), omitted), (10_000, 0));
    for (entry, key) in entries.iter().zip(&keys) {
        let is_set = key.parse::<u32>().unwrap() % 2 == 0;
        let value = entry.as_ref().map(|(value, _)| &value[..]);
        assert_eq!(value, is_set.then_some(key.as_bytes()));
    }
    let work = std::mem::take(&mut sim.work);
    assert!((1_000_000..10_000_000).contains(&work), "{work}");
    let too_many = [&keys[..], &["more"]].concat();
    let answer = sim.run(&format!("MGET {}", too_many.join(" ")));
    assert_eq!(answer, "-ERR an MGET has at most 10000 keys");
}

#[test]
fn a_page_with_values_ends_before_its_bytes_exceed_the_limit() {
    const LIMIT: usize = 256 * 1024;
    let mut sim = Simulation::new();
    let mut expected = BTreeMap::new();
    for (number, len) in [LIMIT / 3; 7].into_iter().chain([2 * LIMIT, 0]).enumerate() {
        let key = format!("key-{number}");
        let value = vec![b'a'; len];
        set(&mut sim, &key, &value);
        expected.insert(Bytes::from(key), Bytes::from(value));
    }
    let (mut found, mut token, mut pages) = (BTreeMap::new(), None::<Bytes>, 0);
    loop {
        let (entries, after) = entry_page(scan(&mut sim, token.as_deref(), true));
        let sizes = entries.iter().map(|it| it.key.len() + it.value.len());
        let bytes = sizes.sum::<usize>();
        assert!(bytes <= LIMIT || entries.len() == 1, "{bytes}");
        for entry in entries {
            assert_eq!(entry.version, version(WALL, 1).into());
            assert_eq!(entry.expires_in_ms, None);
            assert_eq!(found.insert(entry.key, entry.value), None);
        }
        pages += 1;
        token = after;
        if token.is_none() {
            break;
        }
    }
    assert_eq!(found, expected);
    assert!((4..=9).contains(&pages), "{pages}");
}

#[test]
fn tokens_of_pages_with_and_without_values_are_interchangeable() {
    let mut sim = Simulation::with(ServiceConfig {
        max_page_keys: 3,
        ..config()
    });
    let mut expected: Vec<_> = (0..20).map(|key| Bytes::from(key.to_string())).collect();
    for key in &expected {
        set(&mut sim, std::str::from_utf8(key).unwrap(), b"v");
    }
    let (mut found, mut token, mut with_values) = (Vec::new(), None::<Bytes>, false);
    loop {
        let response = scan(&mut sim, token.as_deref(), with_values);
        let (keys, after) = if with_values {
            let (entries, after) = entry_page(response);
            (entries.into_iter().map(|it| it.key).collect(), after)
        } else {
            page(response)
        };
        found.extend(keys);
        with_values = !with_values;
        token = after;
        if token.is_none() {
            break;
        }
    }
    found.sort();
    expected.sort();
    assert_eq!(found, expected);
}
