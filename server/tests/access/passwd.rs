//! `statestored passwd`: the file of users, as it comes out.
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, tcgetattr};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// The tool with this standard input.
fn passwd(arguments: &[&str], file: &Path, name: &str, input: &[u8]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_statestored"))
        .arg("passwd")
        .args(arguments)
        .arg(file)
        .arg(name)
        // Variables for the server have no effect on the tool.
        .env("STATESTORED_MAX_KEYS", "many")
        .env("STATESTORED_CONFIG", "/none")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A tool that needs no input may have ended.
    let _ = child.stdin.take().unwrap().write_all(input);
    child.wait_with_output().unwrap()
}

fn succeeds(arguments: &[&str], file: &Path, name: &str, input: &[u8]) {
    let output = passwd(arguments, file, name, input);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(output.stdout.is_empty() && said.is_empty(), "{said}");
}

fn fails(arguments: &[&str], file: &Path, name: &str, input: &[u8]) -> String {
    let output = passwd(arguments, file, name, input);
    assert!(!output.status.success());
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn a_new_file_is_private_and_contains_no_plain_password() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("users");
    succeeds(&["--stdin"], &file, "ann", b"a long secret\nnext line\n");
    let mode = fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.starts_with("ann:$argon2id$v=19$m="), "{text}");
    assert!(text.ends_with('\n') && text.lines().count() == 1, "{text}");
    assert!(!text.contains("secret"), "{text}");
    let left: Vec<_> = fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

#[test]
fn other_lines_are_preserved() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("users");
    fs::write(&file, "# who\nbob:1\n\nann:old\n#ann:older\ncarl:a:b").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o664)).unwrap();
    let link = folder.path().join("link");
    symlink(&file, &link).unwrap();
    succeeds(&[], &link, "ann", b"new");
    let mode = fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(
        mode & 0o777,
        0o640,
        "others do not read it any more, nor does the group write"
    );
    let text = fs::read_to_string(&file).unwrap();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines[..3], ["# who", "bob:1", ""]);
    assert!(lines[3].starts_with("ann:$argon2id$"), "{text}");
    assert_eq!(lines[4..], ["#ann:older", "carl:a:b"]);
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    succeeds(&["--delete"], &file, "ann", b"");
    assert_eq!(
        fs::read_to_string(&file).unwrap(),
        "# who\nbob:1\n\n#ann:older\ncarl:a:b\n"
    );
    let said = fails(&["--delete"], &file, "ann", b"");
    assert!(said.contains("there is no user ann"), "{said}");
}

#[test]
fn invalid_input_is_refused_and_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("users");
    fs::write(&file, "bob:1\n").unwrap();
    let long = vec![b'x'; 65_536];
    for (name, input, problem) in [
        ("ann", &b""[..], "the password is empty"),
        ("ann", b"\r\n", "the password is empty"),
        ("ann", &long, "longer than 65535"),
        ("a:n", b"new", "no colon"),
        ("#ann", b"new", "begin with #"),
        ("a\nn", b"new", "control character"),
        ("", b"new", "not empty"),
    ] {
        let said = fails(&["--stdin"], &file, name, input);
        assert!(said.contains(problem), "{said}");
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), "bob:1\n");
    let said = fails(
        &["--stdin"],
        &folder.path().join("none/users"),
        "ann",
        b"new",
    );
    assert!(said.contains("cannot open the folder of"), "{said}");
}

#[test]
fn concurrent_edits_are_not_lost() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("users");
    std::thread::scope(|scope| {
        for user in 0..8 {
            let file = &file;
            scope.spawn(move || succeeds(&["--stdin"], file, &format!("user{user}"), b"new"));
        }
    });
    assert_eq!(fs::read_to_string(&file).unwrap().lines().count(), 8);
}

/// A terminal that asks for a password, and all that it has shown when the tool has ended with this.
fn run_at_terminal(file: &Path, lines: [&str; 2], is_well: bool) -> String {
    let outside = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&outside).unwrap();
    unlockpt(&outside).unwrap();
    let path = ptsname(&outside, Vec::new()).unwrap();
    let options = File::options().read(true).write(true).clone();
    let inside = || options.open(path.to_str().unwrap()).unwrap();
    let mut command = Command::new("setsid");
    command
        .args(["--ctty", "--wait", env!("CARGO_BIN_EXE_statestored")])
        .arg("passwd")
        .arg(file)
        .arg("ann")
        .stdin(inside())
        .stdout(inside())
        .stderr(inside());
    let mut child = command.spawn().unwrap();
    drop(command);
    let mut outside = File::from(outside);
    let mut shown = Vec::new();
    for (prompt, line) in ["New password: ", "The same again: "].iter().zip(lines) {
        let mut byte = [0];
        while !shown.ends_with(prompt.as_bytes()) {
            outside.read_exact(&mut byte).unwrap();
            shown.extend(byte);
        }
        // Input before the terminal's echo is switched off would be shown.
        while tcgetattr(&outside)
            .unwrap()
            .local_modes
            .contains(LocalModes::ECHO)
        {
            std::thread::yield_now();
        }
        outside.write_all(line.as_bytes()).unwrap();
        outside.write_all(b"\n").unwrap();
    }
    // The end of a terminal without an inner end is an error.
    let _ = outside.read_to_end(&mut shown);
    assert_eq!(child.wait().unwrap().success(), is_well);
    String::from_utf8(shown).unwrap()
}

#[test]
fn the_password_prompt_confirms_and_does_not_echo() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("users");
    let shown = run_at_terminal(&file, ["hidden-1", "hidden-2"], false);
    assert!(!file.exists() && !shown.contains("hidden"), "{shown}");
    assert!(shown.contains("the passwords differ"), "{shown}");
    let shown = run_at_terminal(&file, ["hidden-1", "hidden-1"], true);
    assert!(!shown.contains("hidden"), "{shown}");
    assert!(
        fs::read_to_string(&file)
            .unwrap()
            .starts_with("ann:$argon2id$")
    );
}
