//! A client inside the server's machine. Its transactions set a few keys to one value, or delete them all.
use super::CLIENT_ADDRESS;
use crate::seeded_rng::SeededRng;
use bytes::{Bytes, BytesMut};
use statestore_protocol::mqtt::{Connect, Limits, Packet, PacketId, PubAck, PublishHeader, decode};
use statestore_protocol::{
    Command, Condition, Hlc, Rejection, Reply, SetOptions, TransactionOperation, Version, topic,
};
use statestored_broker::hub::{ConnectionId, Hub};
use statestored_common::ClockReading;

const CLIENT_ID: &str = "transactor";

/// Keys that only this client uses.
pub(crate) const KEYS: [&str; 3] = ["t0", "t1", "t2"];

/// A transaction with a pending response.
#[derive(Debug)]
struct PendingTransaction {
    /// Whether an operation has a condition that is never met.
    must_be_rejected: bool,
    is_acknowledged: bool,
    is_answered: bool,
}

#[derive(Debug)]
pub(crate) struct TransactionClient {
    connection: ConnectionId,
    input: BytesMut,
    output: BytesMut,
    number: u16,
    pending: Option<PendingTransaction>,
}

impl TransactionClient {
    pub(crate) fn new(hub: &mut Hub, now: ClockReading) -> Option<Self> {
        let mut input = BytesMut::new();
        let connect = Connect {
            client_id: CLIENT_ID.into(),
            clean_start: true,
            ..Connect::default()
        };
        connect.encode(Limits::MAX_PACKET_BYTES, &mut input).ok()?;
        Some(Self {
            connection: hub.opened(CLIENT_ADDRESS, now)?,
            input,
            output: BytesMut::new(),
            number: 0,
            pending: None,
        })
    }

    /// Starts a transaction, unless the last one is pending.
    pub(crate) fn start(&mut self, chance: &mut SeededRng, now: ClockReading) {
        if self.pending.is_some() {
            return;
        }
        self.number = self.number % 60_000 + 1;
        let deletes = chance.percent(20);
        let is_hopeless = !deletes && chance.percent(25);
        let pad = chance.pick(&[1, 1, 300]);
        let value = Bytes::from(format!("t{:0pad$}", self.number));
        let operation = |(place, key): (usize, &&'static str)| {
            let key = Bytes::from_static(key.as_bytes());
            if deletes {
                return TransactionOperation::Del {
                    key,
                    if_version: None,
                    token: None,
                };
            }
            let mut options = SetOptions::default();
            if is_hopeless && place + 1 == KEYS.len() {
                options.condition = Condition::IfVersion(Version::new(1, 1));
            }
            TransactionOperation::Set {
                key,
                value: value.clone(),
                options,
                token: None,
            }
        };
        let operations = KEYS.iter().enumerate().map(operation).collect();
        self.send(&Command::Transact { operations }, now);
        self.pending = Some(PendingTransaction {
            must_be_rejected: is_hopeless,
            is_acknowledged: false,
            is_answered: false,
        });
    }

    fn send(&mut self, command: &Command, now: ClockReading) {
        let response_topic = topic::response(CLIENT_ID);
        let correlation = self.number.to_be_bytes();
        let timestamp = Hlc::new(now.wall_ms, 0, CLIENT_ID).expect("a node id");
        let header = PublishHeader {
            topic: topic::REQUEST,
            packet_id: PacketId::new(self.number),
            response_topic: Some(&response_topic),
            correlation_data: Some(&correlation),
            user_properties: &[("__ts", &timestamp.to_string())],
            ..PublishHeader::default()
        };
        let write = |out: &mut BytesMut| command.encode(out);
        let max = Limits::MAX_PACKET_BYTES;
        header
            .encode(max, &mut self.input, command.encoded_len(), write)
            .expect("a request");
    }

    /// Hands over the output, and reads the input: the versions of transactions.
    ///
    /// # Errors
    /// An answer that is impossible for its transaction.
    pub(crate) fn exchange(
        &mut self,
        hub: &mut Hub,
        now: ClockReading,
    ) -> Result<Vec<Version>, String> {
        let mut given = Vec::new();
        loop {
            if !self.input.is_empty() {
                while hub.received(self.connection, &mut self.input, now) {}
            }
            hub.take_output(self.connection, &mut self.output, now);
            let packet = decode(&mut self.output, Limits::MAX_PACKET_BYTES);
            let Some(packet) = packet.map_err(|error| error.to_string())? else {
                return Ok(given);
            };
            match (packet, &mut self.pending) {
                (Packet::PubAck(_), Some(asked)) => asked.is_acknowledged = true,
                (Packet::Publish(publish), Some(asked)) => {
                    asked.is_answered = true;
                    match (Reply::decode(&publish.payload()), asked.must_be_rejected) {
                        (Ok(Reply::Transacted(versions)), false) if versions.len() == 3 => {
                            given.extend(versions.into_iter().flatten());
                        }
                        (
                            Ok(Reply::Rejected {
                                operation: 2,
                                reason: Rejection::Condition(_),
                            }),
                            true,
                        )
                        // The disk is full.
                        | (Ok(Reply::Error(_)), _) => {}
                        other => return Err(format!("a transaction was answered so: {other:?}")),
                    }
                    if let Some(id) = publish.packet_id() {
                        let puback = PubAck::success(id);
                        let encoded = puback.encode(Limits::MAX_PACKET_BYTES, &mut self.input);
                        encoded.map_err(|error| error.to_string())?;
                    }
                }
                _ => {}
            }
            let is_over = |asked: &PendingTransaction| asked.is_acknowledged && asked.is_answered;
            if self.pending.as_ref().is_some_and(is_over) {
                self.pending = None;
            }
        }
    }
}
