//! Service account tokens: what is accepted, what is not, and how long it holds.
use crate::login::{
    auth, challenge, log_in, reauthenticate, send_auth, send_connect, verify, with_method,
    with_password, with_token, world,
};
use crate::signer::{AUDIENCE, KeyFileFixture, Signer, claims, tokens};
use crate::world::{HubSimulation, START_WALL_MS, connect, message};
use serde_json::{Value, json};
use statestore_protocol::mqtt::{Auth, Packet, ReasonCode};
use statestored::access_files::KeyFile;
use statestored_access::{Authenticator, KeySet, Policy, RateLimits, TokenVerifier, Users};
use statestored_broker::hub::{CloseAction, HubConfig, HubLimits};
use std::path::Path;
use std::sync::Arc;

/// A world that accepts tokens of a signer.
fn accepting(signer: &Signer) -> (HubSimulation, KeyFileFixture) {
    let keys = KeyFileFixture::with_signers(&[signer]);
    let authenticator = Authenticator::anonymous().with_tokens(keys.tokens());
    (world(authenticator), keys)
}

fn with_claim(mut claims: Value, name: &str, value: Value) -> Value {
    match value {
        Value::Null => drop(claims.as_object_mut().unwrap().remove(name)),
        value => claims[name] = value,
    }
    claims
}

#[test]
fn tokens_of_every_algorithm_are_accepted_and_attacks_with_the_same_keys_are_not() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/access/signed");
    let all = std::fs::read_to_string(folder.join("tokens.json")).unwrap();
    let all: Value = serde_json::from_str(&all).unwrap();
    let keys = tokens(&folder.join("jwks.json"));
    let mut world = world(Authenticator::anonymous().with_tokens(keys));
    let mut check = |kind: &str, reason, count| {
        let tokens = all[kind].as_object().unwrap();
        assert_eq!(tokens.len(), count);
        for (name, token) in tokens {
            let token = token.as_str().unwrap();
            let (client, connack) = log_in(&mut world, &with_token("pump", token));
            assert_eq!(connack.reason, reason, "{name}");
            world.drop_connection(&client);
        }
    };
    check("accepted", ReasonCode::SUCCESS, 9);
    check("refused", ReasonCode::NOT_AUTHORIZED, 6);
}

#[test]
fn required_claims_are_checked() {
    let signer = Signer::new("one");
    let (mut world, _keys) = accepting(&signer);
    let good = || claims(START_WALL_MS, 3600);
    let now_s = START_WALL_MS / 1000;
    for (name, value) in [
        ("exp", json!(now_s - 10)),
        ("exp", json!(0)),
        ("exp", json!(-1)),
        ("exp", json!("tomorrow")),
        ("exp", Value::Null),
        ("nbf", json!(now_s + 60)),
        ("nbf", Value::Null),
        ("aud", json!("other")),
        ("aud", json!([])),
        ("aud", json!(["other", "aio-interna"])),
        ("aud", Value::Null),
        ("iss", json!("https://kubernetes.default.svc/")),
        ("iss", Value::Null),
        ("sub", json!("")),
        ("sub", json!("x".repeat(1025))),
        ("sub", Value::Null),
    ] {
        let token = signer.token(&with_claim(good(), name, value.clone()));
        let (client, connack) = log_in(&mut world, &with_token("pump", &token));
        assert_eq!(connack.reason, ReasonCode::NOT_AUTHORIZED, "{name} {value}");
        assert!(
            connack
                .reason_string
                .is_some_and(|text| !text.contains('.'))
        );
        world.drop_connection(&client);
        // Not faster than the delays of an address let it.
        world.advance(200);
    }
    assert_eq!(world.hub.metrics().logins_refused, 16);
    let now_s = world.now.wall_ms / 1000;
    for (name, value) in [
        ("exp", json!(now_s - 8)),
        ("exp", serde_json::from_str(&format!("{now_s}.5")).unwrap()),
        ("nbf", json!(now_s + 9)),
        ("aud", json!(AUDIENCE)),
        ("aud", json!(["other", AUDIENCE])),
        ("sub", json!("somebody")),
    ] {
        let token = signer.token(&with_claim(good(), name, value.clone()));
        let (client, connack) = log_in(&mut world, &with_token("pump", &token));
        assert_eq!(connack.reason, ReasonCode::SUCCESS, "{name} {value}");
        world.drop_connection(&client);
    }
}

