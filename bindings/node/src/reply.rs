//! Conversion of results to JavaScript, in two slots of an array. The flat form is the cheapest for hundreds of thousands of
//! results.
use crate::event_stream::{NativeEventStream, TypedStream};
use crate::failure::Failure;
use crate::guard::NativeGuard;
use crate::operation_table::OperationTable;
use bytes::Bytes;
use napi::bindgen_prelude::{Array, BufferSlice, JavaScriptClassExt, Null, ToNapiValue};
use napi::{Env, Result};
use napi_derive::napi;
use statestore::{
    Capabilities, ConnectionState, DelOutcome, Entry, Expiry, Hlc, Holder, Holding, Leader,
    LostReason, Observation, Release, SetOutcome, TransactionOutcome, UpdateOutcome, VdelOutcome,
};
use statestore_embed::{Acquisition, Error, Guard, WriteResults};
use std::rc::Rc;

/// The result of an operation. *Or null* means that both slots are `null`.
pub(crate) enum Reply {
    /// No value.
    Done(()),
    /// The value and the version, or null.
    Entry(Option<Entry>),
    /// A list with two places for each entry.
    Entries(Vec<Option<Entry>>),
    /// A list of the value and the milliseconds that it has left or null, and the version; or null.
    Remaining(Option<Entry>),
    /// A list with the two places of [`Remaining`](Self::Remaining) for each.
    AllRemaining(Vec<Option<Entry>>),
    /// A list: conditions, remaining times, the most operations or null, eventual reads.
    Capabilities(Capabilities),
    /// A list of versions or null; or the operation, and the version or null.
    Transaction(TransactionOutcome),
    /// Whether it applied; the version.
    Set(SetOutcome),
    /// A list with three places for each: the failure or nothing, and the two of [`Set`](Self::Set).
    Sets(WriteResults<SetOutcome>),
    /// The same list, with the two slots of [`Del`](Self::Del).
    Dels(WriteResults<DelOutcome>),
    /// A word; the version if it has one.
    Del(DelOutcome),
    Vdel(VdelOutcome),
    Update(UpdateOutcome),
    /// A list of keys, or null.
    Page(Option<Vec<Bytes>>),
    Stream(TypedStream),
    /// A word and the value, the version or the count; and the version of the value. Or null.
    Observation(Option<Observation>),
    /// A word and the [state](StateOutput), or null.
    State(Option<ConnectionState>),
    Guard(Guard),
    /// The guard, or `null` and the holding.
    Acquisition(Acquisition),
    Holding(Option<Holding>),
    /// The holder and the value, or null.
    Leader(Option<Leader>),
    /// `true` and the holding, `false` and the failure, or null.
    HolderEvent(Option<std::result::Result<Option<Holding>, Error>>),
    /// `true` and a list of holder and value, `false` and the failure, or null.
    LeaderEvent(Option<std::result::Result<Option<Leader>, Error>>),
    /// A word.
    Release(Release),
    /// A word.
    Lost(LostReason),
    Version(Hlc),
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
}

