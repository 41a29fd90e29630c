mod broker_connection;
mod fairness;

use super::*;
use bytes::Bytes;
use statestore_protocol::mqtt::{Connect, Packet, PacketId, PublishHeader, decode};
use statestore_protocol::topic;
use statestored_broker::hub::HubConfig;
use statestored_storage::{CommitterOptions, MemoryStorage};
use statestored_store::keyspace::rules::{Operation, Version};
use statestored_store::keyspace::{
    Completion, EmbeddedKeyspace, EventSink, Keyspace, PageRequest, RequestContext, Size, Ticket,
};
use statestored_store::service::{ClockReading, Service, ServiceConfig};
use std::net::SocketAddr;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::sync::mpsc;
use tokio::task::LocalSet;

/// An embedded keyspace that reports its outcomes when the test says so, at no time that is known before.
#[derive(Debug)]
struct DelayedKeyspace {
    inner: EmbeddedKeyspace,
    held_outcomes: Vec<(Ticket, Completion)>,
    /// Notifies the test of a request.
    request_sender: mpsc::UnboundedSender<()>,
    /// Permits from the test to report outcomes.
    release_receiver: mpsc::UnboundedReceiver<()>,
    is_released: bool,
}

impl Keyspace for DelayedKeyspace {
    fn operate(
        &mut self,
        context: &RequestContext,
        key: &Bytes,
        operation: &Operation<'_>,
        events: &mut dyn EventSink,
    ) -> Option<Completion> {
        let end = self.inner.operate(context, key, operation, events)?;
        self.held_outcomes.push((context.ticket, end));
        self.request_sender.send(()).unwrap();
        None
    }
    fn page(
        &mut self,
        context: &RequestContext,
        request: &PageRequest,
        events: &mut dyn EventSink,
    ) -> Option<Completion> {
        self.inner.page(context, request, events)
    }
    fn follow(&mut self, context: &RequestContext, key: &Bytes) -> Option<Completion> {
        self.inner.follow(context, key)
    }
    fn advance(&mut self, _most: usize, _now: ClockReading, events: &mut dyn EventSink) {
        if std::mem::take(&mut self.is_released) {
            for (ticket, end) in self.held_outcomes.drain(..) {
                events.completed(ticket, end);
            }
        }
    }
    fn next_ms(&self) -> Option<u64> {
        None
    }
    fn poll_events(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.release_receiver
            .poll_recv(context)
            .map(|_| self.is_released = true)
    }
    fn highest_version(&self) -> Version {
        self.inner.highest_version()
    }
    fn size(&self) -> Size {
        self.inner.size()
    }
}

async fn packet(stream: &mut DuplexStream, input: &mut BytesMut) -> Packet {
    loop {
        if let Some(packet) = decode(input, u32::MAX).unwrap() {
            return packet;
        }
        assert!(stream.read_buf(input).await.unwrap() > 0);
    }
}

#[tokio::test]
async fn a_keyspace_event_wakes_the_server() {
    let (request_sender, mut was_asked) = mpsc::unbounded_channel();
    let (tell, release_receiver) = mpsc::unbounded_channel();
    let config = ServiceConfig::default();
    let keyspace = DelayedKeyspace {
        inner: EmbeddedKeyspace::new(&config.keyspace()),
        held_outcomes: Vec::new(),
        request_sender,
        release_receiver,
        is_released: false,
    };
    let hub = Hub::new(HubConfig::default(), Service::new(config, keyspace));
    let driver = Rc::new(Driver::new(hub, Clock::start()));
    let mut committer =
        Committer::start(Box::new(MemoryStorage), CommitterOptions::default()).unwrap();
    let (mut near, far) = tokio::io::duplex(4096);
    let peer = SocketAddr::from(([127, 0, 0, 1], 1));
    let client = async {
        let mut out = BytesMut::new();
        Connect::default().encode(u32::MAX, &mut out).unwrap();
        let header = PublishHeader {
            topic: topic::REQUEST,
            packet_id: PacketId::new(7),
            response_topic: Some("clients/me/responses"),
            correlation_data: Some(b"1"),
            ..PublishHeader::default()
        };
        let payload = b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n";
        let write = |out: &mut BytesMut| out.extend_from_slice(payload);
        header
            .encode(u32::MAX, &mut out, payload.len(), write)
            .unwrap();
        near.write_all(&out).await.unwrap();
        let mut input = BytesMut::new();
        let connack = packet(&mut near, &mut input).await;
        assert!(matches!(connack, Packet::ConnAck(_)), "{connack:?}");
        was_asked.recv().await.unwrap();
        tell.send(()).unwrap();
        let puback = packet(&mut near, &mut input).await;
        assert!(
            matches!(&puback, Packet::PubAck(it) if it.packet_id.get() == 7),
            "{puback:?}"
        );
        let response = packet(&mut near, &mut input).await;
        assert!(
            matches!(&response, Packet::Publish(it) if it.payload_bytes() == b"$-1\r\n"),
            "{response:?}"
        );
    };
    LocalSet::new()
        .run_until(async {
            tokio::task::spawn_local(Rc::clone(&driver).serve(far, peer.into(), ()));
            tokio::select! {
                ended = driver.run_maintenance(&mut committer) => panic!("{ended:?}"),
                () = client => {}
            }
        })
        .await;
}

#[tokio::test]
async fn a_connection_during_shutdown_does_not_delay_it() {
    let config = ServiceConfig::default();
    let keyspace = EmbeddedKeyspace::new(&config.keyspace());
    let hub = Hub::new(HubConfig::default(), Service::new(config, keyspace));
    let driver = Rc::new(Driver::new(hub, Clock::start()));
    let committer = Committer::start(Box::new(MemoryStorage), CommitterOptions::default()).unwrap();
    let (mut near, far) = tokio::io::duplex(4096);
    let peer = SocketAddr::from(([127, 0, 0, 1], 1));
    let ending = async {
        // Its task has not begun when all other connections are notified.
        let serving = tokio::task::spawn_local(Rc::clone(&driver).serve(far, peer.into(), ()));
        driver.stop(committer).unwrap();
        tokio::select! {
            biased;
            () = driver.linger() => {}
            served = serving => served.unwrap(),
        }
        assert_eq!(near.read(&mut [0]).await.unwrap(), 0);
    };
    let tasks = LocalSet::new();
    let ended = tasks.run_until(tokio::time::timeout(Duration::from_secs(20), ending));
    assert!(ended.await.is_ok(), "it is still served");
}
