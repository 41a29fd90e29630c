//! Processes that a command under a lock has started: all descendants end with it. Systems other than Linux let them go on.
use crate::harness::{Running, Store, run};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::fs;
use std::os::unix::process::CommandExt as _;

/// Returns a script that starts a process in its own session, without its parent, that ignores SIGTERM, SIGHUP and SIGINT.
/// The process reports its start to `output`, and ends by itself later, so that a failed test leaves no process behind.
fn escaped(output: &str) -> String {
    format!(
        "(setsid sh -c 'trap \"\" TERM HUP INT; echo escaped; i=0; \
        while [ $i -lt 3000 ]; do sleep 0.02; i=$((i+1)); done; echo survived' {output} &)"
    )
}

fn lock<'a>(more: &[&'a str], script: &'a str) -> Vec<&'a str> {
    [&["lock", "nightly"][..], more, &["--", "sh", "-c", script]].concat()
}

/// Everything that can write to the output has ended when the output has an end.
#[track_caller]
fn ended_early(running: Running) -> crate::harness::Run {
    let run = running.end();
    assert!(
        !String::from_utf8_lossy(&run.stdout).contains("survived"),
        "{run:?}"
    );
    run
}

/// Returns the processes whose parent is this one.
fn children(parent: i32) -> Vec<Pid> {
    let path = format!("/proc/{parent}/task/{parent}/children");
    let children = fs::read_to_string(path).unwrap_or_default();
    let children = children.split_whitespace();
    children
        .filter_map(|id| Pid::from_raw(id.parse().unwrap()))
        .collect()
}

fn id(running: &Running) -> i32 {
    i32::try_from(running.child.id()).unwrap()
}

#[test]
fn a_lost_lock_ends_escaped_processes() {
    let store = Store::start();
    let script = format!("{}; sleep 60", escaped(""));
    let mut running = Running::start(
        &store,
        &lock(&["--lease", "500ms", "--grace", "50ms"], &script),
    );
    assert_eq!(running.line(), "escaped");
    store.stop();
    let run = ended_early(running);
    assert_eq!(run.code, Some(3));
    assert!(run.stderr.contains("killing them"), "{run:?}");
}

#[test]
fn leftover_processes_end_before_the_lock_is_released() {
    let store = Store::start();
    // The script waits until the process that it leaves behind ignores signals.
    let script = format!(
        "mkfifo \"$0\"; {}; read started <\"$0\"; exit 7",
        escaped("\"$0\" >\"$0\"")
    );
    let folder = tempfile::tempdir().unwrap();
    let fifo = folder.path().join("fifo");
    let arguments = lock(&["--grace", "100ms"], &script);
    let arguments = [&arguments[..], &[fifo.to_str().unwrap()]].concat();
    let left = run(store.command(arguments), b"");
    assert_eq!((left.code, &left.stdout[..]), (Some(7), &b""[..]));
    let after = store.run(["lease", "holder", "nightly"]);
    after.assert_error(1, "not held");
    let survivors = fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let command_line = fs::read(entry.ok()?.path().join("cmdline")).ok()?;
        let command_line = String::from_utf8_lossy(&command_line).into_owned();
        (command_line.contains("survived") && command_line.contains(fifo.to_str()?)).then_some(())
    });
    assert_eq!(survivors.count(), 0);
}

#[test]
fn leftover_processes_get_a_grace_period() {
    let store = Store::start();
    let folder = tempfile::tempdir().unwrap();
    let fifo = folder.path().join("fifo");
    let script = "mkfifo \"$0\"; (setsid sh -c 'trap \"sleep 0.1; echo tidied; exit\" TERM; echo ready >\"$0\"; i=0; \
        while [ $i -lt 3000 ]; do sleep 0.02; i=$((i+1)); done' \"$0\" &); read ready <\"$0\"";
    let arguments = lock(&["--grace", "1m"], script);
    let run = store.run([&arguments[..], &[fifo.to_str().unwrap()]].concat());
    assert_eq!(run.code, Some(0));
    assert_eq!(String::from_utf8(run.stdout).unwrap(), "tidied\n");
}

#[test]
fn killing_the_program_ends_all_processes() {
    for kill in [
        kill_process as fn(Pid, Signal) -> rustix::io::Result<()>,
        kill_process_group,
    ] {
        let store = Store::start();
        let script = format!("{}; sleep 60", escaped(""));
        let mut command = store.command(lock(&[], &script));
        command.process_group(0);
        let mut running = Running::spawn(command);
        assert_eq!(running.line(), "escaped");
        kill(Pid::from_child(&running.child), Signal::KILL).unwrap();
        let run = ended_early(running);
        assert_eq!(run.code, None);
    }
}

#[test]
fn killing_the_supervisor_ends_all_processes() {
    let store = Store::start();
    let script = format!("{}; sleep 60", escaped(""));
    let mut running = Running::start(&store, &lock(&[], &script));
    assert_eq!(running.line(), "escaped");
    let attendants = children(id(&running));
    let [attendant] = attendants[..] else {
        panic!("{attendants:?}");
    };
    kill_process(attendant, Signal::KILL).unwrap();
    let run = ended_early(running);
    assert_eq!(run.code, Some(128 + 9));
    let after = store.run(["lease", "holder", "nightly"]);
    after.assert_error(1, "not held");
}

#[test]
fn a_lost_lock_ends_the_command_while_the_supervisor_is_stopped() {
    for (script, grace) in [
        ("trap 'echo ended; exit 5' TERM", "1h"),
        ("trap '' TERM; trap 'echo ended' EXIT", "0"),
    ] {
        let store = Store::start();
        let script = format!("{script}; echo started; while :; do sleep 0.02; done");
        let arguments = lock(&["--lease", "500ms", "--grace", grace], &script);
        let mut running = Running::start(&store, &arguments);
        assert_eq!(running.line(), "started");
        let attendants = children(id(&running));
        let [attendant] = attendants[..] else {
            panic!("{attendants:?}");
        };
        kill_process(attendant, Signal::STOP).unwrap();
        store.stop();
        let run = running.end();
        assert_eq!(run.code, Some(3), "{run:?}");
        let ended = if grace == "0" { "" } else { "ended\n" };
        assert_eq!(String::from_utf8_lossy(&run.stdout), ended);
    }
}

#[test]
fn the_command_does_not_get_the_password() {
    let store = Store::start();
    let port = store.port();
    for (url, passed_on) in [
        (
            format!("mqtt://user:secret@127.0.0.1:{port}"),
            format!("mqtt://user@127.0.0.1:{port}"),
        ),
        (
            format!("mqtt://127.0.0.1:{port}?keep_alive=7"),
            format!("mqtt://127.0.0.1:{port}?keep_alive=7"),
        ),
        // The part after the address is no user and no password, whatever characters it has.
        (
            format!("mqtt://user:secret@127.0.0.1:{port}?client_id=a:b@c"),
            format!("mqtt://user@127.0.0.1:{port}?client_id=a:b@c"),
        ),
        (
            format!("mqtt://127.0.0.1:{port}?client_id=a@b"),
            format!("mqtt://127.0.0.1:{port}?client_id=a@b"),
        ),
    ] {
        let mut command = store.command(["lock", "nightly", "--", "printenv", "STATESTORE_URL"]);
        command.env("STATESTORE_URL", url);
        let run = run(command, b"");
        assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""));
        assert_eq!(String::from_utf8(run.stdout).unwrap().trim_end(), passed_on);
    }
}
