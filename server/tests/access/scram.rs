//! SCRAM-SHA-256: a password that is proven and not sent.
use crate::login::{
    auth, challenge, log_in, read_connack, send_auth, send_connect, with_method, with_password,
    world,
};
use crate::world::{Client, HubSimulation, connect};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::{digest, hmac, pbkdf2};
use statestore_protocol::mqtt::{ConnAck, ReasonCode};
use statestored::access_files::read_users;
use statestored_access::Authenticator;
use statestored_broker::hub::CloseAction;
use std::io::Write;
use std::num::NonZeroU32;
use std::process::{Command, Stdio};

const METHOD: &str = "SCRAM-SHA-256";

/// `ann` and `bob`, whose password is `secret`, as the tool writes them down.
fn users() -> (tempfile::TempDir, Authenticator) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("users");
    for user in ["ann", "bob"] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_statestored"))
            .args(["passwd", "--stdin", "--scram"])
            .arg(&path)
            .arg(user)
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(b"secret").unwrap();
        assert!(child.wait().unwrap().success());
    }
    let users = Authenticator::from(read_users(&path).unwrap());
    (folder, users)
}

fn sign(key: &[u8], message: &str) -> Vec<u8> {
    let key = hmac::Key::new(hmac::HMAC_SHA256, key);
    hmac::sign(&key, message.as_bytes()).as_ref().to_vec()
}

/// Makes an answer of what the server asks.
type ForgedMessage<'a> = &'a dyn Fn(&[u8]) -> String;

/// The client's side, written after RFC 5802.
struct ClientProof {
    last: String,
    /// The server's signature, which proves its identity.
    server: String,
}

fn first(user: &str) -> String {
    format!("n,,n={user},r=fyko+d2lbbFgONRv9qkxdawL")
}

fn compute_proof(first: &str, question: &[u8], password: &[u8]) -> ClientProof {
    let question = std::str::from_utf8(question).unwrap();
    let part = |name: &str| {
        let mut parts = question.split(',');
        parts.find_map(|part| part.strip_prefix(name)).unwrap()
    };
    let (header, bare) = first.split_at(3);
    let salt = STANDARD.decode(part("s=")).unwrap();
    let iterations: NonZeroU32 = part("i=").parse().unwrap();
    let mut salted = [0; 32];
    pbkdf2::derive(
        pbkdf2::PBKDF2_HMAC_SHA256,
        iterations,
        &salt,
        password,
        &mut salted,
    );
    let client = sign(&salted, "Client Key");
    let stored = digest::digest(&digest::SHA256, &client);
    let last = format!("c={},r={}", STANDARD.encode(header), part("r="));
    let message = format!("{bare},{question},{last}");
    let signature = sign(stored.as_ref(), &message);
    let proof: Vec<u8> = client.iter().zip(&signature).map(|(a, b)| a ^ b).collect();
    let server = sign(&sign(&salted, "Server Key"), &message);
    ClientProof {
        last: format!("{last},p={}", STANDARD.encode(proof)),
        server: format!("v={}", STANDARD.encode(server)),
    }
}

/// Begins to log in; what the server asks.
fn start_exchange(world: &mut HubSimulation, user: &str) -> (Client, Vec<u8>) {
    let client = send_connect(world, &with_method(connect(user), METHOD, first(user)));
    let question = challenge(world, &client, ReasonCode::CONTINUE_AUTHENTICATION);
    (client, question.to_vec())
}

/// Answers with this message.
fn send_final(world: &mut HubSimulation, client: &mut Client, last: &str) -> ConnAck {
    let auth = auth(ReasonCode::CONTINUE_AUTHENTICATION, METHOD, last.to_owned());
    send_auth(world, client, &auth);
    read_connack(world, client)
}

fn log_in_with_scram(world: &mut HubSimulation, user: &str) -> Client {
    let (mut client, question) = start_exchange(world, user);
    let proof = compute_proof(&first(user), &question, b"secret");
    let connack = send_final(world, &mut client, &proof.last);
    assert_eq!(connack.reason, ReasonCode::SUCCESS);
    let (method, data) = connack.authentication.unwrap();
    assert_eq!(method, METHOD);
    assert_eq!(data, proof.server.as_bytes(), "the server proves itself");
    client
}

#[test]
fn scram_and_plain_logins_succeed_with_the_right_password() {
    let (_folder, users) = users();
    let mut world = world(users);
    let mut client = log_in_with_scram(&mut world, "ann");
    world.assert_alive(&mut client);
    // Her name protects her client ids, and she is the same user with her password.
    let (_, connack) = log_in(&mut world, &with_password(connect("ann"), "ann", "secret"));
    assert_eq!(connack.reason, ReasonCode::SUCCESS);
    assert_eq!(world.disconnected(&client), ReasonCode::SESSION_TAKEN_OVER);
    let (_, connack) = log_in(&mut world, &with_password(connect("ann"), "bob", "secret"));
    assert_eq!(connack.reason, ReasonCode::NOT_AUTHORIZED);
}