#[test]
fn malformed_tokens_are_refused() {
    let signer = Signer::new("one");
    let stranger = Signer::new("one");
    let unknown = Signer::new("two");
    let (mut world, _keys) = accepting(&signer);
    let claims = claims(START_WALL_MS, 3600);
    let good = signer.token(&claims);
    let (content, signature) = good.rsplit_once('.').unwrap();
    let (header, body) = content.split_once('.').unwrap();
    let other = signer.token(&with_claim(claims.clone(), "sub", json!("root")));
    let other_body = other.split('.').nth(1).unwrap();
    for (what, token) in [
        ("nothing", String::new()),
        ("dots", "..".into()),
        ("no signature", format!("{content}.")),
        ("two parts", content.to_owned()),
        ("half a signature", good[..good.len() - 43].into()),
        ("a cut character", good[..good.len() - 1].into()),
        ("more parts", format!("{good}.{signature}")),
        ("padding", format!("{good}=")),
        ("other claims", format!("{header}.{other_body}.{signature}")),
        ("no JSON", format!("e30x.{body}.{signature}")),
        ("a stranger's signature", stranger.token(&claims)),
        ("an unknown key", unknown.token(&claims)),
        (
            "no algorithm",
            signer.token_with(&json!({"alg": "none", "kid": "one"}), &claims),
        ),
        (
            "another algorithm",
            signer.token_with(&json!({"alg": "ES384", "kid": "one"}), &claims),
        ),
        (
            "an HMAC",
            signer.token_with(&json!({"alg": "HS256", "kid": "one"}), &claims),
        ),
        (
            "an extension",
            signer.token_with(
                &json!({"alg": "ES256", "kid": "one", "crit": ["b64"], "b64": false}),
                &claims,
            ),
        ),
        (
            "a key of its own",
            stranger.token_with(
                &json!({"alg": "ES256", "jwk": stranger.jwk(), "kid": "new"}),
                &claims,
            ),
        ),
    ] {
        let (client, connack) = log_in(&mut world, &with_token("pump", &token));
        assert_eq!(connack.reason, ReasonCode::NOT_AUTHORIZED, "{what}");
        world.drop_connection(&client);
        world.advance(200);
    }
    // An odd length of what is in base64 does not make it another token either; a line end behind it does not matter.
    let (_, connack) = log_in(&mut world, &with_token("pump", &format!("{good}\n")));
    assert_eq!(connack.reason, ReasonCode::SUCCESS);
    let (method, data) = connack.authentication.unwrap();
    assert_eq!((method.as_str(), data.len()), ("K8S-SAT", 0));
}

#[test]
fn reauthentication_extends_the_connection_and_expiry_ends_it() {
    let signer = Signer::new("one");
    let (mut world, _keys) = accepting(&signer);
    let token = signer.token(&claims(START_WALL_MS, 60));
    let (mut client, _) = log_in(&mut world, &with_token("pump", &token));
    // The token expires after 60 seconds; 10 of leeway and 5 of grace follow.
    world.advance(50_000);
    let newer = signer.token(&claims(world.now.wall_ms, 60));
    reauthenticate(&mut world, &mut client, &newer);
    challenge(&mut world, &client, ReasonCode::SUCCESS);
    world.advance(60_000);
    reauthenticate(&mut world, &mut client, &newer);
    challenge(&mut world, &client, ReasonCode::SUCCESS);
    world.advance(14_999);
    world.assert_alive(&mut client);
    world.advance(1);
    assert_eq!(world.disconnected(&client), ReasonCode::NOT_AUTHORIZED);
}

/// Limits clients to this many bytes per second.
fn limited(keys: &KeyFileFixture, bytes: u64) -> HubSimulation {
    HubSimulation::with(HubConfig {
        authenticator: Authenticator::anonymous().with_tokens(keys.tokens()),
        limits: HubLimits {
            rates: RateLimits {
                requests: None,
                bytes: Some(bytes),
            },
            ..HubLimits::default()
        },
        ..HubConfig::default()
    })
}

