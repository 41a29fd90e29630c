//! Stored values, as other clients read them: the bytes, and optional content types.
use crate::harness::{Fixture, map, set};
use statestore_dapr::proto::SetRequest;

fn typed(key: &str, value: &str, content_type: &str) -> SetRequest {
    SetRequest {
        content_type: content_type.to_owned(),
        ..set(key, value)
    }
}

#[tokio::test]
async fn other_clients_read_and_write_the_same_bytes() {
    let mut fixture = Fixture::start().await;
    let client = fixture.client().await;
    let sidecar = &mut fixture.sidecar;
    for content_type in ["", "application/json", "text/plain"] {
        sidecar
            .set(typed("key", r#"{"a":1}"#, content_type))
            .await
            .unwrap();
        let stored = client.get("key").await.unwrap().unwrap();
        assert_eq!(stored.value, r#"{"a":1}"#);
        let entry = sidecar.get("key").await;
        assert_eq!(entry.content_type, "");
        assert_eq!(entry.etag.unwrap().value, stored.version.to_string());
    }
    client.set("key", "from outside").await.unwrap();
    assert_eq!(sidecar.value("key").await.as_deref(), Some("from outside"));
}

#[tokio::test]
async fn content_types_are_kept_if_configured() {
    let mut fixture = Fixture::start_with(&[("keepContentType", "true")]).await;
    let client = fixture.client().await;
    let sidecar = &mut fixture.sidecar;
    sidecar
        .set(typed("key", "value", "text/plain"))
        .await
        .unwrap();
    let entry = sidecar.get("key").await;
    assert_eq!(
        (&entry.data[..], entry.content_type.as_str()),
        (&b"value"[..], "text/plain")
    );
    assert_ne!(client.get("key").await.unwrap().unwrap().value, "value");
    let mut request = set("key", "value");
    request.metadata = map(&[("contentType", "a/b")]);
    sidecar.set(request).await.unwrap();
    assert_eq!(sidecar.get("key").await.content_type, "a/b");
    sidecar.set(set("key", "value")).await.unwrap();
    assert_eq!(sidecar.get("key").await.content_type, "");
    assert_eq!(client.get("key").await.unwrap().unwrap().value, "value");
}
