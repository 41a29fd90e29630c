//! Other users while clients are connected.
use crate::world::{HubSimulation, connect, resume};
use statestore_protocol::mqtt::{Connect, ReasonCode};
use statestored_access::{Authenticator, Users};
use statestored_broker::hub::HubConfig;

fn users(all: &[(&str, &str)]) -> Authenticator {
    let mut users = Users::default();
    for (name, password) in all {
        assert!(users.add(name, password.as_bytes()));
    }
    Authenticator::from(users)
}

fn login(connect: Connect, user: &str, password: &'static str) -> Connect {
    Connect {
        user_name: Some(user.into()),
        password: Some(password.into()),
        ..connect
    }
}

#[test]
fn a_client_whose_user_changed_is_disconnected() {
    let mut world = HubSimulation::with(HubConfig {
        authenticator: users(&[("same", "1"), ("changed", "1"), ("gone", "1")]),
        ..HubConfig::default()
    });
    let mut connected = Vec::new();
    for user in ["same", "changed", "gone"] {
        let (client, _) = world.join(&login(resume(user), user, "1"));
        connected.push(client);
        // Another session, which waits for its client.
        let (client, _) = world.join(&login(resume(&format!("{user}-2")), user, "1"));
        world.drop_connection(&client);
    }
    assert_eq!(world.hub.metrics().sessions, 6);
    let new = users(&[("same", "1"), ("changed", "2"), ("new", "1")]);
    assert_eq!(world.hub.set_authenticator(new, world.now), 2);
    world.assert_alive(&mut connected[0]);
    for client in &connected[1..] {
        assert_eq!(world.disconnected(client), ReasonCode::NOT_AUTHORIZED);
    }
    assert_eq!(
        world.hub.metrics().sessions,
        4,
        "those of `gone` have ended"
    );
    for (user, password, reason) in [
        ("changed", "1", ReasonCode::BAD_USER_NAME_OR_PASSWORD),
        ("gone", "1", ReasonCode::BAD_USER_NAME_OR_PASSWORD),
        ("new", "1", ReasonCode::SUCCESS),
    ] {
        let (_, connack) = world.try_join(&login(connect("other"), user, password));
        assert_eq!(connack.reason, reason, "{user}");
    }
    let (_, connack) = world.join(&login(resume("changed"), "changed", "2"));
    assert!(connack.session_present, "it is the same user");
}
