//! Batches of results for JavaScript, with two slots of an array for each. The flat form is the cheapest for hundreds of
//! thousands of results.
use crate::convert::{
    StateOutput, buffer, buffers, capabilities, deleted, entry_list, entry_page, holding, leader,
    milliseconds, number, remaining, result_list, text, time_left,
};
use crate::event_stream::NativeEventStream;
use crate::failure::Failure;
use crate::guard::NativeGuard;
use crate::operation_table::{OperationEvent, OperationTable};
use crate::reply::Reply;
use napi::bindgen_prelude::{Array, ClassInstance, JavaScriptClassExt, Null, ToNapiValue};
use napi::{Env, Result};
use statestore::{
    ConnectionState, MatchObservation, Observation, Release, SetOutcome, TransactionOutcome,
    UpdateOutcome, VdelOutcome,
};
use statestore_embed::{Acquisition, Guard};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Maximum number of results that are converted to JavaScript values at a time. Settling a promise runs its continuations, a
/// few microseconds of foreign code each. The event loop therefore runs again after about a millisecond.
const MAX_RESULTS: usize = 128;
/// Results between two looks at the clock.
const RESULTS_PER_CHECK: usize = 16;
/// The longest time for turning results into values; large ones take long.
const MAX_DRAIN_TIME: Duration = Duration::from_millis(1);
/// Number of slots for each result in the array of [`drain`].
const SLOTS_PER_RESULT: u32 = 4;

/// Returns the results that have arrived, up to a limit. The first element says whether more are left. Four slots follow
/// for each result: the number of the operation; the failure, `true` for a question, or nothing; and two slots of its
/// [reply](Reply).
pub(crate) fn drain<'env>(env: &'env Env, operations: &Rc<OperationTable>) -> Result<Array<'env>> {
    let mut array = env.create_array(0)?;
    let began = Instant::now();
    let (mut taken, mut has_more) = (0, true);
    let mut outcome = Ok(());
    while has_more && taken < MAX_RESULTS && outcome.is_ok() && began.elapsed() < MAX_DRAIN_TIME {
        let max = RESULTS_PER_CHECK.min(MAX_RESULTS - taken);
        has_more = operations.take_events(max, |operation, event| {
            let slot = 1 + u32::try_from(taken).unwrap_or(u32::MAX) * SLOTS_PER_RESULT;
            taken += 1;
            if outcome.is_ok() {
                outcome = write(env, operations, operation, event, &mut array, slot);
            }
        });
    }
    outcome?;
    array.set(0, has_more)?;
    Ok(array)
}

fn write(
    env: &Env,
    operations: &Rc<OperationTable>,
    operation: u32,
    event: OperationEvent,
    array: &mut Array<'_>,
    slot: u32,
) -> Result<()> {
    array.set(slot, operation)?;
    let reply = match event {
        OperationEvent::ValueRequest(old) => {
            array.set(slot + 1, true)?;
            Reply::Remaining(old)
        }
        OperationEvent::Done(Ok(reply)) => {
            array.set(slot + 1, ())?;
            reply
        }
        OperationEvent::Done(Err(error)) => return array.set(slot + 1, Failure::from(error)),
    };
    let first = slot + 2;
    SlotWriter { env, array, first }.reply(operations, reply)
}

/// Writes the two slots of one result.
struct SlotWriter<'a, 'env> {
    env: &'a Env,
    array: &'a mut Array<'env>,
    first: u32,
}

impl SlotWriter<'_, '_> {
    fn put(&mut self, a: impl ToNapiValue, b: impl ToNapiValue) -> Result<()> {
        self.array.set(self.first, a)?;
        self.array.set(self.first + 1, b)
    }

