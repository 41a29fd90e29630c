//! SCAN: patterns, pages, tokens, and keys that change meanwhile.
use crate::simulation::{Simulation, config, page, payload};
use bytes::Bytes;
use proptest::prelude::*;
use statestore_protocol::{Reply, ServiceError};
use statestored_store::service::ServiceConfig;
use std::collections::BTreeSet;

fn next_page(
    sim: &mut Simulation,
    pattern: &str,
    token: Option<&[u8]>,
) -> (Vec<Bytes>, Option<Bytes>) {
    page(request_page(sim, pattern, token))
}

fn request_page(
    sim: &mut Simulation,
    pattern: &str,
    token: Option<&[u8]>,
) -> statestored_store::service::ReplyEnvelope {
    let words = [&b"SCAN"[..], pattern.as_bytes()].into_iter().chain(token);
    sim.request().send(&payload(words))
}

/// All keys that match, and how many pages they took.
fn scan_all(sim: &mut Simulation, pattern: &str) -> (Vec<Bytes>, usize) {
    let (mut keys, mut token) = next_page(sim, pattern, None);
    let mut pages = 1;
    while let Some(last) = token {
        let (more, after) = next_page(sim, pattern, Some(&last));
        keys.extend(more);
        token = after;
        pages += 1;
    }
    keys.sort();
    (keys, pages)
}

fn paged(max_page_keys: usize) -> Simulation {
    Simulation::with(ServiceConfig {
        max_page_keys,
        ..config()
    })
}

#[test]
fn an_empty_store_has_one_empty_page() {
    let mut sim = Simulation::new();
    assert_eq!(next_page(&mut sim, "*", None), (vec![], None));
}

