//! Enhanced authentication in the client's session: AUTH packets in, AUTH packets out, no socket.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use bytes::{Bytes, BytesMut};
use statestore_protocol::mqtt::session::{
    Event, Session, SessionConfig, SessionError, Subscriptions,
};
use statestore_protocol::mqtt::{
    Auth, ConnAck, Connect, Limits, Packet, ReasonCode, SubAck, Subscription, decode,
};

const METHOD: &str = "K8S-SAT";
const REAUTHENTICATE: ReasonCode = ReasonCode::REAUTHENTICATE;
const CONTINUE: ReasonCode = ReasonCode::CONTINUE_AUTHENTICATION;

/// A session that has sent its CONNECT, and what it said since then.
struct Client {
    session: Session<u8>,
    events: Vec<String>,
}

impl Client {
    fn connecting(data: Option<&'static str>) -> Self {
        let config = SessionConfig {
            connect: Connect {
                client_id: "client".to_owned(),
                ..Connect::default()
            },
            subscriptions: Subscriptions::new(|_| vec![Subscription::at_least_once("responses")]),
            ping_timeout_ms: 1000,
        };
        let mut client = Self {
            session: Session::new(config),
            events: Vec::new(),
        };
        client.connect(data);
        client
    }

    fn connect(&mut self, data: Option<&'static str>) {
        let authentication = data.map(|data| (METHOD.to_owned(), Bytes::from(data)));
        self.session
            .set_credentials(None, None, authentication.clone());
        self.session.connect(0).unwrap();
        let [Packet::Connect(connect)] = &self.sent()[..] else {
            panic!("no CONNECT");
        };
        assert_eq!(connect.authentication, authentication);
    }

    fn connected(data: Option<&'static str>) -> Self {
        let mut client = Self::connecting(data);
        client.accept();
        client.subscribe();
        client
    }

    /// The broker accepts the CONNECT.
    fn accept(&mut self) {
        let connack = ConnAck::new(ReasonCode::SUCCESS);
        self.receive(|out| connack.encode(u32::MAX, out).unwrap())
            .unwrap();
    }

    /// The broker grants the subscription, which is the first packet that was sent.
    fn subscribe(&mut self) -> Vec<Packet> {
        let mut sent = self.sent();
        let Packet::Subscribe(subscribe) = sent.remove(0) else {
            panic!("no SUBSCRIBE");
        };
        let suback = SubAck {
            packet_id: subscribe.packet_id,
            reasons: vec![ReasonCode::GRANTED_QOS_1],
            reason_string: None,
        };
        self.receive(|out| suback.encode(u32::MAX, out).unwrap())
            .unwrap();
        sent
    }

    fn receive(&mut self, encode: impl FnOnce(&mut BytesMut)) -> Result<(), SessionError> {
        let mut stream = BytesMut::new();
        encode(&mut stream);
        let events = &mut self.events;
        let handle = |event: Event<u8>| events.push(format!("{event:?}"));
        self.session.receive(&mut stream, 0, 16, handle).map(drop)
    }

    fn auth(&mut self, reason: ReasonCode) -> Result<(), SessionError> {
        self.auth_by(reason, METHOD)
    }

    fn auth_by(&mut self, reason: ReasonCode, method: &str) -> Result<(), SessionError> {
        let auth = Auth {
            reason,
            method: Some(method.to_owned()),
            data: None,
            reason_string: None,
        };
        self.receive(|out| auth.encode(u32::MAX, out).unwrap())
    }

    fn newer(&mut self, data: &'static str) {
        self.session.reauthenticate(Bytes::from(data)).unwrap();
    }

    fn sent(&mut self) -> Vec<Packet> {
        let mut stream = BytesMut::from(&self.session.take_output(0)[..]);
        self.session.written(stream.len(), false, 0);
        let packets =
            std::iter::from_fn(|| decode(&mut stream, Limits::MAX_PACKET_BYTES).unwrap()).collect();
        assert!(stream.is_empty());
        packets
    }
}

/// An AUTH of the client's.
fn auth(reason: ReasonCode, data: &'static str) -> Packet {
    Packet::Auth(Auth {
        reason,
        method: Some(METHOD.to_owned()),
        data: Some(data.into()),
        reason_string: None,
    })
}

#[test]
fn newer_data_is_sent_over_the_live_connection_and_accepted() {
    let mut client = Client::connected(Some("one"));
    client.events.clear();
    client.newer("two");
    assert_eq!(client.sent(), [auth(REAUTHENTICATE, "two")]);
    assert!(client.session.is_ready());
    client.auth(ReasonCode::SUCCESS).unwrap();
    assert_eq!(client.events, ["Reauthenticated"]);
    assert_eq!(client.sent(), []);
}

#[test]
fn data_that_was_sent_last_is_not_sent_again() {
    let mut client = Client::connected(Some("one"));
    client.newer("one");
    assert_eq!(client.sent(), []);
    client.newer("two");
    client.sent();
    client.auth(ReasonCode::SUCCESS).unwrap();
    client.newer("two");
    assert_eq!(client.sent(), []);
}

