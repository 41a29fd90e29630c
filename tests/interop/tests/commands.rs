//! SET, GET, DEL and VDEL by the vendor's client.
use azure_iot_operations_protocol::common::hybrid_logical_clock::HybridLogicalClock;
use azure_iot_operations_services::state_store::{
    Error, ErrorKind, ServiceError, SetCondition, SetOptions,
};
use interop::{GUARD, Server, Vendor, next, order, within};
use std::{collections::HashSet, time::Duration};

fn only_if_absent() -> SetOptions {
    SetOptions {
        set_condition: SetCondition::OnlyIfDoesNotExist,
        ..SetOptions::default()
    }
}

fn only_if_absent_or_equal() -> SetOptions {
    SetOptions {
        set_condition: SetCondition::OnlyIfEqualOrDoesNotExist,
        ..SetOptions::default()
    }
}

fn expiring(after: Duration) -> SetOptions {
    SetOptions {
        expires: Some(after),
        ..SetOptions::default()
    }
}

/// A token whose clock is `ahead` of now.
fn token(ahead: Duration) -> HybridLogicalClock {
    let mut token = HybridLogicalClock::new();
    token.timestamp += ahead;
    token
}

fn refusal(error: &Error) -> &ServiceError {
    match error.kind() {
        ErrorKind::ServiceError(refusal) => refusal,
        other => panic!("not an answer of the store: {other}"),
    }
}

#[tokio::test]
async fn get_returns_the_value_with_the_version_of_its_set() {
    let server = Server::start();
    let vendor = Vendor::connect(&server, "vendor").await;
    let version = vendor.put(b"key", b"value").await;
    assert_eq!(version.node_id, "StateStore");

    let got = vendor.get(b"key").await;
    assert_eq!(got.response.as_deref(), Some(&b"value"[..]));
    assert_eq!(got.version, Some(version));
}

#[tokio::test]
async fn get_of_an_absent_key_has_neither_value_nor_version() {
    let server = Server::start();
    let vendor = Vendor::connect(&server, "vendor").await;
    let got = vendor.get(b"absent").await;
    assert_eq!(got.response, None);
    assert_eq!(got.version, None);
}

#[tokio::test]
async fn keys_and_values_are_any_bytes() {
    let server = Server::start();
    let vendor = Vendor::connect(&server, "vendor").await;
    let every_byte: Vec<u8> = (0..=u8::MAX).collect();
    let long = vec![b'\r'; 300_000];
    for (key, value) in [
        (&every_byte[..], &every_byte[..]),
        (b"empty value", b""),
        (b"$1\r\nx\r\n", b"-ERR syntax error\r\n"),
        (b"long", &long),
    ] {
        vendor.put(key, value).await;
        assert_eq!(vendor.get(key).await.response.as_deref(), Some(value));
    }
}

#[tokio::test]
async fn versions_rise_with_each_set() {
    let server = Server::start();
    let vendor = Vendor::connect(&server, "vendor").await;
    let mut last = vendor.put(b"key", b"0").await;
    for round in 1..100 {
        let version = vendor.put(b"key", round.to_string().as_bytes()).await;
        assert!(order(&last) < order(&version), "{last} then {version}");
        last = version;
    }
}

#[tokio::test]
async fn requests_in_flight_together_each_get_their_own_answer() {
    let server = Server::start();
    let vendor = Vendor::connect(&server, "vendor").await;
    let mut clients = Vec::new();
    for number in 0..300_u32 {
        let store = vendor.store.clone();
        clients.push(tokio::spawn(async move {
            let own = number.to_be_bytes().to_vec();
            let set = async |key: Vec<u8>| {
                let options = SetOptions::default();
                let set = store.set(key, own.clone(), GUARD, None, options).await;
                set.expect("SET").version.expect("a version")
            };
            let version = set(own.clone()).await;
            let got = store.get(own.clone(), GUARD).await.expect("GET");
            assert_eq!(got.response.as_ref(), Some(&own));
            assert_eq!(got.version, Some(version));
            set(b"shared".to_vec()).await.to_string()
        }));
    }
    let mut versions = HashSet::new();
    for client in clients {
        versions.insert(within("a client", client).await.expect("no panic"));
    }
    assert_eq!(versions.len(), 300, "no version of a key is given twice");
}

