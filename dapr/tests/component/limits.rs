//! Keys and values at their limits.
use crate::harness::{FIRST_WRITE, Fixture, PATIENCE, assert_invalid_etag, delete, set, set_if};
use bytes::Bytes;
use statestore_dapr::proto::transactional_state_operation::Request as Operation;
use statestore_dapr::proto::{
    BulkDeleteRequest, BulkGetRequest, BulkGetRequestOptions, BulkSetRequest,
    BulkSetRequestOptions, DeleteRequest, GetRequest, SetRequest,
};
use tonic::Code;

#[tokio::test]
async fn keys_have_any_characters() {
    let mut fixture = Fixture::start().await;
    let client = fixture.client().await;
    let sidecar = &mut fixture.sidecar;
    let long = "k".repeat(1000);
    for key in [
        "mystore||k1",
        "||",
        "a\0b",
        "\u{7f}",
        "+/#$",
        "schlüssel 🔑",
        "a\r\nb",
        &long,
    ] {
        sidecar.set(set(key, key)).await.unwrap();
        assert_eq!(sidecar.value(key).await.as_deref(), Some(key));
        // No prefix is put before it.
        assert_eq!(client.get(key).await.unwrap().unwrap().value, key);
        let delete = DeleteRequest {
            key: key.to_owned(),
            ..DeleteRequest::default()
        };
        sidecar.delete(delete).await.unwrap();
        assert_eq!(client.get(key).await.unwrap(), None);
    }
}

#[tokio::test]
async fn an_invalid_key_is_rejected() {
    let mut fixture = Fixture::start().await;
    let sidecar = &mut fixture.sidecar;
    let status = sidecar.set(set("", "value")).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    let status = sidecar.try_get("").await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    let status = sidecar.delete(DeleteRequest::default()).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
}

#[tokio::test]
async fn keys_up_to_the_limit_are_accepted_and_longer_ones_are_invalid() {
    for mut fixture in Fixture::of_both_kinds(&[]).await {
        let sidecar = &mut fixture.sidecar;
        let longest = "k".repeat(16_384);
        sidecar.set(set(&longest, "value")).await.unwrap();
        assert_eq!(sidecar.value(&longest).await.as_deref(), Some("value"));
        let etag = sidecar.etag(&longest).await;
        let too_long = "k".repeat(16_385);
        let fenced = set_if(&too_long, "value", Some(&etag), FIRST_WRITE);
        for status in [
            sidecar.set(set(&too_long, "value")).await.unwrap_err(),
            sidecar.set(fenced).await.unwrap_err(),
            sidecar.try_get(&too_long).await.unwrap_err(),
            sidecar.delete(delete(&too_long)).await.unwrap_err(),
            sidecar
                .transact(vec![Operation::Set(set(&too_long, "value"))])
                .await
                .unwrap_err(),
        ] {
            assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
            assert!(status.message().contains("16384 bytes"), "{status:?}");
        }
    }
}

#[tokio::test]
async fn values_have_any_size_up_to_a_limit() {
    let mut fixture = Fixture::start().await;
    let sidecar = &mut fixture.sidecar;
    sidecar.set(set("empty", "")).await.unwrap();
    let entry = sidecar.get("empty").await;
    assert!(entry.data.is_empty() && entry.etag.is_some());
    // The server takes packets of 16 MiB.
    for size in [1, 4 << 20, (16 << 20) - 4096] {
        let value = Bytes::from(vec![0xA5; size]);
        let request = SetRequest {
            value: value.clone(),
            ..set("large", "")
        };
        sidecar.set(request).await.unwrap();
        assert!(sidecar.get("large").await.data == value, "{size}");
    }
    let request = SetRequest {
        value: vec![0; 16 << 20].into(),
        ..set("large", "")
    };
    let status = sidecar.set(request).await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}");
    assert!(status.details().is_empty(), "{status:?}");
    let request = SetRequest {
        value: vec![0; 129 << 20].into(),
        ..set("large", "")
    };
    let status = sidecar.set(request).await.unwrap_err();
    assert_eq!(status.code(), Code::OutOfRange, "{status:?}");
    assert_eq!(sidecar.get("large").await.data.len(), (16 << 20) - 4096);
}

#[tokio::test]
async fn a_value_that_is_too_large_for_the_store_is_refused() {
    let mut fixture = Fixture::start_with(&[("maxValueBytes", "1000")]).await;
    let sidecar = &mut fixture.sidecar;
    let status = sidecar
        .set(set("key", &"v".repeat(1001)))
        .await
        .unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}");
    assert_eq!(sidecar.value("key").await, None);
}