#[test]
fn a_wrong_proof_nonce_or_user_is_refused_and_throttled() {
    let (_folder, users) = users();
    let mut world = world(users);
    let right = |question: &[u8]| compute_proof(&first("ann"), question, b"secret").last;
    let forgeries: [(&str, ForgedMessage<'_>); 6] = [
        ("another password", &|question| {
            compute_proof(&first("ann"), question, b"Secret").last
        }),
        ("another nonce", &|question| {
            right(question).replace("r=fyko", "r=gyko")
        }),
        ("the client's nonce alone", &|question| {
            let last = right(question);
            let end = last.find(",p=").unwrap();
            format!("c=biws,r=fyko+d2lbbFgONRv9qkxdawL{}", &last[end..])
        }),
        ("a channel bound", &|question| {
            right(question).replace("c=biws", "c=cD10bHMtdW5pcXVlLCw=")
        }),
        ("another header", &|question| {
            right(question).replace("c=biws", "c=eSws")
        }),
        ("nothing", &|_| String::new()),
    ];
    for (what, forge) in forgeries {
        let (mut client, question) = start_exchange(&mut world, "ann");
        let connack = send_final(&mut world, &mut client, &forge(&question));
        assert_eq!(
            connack.reason,
            ReasonCode::BAD_USER_NAME_OR_PASSWORD,
            "{what}"
        );
        assert_eq!(
            world.hub.close_action(client.connection),
            CloseAction::AfterOutput
        );
        world.drop_connection(&client);
        world.advance(6_000);
    }
    assert_eq!(world.hub.metrics().logins_refused, 6);
    // A stranger is asked as well, with a salt that stays the same, and never gets in.
    let (mut stranger, one) = start_exchange(&mut world, "nobody");
    let (_, other) = start_exchange(&mut world, "nobody");
    let salt = |question: &[u8]| {
        let text = String::from_utf8(question.to_vec()).unwrap();
        text.split(',').nth(1).unwrap().to_owned()
    };
    assert_eq!(salt(&one), salt(&other));
    assert_ne!(salt(&one), salt(&start_exchange(&mut world, "noone").1));
    let proof = compute_proof(&first("nobody"), &one, b"secret");
    let connack = send_final(&mut world, &mut stranger, &proof.last);
    assert_eq!(connack.reason, ReasonCode::BAD_USER_NAME_OR_PASSWORD);
}

#[test]
fn concurrent_connections_do_not_speed_up_guessing() {
    let (_folder, users) = users();
    let mut world = world(users);
    // All are asked before any of them answers.
    let asked: Vec<_> = (0..100)
        .map(|_| start_exchange(&mut world, "ann"))
        .collect();
    let mut clients = Vec::new();
    for (mut client, question) in asked {
        let wrong = compute_proof(&first("ann"), &question, b"wrong").last;
        let auth = auth(ReasonCode::CONTINUE_AUTHENTICATION, METHOD, wrong);
        send_auth(&mut world, &mut client, &auth);
        clients.push(client);
    }
    assert_eq!(world.hub.metrics().logins_refused, 5, "then they wait");
    world.advance(60_000);
    let looked_at = world.hub.metrics().logins_refused;
    assert!((6..30).contains(&looked_at), "{looked_at} in a minute");
    let reasons: Vec<_> = clients
        .iter()
        .map(|client| read_connack(&mut world, client).reason)
        .collect();
    let count = |reason| reasons.iter().filter(|other| **other == reason).count();
    assert_eq!(
        count(ReasonCode::BAD_USER_NAME_OR_PASSWORD) as u64,
        looked_at
    );
    assert_eq!(
        count(ReasonCode::CONNECTION_RATE_EXCEEDED) as u64,
        100 - looked_at
    );
    // A client with the correct password waits as well, and is let in.
    let (mut client, question) = start_exchange(&mut world, "ann");
    let right = compute_proof(&first("ann"), &question, b"secret").last;
    let auth = auth(ReasonCode::CONTINUE_AUTHENTICATION, METHOD, right);
    send_auth(&mut world, &mut client, &auth);
    world.advance(5_000);
    assert_eq!(
        read_connack(&mut world, &client).reason,
        ReasonCode::SUCCESS
    );
}

#[test]
fn a_proof_cannot_be_replayed() {
    let (_folder, users) = users();
    let mut world = world(users);
    let (mut first_client, question) = start_exchange(&mut world, "ann");
    let proof = compute_proof(&first("ann"), &question, b"secret");
    let (mut second, _) = start_exchange(&mut world, "ann");
    let connack = send_final(&mut world, &mut second, &proof.last);
    assert_eq!(
        connack.reason,
        ReasonCode::BAD_USER_NAME_OR_PASSWORD,
        "it was recorded elsewhere"
    );
    let connack = send_final(&mut world, &mut first_client, &proof.last);
    assert_eq!(connack.reason, ReasonCode::SUCCESS);
    let again = auth(
        ReasonCode::CONTINUE_AUTHENTICATION,
        METHOD,
        proof.last.clone(),
    );
    send_auth(&mut world, &mut first_client, &again);
    assert_eq!(
        world.disconnected(&first_client),
        ReasonCode::PROTOCOL_ERROR
    );
}

#[test]
fn invalid_scram_messages_are_refused() {
    let (_folder, users) = users();
    let mut world = world(users);
    for first in [
        "p=tls-unique,,n=ann,r=abc",
        "n,a=bob,n=ann,r=abc",
        "n,,m=x,n=ann,r=abc",
        "rubbish",
        "",
    ] {
        let (_, connack) = log_in(&mut world, &with_method(connect("ann"), METHOD, first));
        assert_eq!(
            connack.reason,
            ReasonCode::BAD_USER_NAME_OR_PASSWORD,
            "{first}"
        );
    }
    let (_, connack) = log_in(
        &mut world,
        &with_method(connect("ann"), "SCRAM-SHA-1", first("ann")),
    );
    assert_eq!(connack.reason, ReasonCode::BAD_AUTHENTICATION_METHOD);
    world.advance(3_600_000);
    for auth in [
        auth(ReasonCode::CONTINUE_AUTHENTICATION, "K8S-SAT", "x"),
        auth(ReasonCode::REAUTHENTICATE, METHOD, first("ann")),
        auth(ReasonCode::SUCCESS, METHOD, "x"),
    ] {
        let (mut client, _) = start_exchange(&mut world, "ann");
        send_auth(&mut world, &mut client, &auth);
        let connack = read_connack(&mut world, &client);
        assert_eq!(connack.reason, ReasonCode::PROTOCOL_ERROR);
    }
    // Anything but an AUTH instead of the answer ends it without a word.
    let (mut client, _) = start_exchange(&mut world, "ann");
    world.bytes(&mut client, &[0xC0, 0]);
    assert_eq!(
        world.hub.close_action(client.connection),
        CloseAction::Immediately
    );
    // And so does silence.
    let (client, _) = start_exchange(&mut world, "ann");
    world.advance(10_000);
    assert_eq!(
        world.hub.close_action(client.connection),
        CloseAction::Immediately
    );
}

#[test]
fn reauthentication_requires_the_same_user() {
    let (_folder, users) = users();
    let mut world = world(users);
    let mut client = log_in_with_scram(&mut world, "ann");
    let mut again = |user: &str, password: &[u8]| {
        let mut client = log_in_with_scram(&mut world, "ann");
        let begin = auth(ReasonCode::REAUTHENTICATE, METHOD, first(user));
        send_auth(&mut world, &mut client, &begin);
        if world.hub.close_action(client.connection) != CloseAction::KeepOpen {
            return world.disconnected(&client);
        }
        let question = challenge(&mut world, &client, ReasonCode::CONTINUE_AUTHENTICATION);
        let proof = compute_proof(&first(user), &question, password);
        let last = auth(
            ReasonCode::CONTINUE_AUTHENTICATION,
            METHOD,
            proof.last.clone(),
        );
        // Everything else goes on meanwhile.
        world.assert_alive(&mut client);
        send_auth(&mut world, &mut client, &last);
        if world.hub.close_action(client.connection) != CloseAction::KeepOpen {
            return world.disconnected(&client);
        }
        let data = challenge(&mut world, &client, ReasonCode::SUCCESS);
        assert_eq!(data, proof.server.as_bytes());
        ReasonCode::SUCCESS
    };
    assert_eq!(again("ann", b"secret"), ReasonCode::SUCCESS);
    assert_eq!(again("ann", b"wrong"), ReasonCode::NOT_AUTHORIZED);
    assert_eq!(again("bob", b"secret"), ReasonCode::NOT_AUTHORIZED);
    client.unread.clear();
}

#[test]
fn keys_changed_during_the_exchange_refuse_the_login() {
    let (folder, old) = users();
    let mut world = world(old);
    let mut connected = log_in_with_scram(&mut world, "bob");
    let (mut client, question) = start_exchange(&mut world, "ann");
    let proof = compute_proof(&first("ann"), &question, b"secret");
    let path = folder.path().join("users");
    let text = std::fs::read_to_string(&path).unwrap();
    let text: Vec<_> = text
        .lines()
        .filter(|line| line.starts_with("bob"))
        .collect();
    std::fs::write(&path, text.join("\n")).unwrap();
    let new = Authenticator::from(read_users(&path).unwrap());
    let now = world.now;
    assert_eq!(world.hub.set_authenticator(new, now), 0);
    let connack = send_final(&mut world, &mut client, &proof.last);
    assert_eq!(connack.reason, ReasonCode::BAD_USER_NAME_OR_PASSWORD);
    world.assert_alive(&mut connected);
}
