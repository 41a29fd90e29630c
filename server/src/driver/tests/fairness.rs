use super::super::*;
use super::packet;
use crate::config::Options;
use crate::running_config::{PolicyUpdate, ReloadedConfig};
use statestore_protocol::mqtt::{Connect, Packet, PacketId, PubAck, PublishHeader};
use statestore_protocol::topic;
use statestored_access::{Authenticator, Policy};
use statestored_broker::hub::{HubConfig, HubLimits};
use statestored_storage::{CommitterOptions, MemoryStorage};
use statestored_store::service::{Service, ServiceConfig};
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::task::{LocalSet, spawn_local};

async fn join(driver: &Rc<Driver>, client_id: &str) -> DuplexStream {
    let (mut near, far) = tokio::io::duplex(64 * 1024);
    let peer = SocketAddr::from(([127, 0, 0, 1], 1));
    spawn_local(Rc::clone(driver).serve(far, peer.into(), ()));
    let mut connect = BytesMut::new();
    let packet = Connect {
        client_id: client_id.into(),
        clean_start: true,
        ..Connect::default()
    };
    packet.encode(u32::MAX, &mut connect).unwrap();
    near.write_all(&connect).await.unwrap();
    receive_response(&mut near).await;
    near
}

async fn send_request(client: &mut DuplexStream, payload: &'static [u8]) {
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

async fn receive_response(client: &mut DuplexStream) {
    assert_ne!(client.read(&mut [0; 1024]).await.unwrap(), 0);
}

/// Acknowledges a notification, and counts it.
async fn watch(mut client: DuplexStream, told: Rc<Cell<usize>>) {
    let mut input = BytesMut::new();
    let Packet::Publish(notification) = packet(&mut client, &mut input).await else {
        unreachable!("its watch was answered before");
    };
    let mut acknowledgement = BytesMut::new();
    PubAck::success(notification.packet_id().unwrap())
        .encode(u32::MAX, &mut acknowledgement)
        .unwrap();
    client.write_all(&acknowledgement).await.unwrap();
    told.set(told.get() + 1);
    std::future::pending::<()>().await;
}

#[tokio::test]
async fn other_clients_are_served_during_a_large_fanout() {
    const WATCHERS: usize = 3_000;
    const FIRST: usize = 1_000;
    // A few slices of the work later.
    const SOON: usize = 1_500;
    let hub = Hub::new(
        HubConfig::default(),
        Service::embedded(ServiceConfig::default()),
    );
    let driver = Rc::new(Driver::new(hub, Clock::start()));
    let options = CommitterOptions::default();
    let mut committer = Committer::start(Box::new(MemoryStorage), options).unwrap();
    let told_before = async {
        let told = Rc::new(Cell::new(0));
        for number in 0..WATCHERS {
            let mut watcher = join(&driver, &format!("watcher-{number:04}")).await;
            send_request(&mut watcher, b"*2\r\n$9\r\nKEYNOTIFY\r\n$3\r\nkey\r\n").await;
            receive_response(&mut watcher).await;
            spawn_local(watch(watcher, Rc::clone(&told)));
        }
        let (mut writer, mut other) = (join(&driver, "writer").await, join(&driver, "other").await);
        send_request(&mut writer, b"*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$1\r\nv\r\n").await;
        while told.get() < FIRST {
            tokio::task::yield_now().await;
        }
        send_request(&mut other, b"*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n").await;
        receive_response(&mut other).await;
        let before = told.get();
        while told.get() < WATCHERS {
            tokio::task::yield_now().await;
        }
        before
    };
    let keep = driver.run_maintenance(&mut committer);
    let served = async {
        tokio::select! {
            told = told_before => told,
            failed = keep => unreachable!("{failed:?}"),
        }
    };
    let told = LocalSet::new().run_until(served).await;
    assert!(told < SOON, "{told} watchers were told first");
}

#[tokio::test]
async fn other_clients_are_served_during_a_policy_change() {
    const SESSIONS: usize = 1_000;
    const RULES: &str = "
rules:
- principals: {clientIds: [other]}
  brokerResources: [{method: Connect}]
  stateStoreResources: [{method: Read, keys: [key]}]
";
    let hub = Hub::new(
        HubConfig::default(),
        Service::embedded(ServiceConfig::default()),
    );
    let driver = Rc::new(Driver::new(hub, Clock::start()));
    let options = CommitterOptions::default();
    let mut committer = Committer::start(Box::new(MemoryStorage), options).unwrap();
    let reloading = async {
        let mut clients = Vec::new();
        for number in 0..SESSIONS {
            clients.push(join(&driver, &format!("client-{number:04}")).await);
        }
        let mut other = join(&driver, "other").await;
        let change = ReloadedConfig {
            authenticator: Authenticator::default(),
            policy: PolicyUpdate::Replace(Some(Arc::new(Policy::parse(RULES).unwrap()))),
            tls: None,
            admin: None,
            process: None,
            limits: (HubLimits::default(), ServiceConfig::default()),
            options: Options::default(),
            needs_restart: Vec::new(),
        };
        let (reply, mut answer) = oneshot::channel();
        driver.execute(Command::Reconfigure(Box::new(change), reply));
        send_request(&mut other, b"*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n").await;
        receive_response(&mut other).await;
        assert!(answer.try_recv().is_err(), "it has reached all before");
        assert_eq!(answer.await, Ok(SESSIONS));
        // When the change is reported to be in force, no connection acts by the old rules any more.
        for client in &mut clients {
            let mut input = BytesMut::new();
            let last = packet(client, &mut input).await;
            assert!(matches!(last, Packet::Disconnect(_)), "{last:?}");
        }
    };
    let keep = driver.run_maintenance(&mut committer);
    let served = async {
        tokio::select! {
            () = reloading => {}
            failed = keep => unreachable!("{failed:?}"),
        }
    };
    LocalSet::new().run_until(served).await;
}
