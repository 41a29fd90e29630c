//! Two bridged Mosquittos, each with a server of its own, over one engine.
use super::bridge::{bridge_to, wait_until_bridged};
use super::world::{Peer, Store, now};
use harness::Mosquitto;

/// Sends requests to either broker. The store executes each request once for both brokers and responds once at each.
pub(crate) fn clients_at_two_bridged_brokers_share_a_store(storage: &str) {
    let b = Mosquitto::start();
    let a = Mosquitto::start_with(&bridge_to(&b));
    let _stores = [&a, &b].map(|broker| {
        let attach = format!("mqtt://{}", broker.address());
        let share = ["--attach-share", "plant"];
        Store::start_with(&[&["--storage", storage, "--attach", &attach], &share[..]].concat())
    });
    let [mut plant_a, mut plant_b] = [("plant-a", &a), ("plant-b", &b)]
        .map(|(name, broker)| Peer::connect(broker.address(), name));
    wait_until_bridged(&mut plant_a, &mut plant_b);
    let stamp = now();
    let stamped: &[(&str, &str)] = &[("__ts", &stamp)];
    let [mut at_a, mut at_b] = [("client-a", &a), ("client-b", &b)]
        .map(|(name, broker)| Peer::connect(broker.address(), name));
    for watching in [&mut at_a, &mut at_b] {
        let watch = watching.request(&["KEYNOTIFY", "k"], stamped);
        assert_eq!(watch.payload_bytes(), b"+OK\r\n");
    }
    let mut setting = Peer::connect(a.address(), "setting");
    let mut deleting = Peer::connect(b.address(), "deleting");
    for _ in 0..3 {
        let set = setting.request(&["SET", "k", "v", "NX"], stamped);
        assert_eq!(set.payload_bytes(), b"+OK\r\n");
        // A change that was made at one broker is visible at the other.
        let taken = deleting.request(&["SET", "k", "w", "NX"], stamped);
        assert_eq!(taken.payload_bytes(), b":-1\r\n");
        let deleted = deleting.request(&["DEL", "k"], stamped);
        assert_eq!(deleted.payload_bytes(), b":1\r\n");
        let again = setting.request(&["DEL", "k"], stamped);
        assert_eq!(again.payload_bytes(), b":0\r\n");
        for watching in [&mut at_a, &mut at_b] {
            for operation in ["SET", "DELETE"] {
                let told = watching.message();
                let payload = String::from_utf8_lossy(told.payload_bytes()).into_owned();
                assert!(payload.contains(operation), "{operation}: {payload}");
            }
        }
    }
    // No notification arrived twice: the next packet is the response.
    for watching in [&mut at_a, &mut at_b] {
        let get = watching.request(&["GET", "k"], stamped);
        assert_eq!(get.payload_bytes(), b"$-1\r\n");
    }
}