#[tokio::test]
async fn nx_applies_only_to_an_absent_key() {
    let server = Server::start();
    let vendor = Vendor::connect(&server, "vendor").await;
    let first = vendor.set(b"key", b"first", None, only_if_absent()).await;
    let first = first.expect("SET NX");
    assert!(first.response);

    let second = vendor.set(b"key", b"second", None, only_if_absent()).await;
    let second = second.expect("SET NX");
    assert!(!second.response);
    assert_eq!(second.version, first.version, "the stored version");

    let equal = vendor.set(b"key", b"first", None, only_if_absent()).await;
    assert!(!equal.expect("SET NX").response, "NX knows no equal value");
    assert_eq!(vendor.get(b"key").await.response, Some(b"first".to_vec()));
    assert_eq!(vendor.get(b"key").await.version, first.version);

    vendor.del(b"key", None).await.expect("DEL");
    let third = vendor.set(b"key", b"third", None, only_if_absent()).await;
    assert!(third.expect("SET NX").response);
}

#[tokio::test]
async fn nex_applies_to_an_absent_key_or_an_equal_value() {
    let server = Server::start();
    let vendor = Vendor::connect(&server, "vendor").await;
    let options = only_if_absent_or_equal;
    let first = vendor.set(b"key", b"mine", None, options()).await;
    let first = first.expect("SET NEX");
    assert!(first.response);

    let equal = vendor.set(b"key", b"mine", None, options()).await;
    let equal = equal.expect("SET NEX");
    assert!(equal.response);
    let versions = [first.version.expect("new"), equal.version.expect("newer")];
    assert!(order(&versions[0]) < order(&versions[1]));

    let other = vendor.set(b"key", b"other", None, options()).await;
    let other = other.expect("SET NEX");
    assert!(!other.response);
    assert_eq!(other.version.as_ref(), Some(&versions[1]));
    assert_eq!(vendor.get(b"key").await.response, Some(b"mine".to_vec()));
}

#[tokio::test]
async fn px_ends_a_key_and_a_set_without_px_keeps_it() {
    let server = Server::start();
    let vendor = Vendor::connect(&server, "vendor").await;
    let mut ended = vendor.observe(b"later").await;
    let short = expiring(Duration::from_millis(150));
    vendor
        .set(b"kept", b"1", None, short.clone())
        .await
        .expect("SET PX");
    vendor.put(b"kept", b"2").await;
    vendor
        .set(b"ends", b"1", None, short)
        .await
        .expect("SET PX");
    let later = expiring(Duration::from_millis(400));
    vendor
        .set(b"later", b"1", None, later)
        .await
        .expect("SET PX");

    next(&mut ended).await; // its SET
    next(&mut ended).await; // its end, which is after the end of the others
    assert_eq!(vendor.get(b"ends").await.response, None);
    assert_eq!(vendor.get(b"kept").await.response, Some(b"2".to_vec()));
}

#[tokio::test]
async fn conditions_go_with_px_and_persistence() {
    let server = Server::start();
    let vendor = Vendor::connect(&server, "vendor").await;
    let mut observation = vendor.observe(b"key").await;
    for set_condition in [
        SetCondition::OnlyIfDoesNotExist,
        SetCondition::OnlyIfEqualOrDoesNotExist,
    ] {
        let options = SetOptions {
            set_condition,
            expires: Some(Duration::from_millis(100)),
            persist: true,
        };
        let set = vendor.set(b"key", b"value", None, options.clone()).await;
        assert!(set.expect("SET").response);
        next(&mut observation).await; // its SET
        next(&mut observation).await; // its end
    }
    assert_eq!(vendor.get(b"key").await.response, None);
}

#[tokio::test]
async fn del_counts_what_it_deleted() {
    let server = Server::start();
    let vendor = Vendor::connect(&server, "vendor").await;
    vendor.put(b"key", b"value").await;
    let deleted = vendor.del(b"key", None).await.expect("DEL");
    assert_eq!(deleted.response, 1);
    assert!(deleted.version.is_some());
    assert_eq!(vendor.get(b"key").await.response, None);

    let absent = vendor.del(b"key", None).await.expect("DEL");
    assert_eq!(absent.response, 0);
    assert_eq!(absent.version, None);
}

#[tokio::test]
async fn vdel_deletes_only_that_value() {
    let server = Server::start();
    let vendor = Vendor::connect(&server, "vendor").await;
    vendor.put(b"key", b"value").await;
    let other = vendor.vdel(b"key", b"other", None).await.expect("VDEL");
    assert_eq!(other.response, -1);
    assert_eq!(vendor.get(b"key").await.response, Some(b"value".to_vec()));

    let deleted = vendor.vdel(b"key", b"value", None).await.expect("VDEL");
    assert_eq!(deleted.response, 1);
    assert!(deleted.version.is_some());
    let absent = vendor.vdel(b"key", b"value", None).await.expect("VDEL");
    assert_eq!(absent.response, 0);
}

