//! A file of rules of any text: rules or an error that says where, and what they allow does not depend on the order of questions.
#![no_main]
use libfuzzer_sys::fuzz_target;
use statestored_access::{Policy, Principal};

fuzz_target!(|text: &str| {
    let Ok(policy) = Policy::parse(text) else {
        return;
    };
    let principal = Principal::user("ann".into());
    let rights = || policy.rights(&principal, "client-1");
    let asked = |key: &[u8]| rights().map(|it| (it.may_read(key), it.may_write(key)));
    let keys: [&[u8]; 4] = [b"", b"a", b"ann/1", b"\xff*"];
    let forward: Vec<_> = keys.iter().map(|key| asked(key)).collect();
    let mut backward: Vec<_> = keys.iter().rev().map(|key| asked(key)).collect();
    backward.reverse();
    assert_eq!(forward, backward);
    if let Some(rights) = rights() {
        // Whoever reads or writes a key has to reach the store.
        let has_any = keys
            .iter()
            .any(|key| rights.may_read(key) || rights.may_write(key));
        assert!(!has_any || rights.may_use_store());
        let _ = (rights.may_publish("a/b"), rights.may_subscribe("a/#"));
    }
});
