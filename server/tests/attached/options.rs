//! The options and their contradictions.
use super::world::statestored;

fn refused(arguments: &[&str]) -> String {
    let output = statestored(arguments).arg("--check").output().unwrap();
    assert!(!output.status.success(), "{arguments:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn a_policy_without_authenticated_identities_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let policy = folder.path().join("policy.yaml");
    std::fs::write(&policy, "rules: []\n").unwrap();
    let policy = policy.to_str().unwrap();
    let attach = ["--storage", "memory", "--attach", "mqtt://127.0.0.1"];
    let error = refused(&[&attach[..], &["--policy-file", policy]].concat());
    assert!(
        error.contains("cannot verify the clients of a broker"),
        "{error}"
    );
    let alone = statestored(&attach).arg("--check").output().unwrap();
    assert!(alone.status.success(), "{alone:?}");
}

#[test]
fn contradictory_options_are_refused() {
    let mqtts = ["--storage", "memory", "--attach", "mqtts://127.0.0.1"];
    assert!(refused(&mqtts).contains("--attach-ca"));
    let missing = [&mqtts[..], &["--attach-ca", "/nowhere/ca.pem"]].concat();
    assert!(refused(&missing).contains("/nowhere/ca.pem"));
    let mqtt = ["--storage", "memory", "--attach", "mqtt://127.0.0.1"];
    let error = refused(&[&mqtt[..], &["--attach-ca", "/ca.pem"]].concat());
    assert!(error.contains("mqtts://"), "{error}");
    for more in [
        ["--attach-share", "a/b"],
        ["--attach-client-id", ""],
        ["--attach-user", "ann"],
    ] {
        refused(&[&mqtt[..], &more].concat());
    }
    let error = refused(&[&mqtt[..], &["--attach-share", "group"]].concat());
    assert!(error.contains("needs a shared storage"), "{error}");
    refused(&["--storage", "memory", "--attach", "http://127.0.0.1"]);
    refused(&["--storage", "memory", "--attach-share", "group"]);
}
