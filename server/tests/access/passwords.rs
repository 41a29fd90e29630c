//! Passwords that are kept as hashes: looked at elsewhere, one after the other, and not more often than needed.
use crate::login::{log_in, read_connack, send_connect, verify, with_password, world};
use crate::world::{Client, HubSimulation, connect};
use statestore_protocol::mqtt::{Connect, ReasonCode};
use statestored::access_files::read_users;
use statestored_access::{Authenticator, Users};
use statestored_broker::hub::{CloseAction, Verification};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

fn write(path: &Path, text: &str) -> Authenticator {
    std::fs::write(path, text).unwrap();
    Authenticator::from(read_users(path).unwrap())
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
struct UsersFile {
    folder: tempfile::TempDir,
}

impl UsersFile {
    fn with_users(users: &[&str]) -> Self {
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
        Authenticator::from(read_users(&self.path()).unwrap())
    }
}

fn connect_as(number: usize, user: &str, password: &'static str) -> Connect {
    with_password(connect(&format!("client {number}")), user, password)
}

/// Takes the next login that needs a verification.
fn next_verification(world: &mut HubSimulation) -> Option<Verification> {
    world.hub.next_verification(world.now)
}

#[test]
fn hashed_passwords_are_verified_on_another_thread_and_plain_ones_immediately() {
    let file = UsersFile::with_users(&["ann"]);
    let mut text = std::fs::read_to_string(file.path()).unwrap();
    text.push_str("carl:secret\n");
    let mut world = world(write(&file.path(), &text));
    let (_, connack) = world.join(&connect_as(0, "carl", "secret"));
    assert_eq!(connack.reason, ReasonCode::SUCCESS);
    let client = send_connect(&mut world, &connect_as(1, "ann", "secret"));
    assert!(world.packets(&client).is_empty());
    assert!(!world.hub.accepts_input(client.connection));
    assert!(world.hub.has_verification());
    let verification = next_verification(&mut world).unwrap();
    assert!(!format!("{verification:?}").contains("secret"));
    world.hub.finish_verification(verification.run(), world.now);
    assert_eq!(
        read_connack(&mut world, &client).reason,
        ReasonCode::SUCCESS
    );
    assert!(world.hub.accepts_input(client.connection));
    // Whatever is refused takes as long as a hash, whether there is such a user or not.
    for (user, password) in [("ann", "wrong"), ("nobody", "secret"), ("carl", "wrong")] {
        let client = send_connect(&mut world, &connect_as(2, user, password));
        assert!(world.packets(&client).is_empty(), "{user}");
        assert_eq!(verify(&mut world), 1, "{user}");
        let connack = read_connack(&mut world, &client);
        assert_eq!(connack.reason, ReasonCode::BAD_USER_NAME_OR_PASSWORD);
        assert_eq!(
            world.hub.close_action(client.connection),
            CloseAction::AfterOutput
        );
        world.drop_connection(&client);
    }
    assert_eq!(world.hub.metrics().logins_refused, 3);
}

#[test]
fn reconnecting_clients_are_verified_from_the_cache() {
    let file = UsersFile::with_users(&["ann"]);
    let mut world = world(file.read());
    let clients: Vec<Client> = (0..1000)
        .map(|number| send_connect(&mut world, &connect_as(number, "ann", "secret")))
        .collect();
    // Two may be asked for at a time, but the second might be spared.
    let first = next_verification(&mut world).unwrap();
    assert!(next_verification(&mut world).is_none());
    world.hub.finish_verification(first.run(), world.now);
    assert_eq!(verify(&mut world), 0);
    for client in &clients {
        assert_eq!(read_connack(&mut world, client).reason, ReasonCode::SUCCESS);
    }
    // A later client is let in at once, until the users are read again.
    world.join(&connect_as(1001, "ann", "secret"));
    let now = world.now;
    assert_eq!(world.hub.set_authenticator(file.read(), now), 0);
    let client = send_connect(&mut world, &connect_as(1002, "ann", "secret"));
    assert!(world.packets(&client).is_empty());
    assert_eq!(verify(&mut world), 1);
    assert_eq!(
        read_connack(&mut world, &client).reason,
        ReasonCode::SUCCESS
    );
}

#[test]
fn concurrent_connections_do_not_speed_up_guessing() {
    let file = UsersFile::with_users(&["ann"]);
    let mut world = world(file.read());
    let clients: Vec<Client> = (0..200)
        .map(|number| send_connect(&mut world, &connect_as(number, "ann", "wrong")))
        .collect();
    // As with passwords in clear: after four refusals there is one more at once, and then each delays the next.
    assert_eq!(verify(&mut world), 5);
    let mut looked_at = 5;
    for _ in 0..60 {
        world.advance(1_000);
        looked_at += verify(&mut world);
    }
    assert!((6..30).contains(&looked_at), "{looked_at} in a minute");
    let refused = world.hub.metrics().logins_refused;
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
fn guesses_for_one_user_do_not_delay_other_users() {
    let file = UsersFile::with_users(&["ann", "bob"]);
    let mut world = world(file.read());
    for number in 0..100 {
        send_connect(&mut world, &connect_as(number, "ann", "wrong"));
    }
    let guess = next_verification(&mut world).unwrap();
    let client = send_connect(&mut world, &connect_as(101, "bob", "secret"));
    let bob = next_verification(&mut world).unwrap();
    assert!(
        next_verification(&mut world).is_none(),
        "guesses go one by one"
    );
    world.hub.finish_verification(bob.run(), world.now);
    assert_eq!(
        read_connack(&mut world, &client).reason,
        ReasonCode::SUCCESS
    );
    world.hub.finish_verification(guess.run(), world.now);
}

#[test]
fn a_verification_result_after_disconnect_or_timeout_is_ignored() {
    let file = UsersFile::with_users(&["ann"]);
    let mut world = world(file.read());
    let client = send_connect(&mut world, &connect_as(0, "ann", "secret"));
    let verification = next_verification(&mut world).unwrap();
    world.drop_connection(&client);
    world.hub.finish_verification(verification.run(), world.now);
    assert_eq!(world.hub.metrics().sessions, 0);
    // The connect time-out goes on.
    let file = UsersFile::with_users(&["ann"]);
    let mut world = crate::login::world(file.read());
    let client = send_connect(&mut world, &connect_as(0, "ann", "secret"));
    let verification = next_verification(&mut world).unwrap();
    world.advance(9_999);
    assert_eq!(
        world.hub.close_action(client.connection),
        CloseAction::KeepOpen
    );
    world.advance(1);
    assert_eq!(
        world.hub.close_action(client.connection),
        CloseAction::Immediately
    );
    world.hub.finish_verification(verification.run(), world.now);
    assert!(world.packets(&client).is_empty());
    assert_eq!(world.hub.metrics().sessions, 0);
}

#[test]
fn a_user_deleted_during_verification_is_refused() {
    let file = UsersFile::with_users(&["ann", "bob"]);
    let mut world = world(file.read());
    let client = send_connect(&mut world, &connect_as(0, "ann", "secret"));
    let verification = next_verification(&mut world).unwrap();
    let text = std::fs::read_to_string(file.path()).unwrap();
    let text: Vec<_> = text
        .lines()
        .filter(|line| line.starts_with("bob"))
        .collect();
    let without = write(&file.path(), &text.concat());
    world.hub.set_authenticator(without, world.now);
    world.hub.finish_verification(verification.run(), world.now);
    assert!(world.packets(&client).is_empty());
    assert_eq!(verify(&mut world), 1);
    let connack = read_connack(&mut world, &client);
    assert_eq!(connack.reason, ReasonCode::BAD_USER_NAME_OR_PASSWORD);
}

#[test]
fn logins_beyond_the_queue_limit_are_refused() {
    let file = UsersFile::with_users(&["ann"]);
    let mut world = world(file.read());
    let mut last = None;
    for number in 0..1025 {
        let user = format!("user {number}");
        last = Some(send_connect(
            &mut world,
            &connect_as(number, &user, "secret"),
        ));
    }
    let connack = read_connack(&mut world, &last.unwrap());
    assert_eq!(connack.reason, ReasonCode::SERVER_BUSY);
}

#[test]
fn invalid_lines_are_refused_with_their_line_number() {
    let salted = "c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc";
    let keys = "SCRAM-SHA-256$4096:c29tZXNhbHQ=$";
    for (line, problem) in [
        (
            format!("ann:$argon2id$v=19$m=2000000,t=1,p=1${salted}"),
            "exceeds the maximum",
        ),
        (
            format!("ann:$argon2i$v=19$m=65536,t=2,p=1${salted}"),
            "only hashes of argon2id are supported",
        ),
        (format!("ann:{keys}"), "expected SCRAM-SHA-256$"),
        ("bob:again".into(), "exists twice"),
        ("ann".into(), "expected NAME:PASSWORD"),
    ] {
        let text = format!("# users\nbob:secret\n{line}\n");
        let error = Users::parse(&text).unwrap_err().to_string();
        assert!(
            error.starts_with("line 3: ") && error.contains(problem),
            "{error}"
        );
        assert!(!error.contains("CTFh"), "{error}");
    }
}

#[test]
fn a_changed_hash_disconnects_the_user() {
    let file = UsersFile::with_users(&["ann", "bob"]);
    let mut world = world(file.read());
    let (ann, _) = log_in(&mut world, &connect_as(0, "ann", "secret"));
    let (mut bob, _) = log_in(&mut world, &connect_as(1, "bob", "secret"));
    passwd(&file.path(), "ann", "other");
    let now = world.now;
    assert_eq!(world.hub.set_authenticator(file.read(), now), 1);
    assert_eq!(world.disconnected(&ann), ReasonCode::NOT_AUTHORIZED);
    world.assert_alive(&mut bob);
    let (_, connack) = log_in(&mut world, &connect_as(0, "ann", "secret"));
    assert_eq!(connack.reason, ReasonCode::BAD_USER_NAME_OR_PASSWORD);
    let (_, connack) = log_in(&mut world, &connect_as(0, "ann", "other"));
    assert_eq!(connack.reason, ReasonCode::SUCCESS);
}
