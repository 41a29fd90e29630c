//! Passwords that are kept as hashes: looked at elsewhere, one after the other, and not more often than needed.
use crate::login::{answer, begin, log_in, verify, with_password, world};
use crate::world::{Client, World, connect};
use statestore_protocol::mqtt::{Connect, ReasonCode};
use statestored::access::{Authenticator, Users};
use statestored::hub::{Closing, Verification};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

fn write(path: &Path, text: &str) -> Authenticator {
    std::fs::write(path, text).unwrap();
    Authenticator::from(Users::read(path).unwrap())
}

/// Adds a user to a file with `statestored passwd`.
fn passwd(path: &Path, name: &str, password: &str) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_statestored"))
        .args(["passwd", "--stdin"])
        .arg(path)
        .arg(name)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(password.as_bytes())
        .unwrap();
    assert!(child.wait().unwrap().success());
}

/// A file of users, made by the tool.
struct File {
    folder: tempfile::TempDir,
}

impl File {
    fn of(users: &[&str]) -> Self {
        let file = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        for user in users {
            passwd(&file.path(), user, "secret");
        }
        file
    }

    fn path(&self) -> std::path::PathBuf {
        self.folder.path().join("users")
    }

    fn read(&self) -> Authenticator {
        Authenticator::from(Users::read(&self.path()).unwrap())
    }
}

fn of_user(number: usize, user: &str, password: &'static str) -> Connect {
    with_password(connect(&format!("client {number}")), user, password)
}

/// Takes the next login that needs a verification.
fn next(world: &mut World) -> Option<Verification> {
    world.hub.next_verification(world.now)
}

#[test]
fn a_hash_is_looked_at_elsewhere_and_a_password_in_clear_at_once() {
    let file = File::of(&["ann"]);
    let mut text = std::fs::read_to_string(file.path()).unwrap();
    text.push_str("carl:secret\n");
    let mut world = world(write(&file.path(), &text));
    let (_, connack) = world.join(&of_user(0, "carl", "secret"));
    assert_eq!(connack.reason, ReasonCode::SUCCESS);
    let client = begin(&mut world, &of_user(1, "ann", "secret"));
    assert!(world.packets(&client).is_empty());
    assert!(!world.hub.accepts_input(client.connection));
    assert!(world.hub.has_verification());
    let verification = next(&mut world).unwrap();
    assert!(!format!("{verification:?}").contains("secret"));
    world.hub.verified(verification.run(), world.now);
    assert_eq!(answer(&mut world, &client).reason, ReasonCode::SUCCESS);
    assert!(world.hub.accepts_input(client.connection));
    // Whatever is refused takes as long as a hash, whether there is such a user or not.
    for (user, password) in [("ann", "wrong"), ("nobody", "secret"), ("carl", "wrong")] {
        let client = begin(&mut world, &of_user(2, user, password));
        assert!(world.packets(&client).is_empty(), "{user}");
        assert_eq!(verify(&mut world), 1, "{user}");
        let connack = answer(&mut world, &client);
        assert_eq!(connack.reason, ReasonCode::BAD_USER_NAME_OR_PASSWORD);
        assert_eq!(world.hub.closing(client.connection), Closing::AfterOutput);
        world.lose(&client);
    }
    assert_eq!(world.hub.statistics().logins_refused, 3);
}

#[test]
fn a_thousand_who_come_back_cost_one_hash() {
    let file = File::of(&["ann"]);
    let mut world = world(file.read());
    let clients: Vec<Client> = (0..1000)
        .map(|number| begin(&mut world, &of_user(number, "ann", "secret")))
        .collect();
    // Two may be asked for at a time, but the second might be spared.
    let first = next(&mut world).unwrap();
    assert!(next(&mut world).is_none());
    world.hub.verified(first.run(), world.now);
    assert_eq!(verify(&mut world), 0);
    for client in &clients {
        assert_eq!(answer(&mut world, client).reason, ReasonCode::SUCCESS);
    }
    // A later client is let in at once, until the users are read again.
    world.join(&of_user(1001, "ann", "secret"));
    let now = world.now;
    assert_eq!(world.hub.set_authenticator(file.read(), now), 0);
    let client = begin(&mut world, &of_user(1002, "ann", "secret"));
    assert!(world.packets(&client).is_empty());
    assert_eq!(verify(&mut world), 1);
    assert_eq!(answer(&mut world, &client).reason, ReasonCode::SUCCESS);
}

#[test]
fn many_connections_guess_no_faster_than_one() {
    let file = File::of(&["ann"]);
    let mut world = world(file.read());
    let clients: Vec<Client> = (0..200)
        .map(|number| begin(&mut world, &of_user(number, "ann", "wrong")))
        .collect();
    // As with passwords in clear: after four refusals there is one more at once, and then each delays the next.
    assert_eq!(verify(&mut world), 5);
    let mut looked_at = 5;
    for _ in 0..60 {
        world.pass(1_000);
        looked_at += verify(&mut world);
    }
    assert!((6..30).contains(&looked_at), "{looked_at} in a minute");
    let refused = world.hub.statistics().logins_refused;
    assert_eq!(refused, looked_at as u64);
    let too_many = clients
        .iter()
        .filter(|client| {
            let packets = world.packets(client);
            packets.iter().any(|packet| match packet {
                statestore_protocol::mqtt::Packet::ConnAck(connack) => {
                    connack.reason == ReasonCode::CONNECTION_RATE_EXCEEDED
                }
                _ => false,
            })
        })
        .count();
    assert!(too_many > 150, "{too_many} were turned away");
}