#[tokio::test]
async fn a_fenced_key_needs_a_token_that_is_not_lower() {
    let server = Server::start();
    let vendor = Vendor::connect(&server, "vendor").await;
    let low = token(Duration::ZERO);
    let middle = token(Duration::from_millis(10));
    let high = token(Duration::from_millis(20));
    let set = async |value: &[u8], fence: Option<&HybridLogicalClock>| {
        vendor
            .set(b"key", value, fence, SetOptions::default())
            .await
    };
    assert!(set(b"middle", Some(&middle)).await.expect("SET").response);

    let without = set(b"-", None).await.expect_err("a token is required");
    assert!(matches!(
        refusal(&without),
        ServiceError::MissingFencingToken
    ));
    let lower = set(b"-", Some(&low)).await.expect_err("too low");
    assert!(matches!(
        refusal(&lower),
        ServiceError::FencingTokenLowerVersion
    ));
    assert_eq!(vendor.get(b"key").await.response, Some(b"middle".to_vec()));

    assert!(set(b"equal", Some(&middle)).await.expect("SET").response);
    assert!(set(b"high", Some(&high)).await.expect("SET").response);
    let now_lower = set(b"-", Some(&middle)).await.expect_err("too low now");
    assert!(matches!(
        refusal(&now_lower),
        ServiceError::FencingTokenLowerVersion
    ));
    assert_eq!(vendor.get(b"key").await.response, Some(b"high".to_vec()));
}

#[tokio::test]
async fn deleting_a_fenced_key_needs_its_token_and_drops_it() {
    let server = Server::start();
    let vendor = Vendor::connect(&server, "vendor").await;
    let low = token(Duration::ZERO);
    let high = token(Duration::from_millis(10));
    for verb in ["DEL", "VDEL"] {
        let delete = async |fence: Option<&HybridLogicalClock>| match verb {
            "DEL" => vendor.del(b"key", fence).await,
            _ => vendor.vdel(b"key", b"value", fence).await,
        };
        let options = SetOptions::default();
        let set = vendor.set(b"key", b"value", Some(&high), options).await;
        assert!(set.expect("SET").response);

        let without = delete(None).await.expect_err("a token is required");
        assert!(matches!(
            refusal(&without),
            ServiceError::MissingFencingToken
        ));
        let lower = delete(Some(&low)).await.expect_err("too low");
        assert!(matches!(
            refusal(&lower),
            ServiceError::FencingTokenLowerVersion
        ));
        assert_eq!(delete(Some(&high)).await.expect(verb).response, 1);

        vendor.put(b"key", b"no token needed any more").await;
        assert_eq!(vendor.del(b"key", None).await.expect("DEL").response, 1);
    }
}

#[tokio::test]
async fn a_token_from_the_future_or_malformed_is_refused() {
    let server = Server::start();
    let vendor = Vendor::connect(&server, "vendor").await;
    let set = async |fence: HybridLogicalClock| {
        let options = SetOptions::default();
        let set = vendor.set(b"key", b"value", Some(&fence), options).await;
        set.expect_err("the token is refused")
    };
    let future = set(token(Duration::from_mins(2))).await;
    assert!(matches!(refusal(&future), ServiceError::FencingTokenSkew));

    for node_id in ["", "a:b"] {
        let mut malformed = token(Duration::ZERO);
        malformed.node_id = node_id.to_owned();
        let malformed = set(malformed).await;
        assert!(matches!(
            refusal(&malformed),
            ServiceError::TimestampMalformed
        ));
    }
    assert_eq!(
        vendor.get(b"key").await.response,
        None,
        "none was carried out"
    );
}

#[tokio::test]
async fn two_clients_see_the_same_keys() {
    let server = Server::start();
    let one = Vendor::connect(&server, "one").await;
    let two = Vendor::connect(&server, "two").await;
    let version = one.put(b"key", b"from one").await;
    let got = two.get(b"key").await;
    assert_eq!(got.response, Some(b"from one".to_vec()));
    assert_eq!(got.version.as_ref(), Some(&version));
    let newer = two.put(b"key", b"from two").await;
    assert!(order(&version) < order(&newer));
    assert_eq!(one.get(b"key").await.response, Some(b"from two".to_vec()));
    within("closing", one.close()).await;
    assert_eq!(two.get(b"key").await.response, Some(b"from two".to_vec()));
}
