//! Log records of the library.
use crate::boundary;
use crate::callback::{Callback, closure};
use crate::error::sst_error;
use crate::infallible;
use crate::input;
use crate::status::sst_status;
use statestore_embed::log::{self, Level, Record};
use std::ffi::{CString, c_char, c_void};
use std::mem::MaybeUninit;

/// Severity of a log record.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum sst_level {
    /// A bug of this library.
    SST_LOG_ERROR = 1,
    /// Events that an operator should know, like a lost connection.
    SST_LOG_WARN = 2,
    /// Occasional events of normal operation.
    SST_LOG_INFO = 3,
    /// Details for finding errors.
    SST_LOG_DEBUG = 4,
    /// All details.
    SST_LOG_TRACE = 5,
}

impl From<Level> for sst_level {
    fn from(level: Level) -> Self {
        match level {
            Level::ERROR => Self::SST_LOG_ERROR,
            Level::WARN => Self::SST_LOG_WARN,
            Level::INFO => Self::SST_LOG_INFO,
            Level::DEBUG => Self::SST_LOG_DEBUG,
            Level::TRACE => Self::SST_LOG_TRACE,
        }
    }
}

/// Callback that receives the log records of the library. They contain no keys, no values and no credentials.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct sst_on_log {
    pub context: *mut c_void,
    /// Called any number of times, on a thread of its own. The texts are UTF-8 with a NUL at the end: `target` is the
    /// part of the library, `message` the text of the record.
    pub call: Option<
        unsafe extern "C" fn(
            context: *mut c_void,
            level: sst_level,
            target: *const c_char,
            message: *const c_char,
        ),
    >,
    pub drop: Option<unsafe extern "C" fn(context: *mut c_void)>,
}

closure!(
    sst_on_log,
    unsafe extern "C" fn(*mut c_void, sst_level, *const c_char, *const c_char)
);

/// Sets the callback for the log records of the library in this process, in place of the previous one.
///
/// It receives the records that are at least as severe as `level`, an sst_level. At most 1024 records wait for it; if
/// there are more, a record reports how many were dropped. A forked child has to set its own callback.
///
/// Errors: SST_INVALID_ARGUMENT for an unknown level, SST_INTERNAL if the system provides no thread.
#[unsafe(no_mangle)]
pub extern "C" fn sst_log_set(
    level: u32,
    callback: sst_on_log,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    let callback = Callback::new(callback);
    boundary::status(error, || {
        let levels = [
            Level::ERROR,
            Level::WARN,
            Level::INFO,
            Level::DEBUG,
            Level::TRACE,
        ];
        let level = levels
            .into_iter()
            .find(|known| sst_level::from(*known) as u32 == level)
            .ok_or_else(|| input::invalid("level", format!("{level} is not an sst_level")))?;
        log::to_callback(level, move |record| report(&callback, &record))
    })
}

fn report(callback: &Callback<sst_on_log>, record: &Record) {
    let text = |text: &str| CString::new(text.replace('\0', "\u{fffd}")).unwrap_or_default();
    let (target, message) = (text(record.target), text(&record.message));
    callback.call(|call, context| {
        // SAFETY: the function has that type and gets its own context; the texts outlive the call.
        unsafe {
            call(
                context,
                record.level.into(),
                target.as_ptr(),
                message.as_ptr(),
            );
        }
    });
}

/// Stops logging. The callback still receives the earlier records; then its context is dropped on its thread.
///
/// Thread: any, also in the callback itself.
#[unsafe(no_mangle)]
pub extern "C" fn sst_log_off() {
    infallible::run(log::off);
}
