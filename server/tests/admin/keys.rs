//! Lists of keys and locks, the tree of keys, and the history of the metrics.
use crate::api::collect_pages;
use crate::http::{TIMEOUT, client, get, json, server, start, stop};
use serde_json::Value;
use statestore::{Client, Hlc, LockOptions, SetOptions};
use statestored::RunningServer;
use statestored::config::Config;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// More than the keys on a page of the store.
const KEYS: usize = 1_200;

async fn set_all(client: &Client, keys: impl IntoIterator<Item = String>) {
    for key in keys {
        client.set(key, "ten bytes!").await.unwrap();
    }
}

fn text(item: &Value) -> String {
    item["key"]["text"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn keys_are_listed_with_their_metadata_over_all_pages() {
    let server = server();
    let client = client(&server, "writer").await;
    let keys: BTreeSet<_> = (0..KEYS).map(|number| format!("k/{number}")).collect();
    set_all(&client, keys.iter().cloned()).await;
    client.set("other", "v").await.unwrap();
    let found = collect_pages(&server, "/api/keys?details=1&match=k/*&", text);
    assert_eq!(found.len(), KEYS);
    assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), keys);

    let fence = Hlc::new(1, 2, "holder").unwrap();
    let options = SetOptions::new()
        .expires_in(Duration::from_secs(1_000))
        .fencing_token(fence.clone());
    client.set_with("full", "12345", &options).await.unwrap();
    let version = client.get("full").await.unwrap().unwrap().version;
    let page = json(&server, "/api/keys?details=1&match=full");
    let item = &page["items"][0];
    assert_eq!(item["value_bytes"], 5);
    assert_eq!(item["version"], version.to_string());
    assert_eq!(item["changed_ms"], version.wall_ms());
    assert_eq!(item["fence"], fence.to_string());
    let left = item["expires_in_ms"].as_u64().unwrap();
    assert!((900_000..=1_000_000).contains(&left), "{left}");
    let page = json(&server, "/api/keys?details=1&match=other");
    let item = &page["items"][0];
    for (name, value) in [("fence", Value::Null), ("expires_in_ms", Value::Null)] {
        assert_eq!(item.get(name), Some(&value), "{item}");
    }
    assert_eq!(item.get("value"), None);
    for bad in ["zz", "zz.", ".zz"] {
        let path = format!("/api/keys?details=1&cursor={bad}");
        assert_eq!(get(&server, &path).status, 400, "{bad}");
    }
    stop(server).await;
}

/// Collects a level of the tree: keys and bytes of its folders, and its keys.
fn tree_level(
    server: &RunningServer,
    query: &str,
) -> (BTreeMap<String, (u64, u64)>, BTreeSet<String>) {
    let mut folders = BTreeMap::new();
    let mut keys = BTreeSet::new();
    let mut cursor = String::new();
    loop {
        let page = json(server, &format!("/api/prefixes?{query}&cursor={cursor}"));
        let items = page["items"].as_array().unwrap();
        assert!(items.len() <= 200, "{}", items.len());
        for item in items {
            let Some(prefix) = item.get("prefix") else {
                assert_eq!(item["value_bytes"], 10, "{item}");
                keys.insert(text(item));
                continue;
            };
            let prefix = prefix["text"].as_str().unwrap().to_owned();
            let totals: &mut (u64, u64) = folders.entry(prefix).or_default();
            totals.0 += item["keys"].as_u64().unwrap();
            totals.1 += item["value_bytes"].as_u64().unwrap();
        }
        match page["next"].as_str() {
            Some(next) => next.clone_into(&mut cursor),
            None => return (folders, keys),
        }
    }
}

#[tokio::test]
async fn a_level_of_the_tree_has_the_totals_of_its_folders() {
    let server = server();
    let client = client(&server, "writer").await;
    let in_folders = (0..KEYS).map(|number| format!("plant/{}/{number}", number % 3));
    set_all(&client, in_folders).await;
    set_all(&client, (0..450).map(|number| format!("plant/k{number}"))).await;
    set_all(
        &client,
        ["other", "[x]*/a", "xx/b", "a::b"].map(String::from),
    )
    .await;

    let (folders, keys) = tree_level(&server, "prefix=");
    let of = |folder: &str| folders[folder];
    assert_eq!(of("plant/"), (1_650, 16_500));
    assert_eq!(
        (of("[x]*/"), of("xx/"), folders.len()),
        ((1, 10), (1, 10), 3)
    );
    assert_eq!(keys, BTreeSet::from(["a::b", "other"].map(String::from)));

    let (folders, keys) = tree_level(&server, "prefix=plant/");
    let third = (400, 4_000);
    let expected = ["plant/0/", "plant/1/", "plant/2/"].map(|it| (it.to_owned(), third));
    assert_eq!(folders, BTreeMap::from(expected));
    assert_eq!(keys.len(), 450);

    let (folders, keys) = tree_level(&server, "prefix=%5Bx%5D*");
    assert_eq!(
        (folders.len(), keys.len()),
        (1, 0),
        "the prefix is no pattern"
    );
    let (folders, _) = tree_level(&server, "prefix=a&delimiter=::");
    assert_eq!(folders, BTreeMap::from([("a::".to_owned(), (1, 10))]));
    let empty = get(&server, "/api/prefixes?delimiter=");
    assert_eq!(empty.status, 400, "{}", empty.body);
    assert_eq!(get(&server, "/api/prefixes?cursor=zz.").status, 400);
    stop(server).await;
}

