//! Results of operations: an enum of the header, and for some a version.
use crate::callback::{Callback, Closure};
use crate::error::{self, sst_error};
use crate::handle;
use crate::hlc::{TimestampObject, sst_hlc};
use crate::output::{self, FailureValue, HandleOut};
use crate::status::sst_status;
use statestore_core::Hlc;
use statestore_embed::Error;
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr;

/// The result of an operation of the core.
pub(crate) trait OperationOutcome {
    /// The enum of the header.
    type ResultEnum: FailureValue + Copy;

    fn result(&self) -> Self::ResultEnum;

    /// Returns the present version, if the header reports one.
    fn version(&self) -> Option<&Hlc> {
        None
    }
}

/// The places to which a blocking call writes its results.
pub(crate) struct ResultOut<'a, W> {
    result: Option<&'a mut W>,
    version: Option<HandleOut<'a, TimestampObject>>,
}

impl<'a, W: FailureValue> ResultOut<'a, W> {
    pub(crate) fn new(word: Option<&'a mut MaybeUninit<W>>) -> Self {
        Self {
            result: word.map(|word| word.write(W::FAILED)),
            version: None,
        }
    }

    pub(crate) fn with_version(
        word: Option<&'a mut MaybeUninit<W>>,
        version: Option<&'a mut MaybeUninit<*mut sst_hlc>>,
    ) -> Self {
        Self {
            version: HandleOut::optional(version),
            ..Self::new(word)
        }
    }

    pub(crate) fn write(
        self,
        outcome: &impl OperationOutcome<ResultEnum = W>,
    ) -> Result<(), Error> {
        // The handle is made only if the caller wants it.
        if let Some(to) = self.version {
            output::write_optional(Some(to), outcome.version().map(TimestampObject::new))?;
        }
        if let Some(word) = self.result {
            *word = outcome.result();
        }
        Ok(())
    }
}

/// The function of a callback that receives the result of an operation.
type ResultFn<W> = unsafe extern "C" fn(*mut c_void, sst_status, *const sst_error, W);

/// The function of a callback that also receives the version.
type ResultWithVersionFn<W> =
    unsafe extern "C" fn(*mut c_void, sst_status, *const sst_error, W, *const sst_hlc);

/// Reports the result of an operation to a callback.
pub(crate) fn report<O, C>(callback: &Callback<C>, result: Result<O, Error>)
where
    O: OperationOutcome,
    C: Closure<Call = ResultFn<O::ResultEnum>>,
{
    let word = result
        .as_ref()
        .map_or(O::ResultEnum::FAILED, OperationOutcome::result);
    error::lend(result.err().as_ref(), |status, error| {
        // SAFETY: the function has that type and gets its own context.
        callback.call(|call, context| unsafe { call(context, status, error, word) });
    });
}

/// Reports the result of an operation and the version to a callback.
pub(crate) fn report_with_version<O, C>(callback: &Callback<C>, result: Result<O, Error>)
where
    O: OperationOutcome,
    C: Closure<Call = ResultWithVersionFn<O::ResultEnum>>,
{
    let reported = result.and_then(|outcome| {
        let version = outcome.version().map(TimestampObject::new);
        let version = version.map_or(Ok(ptr::null_mut()), handle::new)?;
        Ok((outcome.result(), version))
    });
    error::lend(reported.as_ref().err(), |status, error| {
        let failed = (O::ResultEnum::FAILED, ptr::null_mut());
        let (word, version) = *reported.as_ref().unwrap_or(&failed);
        // SAFETY: the function has that type and gets its own context.
        callback.call(|call, context| unsafe { call(context, status, error, word, version) });
        handle::free::<TimestampObject>(version);
    });
}
