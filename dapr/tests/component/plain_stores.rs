//! A store with the plain protocol: what it cannot do is made of what it can.
use crate::harness::{
    FIRST_WRITE, Fixture, UNSPECIFIED, assert_mismatch, delete, delete_if, set, set_for, set_if,
};
use statestore_dapr::proto::BulkSetRequest;
use statestore_dapr::proto::FeaturesRequest;
use statestore_dapr::proto::MultiMaxSizeRequest;
use statestore_dapr::proto::transactional_state_operation::Request as Operation;
use statestore_dapr::proto::transactional_store_multi_max_size_client::TransactionalStoreMultiMaxSizeClient;
use tonic::Code;

#[tokio::test]
async fn all_features_are_reported() {
    let mut fixture = Fixture::plain(&[]).await;
    let sidecar = &mut fixture.sidecar;
    let features = sidecar.state.features(FeaturesRequest {}).await.unwrap();
    let all = ["ETAG", "TRANSACTIONAL", "TTL"];
    assert_eq!(features.into_inner().features, all);
    let mut sizes = TransactionalStoreMultiMaxSizeClient::new(sidecar.service.clone());
    let most = sizes.multi_max_size(MultiMaxSizeRequest {}).await.unwrap();
    assert_eq!(most.into_inner().max_size, 1_000);
    sidecar.set(set_for("key", "value", "100")).await.unwrap();
    assert!(sidecar.get("key").await.metadata.is_empty());
}

#[tokio::test]
async fn an_etag_write_fences_other_clients_but_not_the_component() {
    let mut fixture = Fixture::plain(&[]).await;
    let client = fixture.client().await;
    let sidecar = &mut fixture.sidecar;
    sidecar.set(set("key", "1")).await.unwrap();
    client.set("key", "2").await.unwrap();
    let etag = sidecar.etag("key").await;
    sidecar
        .set(set_if("key", "3", Some(&etag), UNSPECIFIED))
        .await
        .unwrap();
    let error = client.set("key", "4").await.unwrap_err();
    assert_eq!(error.kind(), statestore::ErrorKind::FencingTokenRequired);
    sidecar.set(set_for("key", "5", "100")).await.unwrap();
    assert_mismatch(sidecar.set(set_if("key", "6", None, FIRST_WRITE)).await);
    assert_eq!(sidecar.value("key").await.as_deref(), Some("5"));
    sidecar.delete(delete("key")).await.unwrap();
    assert_eq!(sidecar.value("key").await, None);
    sidecar
        .set(set_if("key", "7", None, FIRST_WRITE))
        .await
        .unwrap();
    assert_mismatch(
        sidecar
            .delete(delete_if("key", Some(&etag), FIRST_WRITE))
            .await,
    );
    assert_eq!(sidecar.value("key").await.as_deref(), Some("7"));
}

#[tokio::test]
async fn the_last_bulk_item_on_a_key_wins() {
    let mut fixture = Fixture::plain(&[]).await;
    let sidecar = &mut fixture.sidecar;
    sidecar.set(set("key", "0")).await.unwrap();
    let etag = sidecar.etag("key").await;
    // From now on, a write of the key is more than one request.
    sidecar
        .set(set_if("key", "1", Some(&etag), UNSPECIFIED))
        .await
        .unwrap();
    for round in 0..5 {
        let values: Vec<_> = (0..20).map(|number| format!("{round}/{number}")).collect();
        let items = values.iter().map(|value| set("key", value)).collect();
        let options = None;
        let request = BulkSetRequest { items, options };
        sidecar.state.bulk_set(request).await.unwrap();
        assert_eq!(sidecar.value("key").await.as_ref(), values.last());
    }
}

#[tokio::test]
async fn a_transaction_has_no_key_that_expires_within_half_a_minute() {
    let mut fixture = Fixture::plain(&[]).await;
    let sidecar = &mut fixture.sidecar;
    let soon = |ttl: &str| {
        vec![
            Operation::Set(set("other", "value")),
            Operation::Set(set_for("key", "value", ttl)),
        ]
    };
    let status = sidecar.transact(soon("29")).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
    assert_eq!(sidecar.value("other").await, None);
    sidecar.transact(soon("30")).await.unwrap();
    assert_eq!(sidecar.value("key").await.as_deref(), Some("value"));
}
