//! Checks of the reported results against the log of the engine.
use super::engine::Engine;
use super::ground_truth::{GroundTruth, KeyStates};
use super::node::FollowedKey;
use super::operation::apply;
use super::{Invocation, NodeRequest, NodeSimulation, RequestKind, TOMBSTONE_MS};
use super::{aging, clock_skew, entries, eventual_reads, pages, read_order};
use bytes::Bytes;
use statestore_protocol::{Rejection, Reply, ServiceError};
use statestored_shared::{EngineKey, EngineValue, Record, RecordContent};
use statestored_store::keyspace::Completion;
use statestored_store::keyspace::rules::Version;
use std::collections::BTreeMap;

/// Upper bound of the time until a due entry has expired, while there are no faults.
const EXPIRY_DELAY_MS: u64 = 3_000;

pub(super) fn check(world: &NodeSimulation) -> Result<(), String> {
    let engine = world.engine.lock().unwrap();
    let truth = GroundTruth::new(&engine);
    check_versions(&truth)?;
    eventual_reads::check(&truth, world)?;
    read_order::check(world)?;
    for asked in world
        .requests
        .iter()
        .filter(|it| !eventual_reads::is_from_cache(it))
    {
        check_answer(&truth, world, asked)
            .map_err(|violation| format!("{violation}: {asked:?}"))?;
        let former = asked
            .original
            .and_then(|it| world.requests[it].completion.as_ref());
        if let (
            Some((_, one @ Completion::Answered { .. })),
            Some((_, other @ Completion::Answered { .. })),
        ) = (former, &asked.completion)
            && one != other
            && ![one, other].map(reply_of).contains(&Some(&QUOTA_EXCEEDED))
            && !only_reads(&asked.kind)
        {
            return Err(format!("the other answer was {one:?}: {asked:?}"));
        }
    }
    check_expiry(&truth, world)?;
    aging::check_expiry_delays(&truth, world)?;
    clock_skew::check_version_times(&truth, world)?;
    for node in &world.nodes {
        if !node.is_watched() {
            return Err("a node does not know the changes, although nothing is wrong".into());
        }
        for (key, following) in &node.following {
            check_followed(&truth, key, following)
                .map_err(|violation| format!("{violation}: {key:?} {following:?}"))?;
        }
    }
    let in_order = world.requests.iter().filter(|it| it.completion.is_none());
    for asked in in_order {
        if world.nodes[asked.node].life == asked.life {
            return Err(format!("it has not ended: {asked:?}"));
        }
    }
    Ok(())
}

fn check_versions(truth: &GroundTruth<'_>) -> Result<(), String> {
    let mut highest = BTreeMap::<&Bytes, Version>::new();
    for (index, key, record) in truth.records() {
        if let Some(former) = highest.insert(key, record.version)
            && former >= record.version
        {
            return Err(format!(
                "change {index}: the version of {key:?} was {former:?} and is {:?}",
                record.version
            ));
        }
    }
    let mut floors = BTreeMap::new();
    for change in truth.log.iter().flat_map(|logged| &logged.changes) {
        if let (EngineKey::Floor(bucket), EngineValue::Floor(version)) = change
            && floors
                .insert(bucket, version)
                .is_some_and(|former| former > version)
        {
            return Err(format!("the floor of bucket {bucket} fell to {version:?}"));
        }
    }
    Ok(())
}

/// The answer if the engine is full.
const QUOTA_EXCEEDED: Reply = Reply::Error(ServiceError::QuotaExceeded);