#[test]
fn a_rate_limited_client_resumes_after_reauthentication() {
    let signer = Signer::new("one");
    let keys = KeyFileFixture::with_signers(&[&signer]);
    let mut world = limited(&keys, 100);
    let token = signer.token(&claims(START_WALL_MS, 3600));
    let (mut client, _) = log_in(&mut world, &with_token("pump", &token));
    // Paying that off takes seconds, and the verification a moment.
    reauthenticate(&mut world, &mut client, &token);
    challenge(&mut world, &client, ReasonCode::SUCCESS);
    world.bytes(&mut client, &[0xC0, 0]);
    assert!(world.packets(&client).is_empty(), "it has to wait");
    world.advance(20_000);
    world.bytes(&mut client, &[]);
    assert_eq!(world.packets(&client), [Packet::PingResp]);
}

#[test]
fn a_token_that_expires_during_a_rate_limit_pause_ends_the_connection_in_time() {
    let signer = Signer::new("one");
    let keys = KeyFileFixture::with_signers(&[&signer]);
    let mut world = limited(&keys, 1);
    let token = signer.token(&claims(START_WALL_MS, 60));
    let (mut client, _) = log_in(&mut world, &with_token("pump", &token));
    // Paying that off takes minutes.
    world.publish(&mut client, &message("t", 1), &[0; 200]);
    // With 10 seconds of leeway and 5 of grace.
    world.advance(74_999);
    world.packets(&client);
    assert_eq!(
        world.hub.close_action(client.connection),
        CloseAction::KeepOpen
    );
    world.advance(1);
    assert_eq!(world.disconnected(&client), ReasonCode::NOT_AUTHORIZED);
}

#[test]
fn reauthentication_requires_the_same_principal_and_method() {
    let signer = Signer::new("one");
    let claims = claims(START_WALL_MS, 3600);
    let good = signer.token(&claims);
    let other = signer.token(&with_claim(
        claims.clone(),
        "sub",
        json!("system:serviceaccount:factory:valve"),
    ));
    let expired = signer.token(&with_claim(claims, "exp", json!(1)));
    let method = |name: &str| auth(ReasonCode::REAUTHENTICATE, name, good.clone());
    let nameless = Auth {
        method: None,
        data: None,
        ..method("K8S-SAT")
    };
    let continued = auth(ReasonCode::CONTINUE_AUTHENTICATION, "K8S-SAT", good.clone());
    let token = |token: &String| auth(ReasonCode::REAUTHENTICATE, "K8S-SAT", token.clone());
    for (what, auth, reason) in [
        ("somebody else", token(&other), ReasonCode::NOT_AUTHORIZED),
        ("an old token", token(&expired), ReasonCode::NOT_AUTHORIZED),
        (
            "rubbish",
            token(&"x".to_owned()),
            ReasonCode::NOT_AUTHORIZED,
        ),
        ("no method", nameless, ReasonCode::PROTOCOL_ERROR),
        (
            "another method",
            method("SCRAM-SHA-256"),
            ReasonCode::PROTOCOL_ERROR,
        ),
        ("an answer unasked", continued, ReasonCode::PROTOCOL_ERROR),
    ] {
        let (mut world, _keys) = accepting(&signer);
        let (mut client, _) = log_in(&mut world, &with_token("pump", &good));
        send_auth(&mut world, &mut client, &auth);
        assert_eq!(world.disconnected(&client), reason, "{what}");
    }
    // While one is looked at, there is no second one.
    let (mut world, _keys) = accepting(&signer);
    let (mut client, _) = log_in(&mut world, &with_token("pump", &good));
    let twice = token(&good);
    world.send(&mut client, |out| twice.encode(u32::MAX, out));
    world.assert_alive(&mut client);
    world.send(&mut client, |out| twice.encode(u32::MAX, out));
    assert_eq!(
        world.disconnected(&client),
        ReasonCode::PROTOCOL_ERROR,
        "two at a time"
    );
    assert_eq!(verify(&mut world), 0);
}

