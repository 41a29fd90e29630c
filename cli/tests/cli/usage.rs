//! Usage errors that are reported before anything is sent.
use crate::harness::{Store, run, statestore};

fn refused(arguments: &[&str], words: &str) {
    run(statestore(arguments), b"").assert_error(2, words);
}

#[test]
fn help_has_examples_for_every_subcommand() {
    for verb in [
        "get",
        "set",
        "del",
        "vdel",
        "exists",
        "ttl",
        "touch",
        "incr",
        "ping",
        "scan",
        "watch",
        "lock",
        "elect",
        "lease",
        "bench",
        "completions",
    ] {
        let run = run(statestore([verb, "--help"]), b"");
        let help = String::from_utf8(run.stdout).unwrap();
        assert_eq!(run.code, Some(0));
        assert!(
            help.contains(&format!("Examples:\n  statestore {verb}")),
            "{help}"
        );
    }
}

#[test]
fn completions_contain_the_subcommands_of_the_help() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let run = run(statestore(["completions", shell]), b"");
        let script = String::from_utf8(run.stdout).unwrap();
        assert_eq!(run.code, Some(0), "{shell}");
        for word in ["vdel", "completions", "allow-plaintext-credentials"] {
            assert!(script.contains(word), "{shell}: no {word}");
        }
    }
    refused(&["completions", "cobol"], "possible values: bash");
}

#[test]
fn no_subcommand_shows_the_help() {
    let run = run(statestore([""; 0]), b"");
    assert_eq!(run.code, Some(2));
    assert!(run.stderr.contains("Exit codes:"), "{run:?}");
}

#[test]
fn invalid_arguments_are_reported_in_one_line_with_a_pointer_to_the_help() {
    refused(&["frob"], "see 'statestore --help'");
    refused(&["get"], "<KEY>...; see 'statestore get --help'");
    refused(&["get", "k", "--out"], "'--output'");
    refused(&["incr", "k", "one"], "see 'statestore incr --help'");
    refused(&["ping", "--count", "0"], "see 'statestore ping --help'");
    refused(
        &["get", "a", "b", "--output", "f"],
        "--output takes the value of one key",
    );
    refused(
        &["set", "k", "v", "--nx", "--nex"],
        "see 'statestore set --help'",
    );
    refused(
        &["set", "k", "v", "--file", "f"],
        "see 'statestore set --help'",
    );
    refused(
        &["bench", "--ops", "1", "--seconds", "1"],
        "see 'statestore bench --help'",
    );
}

#[test]
fn invalid_values_are_reported_with_the_expected_form() {
    for px in ["0", "1.5", "soon", "1us"] {
        refused(&["set", "k", "v", "--px", px], "1500ms, 10s or 2m");
    }
    refused(&["touch", "k", "soon"], "1500ms, 10s or 2m");
    refused(&["set", "k", "v", "--fence", "1:2"], "wall:counter:node");
    refused(&["bench", "--mix", "put=1"], "get=80,set=20");
    refused(&["get", "k", "--url", "http://127.0.0.1"], "`mqtt://`");
    refused(&["get", ""], "the key is empty");
    refused(&["get", "--escaped", r"\q"], r"\xNN");
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("none");
    let path = path.to_str().unwrap();
    refused(&["set", "k", "--file", path], path);
    refused(
        &["set", "k", "--file", folder.path().to_str().unwrap()],
        "cannot read file",
    );
}

#[test]
fn wait_times_are_limited() {
    refused(
        &["get", "k", "--timeout", "18446744073709551615"],
        "at most 24h",
    );
}

#[test]
fn the_pod_variables_are_used_with_env() {
    let store = Store::start();
    store.ok(["set", "k", "v"]);
    let port = store.port().to_string();
    let variables = |arguments: &[&str]| {
        let mut command = statestore(arguments);
        command
            .env("STATESTORE_URL", "mqtt://127.0.0.1:1")
            .env("AIO_BROKER_HOSTNAME", "127.0.0.1")
            .env("AIO_BROKER_TCP_PORT", &port)
            .env("AIO_MQTT_USE_TLS", "false")
            .env("AIO_MQTT_CLIENT_ID", "forbidden+id");
        command
    };
    let found = run(variables(&["get", "k", "--env"]), b"");
    assert_eq!(
        (found.code, found.stdout.as_slice()),
        (Some(0), &b"v"[..]),
        "{found:?}"
    );
    run(variables(&["get", "k"]), b"").assert_error(3, "127.0.0.1:1");
    let mut missing = variables(&["get", "k", "--env"]);
    missing.env_remove("AIO_BROKER_HOSTNAME");
    run(missing, b"").assert_error(2, "`AIO_BROKER_HOSTNAME` is not set");
    refused(
        &["get", "k", "--env", "--url", "mqtt://127.0.0.1"],
        "'--env'",
    );
}