fn check_answer(
    truth: &GroundTruth<'_>,
    world: &NodeSimulation,
    asked: &NodeRequest,
) -> Result<(), String> {
    let values: Vec<&Bytes> = match &asked.kind {
        RequestKind::Operation(_, action) => value_of(action).into_iter().collect(),
        RequestKind::Transaction(actions) => {
            actions.iter().filter_map(|(_, it)| value_of(it)).collect()
        }
        RequestKind::GetMany(_) | RequestKind::Page { .. } => Vec::new(),
    };
    let written: Vec<_> = values
        .iter()
        .flat_map(|it| truth.positions_of_value(it))
        .collect();
    if written.len() > values.len() {
        return Err(format!("it was done more than once, at {written:?}"));
    }
    if !written.is_empty() && written.iter().any(|it| *it != written[0]) {
        return Err(format!("it was done in parts, at {written:?}"));
    }
    if !written.is_empty() && written.len() < values.len() {
        return Err(format!("it was done in part, at {written:?}"));
    }
    let Some((end_ms, end)) = &asked.completion else {
        return Ok(());
    };
    let may_be_written = match end {
        Completion::Unknown => return Ok(()),
        // This copy was not executed.
        Completion::Expired | Completion::Unavailable if asked.is_redelivered => return Ok(()),
        Completion::Answered { reply, .. } if *reply == QUOTA_EXCEEDED && asked.is_redelivered => {
            return Ok(());
        }
        Completion::Expired | Completion::Unavailable => false,
        Completion::Answered { reply, .. } => matches!(reply, Reply::Ok | Reply::Transacted(_)),
    };
    if !may_be_written && !written.is_empty() {
        return Err(format!("it was done, at {written:?}"));
    }
    let Completion::Answered { reply, version } = end else {
        return Ok(());
    };
    if *reply == QUOTA_EXCEEDED {
        return Ok(());
    }
    if *reply == Reply::Error(ServiceError::TimestampSkew) {
        return clock_skew::check_rejection(world, asked, *end_ms);
    }
    match (&asked.kind, reply) {
        (
            RequestKind::Page {
                after,
                with_values: false,
            },
            Reply::Page { keys, token },
        ) => {
            let page = pages::Page::new(after.as_ref(), token.as_ref(), keys)?;
            page.check(truth, asked.started_ms, *end_ms)
        }
        (
            RequestKind::Page {
                after,
                with_values: true,
            },
            Reply::EntryPage { entries, token },
        ) => {
            let keys: Vec<_> = entries.iter().map(|entry| entry.key.clone()).collect();
            let page = pages::Page::new(after.as_ref(), token.as_ref(), &keys)?;
            page.check(truth, asked.started_ms, *end_ms)?;
            entries::check_page(truth, (asked.started_ms, *end_ms), entries)
        }
        (
            RequestKind::GetMany(keys),
            Reply::Entries {
                entries,
                omitted: 0,
            },
        ) => entries::check_moment(truth, (asked.started_ms, *end_ms), keys, entries),
        (RequestKind::Operation(key, action), _) => {
            check_operation(truth, asked, *end_ms, key, action, (reply, *version))
        }
        (RequestKind::Transaction(actions), _) => {
            check_transaction(truth, asked, *end_ms, actions, reply)
        }
        _ => Err("that is no answer to it".into()),
    }
}

fn reply_of(end: &Completion) -> Option<&Reply> {
    match end {
        Completion::Answered { reply, .. } => Some(reply),
        _ => None,
    }
}

fn only_reads(what: &RequestKind) -> bool {
    matches!(
        what,
        RequestKind::Operation(_, Invocation::Get { .. })
            | RequestKind::GetMany(_)
            | RequestKind::Page { .. }
    )
}

fn value_of(action: &Invocation) -> Option<&Bytes> {
    match action {
        Invocation::Set { value, .. } => Some(value),
        _ => None,
    }
}

/// Returns the position of the change with this version. It must have been made during the request.
fn change_of(
    truth: &GroundTruth<'_>,
    asked: &NodeRequest,
    end_ms: u64,
    key: &Bytes,
    version: Version,
) -> Result<usize, String> {
    let found = truth
        .records()
        .find(|(_, of, record)| *of == key && record.version == version);
    let (index, ..) = found.ok_or_else(|| format!("no change has the version {version:?}"))?;
    let at_ms = truth.log[index].at_ms;
    if at_ms < asked.started_ms || at_ms > end_ms {
        return Err(format!("it was done at {at_ms} ms"));
    }
    Ok(index)
}

