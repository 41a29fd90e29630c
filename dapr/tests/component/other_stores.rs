//! A store with the plain protocol: what it cannot do is refused, and what it can do is done.
use crate::harness::{
    FIRST_WRITE, LAST_WRITE, Process, Sidecar, UNSPECIFIED, assert_mismatch, delete, delete_if,
    set, set_for, set_if,
};
use statestore_dapr::proto::FeaturesRequest;
use statestore_dapr::proto::transactional_state_operation::Request as Operation;
use statestored::RunningServer;
use statestored::config::Config;
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy};
use tokio::net::{TcpListener, TcpStream};
use tonic::Code;

const QUESTION: &[u8] = b"$4\r\nCAPS\r\n";
const UNKNOWN: &[u8] = b"$4\r\nNONE\r\n";

/// The address at which a server does not understand what its extensions are asked for.
async fn without_extensions(server: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((near, _)) = listener.accept().await {
            let far = TcpStream::connect(server).await.unwrap();
            let (mut from_near, mut to_near) = near.into_split();
            let (mut from_far, mut to_far) = far.into_split();
            tokio::spawn(async move { copy(&mut from_far, &mut to_near).await });
            tokio::spawn(async move {
                let mut bytes = vec![0; 1 << 16];
                loop {
                    let len = from_near.read(&mut bytes).await.unwrap_or(0);
                    if len == 0 {
                        return;
                    }
                    let sent = &mut bytes[..len];
                    if let Some(at) = sent.windows(QUESTION.len()).position(|it| it == QUESTION) {
                        sent[at..at + QUESTION.len()].copy_from_slice(UNKNOWN);
                    }
                    to_far.write_all(sent).await.unwrap();
                }
            });
        }
    });
    address
}

#[tokio::test]
async fn what_a_store_cannot_do_is_refused() {
    let store = RunningServer::start(Config::in_memory()).unwrap();
    let address = without_extensions(store.addresses()[0]).await;
    let folder = tempfile::tempdir().unwrap();
    let process = Process::start(&folder.path().join("component.sock"), &[]);
    let mut sidecar = Sidecar::connect(&process.socket, "plain").await;
    let url = format!("mqtt://{address}");
    sidecar.init(&[("url", &url)]).await.unwrap();
    let features = sidecar.state.features(FeaturesRequest {}).await.unwrap();
    assert_eq!(features.into_inner().features, ["TTL"]);

    sidecar.set(set("key", "value")).await.unwrap();
    sidecar.set(set_for("key", "value", "100")).await.unwrap();
    assert!(sidecar.get("key").await.metadata.is_empty());
    let etag = sidecar.etag("key").await;
    let refused = [
        sidecar
            .set(set_if("key", "new", Some(&etag), UNSPECIFIED))
            .await,
        sidecar
            .set(set_if("key", "new", Some(&etag), FIRST_WRITE))
            .await,
        sidecar
            .delete(delete_if("key", Some(&etag), FIRST_WRITE))
            .await,
        sidecar
            .transact(vec![Operation::Set(set("key", "new"))])
            .await,
    ];
    for refused in refused {
        let status = refused.unwrap_err();
        assert_eq!(status.code(), Code::Unimplemented, "{status:?}");
    }
    assert_eq!(sidecar.value("key").await.as_deref(), Some("value"));

    assert_mismatch(sidecar.set(set_if("key", "new", None, FIRST_WRITE)).await);
    sidecar
        .set(set_if("key", "new", Some(&etag), LAST_WRITE))
        .await
        .unwrap();
    sidecar.set(set("key", "newer")).await.unwrap();
    sidecar.delete(delete("key")).await.unwrap();
    sidecar
        .set(set_if("key", "first", None, FIRST_WRITE))
        .await
        .unwrap();
    assert_eq!(sidecar.value("key").await.as_deref(), Some("first"));
}
