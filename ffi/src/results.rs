//! Results of several writes, one for each.
use crate::boundary;
use crate::del::sst_del_result;
use crate::error::sst_error;
use crate::handle::{self, object};
use crate::hlc::sst_hlc;
use crate::infallible;
use crate::input;
use crate::outcome::ResultOut;
use crate::set::sst_set_result;
use crate::status::sst_status;
use statestore_core::{DelOutcome, Outcome, SetOutcome};
use statestore_embed::{Error, ErrorKind, WriteResults};
use std::mem::MaybeUninit;

/// The results of sst_set_many() or sst_del_many(), in the order of the keys, one for each. Opaque.
pub struct sst_results;

/// The results of several requests, one for each.
pub(crate) enum WriteResultsObject {
    Set(WriteResults<SetOutcome>),
    Del(WriteResults<DelOutcome>),
}

object!(WriteResultsObject, sst_results, 19, "results");

impl WriteResultsObject {
    fn len(&self) -> usize {
        match self {
            Self::Set(sets) => sets.len(),
            Self::Del(dels) => dels.len(),
        }
    }

    fn failed(&self) -> usize {
        match self {
            Self::Set(sets) => sets.iter().filter(|set| set.is_err()).count(),
            Self::Del(dels) => dels.iter().filter(|del| del.is_err()).count(),
        }
    }
}

/// Returns the result at an index.
fn at<T>(results: &WriteResults<T>, index: usize) -> Result<&T, Error> {
    let count = results.len();
    match results.get(index) {
        Some(result) => result.as_ref().map_err(|error| error.clone().into()),
        None => Err(input::invalid("index", format!("it is {index} of {count}"))),
    }
}

fn wrong_kind(function: &str) -> Error {
    Error::new(
        ErrorKind::InvalidArgument,
        Outcome::NotDone,
        "looking at results",
        format!("they are not those of {function}()"),
    )
}

/// Returns the number of results, which is the number of keys.
#[unsafe(no_mangle)]
pub extern "C" fn sst_results_len(results: *const sst_results) -> usize {
    infallible::value(0, || Ok(handle::get::<WriteResultsObject>(results)?.len()))
}

/// Returns the number of results that are errors.
#[unsafe(no_mangle)]
pub extern "C" fn sst_results_failed(results: *const sst_results) -> usize {
    infallible::value(0, || {
        Ok(handle::get::<WriteResultsObject>(results)?.failed())
    })
}

/// Reports the result of the SET of the key at an index: it returns and writes the same as sst_set() would have.
///
/// NULL: `result` and `version`. Errors: that of the SET; SST_INVALID_ARGUMENT if the index is too large or these are
/// not results of sst_set_many().
#[unsafe(no_mangle)]
pub extern "C" fn sst_results_set_at(
    results: *const sst_results,
    index: usize,
    result: Option<&mut MaybeUninit<sst_set_result>>,
    version: Option<&mut MaybeUninit<*mut sst_hlc>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    let to = ResultOut::with_version(result, version);
    boundary::status(error, || {
        match &*handle::get::<WriteResultsObject>(results)? {
            WriteResultsObject::Set(sets) => to.write(at(sets, index)?),
            WriteResultsObject::Del(_) => Err(wrong_kind("sst_set_many")),
        }
    })
}

/// Reports the result of the DEL of the key at an index: it returns and writes the same as sst_del() would have.
///
/// NULL: `result` and `version`. Errors: that of the DEL; SST_INVALID_ARGUMENT if the index is too large or these are
/// not results of sst_del_many().
#[unsafe(no_mangle)]
pub extern "C" fn sst_results_del_at(
    results: *const sst_results,
    index: usize,
    result: Option<&mut MaybeUninit<sst_del_result>>,
    version: Option<&mut MaybeUninit<*mut sst_hlc>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    let to = ResultOut::with_version(result, version);
    boundary::status(error, || {
        match &*handle::get::<WriteResultsObject>(results)? {
            WriteResultsObject::Del(dels) => to.write(at(dels, index)?),
            WriteResultsObject::Set(_) => Err(wrong_kind("sst_del_many")),
        }
    })
}

/// Frees results.
#[unsafe(no_mangle)]
pub extern "C" fn sst_results_free(results: *mut sst_results) {
    infallible::run(|| drop(handle::free::<WriteResultsObject>(results)));
}
