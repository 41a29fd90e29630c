//! Log records of the library, for the logging of a foreign language.
//!
//! The library logs through `tracing`. This module forwards the events of its own crates, process-wide: to a mailbox, or to a
//! callback on a thread of its own. Records contain no keys, values or credentials.
use crate::error::{Error, ErrorKind};
use crate::mailbox::Mailbox;
use crate::process::{self, PerProcess, Process};
use crate::thread;
use statestore::Outcome;
use std::fmt::{self, Write as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};
use std::thread::Thread;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span;
use tracing::subscriber::Interest;
use tracing::{Event, Metadata, Subscriber};

pub use tracing::Level;

/// Maximum number of waiting records; further ones are dropped, counted and reported.
const MAX_WAITING_RECORDS: usize = 1024;
/// The beginning of the names of our crates.
const TARGET_PREFIX: &str = "statestore";

/// A log record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// How important it is.
    pub level: Level,
    /// The module that logged it.
    pub target: &'static str,
    /// The message, with its fields as `name=value`.
    pub message: String,
    /// The file of the library's source that logged it.
    pub file: &'static str,
    /// The line in that file.
    pub line: u32,
}

/// Where records go.
static SINK: PerProcess<RwLock<Option<Arc<Mailbox<Record>>>>> =
    PerProcess::new(RwLock::new(None), || RwLock::new(None));
/// The least important level that is forwarded: 0 for none, 5 for all.
static LEVEL: AtomicUsize = AtomicUsize::new(0);
static DROPPED: AtomicU64 = AtomicU64::new(0);
/// The thread of the current callback. Changes of the destination hold the lock, so that sink and thread match.
static CALLBACK_THREAD: PerProcess<Mutex<Option<Arc<CallbackThread>>>> =
    PerProcess::new(Mutex::new(None), || Mutex::new(None));

/// Forwards records of at least `level` to a mailbox, in place of the previous destination. The mailbox holds at most 1024
/// records; if more arrive before they are taken, a record reports how many were dropped.
///
/// # Errors
/// [`ErrorKind::Internal`]: this process has set a global `tracing` subscriber of its own, which gets the events.
pub fn to_mailbox(level: Level, mailbox: Arc<Mailbox<Record>>) -> Result<(), Error> {
    install()?;
    set_destination(level_number(level), Some(mailbox), None);
    Ok(())
}

/// Forwards records of at least `level` to a callback, in place of the previous destination. The callback runs on a thread of
/// its own, and is dropped there after the last call.
///
/// A forked child has to set it again.
///
/// # Errors
/// The errors of [`to_mailbox`], and a system that provides no thread.
pub fn to_callback(
    level: Level,
    callback: impl FnMut(Record) + Send + 'static,
) -> Result<(), Error> {
    install()?;
    let caller = Arc::new(CallbackThread::default());
    let hook = Arc::clone(&caller);
    let mailbox = Mailbox::new(move || hook.wake());
    let (thread_caller, records) = (Arc::clone(&caller), Arc::clone(&mailbox));
    let thread = thread::spawn("statestore-log", move || {
        thread_caller.run(&records, callback);
    })
    .map_err(|error| failed(error.to_string()))?;
    // No other thread sets it, and no item rings before the change.
    let _ = caller.thread.set(thread.thread().clone());
    set_destination(level_number(level), Some(mailbox), Some(caller));
    Ok(())
}

/// Stops forwarding. A callback still receives earlier records.
pub fn off() {
    set_destination(0, None, None);
}

/// Forwards to another mailbox from now on; the thread of the callback before ends.
fn set_destination(
    level: usize,
    mailbox: Option<Arc<Mailbox<Record>>>,
    caller: Option<Arc<CallbackThread>>,
) {
    let mut current = CALLBACK_THREAD
        .get()
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    let before = {
        let mut sink = SINK.get().write().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *sink, mailbox)
    };
    LEVEL.store(level, Ordering::Relaxed);
    tracing::callsite::rebuild_interest_cache();
    let ended = std::mem::replace(&mut *current, caller);
    drop(current);
    if let Some(ended) = ended {
        ended.stop();
    }
    drop(before);
}