#[test]
fn reauthentication_without_a_token_login_is_a_protocol_error() {
    let signer = Signer::new("one");
    let good = signer.token(&claims(START_WALL_MS, 3600));
    let mut users = Users::default();
    users.add("ann", b"secret");
    let keys = KeyFileFixture::with_signers(&[&signer]);
    let mut world = world(Authenticator::from(users).with_tokens(keys.tokens()));
    let ann = with_password(connect("ann"), "ann", "secret");
    let (mut client, connack) = log_in(&mut world, &ann);
    assert_eq!(connack.reason, ReasonCode::SUCCESS, "both are accepted");
    reauthenticate(&mut world, &mut client, &good);
    assert_eq!(world.disconnected(&client), ReasonCode::PROTOCOL_ERROR);

    // Before CONNECT, and before its answer.
    let mut early = world.open();
    reauthenticate(&mut world, &mut early, &good);
    assert!(world.packets(&early).is_empty());
    let mut early = send_connect(&mut world, &with_token("pump", &good));
    world.send(&mut early, |out| {
        auth(ReasonCode::CONTINUE_AUTHENTICATION, "K8S-SAT", "x").encode(u32::MAX, out)
    });
    assert!(world.packets(&early).is_empty(), "it waits for the answer");

    for refused in [
        with_method(connect("a"), "K8S-SAT2", good.clone()),
        with_method(connect("a"), "SCRAM-SHA-256", "n,,n=ann,r=x"),
    ] {
        let (_, connack) = log_in(&mut world, &refused);
        assert_eq!(connack.reason, ReasonCode::BAD_AUTHENTICATION_METHOD);
    }
    let (_, connack) = log_in(&mut world, &connect("a"));
    assert_eq!(connack.reason, ReasonCode::BAD_USER_NAME_OR_PASSWORD);
}

#[test]
fn a_client_id_is_bound_to_the_service_account() {
    let signer = Signer::new("one");
    let (mut world, _keys) = accepting(&signer);
    let mine = claims(START_WALL_MS, 3600);
    let kubernetes = json!({"namespace": "factory", "pod": {"name": "pump-8", "uid": "p8"}});
    let renewed = with_claim(mine.clone(), "kubernetes.io", kubernetes);
    let other = with_claim(
        mine.clone(),
        "sub",
        json!("system:serviceaccount:factory:valve"),
    );
    let keep = |token: String| {
        let mut connect = with_token("pump", &token);
        connect.clean_start = false;
        connect.session_expiry_s = 60;
        connect
    };
    let (first, _) = log_in(&mut world, &keep(signer.token(&mine)));
    let (_, connack) = log_in(&mut world, &keep(signer.token(&other)));
    assert_eq!(connack.reason, ReasonCode::NOT_AUTHORIZED, "it is taken");
    let (second, connack) = log_in(&mut world, &keep(signer.token(&renewed)));
    assert_eq!(connack.reason, ReasonCode::SUCCESS);
    assert!(connack.session_present, "it is the same service account");
    assert_eq!(world.disconnected(&first), ReasonCode::SESSION_TAKEN_OVER);
    world.drop_connection(&second);
    let (_, connack) = log_in(&mut world, &keep(signer.token(&other)));
    assert_eq!(connack.reason, ReasonCode::SUCCESS);
    assert!(!connack.session_present, "nothing of the other's is left");
}

#[test]
fn new_attributes_after_a_renewal_change_the_rights() {
    let signer = Signer::new("one");
    let (mut world, _keys) = accepting(&signer);
    let policy = "
rules:
- principals:
    attributes: [{pod: pump-7, namespace: factory, serviceaccount: pump}]
  brokerResources:
  - method: Connect
  - {method: Subscribe, topics: ['a/#']}
- principals:
    attributes: [{pod: pump-8, namespace: factory, serviceaccount: pump}]
  brokerResources:
  - method: Connect
";
    let policy = Policy::parse(policy).unwrap();
    world.hub.set_policy(Some(Arc::new(policy)), world.now);
    let mine = claims(START_WALL_MS, 3600);
    let (mut client, connack) = log_in(&mut world, &with_token("pump", &signer.token(&mine)));
    assert_eq!(connack.reason, ReasonCode::SUCCESS);
    world.subscribe(&mut client, "a/b");
    reauthenticate(&mut world, &mut client, &signer.token(&mine));
    challenge(&mut world, &client, ReasonCode::SUCCESS);
    let kubernetes = json!({"namespace": "factory", "pod": {"name": "pump-8", "uid": "p8"}});
    let renewed = with_claim(mine, "kubernetes.io", kubernetes);
    reauthenticate(&mut world, &mut client, &signer.token(&renewed));
    assert_eq!(world.disconnected(&client), ReasonCode::NOT_AUTHORIZED);
}

