//! All doors lead to the same store.
use crate::tls_fixture::TlsFixture;
use statestore::Client;

#[tokio::test]
async fn every_kind_of_listener_serves_the_client_library() {
    let files = TlsFixture::new();
    let socket = files.path("store.sock");
    let unix = format!("unix://{}", socket.display());
    let listen = [
        "tcp://127.0.0.1:0",
        "tls://127.0.0.1:0",
        "ws://127.0.0.1:0",
        "wss://127.0.0.1:0",
        &unix,
    ];
    let server = files.start(&listen);
    assert_eq!(server.addresses().len(), 4);
    assert!(server.url().starts_with("mqtt://127.0.0.1:"));
    let mut last = None;
    for (listening, asked) in server.bound_addresses().iter().zip(listen) {
        let begin = asked.strip_suffix('0').unwrap_or(asked);
        assert!(listening.to_string().starts_with(begin), "{listening}");
        let client = Client::connect(files.settings(&listening.url())).await;
        let client = client.unwrap_or_else(|error| panic!("{listening}: {error}"));
        // Larger than a frame and than a record of TLS.
        let value = vec![u8::try_from(last.iter().len()).unwrap(); 300_000];
        if let Some(last) = last.replace(value.clone()) {
            let entry = client.get("key").await.unwrap().unwrap();
            assert!(entry.value == last, "{listening}");
        }
        client.set("key", value).await.unwrap();
        client.close().await;
    }
    assert!(socket.exists());
    tokio::task::spawn_blocking(|| server.stop())
        .await
        .unwrap()
        .unwrap();
    assert!(!socket.exists());
}
