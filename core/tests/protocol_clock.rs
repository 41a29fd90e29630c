//! Hybrid logical clocks: the versions of a store and the clock of a client.
use statestore::protocol::{
    Clock, Hlc,
    hlc::{MAX_SKEW_MS, next_version},
};

fn hlc(text: &str) -> Hlc {
    text.parse().unwrap()
}

#[test]
fn order_is_wall_clock_then_counter_then_node() {
    let rising = ["1:9:z", "2:0:a", "2:1:a", "2:1:ab", "2:1:b", "10:0:a"];
    for pair in rising.windows(2) {
        assert!(hlc(pair[0]) < hlc(pair[1]), "{pair:?}");
    }
    assert_eq!(hlc("000000000000002:00001:a"), hlc("2:1:a"));
}

#[test]
fn a_version_follows_the_greatest_of_clock_request_and_previous_version() {
    let version = |now, request, previous| next_version(now, &hlc(request), previous);
    assert_eq!(version(100, "90:5:c", None), (100, 0));
    assert_eq!(version(100, "100:5:c", None), (100, 6));
    assert_eq!(version(100, "110:5:c", None), (110, 6));
    assert_eq!(version(100, "90:5:c", Some((100, 2))), (100, 3));
    assert_eq!(version(100, "110:5:c", Some((110, 9))), (110, 10));
    assert_eq!(version(100, "110:9:c", Some((110, 5))), (110, 10));
    assert_eq!(version(100, "110:5:c", Some((109, 9))), (110, 6));
}

#[test]
fn a_full_counter_carries_into_the_wall_clock_and_the_last_value_of_all_stays() {
    let full = format!("100:{}:c", u64::MAX);
    assert_eq!(next_version(100, &hlc(&full), None), (101, 0));
    let last = format!("{0}:{0}:c", u64::MAX);
    assert_eq!(next_version(100, &hlc(&last), None), (u64::MAX, u64::MAX));
}

#[test]
fn a_clock_rises_when_the_wall_clock_goes_back() {
    let mut clock = Clock::new("c").unwrap();
    let first = clock.tick(1_000);
    let second = clock.tick(400);
    assert!(second > first);
    assert_eq!(second, hlc("1000:1:c"));
    assert_eq!(clock.tick(1_001), hlc("1001:0:c"));
}

#[test]
fn a_clock_merges_up_to_one_minute_ahead_and_reports_more() {
    let mut clock = Clock::new("c").unwrap();
    let limit = Hlc::new(1_000 + MAX_SKEW_MS, 4, "s").unwrap();
    clock.merge(&limit, 1_000).unwrap();
    assert_eq!(clock.tick(1_000), hlc("61000:5:c"));

    let beyond = Hlc::new(1_001 + MAX_SKEW_MS, 0, "s").unwrap();
    assert_eq!(clock.merge(&beyond, 1_000).unwrap_err().ahead_ms, 60_001);
    assert_eq!(clock.tick(1_000), hlc("61000:6:c"));

    clock.merge(&hlc("5:9:s"), 1_000).unwrap();
    assert_eq!(clock.tick(1_000), hlc("61000:7:c"));
}