#[test]
fn new_keys_apply_to_new_logins_and_removed_keys_disconnect_on_reload() {
    let [old, new] = ["old", "new"].map(Signer::new);
    let keys = KeyFileFixture::with_signers(&[&old]);
    let reload = |keys: &KeyFileFixture| Authenticator::anonymous().with_tokens(keys.tokens());
    let mut world = world(reload(&keys));
    let claims = claims(START_WALL_MS, 3600);
    let of_new = with_token("new", &new.token(&claims));
    let (first, _) = log_in(&mut world, &with_token("first", &old.token(&claims)));
    let (_, connack) = log_in(&mut world, &of_new);
    assert_eq!(connack.reason, ReasonCode::NOT_AUTHORIZED);
    // The file is looked at once in a second.
    keys.replace(&[&old, &new]);
    world.advance(1000);
    let (mut second, connack) = log_in(&mut world, &of_new);
    assert_eq!(connack.reason, ReasonCode::SUCCESS);
    // A file that is not usable changes nothing.
    std::fs::write(keys.path(), "{").unwrap();
    world.advance(1000);
    let (third, connack) = log_in(&mut world, &with_token("third", &old.token(&claims)));
    assert_eq!(connack.reason, ReasonCode::SUCCESS);
    world.drop_connection(&third);

    keys.replace(&[&old, &new]);
    let now = world.now;
    assert_eq!(world.hub.set_authenticator(reload(&keys), now), 0);
    keys.replace(&[&new]);
    assert_eq!(world.hub.set_authenticator(reload(&keys), now), 1);
    assert_eq!(world.disconnected(&first), ReasonCode::NOT_AUTHORIZED);
    world.assert_alive(&mut second);
    let file = KeyFile::read(&keys.path()).unwrap();
    let issuer = TokenVerifier::new(file, "other", [AUDIENCE.to_owned()], 0);
    let other = Authenticator::anonymous().with_tokens(issuer);
    assert_eq!(world.hub.set_authenticator(other, now), 1);
    assert_eq!(world.disconnected(&second), ReasonCode::NOT_AUTHORIZED);
}

#[test]
fn a_token_verified_during_a_reload_is_verified_again() {
    let [old, new] = ["old", "new"].map(Signer::new);
    let keys = KeyFileFixture::with_signers(&[&old]);
    let mut world = world(Authenticator::anonymous().with_tokens(keys.tokens()));
    let token = old.token(&claims(START_WALL_MS, 3600));
    let client = send_connect(&mut world, &with_token("pump", &token));
    let verification = world.hub.next_verification(world.now).unwrap();
    keys.replace(&[&new]);
    let reloaded = Authenticator::anonymous().with_tokens(keys.tokens());
    world.hub.set_authenticator(reloaded, world.now);
    world.hub.finish_verification(verification.run(), world.now);
    assert!(world.packets(&client).is_empty());
    assert_eq!(verify(&mut world), 1);
    let connack = crate::login::read_connack(&mut world, &client);
    assert_eq!(connack.reason, ReasonCode::NOT_AUTHORIZED);
}

#[test]
fn sets_without_usable_keys_are_refused_with_the_reason() {
    let one = Signer::new("one").jwk();
    for (text, problem) in [
        ("{".to_owned(), "is not a JSON Web Key Set"),
        ("{}".into(), "missing field `keys`"),
        (json!({"keys": []}).to_string(), "has no key"),
        (
            json!({"keys": [{"kty": "oct", "k": "c2VjcmV0", "kid": "hmac"}]}).to_string(),
            "has no key",
        ),
        (
            json!({"keys": [with_claim(one.clone(), "use", json!("enc"))]}).to_string(),
            "has no key",
        ),
        (
            json!({"keys": [one, with_claim(one.clone(), "x", json!("AAAA"))]}).to_string(),
            "key 2: its point",
        ),
        (
            json!({"keys": [with_claim(one.clone(), "y", Value::Null)]}).to_string(),
            "key 1: a part of it is missing",
        ),
        (
            json!({"keys": [{"kty": "RSA", "n": "AAAAAQAB", "e": "AQAB"}]}).to_string(),
            "less than 2048 bits",
        ),
    ] {
        let error = KeySet::parse(text.as_bytes()).unwrap_err();
        assert!(error.to_string().contains(problem), "{error}");
    }
}
