use super::*;
use statestored_access::UserLimits;

fn watches(max_watches_per_client: usize) -> Watches {
    Watches::new(&ServiceConfig {
        max_watches_per_client,
        ..ServiceConfig::default()
    })
}

#[test]
fn ended_watches_free_their_memory() {
    let mut watches = watches(2);
    let user = Principal::user("u".into());
    let (a, b): (Arc<str>, Arc<str>) = ("a".into(), "b".into());
    for client in [&a, &b] {
        watches.watch(client, &user, b"k").unwrap();
        watches.watch(client, &user, b"l").unwrap();
        watches.watch(client, &user, b"l").unwrap();
    }
    assert!(watches.watch(&a, &user, b"m").is_err());
    assert_eq!(**watches.watchers(b"k").unwrap(), [a.clone(), b.clone()]);
    assert_eq!(watches.bytes(), 2 * (KEY_BYTES + 1) + 4 * WATCH_BYTES);
    assert_eq!(
        watches.bytes_of("a"),
        2 * (KEY_BYTES + WATCH_BYTES + 1),
        "as if no other client watched them"
    );
    assert_eq!(watches.len(), 4);
    assert!(watches.unwatch("a", b"k"));
    assert!(!watches.unwatch("a", b"k"));
    assert!(watches.unwatch("a", b"l"));
    watches.end_watches("b", |_| {});
    watches.end_watches("b", |_| {});
    assert!(watches.by_key.is_empty() && watches.by_client.is_empty());
    assert_eq!((watches.bytes(), watches.bytes_of("a")), (0, 0));
    assert_eq!(watches.len(), 0);
}

#[test]
fn a_rejected_watch_changes_nothing() {
    let mut watches = watches(0);
    assert!(
        watches
            .watch(&"a".into(), &Principal::default(), b"k")
            .is_err()
    );
    assert!(watches.by_key.is_empty());
    watches.end_watches("a", |_| {});
    assert!(watches.by_client.is_empty());
}

#[test]
fn the_watches_of_a_user_and_of_all_are_limited() {
    let mut watches = Watches::new(&ServiceConfig {
        max_watches: 3,
        users: UserLimitsMap {
            default_limits: UserLimits::parse("watches=2").unwrap(),
            ..UserLimitsMap::default()
        },
        ..ServiceConfig::default()
    });
    let (ann, bob) = (Principal::user("ann".into()), Principal::user("bob".into()));
    let (a, b, c): (Arc<str>, Arc<str>, Arc<str>) = ("a".into(), "b".into(), "c".into());
    watches.watch(&a, &ann, b"k").unwrap();
    watches.watch(&b, &ann, b"k").unwrap();
    watches.watch(&b, &ann, b"k").unwrap();
    assert_eq!(
        watches.watch(&b, &ann, b"l"),
        Err(ServiceError::QuotaExceeded)
    );
    watches.watch(&c, &bob, b"k").unwrap();
    assert_eq!(
        watches.watch(&c, &bob, b"l"),
        Err(ServiceError::QuotaExceeded),
        "all have three"
    );
    assert!(watches.unwatch("a", b"k"));
    watches.watch(&c, &bob, b"l").unwrap();
    watches.end_watches("c", |_| {});
    watches.end_watches("b", |_| {});
    assert_eq!(watches.len(), 0);
    assert!(watches.by_user.is_empty());
}

#[test]
fn patterns_count_in_the_limits_and_free_their_memory() {
    let mut watches = watches(3);
    let user = Principal::user("u".into());
    let (a, b): (Arc<str>, Arc<str>) = ("a".into(), "b".into());
    watches.watch(&a, &user, b"k1").unwrap();
    for client in [&a, &b] {
        watches.watch_pattern(client, &user, b"k*").unwrap();
        watches.watch_pattern(client, &user, b"k*").unwrap();
    }
    watches.watch_pattern(&a, &user, b"*").unwrap();
    assert_eq!(
        watches.watch_pattern(&a, &user, b"other*"),
        Err(ServiceError::Other(TOO_MANY_WATCHES.into()))
    );
    assert_eq!(watches.len(), 4);
    assert!(watches.bytes() > watches.bytes_of("b") && watches.bytes_of("b") > 0);
    let recipients = |watches: &Watches, key: &[u8]| {
        let found = watches.recipients(watches.watchers(key), key, &mut 0);
        found.map(|(clients, scope)| (clients.to_vec(), scope))
    };
    let both = vec![a.clone(), b.clone()];
    assert_eq!(
        recipients(&watches, b"k1"),
        Some((both, NotificationScope::Matching)),
        "each client once"
    );
    let only_a = Some((vec![a.clone()], NotificationScope::Matching));
    assert_eq!(recipients(&watches, b"z"), only_a);
    assert!(watches.unwatch_pattern("a", b"*") && !watches.unwatch_pattern("a", b"*"));
    assert_eq!(recipients(&watches, b"z"), None);
    let mut left = Vec::new();
    watches.end_watches("a", |unwatched| match unwatched {
        Unwatched::Key(key) => left.push(key.to_vec()),
        Unwatched::Pattern(pattern) => left.push(pattern.to_vec()),
    });
    assert_eq!(left, [b"k1"], "the other client watches the pattern");
    assert!(watches.is_notified("b", b"k1", &mut 0));
    assert!(watches.unwatch_pattern("b", b"k*"));
    assert!(!watches.is_notified("b", b"k1", &mut 0));
    assert_eq!(
        (watches.len(), watches.bytes(), watches.bytes_of("b")),
        (0, 0, 0)
    );
    assert!(watches.by_client.is_empty() && watches.by_user.is_empty());
}

#[test]
fn a_user_watches_few_patterns_with_the_same_prefix() {
    let mut watches = watches(1_000);
    let (ann, bob) = (Principal::user("ann".into()), Principal::user("bob".into()));
    let client: Arc<str> = "a".into();
    for number in 0..pattern_index::MAX_PATTERNS_PER_PREFIX {
        let pattern = format!("*{number}");
        watches
            .watch_pattern(&client, &ann, pattern.as_bytes())
            .unwrap();
    }
    let bytes = watches.bytes();
    let refused = watches.watch_pattern(&client, &ann, b"?");
    assert_eq!(refused, Err(ServiceError::QuotaExceeded));
    assert_eq!(watches.exceeded_quota.take(), Some(Quota::UserPatterns));
    assert_eq!(watches.bytes(), bytes, "a rejected watch changes nothing");
    watches.watch_pattern(&client, &ann, b"k*").unwrap();
    watches.watch_pattern(&"b".into(), &bob, b"?").unwrap();
}

#[test]
fn former_watchers_are_those_that_still_watch() {
    let mut watches = watches(10);
    let user = Principal::default();
    let [a, b]: [Arc<str>; 2] = ["a".into(), "b".into()];
    for client in [&a, &b] {
        watches.watch(client, &user, b"k").unwrap();
    }
    let former = watches.watchers(b"k").unwrap().clone();
    let left = |watches: &Watches| {
        let left = watches.still_watching(former.clone(), b"k");
        left.map(|clients| clients.to_vec())
    };
    assert_eq!(left(&watches), Some(vec![a, b.clone()]));
    watches.unwatch("a", b"k");
    assert_eq!(left(&watches), Some(vec![b]));
    watches.end_watches("b", |_| {});
    assert_eq!(left(&watches), None);
}