#[tokio::test]
async fn the_largest_values_and_the_next_keys_to_expire_are_listed() {
    let server = server();
    let client = client(&server, "writer").await;
    set_all(&client, (0..KEYS).map(|number| format!("small/{number}"))).await;
    for number in 0..25_u64 {
        let lease = SetOptions::new().expires_in(Duration::from_secs(1_000 + 10 * number));
        let value = vec![b'x'; 1_000 + usize::try_from(number).unwrap()];
        client
            .set_with(format!("large/{number}"), value, &lease)
            .await
            .unwrap();
    }
    let with_size = |it: &Value| format!("{} {}", it["value_bytes"], text(it));
    let mut largest = collect_pages(&server, "/api/bigkeys?", with_size);
    largest.sort();
    largest.reverse();
    let expected: Vec<_> = (5..25)
        .rev()
        .map(|it| format!("{} large/{it}", 1_000 + it))
        .collect();
    assert_eq!(largest[..20], expected);

    let page = json(&server, "/api/ttl");
    let soonest: Vec<_> = page["items"].as_array().unwrap().iter().map(text).collect();
    let expected: Vec<_> = (0..20).map(|number| format!("large/{number}")).collect();
    assert_eq!(soonest, expected);
    assert_eq!(page["next"], Value::Null);
    let left = page["items"][0]["expires_in_ms"].as_u64().unwrap();
    assert!((900_000..=1_000_000).contains(&left), "{left}");
    let none = json(&server, "/api/ttl?match=small/*");
    assert_eq!(none, serde_json::json!({ "items": [], "next": null }));
    for path in ["/api/bigkeys?cursor=zz.", "/api/ttl?cursor=00."] {
        assert_eq!(get(&server, path).status, 400, "{path}");
    }
    stop(server).await;
}

#[tokio::test]
async fn locks_are_found_among_many_keys_that_expire() {
    let server = server();
    let ann = client(&server, "ann").await;
    let lease = SetOptions::new().expires_in(Duration::from_secs(600));
    let locks: BTreeSet<_> = (0..450).map(|number| format!("lock/{number}")).collect();
    for number in 0..KEYS {
        ann.set_with(format!("data/{number}"), "data", &lease)
            .await
            .unwrap();
        let lock = format!("lock/{number}");
        if locks.contains(&lock) {
            ann.set_with(lock, "ann", &lease).await.unwrap();
        }
    }
    let found = collect_pages(&server, "/api/locks?", text);
    assert_eq!(found.len(), locks.len());
    assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), locks);
    let found = collect_pages(&server, "/api/locks?match=lock/44*&", text);
    assert_eq!(found.len(), 11);
    // The cursor of another list.
    let keys = json(&server, "/api/keys");
    let path = format!("/api/locks?cursor={}", keys["next"].as_str().unwrap());
    assert_eq!(get(&server, &path).status, 400);
    stop(server).await;
}

#[tokio::test]
async fn a_lock_has_its_holder_and_the_number_of_waiting_clients() {
    let server = server();
    let holder = client(&server, "holder").await;
    let guard = holder
        .lock_with("door", &LockOptions::default())
        .await
        .unwrap();
    let lock = || json(&server, "/api/locks")["items"][0].clone();
    let before = lock()["waiters"].as_u64().unwrap();
    let waiting = client(&server, "waiting").await;
    let _observer = waiting.observe("door").await.unwrap();
    assert_eq!(lock()["waiters"], before + 1);
    let entry = json(&server, "/api/key?key=door");
    assert_eq!(entry["holder"], lock()["holder"]);
    assert_eq!(entry["entry"]["value"]["text"], entry["holder"]);
    holder.set("plain", "holder").await.unwrap();
    let plain = json(&server, "/api/key?key=plain");
    assert_eq!(plain.get("holder"), None, "it does not expire");
    drop(guard);
    stop(server).await;
}

#[tokio::test]
async fn the_history_has_samples_without_a_viewer() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(Config::durable(folder.path().join("data")));
    let client = client(&server, "writer").await;
    let end = Instant::now() + TIMEOUT;
    let sample = loop {
        assert!(Instant::now() < end, "no sample in time");
        client.set("key", "value").await.unwrap();
        let history = json(&server, "/api/history");
        assert_eq!(history["interval_s"], 5);
        let samples = history["samples"].as_array().unwrap();
        let with_requests = |it: &&Value| it["requests"]["set"].as_u64() > Some(0);
        if let Some(sample) = samples.iter().find(with_requests) {
            break sample.clone();
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    for known in [
        "at_ms",
        "p50_us",
        "p99_us",
        "connections",
        "sessions",
        "entry_bytes",
        "commits",
        "sync_p99_us",
        "disk_free",
    ] {
        assert!(sample[known].as_u64() > Some(0), "{known}: {sample}");
    }
    for count in ["failed", "refused", "notifications"] {
        assert_eq!(sample[count], 0, "{count}: {sample}");
    }
    stop(server).await;
}