#[tokio::test]
async fn bulk_requests_of_any_length_are_served() {
    const COUNT: usize = 2_000;
    let mut fixture = Fixture::start().await;
    let sidecar = &mut fixture.sidecar;
    for parallelism in [0, 1, 10, i64::MAX, i64::MIN] {
        let keys: Vec<_> = (0..COUNT)
            .map(|number| format!("{parallelism}/{number}"))
            .collect();
        let items = keys.iter().map(|key| set(key, key)).collect();
        let options = Some(BulkSetRequestOptions { parallelism });
        let all = sidecar.state.bulk_set(BulkSetRequest { items, options });
        tokio::time::timeout(PATIENCE, all).await.unwrap().unwrap();
        let items = keys.iter().map(|key| GetRequest {
            key: key.clone(),
            ..GetRequest::default()
        });
        let request = BulkGetRequest {
            items: items.collect(),
            options: None,
        };
        let got = sidecar
            .state
            .bulk_get(request)
            .await
            .unwrap()
            .into_inner()
            .items;
        assert!(got.iter().map(|item| &item.key).eq(&keys), "in their order");
        assert!(
            got.iter()
                .all(|item| item.data == item.key && item.error.is_empty())
        );
        let items = keys.iter().map(|key| DeleteRequest {
            key: key.clone(),
            ..DeleteRequest::default()
        });
        let request = BulkDeleteRequest {
            items: items.collect(),
            options: None,
        };
        sidecar.state.bulk_delete(request).await.unwrap();
        assert_eq!(sidecar.value(&keys[0]).await, None);
    }
}

#[tokio::test]
async fn an_invalid_bulk_item_does_not_block_the_others() {
    let mut fixture = Fixture::start().await;
    let sidecar = &mut fixture.sidecar;
    let items = vec![
        set("one", "1"),
        set("", "bad"),
        set("two", "2"),
        set("two", "3"),
    ];
    let request = BulkSetRequest {
        items,
        options: None,
    };
    let status = sidecar.state.bulk_set(request).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    assert!(
        status.message().starts_with("1 of 4 writes failed"),
        "{status:?}"
    );
    assert_eq!(sidecar.value("one").await.as_deref(), Some("1"));
    assert_eq!(sidecar.value("two").await.as_deref(), Some("3"));
    let items = ["one", ""].map(|key| GetRequest {
        key: key.to_owned(),
        ..GetRequest::default()
    });
    let request = BulkGetRequest {
        items: items.to_vec(),
        options: None,
    };
    let items = sidecar
        .state
        .bulk_get(request)
        .await
        .unwrap()
        .into_inner()
        .items;
    assert_eq!(items[0].data, "1");
    assert!(!items[1].error.is_empty() && items[1].etag.is_none());
}

#[tokio::test]
async fn a_malformed_etag_in_a_bulk_is_invalid() {
    let mut fixture = Fixture::start().await;
    let sidecar = &mut fixture.sidecar;
    sidecar.set(set("key", "value")).await.unwrap();
    let stale = sidecar.etag("key").await;
    sidecar.set(set("key", "newer")).await.unwrap();
    let items = vec![
        set_if("key", "new", Some(&stale), FIRST_WRITE),
        set_if("key", "new", Some("bad-etag"), FIRST_WRITE),
    ];
    let options = None;
    let request = BulkSetRequest { items, options };
    let status = sidecar.state.bulk_set(request).await.unwrap_err();
    assert!(status.message().starts_with("2 of 2"), "{status:?}");
    assert_invalid_etag(Err(status));
    assert_eq!(sidecar.value("key").await.as_deref(), Some("newer"));
}

#[tokio::test]
async fn a_bulk_response_is_limited_in_size() {
    const LEN: usize = 8 << 20;
    let mut fixture = Fixture::start().await;
    let sidecar = &mut fixture.sidecar;
    let request = SetRequest {
        value: vec![0xA5; LEN].into(),
        ..set("large", "")
    };
    sidecar.set(request).await.unwrap();
    // The server limits the bytes in progress of each client.
    let options = Some(BulkGetRequestOptions { parallelism: 2 });
    let read = |count| BulkGetRequest {
        items: vec![
            GetRequest {
                key: "large".to_owned(),
                ..GetRequest::default()
            };
            count
        ],
        options,
    };
    let all = sidecar.state.bulk_get(read(60)).await.map(drop);
    let status = all.unwrap_err();
    assert_eq!(status.code(), Code::OutOfRange, "{status:?}");
    assert!(status.message().contains("fewer keys"), "{status:?}");
    // The component has read what it can send, and not everything that was requested.
    let most = fixture.process.peak_memory();
    assert!(most < 40 * LEN, "{most} bytes");
    let items = sidecar.state.bulk_get(read(2)).await.unwrap().into_inner();
    assert!(items.items.iter().all(|item| item.data.len() == LEN));
}
