//! Reads of several keys at one moment.
use super::engine::{Keys, Link};
use super::plan::TaskAction;
use super::{Completion, RequestContext, SharedKeyspace};
use bytes::Bytes;
use statestore_protocol::{Reply, ServiceError};
use std::collections::HashMap;

impl<L: Link> SharedKeyspace<L> {
    /// Reads the keys behind the operations on them.
    pub(super) fn begin_get_many(
        &mut self,
        context: &RequestContext,
        keys: &[Bytes],
        max_reply_bytes: usize,
    ) -> Option<Completion> {
        // In the order of the request, since the engine may leave out the last ones.
        let mut unique = Keys::new();
        let mut known = HashMap::with_capacity(keys.len());
        let places = keys.iter().map(|key| {
            *known.entry(key).or_insert_with(|| {
                unique.push(key.clone());
                unique.len() - 1
            })
        });
        let places = places.collect();
        if unique.len() as u64 > self.config.max_read_keys {
            let text = format!(
                "the storage takes {} keys at most in one MGET",
                self.config.max_read_keys
            );
            let error = ServiceError::Other(text.into());
            return Some(Completion::reply(Reply::Error(error)));
        }
        let work = TaskAction::GetMany {
            places,
            max_reply_bytes,
        };
        self.start_task(context, unique, work)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripted_link::{KEY, Node, VALUE, key_state, now, record};
    use crate::{
        CommitOutcome, EngineEvent, EngineKey, EngineRequest, KeyState, RecordContent, Revision,
        UNKNOWN_FLOOR,
    };
    use smallvec::smallvec;
    use statestore_protocol::Version;
    use statestored_storage::Expiry;
    use statestored_store::keyspace::Ticket;

    static OTHER: Bytes = Bytes::from_static(b"other");

    fn get_many(node: &mut Node, mono_ms: u64, keys: &[&Bytes]) -> Option<Completion> {
        get_many_within(node, mono_ms, keys, usize::MAX)
    }

    fn get_many_within(
        node: &mut Node,
        mono_ms: u64,
        keys: &[&Bytes],
        max_reply_bytes: usize,
    ) -> Option<Completion> {
        let context = RequestContext {
            ticket: Ticket(0),
            now: now(mono_ms),
            deadline_ms: None,
            digest: None,
        };
        let keys: Vec<_> = keys.iter().copied().cloned().collect();
        node.remote.begin_get_many(&context, &keys, max_reply_bytes)
    }

    fn absent() -> KeyState {
        KeyState {
            record: None,
            floor: ((0, 0), Revision(1)),
        }
    }

    fn entries(versions: &[Option<u64>]) -> Completion {
        let entries = versions.iter().map(|version| {
            let version = Version::new((*version)?, 0);
            Some((VALUE.clone(), version))
        });
        Completion::reply(Reply::Entries {
            entries: entries.collect(),
            omitted: 0,
        })
    }

    #[test]
    fn each_key_is_read_once_and_returned_as_often_as_requested() {
        let mut node = Node::new();
        assert_eq!(get_many(&mut node, 1, &[&OTHER, &KEY, &OTHER]), None);
        let keys = smallvec![OTHER.clone(), KEY.clone()];
        let read = node.take_request(&EngineRequest::ReadRecords(keys));
        let states = vec![absent(), key_state(4, &VALUE)];
        let ended = node.advance(1, [EngineEvent::Read(read, Ok(states))]);
        assert_eq!(ended, [entries(&[None, Some(4), None])]);
    }

    #[test]
    fn keys_are_read_after_earlier_changes() {
        let mut node = Node::new();
        assert_eq!(node.set(1), None);
        assert_eq!(get_many(&mut node, 1, &[&KEY, &OTHER]), None);
        let (commit, ask) = node.remote.link.requests.pop().unwrap();
        assert!(matches!(ask, EngineRequest::Commit(_)), "{ask:?}");
        let verdict = CommitOutcome::Committed(Revision(6));
        let ended = node.advance(2, [EngineEvent::Committed(commit, verdict)]);
        assert_eq!(ended.len(), 1);
        let keys = smallvec![KEY.clone(), OTHER.clone()];
        let read = node.take_request(&EngineRequest::ReadRecords(keys));
        let states = vec![key_state(6, &VALUE), absent()];
        let ended = node.advance(2, [EngineEvent::Read(read, Ok(states))]);
        assert_eq!(ended, [entries(&[Some(6), None])]);
    }

    #[test]
    fn keys_beyond_the_bytes_of_the_response_are_omitted() {
        for (max_reply_bytes, returned) in [(0, 1), (150, 1), (500, 3)] {
            let mut node = Node::new();
            let keys = [&KEY, &KEY, &OTHER];
            assert_eq!(get_many_within(&mut node, 1, &keys, max_reply_bytes), None);
            let keys = smallvec![KEY.clone(), OTHER.clone()];
            let read = node.take_request(&EngineRequest::ReadRecords(keys));
            let states = vec![key_state(4, &VALUE), absent()];
            let ended = node.advance(1, [EngineEvent::Read(read, Ok(states))]);
            let [
                Completion::Answered {
                    reply: Reply::Entries { entries, omitted },
                    ..
                },
            ] = &ended[..]
            else {
                panic!("{ended:?}");
            };
            assert_eq!((entries.len(), *omitted), (returned, 3 - returned as u64));
        }
    }

    #[test]
    fn keys_that_the_engine_leaves_out_are_omitted() {
        let mut node = Node::new();
        assert_eq!(get_many(&mut node, 1, &[&OTHER, &OTHER, &KEY]), None);
        let keys = smallvec![OTHER.clone(), KEY.clone()];
        let read = node.take_request(&EngineRequest::ReadRecords(keys));
        let states = vec![key_state(4, &VALUE)];
        let ended = node.advance(1, [EngineEvent::Read(read, Ok(states))]);
        let entry = Some((VALUE.clone(), Version::new(4, 0)));
        let reply = Reply::Entries {
            entries: vec![entry.clone(), entry],
            omitted: 1,
        };
        assert_eq!(ended, [Completion::reply(reply)]);
    }

    #[test]
    fn only_expired_entries_are_removed_before_the_keys_are_read_again() {
        let mut node = Node::new();
        let mut expiring = record(4, &VALUE);
        expiring.content = RecordContent::Entry {
            value: VALUE.clone(),
            token: None,
            expiry: Some(Expiry {
                at_wall_ms: now(1).wall_ms + 5,
                ttl_ms: 5,
            }),
        };
        let state = |record| KeyState {
            record,
            floor: UNKNOWN_FLOOR,
        };
        let states = vec![state(Some((expiring, Revision(4)))), state(None)];
        let read = EngineRequest::ReadRecords(smallvec![KEY.clone(), OTHER.clone()]);
        for (mono_ms, is_live) in [(1, true), (10, false)] {
            assert_eq!(get_many(&mut node, mono_ms, &[&KEY, &OTHER]), None);
            let id = node.take_request(&read);
            let ended = node.advance(mono_ms, [EngineEvent::Read(id, Ok(states.clone()))]);
            assert_eq!(!ended.is_empty(), is_live, "{ended:?}");
        }
        let (commit, ask) = node.remote.link.requests.pop().unwrap();
        let EngineRequest::Commit(unit) = ask else {
            panic!("{ask:?}");
        };
        let expired = EngineKey::Entry(KEY.clone());
        assert_eq!(unit.compares, [(expired, Revision(4))]);
        let verdict = CommitOutcome::Committed(Revision(5));
        let ended = node.advance(10, [EngineEvent::Committed(commit, verdict)]);
        assert!(ended.is_empty(), "{ended:?}");
        node.take_request(&read);
    }

    #[test]
    fn more_keys_than_the_engine_reads_at_once_are_rejected() {
        let mut node = Node::new();
        let keys: Vec<_> = (0..11).map(|key| Bytes::from(key.to_string())).collect();
        let mut requested: Vec<_> = keys.iter().take(10).collect();
        requested.push(&keys[0]);
        assert_eq!(get_many(&mut node, 1, &requested), None);
        requested.push(&keys[10]);
        let error = ServiceError::Other("the storage takes 10 keys at most in one MGET".into());
        let rejected = Completion::reply(Reply::Error(error));
        assert_eq!(get_many(&mut node, 1, &requested), Some(rejected));
    }
}
