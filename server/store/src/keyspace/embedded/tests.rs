use super::super::Ticket;
use super::*;
use statestore_protocol::{Hlc, SetOptions};
use std::num::NonZeroU64;

const NOW: ClockReading = ClockReading {
    wall_ms: 1_000,
    mono_ms: 0,
};

/// A receiver that collects the removed keys.
#[derive(Default)]
struct RemovedKeys(Vec<Bytes>);

impl EventSink for RemovedKeys {
    fn changed(&mut self, change: &ChangeEvent<'_>) {
        if let EntryState::Removed { .. } = change.state {
            self.0.push(change.key.clone());
        }
    }
    fn completed(&mut self, ticket: Ticket, _end: Completion) {
        panic!("{ticket:?} has ended before");
    }
    fn add_work(&mut self, _steps: usize) {}
}

fn empty() -> EmbeddedKeyspace {
    EmbeddedKeyspace::new(&KeyspaceLimits {
        max_keys: u64::MAX,
        max_bytes: u64::MAX,
        prefixes: Vec::new(),
        max_page_bytes: 65_536,
        max_page_keys: 1_024,
        hash_key: [1, 2],
    })
}

fn operate(keyspace: &mut EmbeddedKeyspace, key: &'static str, operation: &Operation<'_>) -> Reply {
    let context = RequestContext {
        ticket: Ticket(0),
        now: NOW,
        deadline_ms: None,
        digest: None,
    };
    match keyspace.operate(
        &context,
        &key.into(),
        operation,
        &mut RemovedKeys::default(),
    ) {
        Some(Completion::Answered { reply, .. }) => reply,
        other => panic!("{other:?}"),
    }
}

fn set(keyspace: &mut EmbeddedKeyspace, key: &'static str, ttl_ms: u64) {
    let timestamp = Hlc::store_version((1_000, 0));
    let options = SetOptions {
        expires_in_ms: NonZeroU64::new(ttl_ms),
        ..SetOptions::default()
    };
    let operation = Operation::Set {
        value: &"v".into(),
        options,
        timestamp: &timestamp,
        token: None,
    };
    assert_eq!(operate(keyspace, key, &operation), Reply::Ok);
}

#[test]
fn entries_that_share_hash_and_deadline_expire_each() {
    let mut keyspace = empty();
    keyspace.table.collide_hashes();
    for key in ["a", "b", "c", "d"] {
        set(&mut keyspace, key, 10);
    }
    set(&mut keyspace, "b", 20);
    set(&mut keyspace, "c", 0);
    let delete = Operation::Del {
        if_version: None,
        token: None,
    };
    assert_eq!(operate(&mut keyspace, "d", &delete), Reply::Count(1));
    let expired = |keyspace: &mut EmbeddedKeyspace, mono_ms| {
        let mut removed = RemovedKeys::default();
        keyspace.advance(1, ClockReading { mono_ms, ..NOW }, &mut removed);
        removed.0.pop()
    };
    assert_eq!(keyspace.next_ms(), Some(10));
    assert_eq!(expired(&mut keyspace, 9), None);
    assert_eq!(expired(&mut keyspace, 10), Some("a".into()));
    assert_eq!(expired(&mut keyspace, 10), None);
    assert_eq!(expired(&mut keyspace, 20), Some("b".into()));
    assert_eq!(keyspace.next_ms(), None);
    assert_eq!(keyspace.table.len(), 1);
    assert_eq!(keyspace.metrics().map(|it| it.expired), Some(2));
}

#[test]
fn a_lease_renewed_many_times_has_one_deadline() {
    let mut keyspace = empty();
    for ttl in 1..10_000 {
        set(&mut keyspace, "k", ttl);
    }
    assert_eq!(keyspace.expiry_index.len(), 1);
    set(&mut keyspace, "k", 0);
    assert_eq!(keyspace.expiry_index.len(), 0);
}

/// Returns all keys that expire and match a pattern, and the number of pages.
fn list_expiring(
    keyspace: &EmbeddedKeyspace,
    pattern: &str,
    now: ClockReading,
) -> (Vec<Bytes>, usize) {
    let pattern = Bytes::copy_from_slice(pattern.as_bytes());
    let (mut keys, mut token) = keyspace.expiring_keys(&pattern, None, now).unwrap();
    let mut pages = 1;
    while let Some(last) = token {
        let (more, next) = keyspace.expiring_keys(&pattern, Some(&last), now).unwrap();
        assert!(more.len() <= 200, "{}", more.len());
        keys.extend(more);
        token = next;
        pages += 1;
    }
    (keys, pages)
}

