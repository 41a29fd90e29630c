//! The record of the server: the requests that it took, its changes, and whether all that it reports is durable.
use super::Server;
use super::change_recorder::RecordedChange;
use crate::ground_truth::StoredChange;
use crate::history::{operation_of, operation_of_token, px_of};
use crate::simulation::Simulation;
use crate::simulation::network::Link;
use crate::simulation::server_end::TakenRequest;
use crate::wire_monitor;
use bytes::Bytes;
use statestore_protocol::mqtt::{Packet, Publish};
use statestore_protocol::property::FENCING_TOKEN;
use statestore_protocol::{Command, topic};
use statestored_broker::hub::Hub;
use statestored_storage::Write;
use std::collections::HashMap;

impl Simulation {
    /// Records a request that the hub has taken.
    pub(super) fn record_taken_request(&mut self, link: usize, packet: &Packet) {
        let Packet::Publish(publish) = packet else {
            return;
        };
        // A client that considers its session lost sends former messages again without DUP.
        let was_taken = publish.dup()
            || publish.correlation_data().is_some_and(|correlation| {
                let asked = |other: &Link| other.server_end.requests.contains_key(correlation);
                self.links.iter().any(asked)
            });
        let expires_ms = self.links[link].server_end.expiries.pop_front();
        let asked = self.record_taken(publish, link, was_taken, expires_ms.unwrap_or(u64::MAX));
        self.links[link].server_end.requests.extend(asked);
    }

    /// Records a request that reached the server through a broker.
    pub(crate) fn record_broker_request(&mut self, publish: &Publish, until_ms: u64) {
        let requester = publish.response_topic().and_then(topic::requester);
        let latest = |client: &str| {
            let mut links = self.links.iter();
            links.rposition(|link| format!("c{}", link.client) == client)
        };
        let Some(link) = requester.and_then(|client| latest(&client)) else {
            return self.violated("a request of nobody");
        };
        let correlation = publish.correlation_data();
        let was_taken = correlation.is_some_and(|it| self.broker_requests.contains_key(it));
        let asked = self.record_taken(publish, link, was_taken, until_ms);
        self.broker_requests.extend(asked);
    }

    /// Records a request of the client of this link. Returns its subject, if that is a key.
    fn record_taken(
        &mut self,
        publish: &Publish,
        link: usize,
        was_taken: bool,
        expires_ms: u64,
    ) -> Option<(Box<[u8]>, TakenRequest)> {
        let (now_ms, stamp) = (self.now_ms(), self.stamp());
        let mut operation = None;
        let mut about = None;
        match Command::decode(&publish.payload()) {
            Ok(Command::Watch { key }) => self.watches.push((now_ms, link, key)),
            Ok(Command::Set { key, value, .. }) => {
                operation = operation_of(&value);
                about = Some(key);
            }
            Ok(Command::Get { key, .. } | Command::Del { key, .. } | Command::Vdel { key, .. }) => {
                about = Some(key);
            }
            _ => {}
        }
        let mut properties = publish.user_properties();
        let token = properties.find(|(name, _)| *name == FENCING_TOKEN);
        let operation = operation.or_else(|| operation_of_token(token?.1));
        // An expired request must not be executed.
        if let Some(operation) = operation.and_then(|number| self.operations.get_mut(number))
            && now_ms <= expires_ms
        {
            operation.taken.push(stamp);
        }
        let changes = (!was_taken).then_some(self.ground_truth.changes.len());
        let correlation = publish.correlation_data()?;
        Some((
            correlation.into(),
            TakenRequest {
                key: about?,
                changes_before: changes,
            },
        ))
    }

    /// Checks that a result about a key is sent only after the disk has the last change of that key, including a deletion.
    pub(super) fn check_durable(&mut self, link: usize, packets: &[Packet]) {
        for packet in packets {
            let Packet::Publish(publish) = packet else {
                continue;
            };
            let Link {
                client,
                server_end: far,
                ..
            } = &self.links[link];
            let (asked, key) = request_of(publish, &far.requests, &[*client]);
            if let Err(what) = self.check_reported_durable(publish, asked, key) {
                self.violated(format!("link {link}: {what}"));
            }
        }
    }

    /// Makes the same check for messages that the server publishes through a broker.
    pub(crate) fn check_published(&mut self, publish: &Publish) {
        let clients: Vec<_> = (0..self.machines.len()).collect();
        let (asked, key) = request_of(publish, &self.broker_requests, &clients);
        let result = self.check_reported_durable(publish, asked, key);
        self.expect(result);
    }