impl Reply {
    /// Writes it into the two slots from `first` on.
    pub(crate) fn write(
        self,
        env: &Env,
        operations: &Rc<OperationTable>,
        array: &mut Array<'_>,
        first: u32,
    ) -> Result<()> {
        let mut slots = SlotWriter { env, array, first };
        match self {
            Self::Done(()) => slots.put((), ()),
            Self::Entry(Some(entry)) => {
                slots.put(buffer(env, &entry.value)?, entry.version.to_string())
            }
            Self::Remaining(Some(entry)) => {
                slots.put(remaining(env, &entry)?, entry.version.to_string())
            }
            Self::AllRemaining(entries) => {
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
                slots.put(list, ())
            }
            Self::Capabilities(store) => {
                let mut list = env.create_array(0)?;
                list.insert(store.conditions)?;
                list.insert(store.remaining_time)?;
                list.insert(store.transactions.map(number))?;
                list.insert(store.eventual)?;
                slots.put(list, ())
            }
            Self::Transaction(TransactionOutcome::Applied(versions)) => {
                let versions: Vec<_> = versions.iter().map(|at| text(at.as_ref())).collect();
                slots.put(versions, ())
            }
            Self::Transaction(TransactionOutcome::NotApplied { operation, version }) => {
                slots.put(number(operation as u64), text(version.as_ref()))
            }
            Self::Entry(None) | Self::Remaining(None) | Self::Page(None) => slots.put(Null, Null),
            Self::Entries(entries) => slots.put(entry_list(env, entries)?, ()),
            Self::Set(outcome) => slots.put(outcome.is_applied(), text(outcome.version())),
            Self::Sets(outcomes) => {
                let places = |set: SetOutcome| (set.is_applied(), text(set.version()));
                slots.put(result_list(env, outcomes, places)?, ())
            }
            Self::Del(outcome) => {
                let (is, version) = deleted(&outcome);
                slots.put(is, version)
            }
            Self::Dels(outcomes) => slots.put(result_list(env, outcomes, |del| deleted(&del))?, ()),
            Self::Vdel(outcome) => match outcome {
                VdelOutcome::Deleted { version } => slots.put("deleted", text(version.as_ref())),
                VdelOutcome::Absent => slots.put("absent", Null),
                VdelOutcome::Mismatch { version } => slots.put("mismatch", text(version.as_ref())),
            },
            Self::Update(outcome) => match outcome {
                UpdateOutcome::Applied { version } => slots.put("applied", text(Some(&version))),
                UpdateOutcome::Unchanged => slots.put("unchanged", Null),
            },
            Self::Page(Some(keys)) => slots.put(buffers(env, &keys)?, ()),
            Self::Stream(source) => {
                let stream = NativeEventStream::new(Rc::clone(operations), source);
                slots.put(stream.into_instance(env)?, ())
            }
            Self::Observation(observation) => slots.observation(observation),
            Self::State(state) => slots.state(state),
            Self::Guard(guard) => slots.put(guard_instance(env, operations, guard)?, ()),
            Self::Acquisition(Acquisition::Acquired(guard)) => {
                slots.put(guard_instance(env, operations, guard)?, ())
            }
            Self::Acquisition(Acquisition::Held(by)) => slots.put(Null, holding(env, by)?),
            Self::Holding(found) => slots.put(holding(env, found)?, ()),
            Self::Leader(found) => slots.put(leader(env, found)?, ()),
            Self::HolderEvent(report) => match report {
                None => slots.put(Null, Null),
                Some(Ok(found)) => slots.put(true, holding(env, found)?),
                Some(Err(error)) => slots.put(false, Failure::from(error)),
            },
            Self::LeaderEvent(report) => match report {
                None => slots.put(Null, Null),
                Some(Ok(found)) => slots.put(true, leader(env, found)?),
                Some(Err(error)) => slots.put(false, Failure::from(error)),
            },
            Self::Release(Release::Released) => slots.put("released", ()),
            Self::Release(Release::NotHeld) => slots.put("not_held", ()),
            Self::Lost(reason) => slots.put(reason.as_str(), ()),
            Self::Version(version) => slots.put(version.to_string(), ()),
        }
    }
}

impl SlotWriter<'_, '_> {
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

    fn state(&mut self, state: Option<ConnectionState>) -> Result<()> {
        match state.map(StateOutput::from) {
            Some(state) => self.put(state.is, state),
            None => self.put(Null, Null),
        }
    }
}

/// A state of the connection.
#[napi(object, object_from_js = false)]
#[derive(Debug)]
pub struct StateOutput {
    pub is: &'static str,
    pub reason: Option<Failure>,
    pub lost_reason: Option<&'static str>,
}

impl From<ConnectionState> for StateOutput {
    fn from(state: ConnectionState) -> Self {
        let (is, reason, lost_reason) = match state {
            ConnectionState::Connected => ("connected", None, None),
            ConnectionState::Reconnecting(reason) => ("reconnecting", Some(reason), None),
            ConnectionState::Closed { lost_reason, error } => {
                ("closed", Some(error), Some(lost_reason.as_str()))
            }
            _ => ("connecting", None, None),
        };
        Self {
            is,
            reason: reason.map(|reason| Failure::from(Error::from(reason))),
            lost_reason,
        }
    }
}