#[test]
fn keys_that_expire_are_listed_soonest_first() {
    let mut keyspace = empty();
    for (key, ttl_ms) in [
        ("later", 30),
        ("never", 0),
        ("next", 10),
        ("soon", 5),
        ("two", 30),
    ] {
        set(&mut keyspace, key, ttl_ms);
    }
    let (mut keys, pages) = list_expiring(&keyspace, "*", NOW);
    assert_eq!(keys[..2], ["soon", "next"]);
    keys[2..].sort();
    assert_eq!(
        (&keys[2..], pages),
        (&["later".into(), "two".into()][..], 1)
    );
    let later = ClockReading { mono_ms: 5, ..NOW };
    assert_eq!(list_expiring(&keyspace, "[!lt]*", later).0, ["next"]);
    let foreign = keyspace.scanner.tokens.seal(&[0; 8]);
    for token in [foreign, Bytes::from_static(b"token")] {
        assert_eq!(keyspace.expiring_keys(&"*".into(), Some(&token), NOW), None);
    }
}

#[test]
fn a_page_of_keys_that_expire_visits_a_bounded_number_of_them() {
    let mut keyspace = empty();
    let key = |number: u64| -> &'static str { format!("key-{number}").leak() };
    for number in 0..3_000 {
        set(&mut keyspace, key(number), 100 + number / 10);
    }
    let (mut keys, pages) = list_expiring(&keyspace, "*", NOW);
    assert_eq!((keys.len(), pages), (3_000, 15));
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), 3_000);
    let (none, pages) = list_expiring(&keyspace, "other*", NOW);
    assert!(none.is_empty());
    assert_eq!(pages, 3, "1,000 deadlines for each page");
}

#[test]
fn relocation_keeps_entries_while_others_are_created_and_deleted() {
    let mut keyspace = empty();
    let key = |number: usize| -> &'static str { format!("key-{number}").leak() };
    for number in 0..9_000 {
        set(
            &mut keyspace,
            key(number),
            if number % 2 == 0 { 0 } else { 10 },
        );
    }
    let delete = Operation::Del {
        if_version: None,
        token: None,
    };
    let mut next = 0;
    while keyspace.relocate() {
        for number in next..next + 10 {
            assert_eq!(
                operate(&mut keyspace, key(number), &delete),
                Reply::Count(1)
            );
            set(&mut keyspace, key(9_000 + number), 0);
        }
        next += 10;
    }
    assert!(next > 10, "one slice was enough");
    assert_eq!(keyspace.len(), 9_000);
    let bytes = keyspace.bytes();
    while keyspace.relocate() {}
    assert_eq!(keyspace.bytes(), bytes);
    for number in next..9_000 + next {
        let look = keyspace.entry_view(key(number).as_bytes(), 1, NOW);
        assert_eq!(look.unwrap().value, "v", "{number}");
    }
}

#[test]
fn the_quota_that_a_change_exceeded_is_reported() {
    let mut keyspace = empty();
    let refused = |keyspace: &mut EmbeddedKeyspace| {
        let value = "v".into();
        let timestamp = Hlc::store_version((1_000, 0));
        let operation = Operation::Set {
            value: &value,
            options: SetOptions::default(),
            timestamp: &timestamp,
            token: None,
        };
        let reply = operate(keyspace, "key", &operation);
        assert_eq!(reply, Reply::Error(ServiceError::QuotaExceeded));
        keyspace.take_exceeded_quota()
    };
    keyspace.set_memory_short(true);
    assert_eq!(refused(&mut keyspace), Some(Quota::Memory));
    assert_eq!(keyspace.take_exceeded_quota(), None);
    keyspace.set_memory_short(false);
    keyspace.max_keys = 0;
    assert_eq!(refused(&mut keyspace), Some(Quota::Keys));
    keyspace.max_keys = 1;
    keyspace.max_bytes = 1;
    assert_eq!(refused(&mut keyspace), Some(Quota::Bytes));
}