    fn reply(&mut self, operations: &Rc<OperationTable>, reply: Reply) -> Result<()> {
        let env = self.env;
        match reply {
            Reply::Done(()) => self.put((), ()),
            Reply::Entry(Some(entry)) => {
                self.put(buffer(env, &entry.value)?, entry.version.to_string())
            }
            Reply::Remaining(Some(entry)) => {
                self.put(remaining(env, &entry)?, entry.version.to_string())
            }
            Reply::AllRemaining(entries) => {
                let is_snapshot = entries.is_snapshot();
                let mut list = env.create_array(0)?;
                for entry in entries {
                    if let Some(entry) = entry {
                        list.insert(remaining(env, &entry)?)?;
                        list.insert(entry.version.to_string())?;
                    } else {
                        list.insert(Null)?;
                        list.insert(Null)?;
                    }
                }
                self.put(list, is_snapshot)
            }
            Reply::Capabilities(store) => self.put(capabilities(env, store)?, ()),
            Reply::Transaction(TransactionOutcome::Applied(versions)) => {
                let versions: Vec<_> = versions.iter().map(|at| text(at.as_ref())).collect();
                self.put(versions, ())
            }
            Reply::Transaction(TransactionOutcome::NotApplied { operation, version }) => {
                self.put(number(operation as u64), text(version.as_ref()))
            }
            Reply::Entry(None)
            | Reply::Remaining(None)
            | Reply::Page(None)
            | Reply::EntryPage(None) => self.put(Null, Null),
            Reply::Entries(entries) => {
                let is_snapshot = entries.is_snapshot();
                self.put(entry_list(env, entries)?, is_snapshot)
            }
            Reply::Set(outcome) => self.put(outcome.is_applied(), text(outcome.version())),
            Reply::Sets(outcomes) => {
                let places = |set: SetOutcome| (set.is_applied(), text(set.version()));
                self.put(result_list(env, outcomes, places)?, ())
            }
            Reply::Del(outcome) => {
                let (is, version) = deleted(&outcome);
                self.put(is, version)
            }
            Reply::Dels(outcomes) => self.put(result_list(env, outcomes, |del| deleted(&del))?, ()),
            Reply::Vdel(outcome) => match outcome {
                VdelOutcome::Deleted { version } => self.put("deleted", text(version.as_ref())),
                VdelOutcome::Absent => self.put("absent", Null),
                VdelOutcome::Mismatch { version } => self.put("mismatch", text(version.as_ref())),
            },
            Reply::Update(outcome) => match outcome {
                UpdateOutcome::Applied { version } => self.put("applied", text(Some(&version))),
                UpdateOutcome::Unchanged => self.put("unchanged", Null),
            },
            Reply::Page(Some(keys)) => self.put(buffers(env, &keys)?, ()),
            Reply::EntryPage(Some(entries)) => self.put(entry_page(env, &entries)?, ()),
            Reply::Stream(source) => {
                let stream = NativeEventStream::new(Rc::clone(operations), source);
                self.put(stream.into_instance(env)?, ())
            }
            Reply::Observation(observation) => self.observation(observation),
            Reply::MatchObservation(observation) => self.match_observation(observation),
            Reply::State(state) => self.state(state),
            Reply::Guard(guard) => self.put(guard_instance(env, operations, guard)?, ()),
            Reply::Acquisition(Acquisition::Acquired(guard)) => {
                self.put(guard_instance(env, operations, guard)?, ())
            }
            Reply::Acquisition(Acquisition::Held(by)) => self.put(Null, holding(env, by)?),
            Reply::Holding(found) => self.put(holding(env, found)?, ()),
            Reply::Leader(found) => self.put(leader(env, found)?, ()),
            Reply::HolderEvent(report) => match report {
                None => self.put(Null, Null),
                Some(Ok(found)) => self.put(true, holding(env, found)?),
                Some(Err(error)) => self.put(false, Failure::from(error)),
            },
            Reply::LeaderEvent(report) => match report {
                None => self.put(Null, Null),
                Some(Ok(found)) => self.put(true, leader(env, found)?),
                Some(Err(error)) => self.put(false, Failure::from(error)),
            },
            Reply::Release(Release::Released) => self.put("released", ()),
            Reply::Release(Release::NotHeld) => self.put("not_held", ()),
            Reply::Lost(reason) => self.put(reason.as_str(), ()),
            Reply::Version(version) => self.put(version.to_string(), ()),
            Reply::Flag(flag) => self.put(flag, ()),
            Reply::TimeLeft(left) => self.put(left.map(time_left), ()),
            Reply::Elapsed(time) => self.put(milliseconds(time), ()),
        }
    }

    fn observation(&mut self, observation: Option<Observation>) -> Result<()> {
        match observation {
            Some(Observation::Set { value, version }) => {
                let mut parts = self.env.create_array(2)?;
                parts.set(0, buffer(self.env, &value)?)?;
                parts.set(1, version.to_string())?;
                self.put("set", parts)
            }
            Some(Observation::Deleted { version }) => self.put("deleted", text(version.as_ref())),
            Some(Observation::Lagged(count)) => self.put("lagged", number(count)),
            // Unknown observations of later versions mean, like this one, that changes were missed.
            Some(_) => self.put("resync", Null),
            None => self.put(Null, Null),
        }
    }

    fn match_observation(&mut self, observation: Option<MatchObservation>) -> Result<()> {
        match observation {
            Some(MatchObservation::Set {
                key,
                value,
                version,
            }) => {
                let mut parts = self.env.create_array(3)?;
                parts.set(0, buffer(self.env, &key)?)?;
                parts.set(1, buffer(self.env, &value)?)?;
                parts.set(2, version.to_string())?;
                self.put("set", parts)
            }
            Some(MatchObservation::Deleted { key, version }) => {
                let mut parts = self.env.create_array(2)?;
                parts.set(0, buffer(self.env, &key)?)?;
                parts.set(1, text(version.as_ref()))?;
                self.put("deleted", parts)
            }
            Some(MatchObservation::Complete) => self.put("complete", Null),
            Some(MatchObservation::Resynced) => self.put("resynced", Null),
            // Unknown events of later versions mean, like this one, that changes were missed.
            Some(_) => self.put("resync", Null),
            None => self.put(Null, Null),
        }
    }

    fn state(&mut self, state: Option<ConnectionState>) -> Result<()> {
        match state.map(StateOutput::from) {
            Some(state) => self.put(state.is, state),
            None => self.put(Null, Null),
        }
    }
}

fn guard_instance<'env>(
    env: &'env Env,
    operations: &Rc<OperationTable>,
    guard: Guard,
) -> Result<ClassInstance<'env, NativeGuard>> {
    NativeGuard::new(Rc::clone(operations), guard).into_instance(env)
}
