//! The request payloads of `tests/vectors`, as the store answers them.
use crate::simulation::Simulation;
use serde_json::Value;
use statestore_protocol::Reply;
use std::path::Path;

/// Converts each character of a vector's string to one byte.
fn bytes(text: &str) -> Vec<u8> {
    text.chars()
        .map(|c| u8::try_from(u32::from(c)).unwrap())
        .collect()
}

fn cases(file: &str, list: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/vectors");
    let file = std::fs::read(path.join(format!("{file}.json"))).unwrap();
    let mut vectors: Value = serde_json::from_slice(&file).unwrap();
    serde_json::from_value(vectors[list].take()).unwrap()
}

#[test]
fn every_vector_returns_its_error_and_changes_nothing() {
    let mut malformed = 0;
    for case in cases("requests", "payloads") {
        let name = &case["name"];
        let payload = bytes(case["payload"].as_str().unwrap()).into();
        let mut sim = Simulation::new();
        sim.run("SET before v");
        let reply = sim.request().send(&payload).reply;
        if let Some(error) = case["decode"]["error"].as_str() {
            malformed += 1;
            match reply {
                Reply::Error(refusal) => assert_eq!(refusal.to_string(), error, "{name}"),
                other => panic!("{name}: {other:?}"),
            }
            assert!(sim.has_keys(1), "{name}");
        } else if case["decode"]["token"].is_null() {
            assert!(!matches!(reply, Reply::Error(_)), "{name}: {reply:?}");
        }
        assert!(sim.run("GET before").starts_with("$1\r\nv"), "{name}");
    }
    assert!(malformed > 30, "only {malformed} malformed vectors");
}

#[test]
fn every_extension_vector_returns_its_result() {
    for case in cases("extensions", "requests") {
        let name = &case["name"];
        let payload = bytes(case["payload"].as_str().unwrap()).into();
        let mut sim = Simulation::new();
        let reply = sim.request().send(&payload).reply;
        match case["decode"]["error"].as_str() {
            Some(error) => match reply {
                Reply::Error(refusal) => assert_eq!(refusal.to_string(), error, "{name}"),
                other => panic!("{name}: {other:?}"),
            },
            None if case["decode"]["operations"].is_null() && case["decode"]["token"].is_null() => {
                assert!(!matches!(reply, Reply::Error(_)), "{name}: {reply:?}");
            }
            None => {}
        }
    }
}
