//! Transactions: everything or nothing, in order.
use crate::harness::{
    FIRST_WRITE, Fixture, LAST_WRITE, UNSPECIFIED, assert_mismatch, delete, delete_if, set,
    set_for, set_if,
};
use statestore_dapr::proto::transactional_state_operation::Request as Operation;
use statestore_dapr::proto::transactional_store_multi_max_size_client::TransactionalStoreMultiMaxSizeClient;
use statestore_dapr::proto::{
    FeaturesRequest, MultiMaxSizeRequest, TransactionalStateOperation, TransactionalStateRequest,
};
use tonic::Code;

#[tokio::test]
async fn features_are_reported() {
    let mut fixture = Fixture::start().await;
    let features = fixture
        .sidecar
        .state
        .features(FeaturesRequest {})
        .await
        .unwrap();
    assert_eq!(
        features.into_inner().features,
        ["ETAG", "TRANSACTIONAL", "TTL"]
    );
    let mut sizes = TransactionalStoreMultiMaxSizeClient::new(fixture.sidecar.service.clone());
    let most = sizes.multi_max_size(MultiMaxSizeRequest {}).await.unwrap();
    assert_eq!(most.into_inner().max_size, 10_000);
}

#[tokio::test]
async fn operations_apply_in_their_order() {
    let fixtures = Fixture::of_both_kinds(&[]).await;
    for (mut fixture, tells_expiry) in fixtures.into_iter().zip([true, false]) {
        let sidecar = &mut fixture.sidecar;
        sidecar.set(set("old", "value")).await.unwrap();
        let etag = sidecar.etag("old").await;
        sidecar
            .transact(vec![
                Operation::Set(set("key", "1")),
                Operation::Set(set("key", "2")),
                Operation::Set(set("gone", "1")),
                Operation::Delete(delete("gone")),
                Operation::Delete(delete_if("old", Some(&etag), FIRST_WRITE)),
                Operation::Set(set_if("old", "again", None, FIRST_WRITE)),
                Operation::Set(set_if("key", "3", Some("bad-etag"), LAST_WRITE)),
                Operation::Delete(delete("absent")),
                Operation::Set(set_for("short", "value", "100")),
            ])
            .await
            .unwrap();
        assert_eq!(sidecar.value("key").await.as_deref(), Some("3"));
        assert_eq!(sidecar.value("gone").await, None);
        assert_eq!(sidecar.value("old").await.as_deref(), Some("again"));
        let short = sidecar.get("short").await;
        assert_eq!(short.data, "value");
        assert_eq!(short.metadata.contains_key("ttlExpireTime"), tells_expiry);
    }
}

#[tokio::test]
async fn an_etag_fails_after_a_change_in_the_same_transaction() {
    for mut fixture in Fixture::of_both_kinds(&[]).await {
        let sidecar = &mut fixture.sidecar;
        sidecar.set(set("key", "old")).await.unwrap();
        let etag = sidecar.etag("key").await;
        let twice = vec![
            Operation::Set(set_if("key", "1", Some(&etag), UNSPECIFIED)),
            Operation::Set(set_if("key", "2", Some(&etag), UNSPECIFIED)),
        ];
        assert_mismatch(sidecar.transact(twice).await);
        assert_eq!(sidecar.value("key").await.as_deref(), Some("old"));
        assert_eq!(sidecar.etag("key").await, etag);
    }
}

#[tokio::test]
async fn an_invalid_transaction_changes_nothing() {
    for mut fixture in Fixture::of_both_kinds(&[]).await {
        let sidecar = &mut fixture.sidecar;
        sidecar.transact(Vec::new()).await.unwrap();
        for wrong in [
            Operation::Set(set("", "value")),
            Operation::Delete(delete("")),
            Operation::Set(set_for("key", "value", "foo")),
        ] {
            let all = vec![Operation::Set(set("other", "value")), wrong];
            let status = sidecar.transact(all).await.unwrap_err();
            assert_eq!(status.code(), Code::InvalidArgument);
            assert!(
                status.message().starts_with("operation 2 of 2: "),
                "{status:?}"
            );
        }
        let nothing = TransactionalStateRequest {
            operations: vec![TransactionalStateOperation { request: None }],
            ..TransactionalStateRequest::default()
        };
        let status = sidecar.transactions.transact(nothing).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument);
        assert_eq!(sidecar.value("other").await, None);
    }
}

#[tokio::test]
async fn a_transaction_is_limited_to_ten_thousand_operations() {
    let mut fixture = Fixture::start().await;
    let sidecar = &mut fixture.sidecar;
    let many = |count: usize| {
        let set = |number| Operation::Set(set(&format!("{count}/{number}"), "value"));
        (0..count).map(set).collect::<Vec<_>>()
    };
    sidecar.transact(many(10_000)).await.unwrap();
    assert_eq!(sidecar.value("10000/9999").await.as_deref(), Some("value"));
    let status = sidecar.transact(many(10_001)).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    assert!(status.message().contains("10000"), "{status:?}");
    assert_eq!(sidecar.value("10001/0").await, None);
}
