mod attaching;
mod turns;

use super::*;
use crate::hub::HubConfig;
use crate::keyspace::rules::{Operation, Version};
use crate::keyspace::{Asked, Embedded, End, Keyspace, PageRequest, Size, Ticket, Told};
use crate::service::{Now, Service, ServiceConfig};
use crate::storage::{CommitterOptions, MemoryStorage};
use bytes::Bytes;
use statestore_protocol::mqtt::{Connect, Packet, PacketId, PublishHeader, decode};
use statestore_protocol::topic;
use std::net::SocketAddr;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::sync::mpsc;
use tokio::task::LocalSet;

/// An embedded keyspace that reports its outcomes when the test says so, at no time that is known before.
#[derive(Debug)]
struct Elsewhere {
    inner: Embedded,
    ended: Vec<(Ticket, End)>,
    /// Notifies the test of a request.
    asked: mpsc::UnboundedSender<()>,
    /// Permits from the test to report outcomes.
    news: mpsc::UnboundedReceiver<()>,
    has_news: bool,
}

impl Keyspace for Elsewhere {
    fn operate(
        &mut self,
        asked: &Asked,
        key: &Bytes,
        operation: &Operation<'_>,
        told: &mut dyn Told,
    ) -> Option<End> {
        let end = self.inner.operate(asked, key, operation, told)?;
        self.ended.push((asked.ticket, end));
        self.asked.send(()).unwrap();
        None
    }
    fn page(&mut self, asked: &Asked, request: &PageRequest, told: &mut dyn Told) -> Option<End> {
        self.inner.page(asked, request, told)
    }
    fn follow(&mut self, asked: &Asked, key: &Bytes) -> Option<End> {
        self.inner.follow(asked, key)
    }
    fn advance(&mut self, _most: usize, _now: Now, told: &mut dyn Told) {
        if std::mem::take(&mut self.has_news) {
            for (ticket, end) in self.ended.drain(..) {
                told.ended(ticket, end);
            }
        }
    }
    fn next_ms(&self) -> Option<u64> {
        None
    }
    fn poll_news(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.news.poll_recv(context).map(|_| self.has_news = true)
    }
    fn highest(&self) -> Version {
        self.inner.highest()
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
async fn what_the_keyspace_has_to_tell_wakes_the_server() {
    let (asked, mut was_asked) = mpsc::unbounded_channel();
    let (tell, news) = mpsc::unbounded_channel();
    let config = ServiceConfig::default();
    let keyspace = Elsewhere {
        inner: Embedded::new(&config.keyspace()),
        ended: Vec::new(),
        asked,
        news,
        has_news: false,
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
                ended = driver.keep(&mut committer) => panic!("{ended:?}"),
                () = client => {}
            }
        })
        .await;
}

#[tokio::test]
async fn who_comes_in_the_moment_of_the_end_does_not_keep_the_server_up() {
    let config = ServiceConfig::default();
    let keyspace = Embedded::new(&config.keyspace());
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
