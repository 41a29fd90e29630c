//! SCAN by the vendor's client.
use azure_iot_operations_services::state_store::SetOptions;
use interop::{GUARD, Server, Vendor, within};
use std::collections::BTreeSet;

/// All pages of a pattern.
async fn pages(vendor: &Vendor, pattern: &[u8]) -> Vec<Vec<Vec<u8>>> {
    let scan = vendor.store.list_keys(pattern.to_vec(), GUARD);
    let mut scan = scan.expect("the pattern is not empty");
    let mut pages = Vec::new();
    while let Some(page) = within("a page", scan.next()).await.expect("SCAN") {
        pages.push(page);
    }
    pages
}

/// All keys that match, each once.
async fn keys(vendor: &Vendor, pattern: &[u8]) -> BTreeSet<Vec<u8>> {
    let mut keys = BTreeSet::new();
    for key in pages(vendor, pattern).await.into_iter().flatten() {
        assert!(keys.insert(key.clone()), "{key:?} twice");
    }
    keys
}

#[tokio::test]
async fn a_pattern_is_a_glob() {
    let server = Server::start();
    let vendor = Vendor::connect(&server, "vendor").await;
    let all: [&[u8]; 6] = [b"a", b"b", b"ab", b"a*", b"a\xff", b"c"];
    for key in all {
        vendor.put(key, b"").await;
    }
    let cases: [(&[u8], &[&[u8]]); 8] = [
        (b"*", &all),
        (b"a*", &[b"a", b"ab", b"a*", b"a\xff"]),
        (b"a?", &[b"ab", b"a*", b"a\xff"]),
        (b"[ab]", &[b"a", b"b"]),
        (b"[b-z]", &[b"b", b"c"]),
        (b"[!a]", &[b"b", b"c"]),
        (b"a[*]", &[b"a*"]),
        (b"none", &[]),
    ];
    for (pattern, expected) in cases {
        let expected = expected.iter().map(|key| key.to_vec()).collect();
        assert_eq!(keys(&vendor, pattern).await, expected, "{pattern:?}");
    }
}

#[tokio::test]
async fn many_keys_come_in_pages_each_key_once() {
    let server = Server::start();
    let vendor = Vendor::connect(&server, "vendor").await;
    let expected: BTreeSet<Vec<u8>> = (0..3000)
        .map(|number| format!("key/{number:0>1000}").into_bytes())
        .collect();
    let mut sets = Vec::new();
    for key in expected.clone() {
        let store = vendor.store.clone();
        sets.push(tokio::spawn(async move {
            let set = store.set(key, Vec::new(), GUARD, None, SetOptions::default());
            assert!(set.await.expect("SET").response);
        }));
    }
    for set in sets {
        within("a SET", set).await.expect("no panic");
    }
    vendor.put(b"not matched", b"").await;

    let pages = pages(&vendor, b"key/*").await;
    assert!(pages.len() > 1, "three megabytes of keys are not one page");
    let keys: Vec<Vec<u8>> = pages.into_iter().flatten().collect();
    assert_eq!(keys.len(), expected.len(), "no key twice");
    assert_eq!(keys.into_iter().collect::<BTreeSet<_>>(), expected);
}
