use super::super::*;
use crate::hub::HubConfig;
use crate::service::{Service, ServiceConfig};
use crate::storage::{CommitterOptions, MemoryStorage};
use statestore_protocol::mqtt::{Connect, PacketId, PublishHeader};
use statestore_protocol::topic;
use std::pin::pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::task::{LocalSet, spawn_local};

async fn join(driver: &Rc<Driver>, client_id: &str) -> DuplexStream {
    let (mut near, far) = tokio::io::duplex(64 * 1024);
    let peer = SocketAddr::from(([127, 0, 0, 1], 1));
    spawn_local(Rc::clone(driver).serve(far, peer));
    let mut connect = BytesMut::new();
    let packet = Connect {
        client_id: client_id.into(),
        clean_start: true,
        ..Connect::default()
    };
    packet.encode(u32::MAX, &mut connect).unwrap();
    near.write_all(&connect).await.unwrap();
    hear(&mut near).await;
    near
}

async fn ask(client: &mut DuplexStream, payload: &'static [u8]) {
    let header = PublishHeader {
        topic: topic::REQUEST,
        packet_id: PacketId::new(1),
        response_topic: Some("answers"),
        correlation_data: Some(b"1"),
        user_properties: &[("__ts", "1:0:somebody")],
        ..PublishHeader::default()
    };
    let mut request = BytesMut::new();
    let write = |out: &mut BytesMut| out.extend_from_slice(payload);
    header
        .encode(u32::MAX, &mut request, payload.len(), write)
        .unwrap();
    client.write_all(&request).await.unwrap();
}

async fn hear(client: &mut DuplexStream) {
    assert_ne!(client.read(&mut [0; 1024]).await.unwrap(), 0);
}

#[tokio::test]
async fn somebody_else_is_answered_while_many_are_told() {
    const WATCHERS: usize = 2_000;
    let hub = Hub::new(
        HubConfig::default(),
        Service::embedded(ServiceConfig::default()),
    );
    let driver = Rc::new(Driver::new(hub, Clock::start()));
    let options = CommitterOptions::default();
    let mut committer = Committer::start(Box::new(MemoryStorage), options).unwrap();
    let told_before = async {
        let mut watchers = Vec::new();
        for number in 0..WATCHERS {
            let mut watcher = join(&driver, &format!("watcher-{number:04}")).await;
            ask(&mut watcher, b"*2\r\n$9\r\nKEYNOTIFY\r\n$3\r\nkey\r\n").await;
            hear(&mut watcher).await;
            watchers.push(watcher);
        }
        let (mut writer, mut other) = (join(&driver, "writer").await, join(&driver, "other").await);
        ask(&mut writer, b"*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$1\r\nv\r\n").await;
        // It was not among those who are told before anybody else has a turn.
        hear(&mut watchers[200]).await;
        ask(&mut other, b"*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n").await;
        hear(&mut other).await;
        let mut told = 0;
        for watcher in &mut watchers {
            let mut byte = [0];
            let mut read = pin!(tokio::task::unconstrained(watcher.read(&mut byte)));
            let look = |context: &mut Context<'_>| Poll::Ready(read.as_mut().poll(context));
            told += usize::from(poll_fn(look).await.is_ready());
        }
        told
    };
    let keep = driver.keep(&mut committer);
    let served = async {
        tokio::select! {
            told = told_before => told,
            failed = keep => unreachable!("{failed:?}"),
        }
    };
    let told = LocalSet::new().run_until(served).await;
    assert!(told < WATCHERS / 2, "{told} watchers were told first");
}