    fn check_reported_durable(
        &self,
        publish: &Publish,
        asked: Option<&TakenRequest>,
        key: Option<Bytes>,
    ) -> Result<(), String> {
        if !self.scenario.is_durable {
            return Ok(());
        }
        let Server {
            run,
            reported_durable: told,
            ..
        } = &self.server;
        if let Some(TakenRequest {
            key,
            changes_before: changes,
        }) = asked
            && let Some(changes) = changes.filter(|_| !publish.dup())
            && is_absence(publish.payload_bytes())
            && !self.ground_truth.is_absent(key, changes, *run, *told)
        {
            return Err(format!(
                "{key:?} was said to be absent before that was durable"
            ));
        }
        match (key, wire_monitor::timestamp(publish)) {
            (Some(key), Some(version))
                if self.ground_truth.is_in_flight(&key, version, *run, *told) =>
            {
                Err(format!(
                    "{key:?} {version:?} was told of before it was durable"
                ))
            }
            _ => Ok(()),
        }
    }

    /// Records the changes of the hub since the last call.
    pub(crate) fn record_changes(&mut self) {
        let now = self.server_now();
        let stamp = self.stamp();
        self.ground_truth.start_span(stamp);
        let Some(hub) = &mut self.server.hub else {
            return;
        };
        if let Some(witness) = &mut self.server.recorder {
            match witness.take(hub, now) {
                Ok(seen) => {
                    for change in seen {
                        self.record_change(now.mono_ms, change);
                    }
                }
                Err(error) => self.violated(format!("the witness: {error}")),
            }
            return;
        }
        self.receive_transactions();
        while let Some((sequence, batch)) = self.server.hub.as_mut().and_then(Hub::take_batch) {
            let place = Some((self.server.run, sequence));
            for write in &batch.writes {
                match write {
                    Write::Put(record) => {
                        let due_ms = record.expiry.map(|expiry| now.mono_ms + expiry.ttl_ms);
                        let is_told_again = self.ground_truth.is_stored_again(record, due_ms);
                        if is_told_again == Ok(true) {
                            self.trace_event(|| {
                                format!("store: {:?} again, batch {sequence}", record.key)
                            });
                            continue;
                        }
                        self.expect(is_told_again.map(drop));
                        let (key, value) = (record.key.clone(), record.value.clone());
                        let version = record.version;
                        self.trace_event(|| {
                            format!("store: {key:?} = {value:?} {version:?}, batch {sequence}")
                        });
                        let stored = place.map(|batch| StoredChange {
                            token: record.fence.clone(),
                            batch,
                        });
                        self.ground_truth
                            .put(now.mono_ms, key, value, version, due_ms, stored);
                    }
                    Write::Delete(key) => {
                        self.trace_event(|| format!("store: {key:?} deleted, batch {sequence}"));
                        let result =
                            self.ground_truth
                                .delete(now.mono_ms, key.clone(), None, place);
                        self.expect(result);
                    }
                }
            }
            self.server.durable.submit(sequence, batch);
        }
        self.check_transactions();
    }

    fn record_change(&mut self, now_ms: u64, change: RecordedChange) {
        let RecordedChange {
            key,
            value,
            version,
        } = change;
        self.trace_event(|| format!("store: {key:?} = {value:?} {version:?}"));
        if let Some(value) = value {
            let due_ms = px_of(&value).map(|px| now_ms + px);
            self.ground_truth
                .put(now_ms, key, value, version, due_ms, None);
        } else {
            let result = self.ground_truth.delete(now_ms, key, Some(version), None);
            self.expect(result);
        }
    }
}

/// Whether a response reports an absent key.
fn is_absence(payload: &[u8]) -> bool {
    payload == b"$-1\r\n" || payload == b":0\r\n"
}

/// Returns the request that a message to one of these clients answers, and the key.
fn request_of<'a>(
    publish: &Publish,
    asked: &'a HashMap<Box<[u8]>, TakenRequest>,
    clients: &[usize],
) -> (Option<&'a TakenRequest>, Option<Bytes>) {
    if let Some(correlation) = publish.correlation_data() {
        let asked = asked.get(correlation);
        return (asked, asked.map(|asked| asked.key.clone()));
    }
    let key = |client: &usize| topic::notification_key(&format!("c{client}"), publish.topic());
    (None, clients.iter().find_map(key))
}
