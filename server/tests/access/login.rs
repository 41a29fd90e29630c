//! Clients that log in to a hub. The test performs the verifications that take long.
use crate::world::{Client, HubSimulation, connect};
use bytes::Bytes;
use statestore_protocol::mqtt::{Auth, ConnAck, Connect, Packet, ReasonCode};
use statestored_access::Authenticator;
use statestored_broker::hub::HubConfig;

pub(crate) fn world(authenticator: Authenticator) -> HubSimulation {
    HubSimulation::with(HubConfig {
        authenticator,
        ..HubConfig::default()
    })
}

/// Looks at all logins that wait; how many there were.
pub(crate) fn verify(world: &mut HubSimulation) -> usize {
    let mut count = 0;
    while let Some(verification) = world.hub.next_verification(world.now) {
        world.hub.finish_verification(verification.run(), world.now);
        count += 1;
    }
    count
}

pub(crate) fn with_password(connect: Connect, user: &str, password: &'static str) -> Connect {
    Connect {
        user_name: Some(user.into()),
        password: Some(password.into()),
        ..connect
    }
}

pub(crate) fn with_method(connect: Connect, method: &str, data: impl Into<Bytes>) -> Connect {
    Connect {
        authentication: Some((method.into(), data.into())),
        ..connect
    }
}

pub(crate) fn with_token(client_id: &str, token: &str) -> Connect {
    with_method(connect(client_id), "K8S-SAT", token.to_owned())
}

/// Sends a CONNECT and looks at nothing.
pub(crate) fn send_connect(world: &mut HubSimulation, connect: &Connect) -> Client {
    let mut client = world.open();
    world.send(&mut client, |out| connect.encode(u32::MAX, out));
    client
}

/// Connects, with whatever has to be looked at for it, and gives the answer, which may be a refusal.
pub(crate) fn log_in(world: &mut HubSimulation, connect: &Connect) -> (Client, ConnAck) {
    let client = send_connect(world, connect);
    verify(world);
    let connack = read_connack(world, &client);
    (client, connack)
}

pub(crate) fn read_connack(world: &mut HubSimulation, client: &Client) -> ConnAck {
    match world.packets(client).as_slice() {
        [Packet::ConnAck(connack)] => (**connack).clone(),
        other => panic!("{other:?}"),
    }
}

pub(crate) fn auth(reason: ReasonCode, method: &str, data: impl Into<Bytes>) -> Auth {
    Auth {
        reason,
        method: Some(method.into()),
        data: Some(data.into()),
        reason_string: None,
    }
}

pub(crate) fn send_auth(world: &mut HubSimulation, client: &mut Client, auth: &Auth) {
    world.send(client, |out| auth.encode(u32::MAX, out));
    verify(world);
}

/// Shows another token over an open connection.
pub(crate) fn reauthenticate(world: &mut HubSimulation, client: &mut Client, token: &str) {
    let auth = auth(ReasonCode::REAUTHENTICATE, "K8S-SAT", token.to_owned());
    send_auth(world, client, &auth);
}

/// Expects that the only packet is an AUTH with this reason, and gives its data.
pub(crate) fn challenge(world: &mut HubSimulation, client: &Client, reason: ReasonCode) -> Bytes {
    match world.packets(client).as_slice() {
        [Packet::Auth(auth)] => {
            assert_eq!(auth.reason, reason);
            auth.data.clone().unwrap_or_default()
        }
        other => panic!("{other:?}"),
    }
}