fn install() -> Result<(), Error> {
    static INSTALLED: OnceLock<bool> = OnceLock::new();
    // Forks are noticed from here on, so that a child does not wait for a thread that it does not have.
    Process::current();
    let installed = INSTALLED
        .get_or_init(|| tracing::subscriber::set_global_default(ForwardingSubscriber).is_ok());
    if *installed {
        Ok(())
    } else {
        Err(failed("this process has set a global `tracing` subscriber"))
    }
}

fn failed(reason: impl Into<String>) -> Error {
    Error::new(
        ErrorKind::Internal,
        Outcome::NotDone,
        "forwarding the log",
        reason,
    )
}

fn level_number(level: Level) -> usize {
    match level {
        Level::ERROR => 1,
        Level::WARN => 2,
        Level::INFO => 3,
        Level::DEBUG => 4,
        Level::TRACE => 5,
    }
}

/// The thread of a callback.
#[derive(Debug, Default)]
struct CallbackThread {
    thread: OnceLock<Thread>,
    is_stopping: AtomicBool,
}

impl CallbackThread {
    fn wake(&self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }

    fn stop(&self) {
        self.is_stopping.store(true, Ordering::SeqCst);
        self.wake();
    }

    fn run(&self, records: &Mailbox<Record>, mut callback: impl FnMut(Record)) {
        let process = Process::current();
        loop {
            let is_last = self.is_stopping.load(Ordering::SeqCst);
            // One at a time: a record that was taken no longer counts as waiting.
            while records.drain(1, |record| {
                // A panic has nowhere to be reported, and the next record may succeed.
                let _ = catch_unwind(AssertUnwindSafe(|| callback(record)));
                if !process.is_current() {
                    process::exit_child();
                }
            }) {}
            if is_last && records.close_if_empty() {
                return;
            }
            if !is_last {
                std::thread::park();
            }
        }
    }
}

/// Hands the events of our crates over; their spans are for programs in Rust.
struct ForwardingSubscriber;

impl Subscriber for ForwardingSubscriber {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        if metadata.is_event() && metadata.target().starts_with(TARGET_PREFIX) {
            Interest::sometimes()
        } else {
            Interest::never()
        }
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(match LEVEL.load(Ordering::Relaxed) {
            0 => LevelFilter::OFF,
            1 => LevelFilter::ERROR,
            2 => LevelFilter::WARN,
            3 => LevelFilter::INFO,
            4 => LevelFilter::DEBUG,
            _ => LevelFilter::TRACE,
        })
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event()
            && metadata.target().starts_with(TARGET_PREFIX)
            && level_number(*metadata.level()) <= LEVEL.load(Ordering::Relaxed)
    }

    fn event(&self, event: &Event<'_>) {
        let mut text = EventText::default();
        event.record(&mut text);
        let metadata = event.metadata();
        forward(Record {
            level: *metadata.level(),
            target: metadata.target(),
            message: text.message + &text.fields,
            file: metadata.file().unwrap_or_default(),
            line: metadata.line().unwrap_or_default(),
        });
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

fn forward(record: Record) {
    // A sink that is being changed is not waited for.
    let mailbox = SINK.get().try_read().ok().and_then(|sink| sink.clone());
    let Some(mailbox) = mailbox else { return };
    if mailbox.len() >= MAX_WAITING_RECORDS {
        DROPPED.fetch_add(1, Ordering::Relaxed);
        return;
    }
    let dropped = DROPPED.swap(0, Ordering::Relaxed);
    if dropped > 0 {
        let lost = Record {
            level: Level::WARN,
            target: "statestore_embed::log",
            message: format!(
                "{dropped} records were dropped, because they came faster than they were taken"
            ),
            file: file!(),
            line: line!(),
        };
        // A closed mailbox accepts no records.
        let _ = mailbox.post(lost);
    }
    let _ = mailbox.post(record);
}

/// An event as text.
#[derive(Default)]
struct EventText {
    message: String,
    fields: String,
}

impl Visit for EventText {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a string does not fail.
        let _ = if field.name() == "message" {
            write!(self.message, "{value:?}")
        } else {
            write!(self.fields, " {}={value:?}", field.name())
        };
    }
}