#[test]
fn only_the_newest_data_received_during_an_authentication_is_sent_after_it() {
    let mut client = Client::connected(Some("one"));
    client.newer("two");
    assert_eq!(client.sent(), [auth(REAUTHENTICATE, "two")]);
    client.newer("three");
    client.newer("four");
    assert_eq!(client.sent(), []);
    client.auth(ReasonCode::SUCCESS).unwrap();
    assert_eq!(client.sent(), [auth(REAUTHENTICATE, "four")]);
    client.auth(ReasonCode::SUCCESS).unwrap();
    assert_eq!(client.sent(), []);
}

#[test]
fn data_received_before_the_connack_is_sent_after_it() {
    let mut client = Client::connecting(Some("one"));
    client.newer("two");
    assert_eq!(client.sent(), []);
    client.accept();
    let packets = client.sent();
    assert!(
        packets.contains(&auth(REAUTHENTICATE, "two")),
        "{packets:?}"
    );
}

#[test]
fn data_received_while_disconnected_is_sent_with_the_next_connect() {
    let mut client = Client::connected(Some("one"));
    client.session.connection_lost();
    client.newer("two");
    assert!(!client.session.has_output());
    client.connect(Some("three"));
    client.accept();
    assert_eq!(client.subscribe(), []);
    client.newer("four");
    assert_eq!(client.sent(), [auth(REAUTHENTICATE, "four")]);
}

#[test]
fn an_authentication_ended_by_a_lost_connection_does_not_block_the_next_one() {
    let mut client = Client::connected(Some("one"));
    client.newer("two");
    client.newer("three");
    client.sent();
    client.session.connection_lost();
    client.connect(Some("three"));
    client.accept();
    assert_eq!(client.subscribe(), []);
    client.newer("four");
    assert_eq!(client.sent(), [auth(REAUTHENTICATE, "four")]);
}

#[test]
fn a_challenge_is_answered_once_with_the_same_data() {
    let mut client = Client::connecting(Some("one"));
    client.auth(CONTINUE).unwrap();
    assert_eq!(client.sent(), [auth(CONTINUE, "one")]);
    let error = client.auth(CONTINUE).unwrap_err();
    assert!(matches!(error, SessionError::Protocol(_)), "{error}");

    let mut client = Client::connecting(Some("one"));
    client.auth(CONTINUE).unwrap();
    client.sent();
    client.accept();
    client.subscribe();
    for (data, after) in [("two", "two"), ("three", "three")] {
        client.newer(data);
        assert_eq!(client.sent(), [auth(REAUTHENTICATE, data)]);
        client.auth(CONTINUE).unwrap();
        assert_eq!(client.sent(), [auth(CONTINUE, after)]);
        client.auth(ReasonCode::SUCCESS).unwrap();
    }
}

#[test]
fn requests_pass_during_an_authentication() {
    let mut client = Client::connecting(Some("one"));
    client.accept();
    client.newer("two");
    assert_eq!(client.subscribe(), [auth(REAUTHENTICATE, "two")]);
    assert!(client.session.is_ready());
    assert!(client.session.capacity() > 0);
    client.auth(ReasonCode::SUCCESS).unwrap();
    assert!(client.session.is_ready());
}

/// A step of the broker.
type BrokerStep = fn(&mut Client) -> Result<(), SessionError>;

#[test]
fn an_unexpected_auth_ends_the_connection() {
    let unasked = |client: &mut Client| client.auth(ReasonCode::SUCCESS);
    let success_instead_of_connack = |client: &mut Client| client.auth(ReasonCode::SUCCESS);
    let servers_do_not_ask_again = |client: &mut Client| client.auth(REAUTHENTICATE);
    let other_method = |client: &mut Client| client.auth_by(CONTINUE, "SCRAM-SHA-1");
    let cases: [(Client, BrokerStep); 7] = [
        (Client::connected(Some("one")), unasked),
        (Client::connected(None), unasked),
        (Client::connecting(None), |client| client.auth(CONTINUE)),
        (Client::connecting(Some("one")), success_instead_of_connack),
        (Client::connecting(Some("one")), servers_do_not_ask_again),
        (Client::connecting(Some("one")), other_method),
        (Client::connected(Some("one")), |client| {
            client.newer("two");
            client.auth(REAUTHENTICATE)
        }),
    ];
    for (index, (mut client, step)) in cases.into_iter().enumerate() {
        let error = step(&mut client).unwrap_err();
        assert!(
            matches!(error, SessionError::Protocol(_)),
            "{index}: {error}"
        );
        assert_eq!(error.reason(), Some(ReasonCode::PROTOCOL_ERROR), "{index}");
    }
}

#[test]
fn a_client_without_a_method_does_not_authenticate_again() {
    let mut client = Client::connected(None);
    client.newer("two");
    assert_eq!(client.sent(), []);
}

#[test]
fn debug_output_does_not_show_the_data() {
    let mut client = Client::connected(Some("hush-one"));
    client.newer("hush-two");
    client.newer("hush-three");
    let text = format!("{:?}", client.session);
    assert!(text.contains(METHOD), "{text}");
    // Output is shown as encoded bytes; the state is not.
    let state = text.split("outbox").next().unwrap();
    assert!(!state.contains("hush"), "{state}");
}

#[test]
fn debug_output_of_a_session_omits_the_data() {
    let client = Client::connected(Some("token"));
    let text = format!("{:?}", client.session);
    assert!(text.contains("AuthExchange {"), "{text}");
    assert!(text.contains(METHOD) && !text.contains("token"), "{text}");
}