fn check_operation(
    truth: &GroundTruth<'_>,
    asked: &NodeRequest,
    end_ms: u64,
    key: &Bytes,
    action: &Invocation,
    (reply, version): (&Reply, Option<Version>),
) -> Result<(), String> {
    if matches!(reply, Reply::Ok | Reply::Count(1)) {
        let version = version.ok_or("a change without a version")?;
        let index = change_of(truth, asked, end_ms, key, version)?;
        let (could, ..) = apply(&truth.states[index], key, action, asked);
        if could != *reply {
            return Err(format!("before change {index} it answers {could:?}"));
        }
        if let Some(value) = value_of(action)
            && truth.positions_of_value(value) != [index]
        {
            return Err(format!("change {index} is another one"));
        }
        return Ok(());
    }
    let mut states = truth.between(asked.started_ms, end_ms);
    let is_explained = states.any(|states| {
        let (could, its_version, changes) = apply(states, key, action, asked);
        !changes && could == *reply && its_version == version
    });
    if is_explained {
        Ok(())
    } else {
        Err("at no moment there was anything to answer this".into())
    }
}

fn check_transaction(
    truth: &GroundTruth<'_>,
    asked: &NodeRequest,
    end_ms: u64,
    actions: &[(Bytes, Invocation)],
    reply: &Reply,
) -> Result<(), String> {
    match reply {
        Reply::Transacted(versions) => {
            let changes = actions
                .iter()
                .zip(versions)
                .filter_map(|((key, _), version)| {
                    let version = (*version)?;
                    let version = (version.wall_ms(), version.counter());
                    Some(change_of(truth, asked, end_ms, key, version))
                });
            let places = changes.collect::<Result<Vec<_>, _>>()?;
            let could = |states: &KeyStates| {
                actions
                    .iter()
                    .zip(versions)
                    .all(|((key, action), version)| {
                        let (reply, _, changes) = apply(states, key, action, asked);
                        changes == version.is_some()
                            && matches!(reply, Reply::Ok | Reply::Count(0 | 1))
                    })
            };
            let Some(index) = places.first() else {
                let mut states = truth.between(asked.started_ms, end_ms);
                let is_explained = states.any(could);
                return is_explained
                    .then_some(())
                    .ok_or_else(|| "not at any moment".into());
            };
            if places.iter().any(|it| it != index) {
                return Err(format!("it was done in parts, at {places:?}"));
            }
            could(&truth.states[*index])
                .then_some(())
                .ok_or_else(|| format!("it could not be done before change {index}"))
        }
        Reply::Rejected { operation, reason } => {
            let operation = usize::try_from(*operation).unwrap();
            let is_explained = truth.between(asked.started_ms, end_ms).any(|states| {
                actions
                    .iter()
                    .take(operation + 1)
                    .enumerate()
                    .all(|(index, (key, action))| {
                        let (reply, version, _) = apply(states, key, action, asked);
                        let given =
                            |(wall, counter)| statestore_protocol::Version::new(wall, counter);
                        let rejection = match reply {
                            Reply::NotApplied => Some(Rejection::Condition(version.map(given))),
                            Reply::Error(error) => Some(Rejection::Error(error)),
                            _ => None,
                        };
                        rejection.as_ref() == (index == operation).then_some(reason)
                    })
            });
            is_explained
                .then_some(())
                .ok_or_else(|| "at no moment it had to be rejected".into())
        }
        _ => Err("that is no answer to a transaction".into()),
    }
}

/// Whether a client may have deleted this entry.
fn may_be_deleted(asked: &[NodeRequest], key: &Bytes, at_ms: u64, version: Version) -> bool {
    let is_del = |action: &Invocation| matches!(action, Invocation::Del { .. });
    asked.iter().any(|asked| {
        let deletes = match &asked.kind {
            RequestKind::Operation(of, action) => of == key && is_del(action),
            RequestKind::Transaction(actions) => actions.iter().any(|(of, it)| of == key && is_del(it)),
            RequestKind::GetMany(_) | RequestKind::Page { .. } => false,
        };
        deletes
            && asked.started_ms <= at_ms
            && match &asked.completion {
                None | Some((_, Completion::Unknown)) => true,
                Some((_, Completion::Answered { version: it, reply })) => {
                    let is_that = |it: &statestore_protocol::Version| {
                        (it.wall_ms(), it.counter()) == version
                    };
                    *it == Some(version)
                        || matches!(reply, Reply::Transacted(all) if all.iter().flatten().any(is_that))
                }
                Some((_, Completion::Expired | Completion::Unavailable)) => false,
            }
    })
}

