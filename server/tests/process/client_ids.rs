//! Client ids that the server assigns.
use crate::peer::{Daemon, MAX, Peer};
use statestore_protocol::mqtt::{Connect, Packet};

fn assigned(daemon: &Daemon) -> String {
    let mut peer = Peer::open(daemon.address);
    let connect = Connect {
        clean_start: true,
        ..Connect::default()
    };
    peer.send(|out| connect.encode(MAX, out));
    match peer.receive() {
        Some(Packet::ConnAck(connack)) => connack.assigned_client_id.unwrap(),
        other => panic!("{other:?}"),
    }
}

/// The finaliser of `SplitMix64` and its inverse, with which a client could compute the next id from its own.
#[test]
fn assigned_client_ids_are_unpredictable() {
    let inverse = |odd: u64| {
        (0..6).fold(odd, |x, _| {
            x.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(x)))
        })
    };
    let unshift = |mixed: u64, by: u32| (0..64 / by).fold(mixed, |x, _| mixed ^ (x >> by));
    let next = |id: &str| {
        let mixed = u64::from_str_radix(id.get(id.len() - 16..).unwrap(), 16).unwrap();
        let mixed = unshift(mixed, 31).wrapping_mul(inverse(0x94D0_49BB_1331_11EB));
        let mixed = unshift(mixed, 27).wrapping_mul(inverse(0xBF58_476D_1CE4_E5B9));
        let mut mixed = unshift(mixed, 30).wrapping_add(0x9E37_79B9_7F4A_7C15);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        format!("{:016x}", mixed ^ (mixed >> 31))
    };
    let daemon = Daemon::in_memory();
    let ids: Vec<String> = (0..100).map(|_| assigned(&daemon)).collect();
    for pair in ids.windows(2) {
        assert!(!pair[1].ends_with(&next(&pair[0])), "{pair:?}");
    }
    // 128 bits, of which about half differ between any two.
    let numbers: Vec<u128> = ids
        .iter()
        .map(|id| u128::from_str_radix(id.strip_prefix("auto-").unwrap(), 16).unwrap())
        .collect();
    for pair in numbers.windows(2) {
        let differ = (pair[0] ^ pair[1]).count_ones();
        assert!((20..=108).contains(&differ), "{differ} bits");
    }
}
