//! How recent a read has to be.
use crate::harness::{Fixture, set};
use statestore_dapr::proto::state_options::StateConsistency;
use statestore_dapr::proto::{BulkGetRequest, GetRequest};
use std::sync::atomic::Ordering;

fn get(key: &str, consistency: StateConsistency) -> GetRequest {
    GetRequest {
        key: key.to_owned(),
        consistency: consistency.into(),
        ..GetRequest::default()
    }
}

#[tokio::test]
async fn only_an_eventual_get_is_sent_as_eventual() {
    let (mut fixture, eventual_reads) = Fixture::counting_eventual_reads().await;
    let sidecar = &mut fixture.sidecar;
    sidecar.set(set("key", "value")).await.unwrap();
    for (consistency, is_eventual) in [
        (StateConsistency::ConsistencyUnspecified, false),
        (StateConsistency::ConsistencyStrong, false),
        (StateConsistency::ConsistencyEventual, true),
    ] {
        let before = eventual_reads.load(Ordering::Relaxed);
        let single = sidecar.state.get(get("key", consistency)).await.unwrap();
        assert_eq!(single.into_inner().data, "value");
        let of_one = eventual_reads.load(Ordering::Relaxed);
        assert_eq!(of_one - before, usize::from(is_eventual), "{consistency:?}");
        let request = BulkGetRequest {
            items: vec![get("key", consistency)],
            ..BulkGetRequest::default()
        };
        let bulk = sidecar.state.bulk_get(request).await.unwrap().into_inner();
        assert_eq!(bulk.items[0].data, "value");
        let of_bulk = eventual_reads.load(Ordering::Relaxed);
        assert_eq!(
            of_bulk - of_one,
            usize::from(is_eventual),
            "{consistency:?}"
        );
    }
}