#[test]
fn only_matching_keys_are_returned() {
    let mut sim = Simulation::new();
    for key in ["line-1", "line-2", "line-x", "other"] {
        sim.run(&format!("SET {key} v"));
    }
    let mut found = |pattern: &str| {
        let (keys, _) = scan_all(&mut sim, pattern);
        keys.iter()
            .map(|key| String::from_utf8_lossy(key).into_owned())
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(found("*"), "line-1 line-2 line-x other");
    assert_eq!(found("line-[0-9]"), "line-1 line-2");
    assert_eq!(found("line-[!0-9]"), "line-x");
    assert_eq!(found("?ther"), "other");
    assert_eq!(found("other"), "other");
    assert_eq!(found("nothing"), "");
}

#[test]
fn pages_contain_each_key_once() {
    for max_page_keys in [1, 7, 100, 100_000] {
        let mut sim = paged(max_page_keys);
        let keys: BTreeSet<_> = (0..3_000).map(|i| Bytes::from(format!("{i}"))).collect();
        for key in &keys {
            sim.run(&format!("SET {} v", String::from_utf8_lossy(key)));
        }
        let (found, pages) = scan_all(&mut sim, "*");
        assert!(found.iter().eq(&keys));
        assert!(pages >= 3_000 / max_page_keys);
    }
}

#[test]
fn the_work_of_a_page_does_not_depend_on_matches() {
    let mut sim = Simulation::new();
    for key in 0..20_000 {
        sim.run(&format!("SET {key} v"));
    }
    let (keys, token) = next_page(&mut sim, "no such*", None);
    assert!(keys.is_empty() && token.is_some());
    let (found, pages) = scan_all(&mut sim, "no such*");
    assert!(found.is_empty());
    assert!((5..1_000).contains(&pages), "{pages}");
    let (_, long) = scan_all(&mut sim, &format!("*{}*", "x".repeat(16_000)));
    assert!(
        long < 2 * pages,
        "a pattern longer than the keys is not compared"
    );
}

#[test]
fn a_page_is_bounded_in_bytes_but_one_long_key_fits_alone() {
    let max_page_bytes = 4_096;
    let mut sim = Simulation::with(ServiceConfig {
        max_page_bytes,
        ..config()
    });
    let long = "l".repeat(10_000);
    sim.run(&format!("SET {long} v"));
    for key in 0..500 {
        sim.run(&format!("SET {key:0100} v"));
    }
    let (mut token, mut seen, mut alone) = (None, 0, false);
    loop {
        let (keys, after) = next_page(&mut sim, "*", token.as_deref());
        seen += keys.len();
        if keys.iter().any(|key| key.len() == long.len()) {
            assert_eq!(keys.len(), 1);
            alone = true;
        } else {
            let reply = Reply::Page {
                keys,
                token: after.clone(),
            };
            assert!(reply.encoded_len() <= max_page_bytes);
        }
        token = after;
        if token.is_none() {
            break;
        }
    }
    assert!(alone);
    assert_eq!(seen, 501);
}

#[test]
fn no_page_exceeds_its_bytes() {
    for max_page_bytes in 100..300 {
        let mut sim = Simulation::with(ServiceConfig {
            max_page_bytes,
            ..config()
        });
        for key in 0..100 {
            sim.run(&format!("SET {key:03} v"));
        }
        let mut token = None;
        loop {
            let response = request_page(&mut sim, "*", token.as_deref());
            assert!(response.reply.encoded_len() <= max_page_bytes);
            token = page(response).1;
            if token.is_none() {
                break;
            }
        }
    }
}

#[test]
fn expired_keys_are_skipped_at_the_cost_of_a_mismatch() {
    let mut sim = Simulation::new();
    for key in 0..20_000 {
        sim.run(&format!("SET {key} v PX 10"));
    }
    sim.run("SET lives v");
    sim.pass(10);
    let (keys, token) = next_page(&mut sim, "*", None);
    assert!(keys.len() <= 1 && token.is_some());
    assert_eq!(scan_all(&mut sim, "*").0, ["lives"]);
    assert!(
        sim.service.size().keys > 10_000,
        "they are still to be removed"
    );
}

#[test]
fn the_work_of_a_page_is_bounded_for_any_pattern_and_keys() {
    // A segment of the longest keys, one comparison of them, and what a page may take otherwise.
    const MOST: usize = 400_000 + 56 * 17_000 + 2_500_000 + 16 * 16_384;
    let mut sim = Simulation::new();
    let long = "a".repeat(16_380);
    for key in 0..20 {
        sim.run(&format!("SET {long}{key:04} v"));
    }
    let half = "a".repeat(8_000);
    for (pattern, matches) in [
        (format!("*{half}b*"), 0),
        (format!("*{}b", "a?".repeat(4_000)), 0),
        ("*a".repeat(8_192), 0),
        (format!("*{half}*0"), 2),
        ("*".into(), 20),
    ] {
        let (mut found, mut token) = (0, None);
        loop {
            let before = sim.work;
            let (keys, after) = next_page(&mut sim, &pattern, token.as_deref());
            let work = sim.work - before;
            assert!(work < MOST, "{work} steps");
            found += keys.len();
            token = after;
            if token.is_none() {
                break;
            }
        }
        assert_eq!(found, matches, "{}", &pattern[..20.min(pattern.len())]);
    }
}

#[test]
fn an_invalid_page_token_is_a_syntax_error() {
    let mut sim = paged(10);
    for key in 0..100 {
        sim.run(&format!("SET {key} v"));
    }
    let (_, token) = next_page(&mut sim, "*", None);
    let token = token.unwrap();
    let refused = |sim: &mut Simulation, token: &[u8]| {
        let response = request_page(sim, "*", Some(token));
        response.reply == Reply::Error(ServiceError::Syntax)
    };
    for garbage in [&b""[..], b"0", &[0; 16], &[0xff; 16], &[7; 1_000]] {
        assert!(refused(&mut sim, garbage), "{garbage:?}");
    }
    assert!(refused(&mut sim, &token[1..]));
    for at in 0..token.len() {
        let mut changed = token.to_vec();
        changed[at] ^= 1;
        assert!(refused(&mut sim, &changed));
    }
    assert!(!refused(&mut sim, &token));
}

#[test]
fn a_token_of_another_store_is_refused() {
    let token_of = |hash_key| {
        let mut sim = Simulation::with(ServiceConfig {
            max_page_keys: 10,
            hash_key,
            ..config()
        });
        for key in 0..100 {
            sim.run(&format!("SET {key} v"));
        }
        let token = next_page(&mut sim, "*", None).1.unwrap();
        (sim, token)
    };
    let (mut sim, own) = token_of([7, 11]);
    let (_, other) = token_of([7, 12]);
    let response = request_page(&mut sim, "*", Some(&other));
    assert_eq!(response.reply, Reply::Error(ServiceError::Syntax));
    assert!(matches!(
        request_page(&mut sim, "*", Some(&own)).reply,
        Reply::Page { .. }
    ));
}

#[test]
fn a_scan_continues_after_a_restart() {
    let mut sim = paged(10);
    for key in 0..100 {
        sim.run(&format!("SET {key} v"));
    }
    let (mut found, mut token) = next_page(&mut sim, "*", None);
    while let Some(last) = token {
        sim.restart(ServiceConfig {
            max_page_keys: 10,
            ..config()
        });
        let (more, after) = next_page(&mut sim, "*", Some(&last));
        found.extend(more);
        token = after;
    }
    found.sort();
    let mut expected: Vec<_> = (0..100).map(|key: u32| key.to_string()).collect();
    expected.sort();
    assert_eq!(found, expected);
}

#[test]
fn a_seed_gives_the_same_order_of_keys() {
    let order = |seed| {
        let mut sim = Simulation::with(ServiceConfig::default().with_seed(seed));
        for key in 0..100 {
            sim.run(&format!("SET {key} v"));
        }
        next_page(&mut sim, "*", None).0
    };
    assert_eq!(order(7), order(7));
    assert_ne!(order(7), order(8));
}

#[test]
fn a_page_token_survives_resizing_of_the_store() {
    let mut sim = paged(10);
    let kept: Vec<_> = (0..40).map(|i| format!("kept-{i:02}")).collect();
    for key in &kept {
        sim.run(&format!("SET {key} v"));
    }
    let (mut found, token) = next_page(&mut sim, "kept*", None);
    for key in 0..5_000 {
        sim.run(&format!("SET {key} v"));
    }
    let (more, token) = next_page(&mut sim, "kept*", token.as_deref());
    found.extend(more);
    for key in 0..5_000 {
        sim.run(&format!("DEL {key}"));
    }
    let mut token = token;
    while let Some(last) = token {
        let (more, after) = next_page(&mut sim, "kept*", Some(&last));
        found.extend(more);
        token = after;
    }
    found.sort();
    assert_eq!(found, kept);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_key_that_exists_throughout_is_found_exactly_once(
        max_page_keys in 1usize..50,
        kept in 1u32..400,
        changes in prop::collection::vec((any::<bool>(), 0u32..2_000), 0..2_000),
    ) {
        let mut sim = paged(max_page_keys);
        for key in 0..kept {
            sim.run(&format!("SET kept-{key} v"));
        }
        let mut changes = changes.into_iter();
        let mut found = Vec::new();
        let mut token: Option<Bytes> = None;
        loop {
            let (keys, after) = next_page(&mut sim, "*", token.as_deref());
            found.extend(keys);
            token = after;
            if token.is_none() {
                break;
            }
            for (is_set, key) in changes.by_ref().take(100) {
                let verb = if is_set { "SET" } else { "DEL" };
                let value = if is_set { " v PX 5" } else { "" };
                sim.run(&format!("{verb} other-{key}{value}"));
            }
            sim.now.mono_ms += 1;
        }
        let mut found: Vec<_> = found.into_iter().filter(|key| key.starts_with(b"kept")).collect();
        found.sort();
        let mut expected: Vec<_> = (0..kept).map(|key| format!("kept-{key}")).collect();
        expected.sort();
        prop_assert_eq!(found, expected);
    }
}