/// A count, exact up to 2^53.
#[expect(
    clippy::cast_precision_loss,
    reason = "JavaScript has no other numbers"
)]
pub(crate) fn number(count: u64) -> f64 {
    count as f64
}

/// Returns the name of a holder, and its client id if the library made the name.
pub(crate) fn holder<'env>(env: &'env Env, holder: &Holder) -> Result<Array<'env>> {
    let mut parts = env.create_array(2)?;
    parts.set(0, buffer(env, holder.name())?)?;
    parts.set(1, holder.client_id())?;
    Ok(parts)
}

fn holding(env: &Env, holding: Option<Holding>) -> Result<Option<Array<'_>>> {
    let Some(holding) = holding else {
        return Ok(None);
    };
    let mut parts = env.create_array(2)?;
    parts.set(0, holder(env, &holding.holder)?)?;
    parts.set(1, holding.version.to_string())?;
    Ok(Some(parts))
}

fn leader(env: &Env, leader: Option<Leader>) -> Result<Option<Array<'_>>> {
    let Some(leader) = leader else {
        return Ok(None);
    };
    let mut parts = env.create_array(2)?;
    parts.set(0, holder(env, &leader.holder)?)?;
    match leader.value {
        Some(value) => parts.set(1, buffer(env, &value)?)?,
        None => parts.set(1, Null)?,
    }
    Ok(Some(parts))
}

/// Returns the value of an entry and its remaining time in milliseconds.
fn remaining<'env>(env: &'env Env, entry: &Entry) -> Result<Array<'env>> {
    let mut parts = env.create_array(2)?;
    parts.set(0, buffer(env, &entry.value)?)?;
    match entry.expires_in {
        Expiry::Never => parts.set(1, f64::INFINITY)?,
        Expiry::After(left) => parts.set(1, left.as_secs_f64() * 1000.0)?,
        _ => parts.set(1, "unknown")?,
    }
    Ok(parts)
}

fn entry_list(env: &Env, entries: Vec<Option<Entry>>) -> Result<Array<'_>> {
    let mut list = env.create_array(0)?;
    for entry in entries {
        if let Some(entry) = entry {
            list.insert(buffer(env, &entry.value)?)?;
            list.insert(entry.version.to_string())?;
        } else {
            list.insert(Null)?;
            list.insert(Null)?;
        }
    }
    Ok(list)
}

/// Returns the result of each of several writes.
fn result_list<T, A: ToNapiValue, B: ToNapiValue>(
    env: &Env,
    outcomes: WriteResults<T>,
    places: impl Fn(T) -> (A, B),
) -> Result<Array<'_>> {
    let mut list = env.create_array(0)?;
    for outcome in outcomes {
        match outcome {
            Ok(outcome) => {
                let (a, b) = places(outcome);
                list.insert(())?;
                list.insert(a)?;
                list.insert(b)?;
            }
            Err(error) => {
                list.insert(Failure::from(Error::from(error)))?;
                list.insert(Null)?;
                list.insert(Null)?;
            }
        }
    }
    Ok(list)
}

fn deleted(outcome: &DelOutcome) -> (&'static str, Option<String>) {
    match outcome {
        DelOutcome::Deleted { version } => ("deleted", text(version.as_ref())),
        DelOutcome::Absent => ("absent", None),
        DelOutcome::Mismatch { version } => ("mismatch", text(Some(version))),
    }
}

fn buffers<'env>(env: &'env Env, all: &[Bytes]) -> Result<Array<'env>> {
    let mut list = env.create_array(0)?;
    for bytes in all {
        list.insert(buffer(env, bytes)?)?;
    }
    Ok(list)
}

fn buffer<'env>(env: &'env Env, bytes: &[u8]) -> Result<BufferSlice<'env>> {
    BufferSlice::copy_from(env, bytes)
}

fn text(version: Option<&Hlc>) -> Option<String> {
    version.map(ToString::to_string)
}

fn guard_instance<'env>(
    env: &'env Env,
    operations: &Rc<OperationTable>,
    guard: Guard,
) -> Result<napi::bindgen_prelude::ClassInstance<'env, NativeGuard>> {
    NativeGuard::new(Rc::clone(operations), guard).into_instance(env)
}