fn check_expiry(truth: &GroundTruth<'_>, world: &NodeSimulation) -> Result<(), String> {
    for (index, key, record) in truth.records() {
        if record.is_entry() {
            continue;
        }
        let Some(former) = truth.states[index].get(key) else {
            return Err(format!(
                "change {index} deletes {key:?}, which there is not"
            ));
        };
        if !former.is_entry() {
            return Err(format!("change {index} deletes {key:?} once more"));
        }
        let at_ms = truth.log[index].at_ms;
        if may_be_deleted(&world.requests, key, at_ms, record.version) {
            continue;
        }
        let made = truth
            .records()
            .find(|(_, of, it)| *of == key && it.version == former.version);
        let (made, ..) = made.ok_or("an entry that nobody made")?;
        let made_ms = truth.log[made].at_ms;
        let Some(expiry) = former.expiry() else {
            return Err(format!(
                "change {index} deletes {key:?}, for which nobody asked"
            ));
        };
        if made_ms + expiry.ttl_ms > at_ms {
            return Err(format!(
                "change {index} ends {key:?} at {at_ms} ms, which was made at {made_ms} ms and lasts {} ms",
                expiry.ttl_ms
            ));
        }
    }
    let last = truth.states.last().ok_or("no state")?;
    for (key, record) in last {
        let made = truth
            .records()
            .find(|(_, of, it)| *of == key && it.version == record.version);
        let (made, ..) = made.ok_or("an entry that nobody made")?;
        let lasts_ms = match record.expiry() {
            Some(expiry) => expiry.ttl_ms,
            None if record.is_entry() => continue,
            None => TOMBSTONE_MS,
        };
        // A node that has just started counts from its start.
        let made_ms = truth.log[made].at_ms.max(world.calm_since_ms);
        if made_ms + lasts_ms + EXPIRY_DELAY_MS < world.now_ms {
            return Err(format!(
                "{key:?} is there still: {record:?} of {made_ms} ms"
            ));
        }
    }
    Ok(())
}

fn check_followed(
    truth: &GroundTruth<'_>,
    key: &Bytes,
    following: &FollowedKey,
) -> Result<(), String> {
    let Some(since_ms) = following.since_ms else {
        return Err("it is not followed yet".into());
    };
    let mut former = (0, 0);
    let mut was_removed = false;
    for heard in &following.reported {
        if heard.version <= former {
            return Err(format!("{:?} was told after {former:?}", heard.version));
        }
        former = heard.version;
        if was_removed && heard.value.is_none() {
            return Err("it was removed twice".into());
        }
        was_removed = heard.value.is_none();
        let Some(value) = &heard.value else { continue };
        let made = truth
            .records()
            .find(|(_, of, it)| *of == key && it.version == heard.version);
        let is_that = made.is_some_and(|(_, _, record)| {
            matches!(&record.content, RecordContent::Entry { value: it, .. } if it == value)
        });
        if !is_that {
            return Err(format!("there was no {heard:?}"));
        }
    }
    // The last state, if it has changed since that time.
    let changes = truth.records().filter(|(_, of, _)| *of == key);
    let Some((index, _, record)) = changes.last() else {
        return Ok(());
    };
    if truth.log[index].at_ms <= since_ms {
        return Ok(());
    }
    let Some(last) = following.reported.last() else {
        // An entry that was created and removed within a gap is not reported.
        let is_entry = |states: &KeyStates| states.get(key).is_some_and(Record::is_entry);
        let was_absent = truth.between(since_ms, since_ms).any(|it| !is_entry(it));
        return (was_absent && !record.is_entry())
            .then_some(())
            .ok_or_else(|| format!("nobody was told of change {index}"));
    };
    let is_told = if record.is_entry() {
        last.version == record.version
    } else {
        last.value.is_none()
    };
    is_told
        .then_some(())
        .ok_or_else(|| format!("nobody was told of change {index}"))
}

/// Returns the number of entries that expired without a request.
pub(super) fn expired_count(engine: &Engine, asked: &[NodeRequest]) -> usize {
    let truth = GroundTruth::new(engine);
    let tombstones = truth.records().filter(|(_, _, record)| !record.is_entry());
    tombstones
        .filter(|(index, key, record)| {
            !may_be_deleted(asked, key, truth.log[*index].at_ms, record.version)
        })
        .count()
}
