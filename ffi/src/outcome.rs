//! What an operation did: a word of the header, and for some a version.
use crate::callback::{Callback, Closure};
use crate::error::{self, sst_error};
use crate::handle;
use crate::hlc::{Timestamp, sst_hlc};
use crate::output::{self, Failed, Out};
use crate::status::sst_status;
use statestore_core::Hlc;
use statestore_embed::Error;
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr;

/// What an operation of the core did.
pub(crate) trait Outcome {
    /// The word for it.
    type Word: Failed + Copy;

    fn word(&self) -> Self::Word;

    /// The version that there is now, if the header tells one.
    fn version(&self) -> Option<&Hlc> {
        None
    }
}

/// Where a blocking call writes what it did.
pub(crate) struct Results<'a, W> {
    word: Option<&'a mut W>,
    version: Option<Out<'a, Timestamp>>,
}

impl<'a, W: Failed> Results<'a, W> {
    pub(crate) fn new(word: Option<&'a mut MaybeUninit<W>>) -> Self {
        Self {
            word: word.map(|word| word.write(W::FAILED)),
            version: None,
        }
    }

    pub(crate) fn with_version(
        word: Option<&'a mut MaybeUninit<W>>,
        version: Option<&'a mut MaybeUninit<*mut sst_hlc>>,
    ) -> Self {
        Self {
            version: Out::optional(version),
            ..Self::new(word)
        }
    }

    pub(crate) fn give(self, outcome: &impl Outcome<Word = W>) -> Result<(), Error> {
        // Without a place for it, it is not made.
        if let Some(to) = self.version {
            output::give(Some(to), outcome.version().map(Timestamp::new))?;
        }
        if let Some(word) = self.word {
            *word = outcome.word();
        }
        Ok(())
    }
}

/// The function of a callback that is told what an operation did.
type Told<W> = unsafe extern "C" fn(*mut c_void, sst_status, *const sst_error, W);

/// That of one that is told the version as well.
type ToldWithVersion<W> =
    unsafe extern "C" fn(*mut c_void, sst_status, *const sst_error, W, *const sst_hlc);

/// Tells a callback what an operation did.
pub(crate) fn tell<O, C>(callback: &Callback<C>, result: Result<O, Error>)
where
    O: Outcome,
    C: Closure<Call = Told<O::Word>>,
{
    let word = result.as_ref().map_or(O::Word::FAILED, Outcome::word);
    error::lend(result.err().as_ref(), |status, error| {
        // SAFETY: a function of that type, with its context.
        callback.call(|call, context| unsafe { call(context, status, error, word) });
    });
}

/// Tells a callback what an operation did, and the version.
pub(crate) fn tell_with_version<O, C>(callback: &Callback<C>, result: Result<O, Error>)
where
    O: Outcome,
    C: Closure<Call = ToldWithVersion<O::Word>>,
{
    let told = result.and_then(|outcome| {
        let version = outcome.version().map(Timestamp::new);
        let version = version.map_or(Ok(ptr::null_mut()), handle::new)?;
        Ok((outcome.word(), version))
    });
    error::lend(told.as_ref().err(), |status, error| {
        let failed = (O::Word::FAILED, ptr::null_mut());
        let (word, version) = *told.as_ref().unwrap_or(&failed);
        // SAFETY: a function of that type, with its context.
        callback.call(|call, context| unsafe { call(context, status, error, word, version) });
        handle::free::<Timestamp>(version);
    });
}
