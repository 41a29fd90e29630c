//! First-write and last-write, with and without an `ETag`.
use crate::harness::{
    FIRST_WRITE, Fixture, LAST_WRITE, UNSPECIFIED, assert_invalid_etag, assert_mismatch, delete,
    delete_if, set, set_if,
};
use futures_util::future::join_all;

#[tokio::test]
async fn writes_follow_the_table() {
    for mut sidecar in Fixture::of_both_kinds(&[]).await {
        let sidecar = &mut sidecar.sidecar;
        // Whether there is an entry, which ETag is sent, and whether the write applies for unspecified, first-write and last-write.
        for (is_there, sent, applies) in [
            (false, None, [true, true, true]),
            (false, Some(""), [true, true, true]),
            (false, Some("former"), [false, false, true]),
            (false, Some("bad-etag"), [false, false, true]),
            (true, None, [true, false, true]),
            (true, Some(""), [true, false, true]),
            (true, Some("current"), [true, true, true]),
            (true, Some("former"), [false, false, true]),
            (true, Some("bad-etag"), [false, false, true]),
        ] {
            for (concurrency, applies) in [UNSPECIFIED, FIRST_WRITE, LAST_WRITE]
                .into_iter()
                .zip(applies)
            {
                let case = format!("{is_there} {sent:?} {concurrency:?}");
                sidecar.set(set("key", "former")).await.unwrap();
                let former = sidecar.etag("key").await;
                sidecar.delete(delete("key")).await.unwrap();
                if is_there {
                    sidecar.set(set("key", "old")).await.unwrap();
                }
                let before = sidecar.value("key").await;
                let current = sidecar.get("key").await.etag.map(|etag| etag.value);
                let etag = match sent {
                    Some("former") => Some(former.as_str()),
                    Some("current") => current.as_deref(),
                    other => other,
                };
                let result = sidecar.set(set_if("key", "new", etag, concurrency)).await;
                let after = sidecar.value("key").await;
                if applies {
                    assert!(result.is_ok(), "{case}: {result:?}");
                    assert_eq!(after.as_deref(), Some("new"), "{case}");
                } else {
                    if sent == Some("bad-etag") {
                        assert_invalid_etag(result);
                    } else {
                        assert_mismatch(result);
                    }
                    assert_eq!(after, before, "{case}");
                }
            }
        }
    }
}

#[tokio::test]
async fn deletions_follow_the_table() {
    for mut fixture in Fixture::of_both_kinds(&[]).await {
        let sidecar = &mut fixture.sidecar;
        for (is_there, sent, applies) in [
            (false, None, [true, true, true]),
            (false, Some("former"), [false, false, true]),
            (false, Some("bad-etag"), [false, false, true]),
            (true, None, [true, true, true]),
            (true, Some(""), [true, true, true]),
            (true, Some("current"), [true, true, true]),
            (true, Some("former"), [false, false, true]),
            (true, Some("bad-etag"), [false, false, true]),
        ] {
            for (concurrency, applies) in [UNSPECIFIED, FIRST_WRITE, LAST_WRITE]
                .into_iter()
                .zip(applies)
            {
                let case = format!("{is_there} {sent:?} {concurrency:?}");
                sidecar.set(set("key", "former")).await.unwrap();
                let former = sidecar.etag("key").await;
                sidecar.delete(delete("key")).await.unwrap();
                if is_there {
                    sidecar.set(set("key", "old")).await.unwrap();
                }
                let before = sidecar.value("key").await;
                let current = sidecar.get("key").await.etag.map(|etag| etag.value);
                let etag = match sent {
                    Some("former") => Some(former.as_str()),
                    Some("current") => current.as_deref(),
                    other => other,
                };
                let result = sidecar.delete(delete_if("key", etag, concurrency)).await;
                let after = sidecar.value("key").await;
                if applies {
                    assert!(result.is_ok(), "{case}: {result:?}");
                    assert_eq!(after, None, "{case}");
                } else {
                    if sent == Some("bad-etag") {
                        assert_invalid_etag(result);
                    } else {
                        assert_mismatch(result);
                    }
                    assert_eq!(after, before, "{case}");
                }
            }
        }
    }
}

#[tokio::test]
async fn one_of_a_hundred_first_writes_wins() {
    const KEYS: usize = 100;
    const WRITERS: usize = 100;
    for mut fixture in Fixture::of_both_kinds(&[("requestTimeout", "60s")]).await {
        let write = |number: usize| {
            let mut sidecar = fixture.sidecar.clone();
            async move {
                let key = format!("key-{}", number % KEYS);
                let value = number.to_string();
                let written = sidecar.set(set_if(&key, &value, None, FIRST_WRITE)).await;
                match written {
                    Ok(()) => Some((key, value)),
                    error => {
                        assert_mismatch(error);
                        None
                    }
                }
            }
        };
        let won: Vec<_> = join_all((0..KEYS * WRITERS).map(write)).await;
        let won: Vec<_> = won.into_iter().flatten().collect();
        assert_eq!(won.len(), KEYS);
        for (key, value) in won {
            assert_eq!(fixture.sidecar.value(&key).await, Some(value));
        }
    }
}

#[tokio::test]
async fn one_of_many_writes_with_the_same_etag_wins() {
    for mut fixture in Fixture::of_both_kinds(&[]).await {
        fixture.sidecar.set(set("key", "0")).await.unwrap();
        for round in 1..=20 {
            let etag = fixture.sidecar.etag("key").await;
            let write = |number: usize| {
                let (mut sidecar, etag) = (fixture.sidecar.clone(), etag.clone());
                async move {
                    let value = format!("{round}/{number}");
                    let written = sidecar
                        .set(set_if("key", &value, Some(&etag), UNSPECIFIED))
                        .await;
                    match written {
                        Ok(()) => Some(value),
                        error => {
                            assert_mismatch(error);
                            None
                        }
                    }
                }
            };
            let won: Vec<_> = join_all((0..50).map(write))
                .await
                .into_iter()
                .flatten()
                .collect();
            assert_eq!(won.len(), 1, "round {round}");
            assert_eq!(fixture.sidecar.value("key").await, won.into_iter().next());
        }
    }
}