#[test]
fn nobody_waits_behind_guesses_for_another_user() {
    let file = File::of(&["ann", "bob"]);
    let mut world = world(file.read());
    for number in 0..100 {
        begin(&mut world, &of_user(number, "ann", "wrong"));
    }
    let guess = next(&mut world).unwrap();
    let client = begin(&mut world, &of_user(101, "bob", "secret"));
    let bob = next(&mut world).unwrap();
    assert!(next(&mut world).is_none(), "guesses go one by one");
    world.hub.verified(bob.run(), world.now);
    assert_eq!(answer(&mut world, &client).reason, ReasonCode::SUCCESS);
    world.hub.verified(guess.run(), world.now);
}

#[test]
fn a_verdict_for_who_is_gone_or_too_late_is_nothing() {
    let file = File::of(&["ann"]);
    let mut world = world(file.read());
    let client = begin(&mut world, &of_user(0, "ann", "secret"));
    let verification = next(&mut world).unwrap();
    world.lose(&client);
    world.hub.verified(verification.run(), world.now);
    assert_eq!(world.hub.statistics().sessions, 0);
    // The connect time-out goes on.
    let file = File::of(&["ann"]);
    let mut world = crate::login::world(file.read());
    let client = begin(&mut world, &of_user(0, "ann", "secret"));
    let verification = next(&mut world).unwrap();
    world.pass(9_999);
    assert_eq!(world.hub.closing(client.connection), Closing::No);
    world.pass(1);
    assert_eq!(world.hub.closing(client.connection), Closing::Now);
    world.hub.verified(verification.run(), world.now);
    assert!(world.packets(&client).is_empty());
    assert_eq!(world.hub.statistics().sessions, 0);
}

#[test]
fn who_was_deleted_meanwhile_does_not_get_in() {
    let file = File::of(&["ann", "bob"]);
    let mut world = world(file.read());
    let client = begin(&mut world, &of_user(0, "ann", "secret"));
    let verification = next(&mut world).unwrap();
    let text = std::fs::read_to_string(file.path()).unwrap();
    let text: Vec<_> = text
        .lines()
        .filter(|line| line.starts_with("bob"))
        .collect();
    let without = write(&file.path(), &text.concat());
    world.hub.set_authenticator(without, world.now);
    world.hub.verified(verification.run(), world.now);
    assert!(world.packets(&client).is_empty());
    assert_eq!(verify(&mut world), 1);
    let connack = answer(&mut world, &client);
    assert_eq!(connack.reason, ReasonCode::BAD_USER_NAME_OR_PASSWORD);
}

#[test]
fn more_logins_than_may_wait_are_turned_away() {
    let file = File::of(&["ann"]);
    let mut world = world(file.read());
    let mut last = None;
    for number in 0..1025 {
        let user = format!("user {number}");
        last = Some(begin(&mut world, &of_user(number, &user, "secret")));
    }
    let connack = answer(&mut world, &last.unwrap());
    assert_eq!(connack.reason, ReasonCode::SERVER_BUSY);
}

#[test]
fn lines_that_cannot_be_are_refused_with_their_number() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("users");
    let salted = "c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc";
    let keys = "SCRAM-SHA-256$4096:c29tZXNhbHQ=$";
    for (line, problem) in [
        (
            format!("ann:$argon2id$v=19$m=2000000,t=1,p=1${salted}"),
            "too much",
        ),
        (
            format!("ann:$argon2i$v=19$m=65536,t=2,p=1${salted}"),
            "relatives",
        ),
        (format!("ann:{keys}"), "expected SCRAM-SHA-256$"),
        ("bob:again".into(), "stands twice"),
        ("ann".into(), "expected NAME:PASSWORD"),
    ] {
        std::fs::write(&path, format!("# users\nbob:secret\n{line}\n")).unwrap();
        let error = Users::read(&path).unwrap_err().to_string();
        assert!(
            error.contains("line 3: ") && error.contains(problem),
            "{error}"
        );
        assert!(!error.contains("CTFh"), "{error}");
    }
}

#[test]
fn another_hash_of_a_user_ends_its_connections() {
    let file = File::of(&["ann", "bob"]);
    let mut world = world(file.read());
    let (ann, _) = log_in(&mut world, &of_user(0, "ann", "secret"));
    let (mut bob, _) = log_in(&mut world, &of_user(1, "bob", "secret"));
    passwd(&file.path(), "ann", "other");
    let now = world.now;
    assert_eq!(world.hub.set_authenticator(file.read(), now), 1);
    assert_eq!(world.disconnected(&ann), ReasonCode::NOT_AUTHORIZED);
    world.assert_alive(&mut bob);
    let (_, connack) = log_in(&mut world, &of_user(0, "ann", "secret"));
    assert_eq!(connack.reason, ReasonCode::BAD_USER_NAME_OR_PASSWORD);
    let (_, connack) = log_in(&mut world, &of_user(0, "ann", "other"));
    assert_eq!(connack.reason, ReasonCode::SUCCESS);
}
