//! Servers that share the requests of a broker which asserts their senders, with a signature. Rules about keys apply whichever server
//! is asked.
use super::keeping::{DELIVERIES, LEADS, STANDS_BY, ask, server_with, wait_for_notification};
use super::plugin::{BrokerWithPlugin, PASSWORD};
use super::world::{Peer, Store, command, now};
use statestore_protocol::mqtt::{Connect, PublishHeader};

const OK: &str = "+OK\r\n";
const NOT_APPLIED: &str = ":-1\r\n";
const NOT_AUTHORIZED: &str = "-ERR not authorized\r\n";
const RULES: &str = "
rules:
- principals: {clientIds: [reader]}
  brokerResources: [{method: Connect}]
  stateStoreResources: [{method: Read, keys: [shared/*]}]
- principals: {usernames: [ann]}
  brokerResources: [{method: Connect}]
  stateStoreResources: [{method: ReadWrite, keys: [shared/*, secret]}]
- principals: {usernames: [bob]}
  brokerResources: [{method: Connect}]
  stateStoreResources: [{method: ReadWrite, keys: [shared/*]}]
";

/// Two servers with these rules, of which the first one keeps the watches, behind a broker with the plugin.
struct GuardedServers {
    guarded: BrokerWithPlugin,
    servers: Vec<Store>,
}

impl GuardedServers {
    fn start(storage: &str) -> Self {
        let guarded = BrokerWithPlugin::start();
        let policy = guarded.folder.path().join("policy.yaml");
        std::fs::write(&policy, RULES).unwrap();
        let mut options = guarded.options();
        options.extend(["--policy-file".into(), policy.to_str().unwrap().into()]);
        let options: Vec<_> = options.iter().map(String::as_str).collect();
        let launch = |name| server_with(storage, &guarded.broker, name, &options);
        let one = launch("one");
        one.wait_for_log(LEADS);
        let other = launch("other");
        other.wait_for_log(STANDS_BY);
        let servers = vec![one, other];
        Self { guarded, servers }
    }

    fn peer(&self, client_id: &str, user: Option<&str>) -> Peer {
        let connect = Connect {
            user_name: user.map(Into::into),
            password: user.map(|_| PASSWORD.into()),
            ..Connect::default()
        };
        Peer::connect_with(self.guarded.broker.address(), client_id, connect)
    }

    fn until_watches(&self, count: u64) {
        for server in &self.servers {
            server.wait_for_metric("statestored_watches", count);
        }
    }

    fn trust_each_other(&self) {
        for server in &self.servers {
            server.wait_for_metric("statestored_attached_unproven_total", 0);
        }
    }
}

pub(crate) fn key_rules_apply_at_every_server(storage: &str) {
    let mut world = GuardedServers::start(storage);
    let mut reader = world.peer("reader", None);
    let mut ann = world.peer("anything", Some("ann"));
    let mut told = Vec::new();
    for round in 0..DELIVERIES {
        for refused in [
            &["SET", "shared/a", "x"][..],
            &["GET", "secret"],
            &["DEL", "secret"],
            &["KEYNOTIFY", "secret"],
        ] {
            let answer = ask(&mut reader, refused, &mut told);
            assert_eq!(answer, NOT_AUTHORIZED, "{refused:?} in round {round}");
        }
        let watch = ["KEYNOTIFY", "shared/a"];
        assert_eq!(ask(&mut reader, &watch, &mut told), OK);
        for key in ["secret", "shared/a"] {
            assert_eq!(ask(&mut ann, &["SET", key, "x"], &mut Vec::new()), OK);
        }
    }
    world.until_watches(1);
    for round in 0..DELIVERIES {
        let value = round.to_string();
        assert_eq!(
            ask(&mut ann, &["SET", "secret", &value], &mut Vec::new()),
            OK
        );
        let before = wait_for_notification(&mut ann, &mut reader, "shared/a", &value);
        assert!(
            before.iter().all(|text| text.contains("\r\nx\r\n")),
            "{before:?}"
        );
    }
    world.trust_each_other();

    // The one that stood by goes on with the same rules and watches.
    let other = world.servers.pop().unwrap();
    drop(world.servers.pop());
    other.wait_for_log(LEADS);
    let answer = ask(&mut reader, &["KEYNOTIFY", "secret"], &mut told);
    assert_eq!(answer, NOT_AUTHORIZED);
    wait_for_notification(&mut ann, &mut reader, "shared/a", "after");
    let stop = ["KEYNOTIFY", "shared/a", "STOP"];
    assert_eq!(ask(&mut reader, &stop, &mut told), OK);
    assert_eq!(ask(&mut reader, &stop, &mut told), ":0\r\n");
}

pub(crate) fn a_server_that_lacks_the_key_of_the_broker_warns(storage: &str) {
    let guarded = BrokerWithPlugin::start();
    let server = server_with(storage, &guarded.broker, "one", &[]);
    server.wait_for_log(LEADS);
    let mut peer = Peer::connect(guarded.broker.address(), "reader");
    let header = PublishHeader {
        correlation_data: Some(b"watch"),
        ..PublishHeader::default()
    };
    peer.send_request(&command(&["KEYNOTIFY", "k"]), &header);
    server.wait_for_log("give this server --attach-identity");
}

pub(crate) fn another_user_with_the_same_client_id_inherits_nothing(storage: &str) {
    let world = GuardedServers::start(storage);
    let stamp = now();
    let header = PublishHeader {
        correlation_data: Some(b"the same"),
        user_properties: &[("__ts", &stamp)],
        ..PublishHeader::default()
    };
    let made = command(&["SET", "shared/k", "v", "NX"]);
    let again = |peer: &mut Peer| {
        peer.send_request(&made, &header);
        let answer = peer.message();
        assert_eq!(answer.correlation_data(), header.correlation_data);
        String::from_utf8(answer.payload_bytes().to_vec()).unwrap()
    };
    let mut ann = world.peer("client", Some("ann"));
    for _ in 0..DELIVERIES {
        assert_eq!(again(&mut ann), OK);
    }
    let mut told = Vec::new();
    assert_eq!(ask(&mut ann, &["KEYNOTIFY", "secret"], &mut told), OK);
    world.until_watches(1);

    // The identical request of another user: the condition is not met.
    let mut bob = world.peer("client", Some("bob"));
    for _ in 0..DELIVERIES {
        assert_eq!(again(&mut bob), NOT_APPLIED);
    }
    world.until_watches(0);
    let mut other = world.peer("another", Some("ann"));
    for round in 0..DELIVERIES {
        assert_eq!(
            ask(&mut bob, &["KEYNOTIFY", "secret"], &mut told),
            NOT_AUTHORIZED
        );
        let value = round.to_string();
        assert_eq!(
            ask(&mut other, &["SET", "secret", &value], &mut Vec::new()),
            OK
        );
    }
    let watch = ["KEYNOTIFY", "shared/k"];
    assert_eq!(ask(&mut bob, &watch, &mut told), OK);
    let before = wait_for_notification(&mut other, &mut bob, "shared/k", "new");
    assert_eq!((before, told), (Vec::new(), Vec::new()));

    // The owner is answered as before, and receives no notifications of the other user's watches.
    let mut ann = world.peer("client", Some("ann"));
    for _ in 0..DELIVERIES {
        assert_eq!(again(&mut ann), OK);
    }
    world.until_watches(0);
    world.trust_each_other();
}
