//! Data in transit between the server and a client.
use bytes::{Bytes, BytesMut};
use statestore_protocol::mqtt::{Limits, Packet, decode};
use statestore_protocol::topic;
use std::collections::VecDeque;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// A direction of a connection: data in transit, with the time of its arrival.
#[derive(Debug, Default)]
pub(crate) struct OneWayLink(VecDeque<(Instant, Bytes)>);

impl OneWayLink {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn send(&mut self, bytes: Bytes, latency: Duration) {
        if !bytes.is_empty() {
            let at = Instant::now() + latency;
            let at = self.0.back().map_or(at, |(last, _)| at.max(*last));
            self.0.push_back((at, bytes));
        }
    }

    /// The next arrival.
    pub(crate) async fn receive(&mut self) -> Bytes {
        let Some((at, _)) = self.0.front() else {
            return std::future::pending().await;
        };
        sleep_until(*at).await;
        self.0.pop_front().unwrap().1
    }
}

/// The same without the notifications of this client.
pub(crate) fn without_notifications(mut output: BytesMut, client: &str) -> BytesMut {
    let prefix = topic::notification_filter(client);
    let prefix = prefix.trim_end_matches('+');
    let mut kept = BytesMut::new();
    while !output.is_empty() {
        let whole = output.clone();
        let packet = decode(&mut output, Limits::MAX_PACKET_BYTES)
            .unwrap()
            .unwrap();
        let is_notification =
            matches!(&packet, Packet::Publish(publish) if publish.topic().starts_with(prefix));
        if !is_notification {
            kept.extend_from_slice(&whole[..whole.len() - output.len()]);
        }
    }
    kept
}
