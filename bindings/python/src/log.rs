//! Log records of the library, for `logging`.
use crate::error;
use crate::interpreter::Invoke;
use pyo3::prelude::*;
use statestore_embed::PerProcess;
use statestore_embed::log::{self, Level, Record};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// Disconnected when the thread that logs has ended. A forked child does not have the thread of its parent.
static LOG_THREAD_ENDED: PerProcess<Mutex<Option<Receiver<()>>>> =
    PerProcess::new(Mutex::new(None), || Mutex::new(None));

/// How long the end waits for records that are being logged.
const STOP_TIMEOUT: Duration = Duration::from_secs(1);

/// Levels as `logging` numbers them; TRACE is 5.
const LEVELS: [(Level, u8); 5] = [
    (Level::ERROR, 40),
    (Level::WARN, 30),
    (Level::INFO, 20),
    (Level::DEBUG, 10),
    (Level::TRACE, 5),
];

/// Calls ``callback(level, module, message, file, line)`` for what is logged, if it is at least as important as ``level``.
#[pyfunction]
#[pyo3(signature = (level, callback, /))]
pub(crate) fn forward_log(py: Python<'_>, level: u8, callback: Py<PyAny>) -> PyResult<()> {
    let mut levels = LEVELS.iter().rev();
    let least = levels.find(|(_, number)| *number >= level);
    let least = least.map_or(Level::ERROR, |(level, _)| *level);
    let (sender, receiver) = channel();
    let teller = LogCallback {
        callback,
        _ended: sender,
    };
    log::to_callback(least, move |record| teller.report(&record))
        .map_err(|error| error::to_python(py, &error))?;
    if let Ok(mut ended) = LOG_THREAD_ENDED.get().lock() {
        *ended = Some(receiver);
    }
    Ok(())
}

/// Logs nothing any more, and waits until what was logged before has been told.
#[pyfunction]
pub(crate) fn stop_log(py: Python<'_>) {
    let ended = LOG_THREAD_ENDED
        .get()
        .lock()
        .ok()
        .and_then(|mut ended| ended.take());
    log::off();
    if let Some(ended) = ended {
        py.detach(move || {
            // The channel is disconnected when the thread drops the callback.
            let _ = ended.recv_timeout(STOP_TIMEOUT);
        });
    }
}

struct LogCallback {
    callback: Py<PyAny>,
    _ended: Sender<()>,
}

impl LogCallback {
    fn report(&self, record: &Record) {
        let number = LEVELS.iter().find(|(level, _)| *level == record.level);
        let number = number.map_or(40, |(_, number)| *number);
        Python::try_attach(|py| {
            let Record {
                target,
                message,
                file,
                line,
                ..
            } = record;
            let arguments = (number, target, message, file, line);
            if let Err(error) = self.callback.bind(py).invoke(arguments) {
                error.write_unraisable(py, Some(self.callback.bind(py)));
            }
        });
    }
}
