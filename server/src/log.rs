//! The log of the process.
mod journal;
mod non_blocking_writer;

use journal::{JournalLayer, JournalSocket};
use non_blocking_writer::NonBlockingWriter;
use statestored::config::{AuditLog, LogFilter, LogFormat};
use statestored_broker::audit;
use std::error::Error;
use std::fmt;
use std::fs::File;
use std::io::{self, IsTerminal};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::{Format, Full, Writer};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::reload::{self, Handle};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry};

/// Time that the end of the process waits for the reader of the log.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// A guard that waits for the last lines when it is dropped.
#[derive(Debug)]
pub(crate) struct LogGuard {
    lines: NonBlockingWriter,
    /// Whether the lines are entries for the journal.
    is_journal: bool,
}

impl LogGuard {
    /// Writes the reason why the process ends, as its last line.
    pub(crate) fn write_error(&self, error: &dyn Error) {
        let line = format!("statestored: {error}");
        if self.is_journal {
            self.lines.push(&journal::error_entry(&line));
        } else {
            self.lines.push(format!("{line}\n").as_bytes());
        }
    }
}

impl Drop for LogGuard {
    fn drop(&mut self) {
        self.lines.flush(FLUSH_TIMEOUT);
    }
}

/// The filter of the log, which can be changed while the process runs.
#[derive(Clone)]
pub(crate) struct FilterHandle {
    layer: Handle<Targets, Registry>,
    /// The filter as it was last set.
    current: Arc<Mutex<Targets>>,
}

impl FilterHandle {
    pub(crate) fn set(&self, filter: &LogFilter) {
        let targets = targets(filter);
        // The reload fails only when the subscriber is gone.
        let _ = self.layer.reload(with_admin_actions(targets.clone()));
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = targets;
    }

    /// Returns the filter that was set last.
    pub(crate) fn get(&self) -> String {
        let current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        current.to_string()
    }
}

fn targets(filter: &LogFilter) -> Targets {
    // Every filter is also one of `Targets`.
    filter.to_string().parse().unwrap_or_default()
}

/// Adds the actions of administrators, which no filter hides. An administrator could otherwise disable the trail of their
/// own actions.
fn with_admin_actions(filter: Targets) -> Targets {
    if filter.would_enable(audit::ADMIN, &Level::INFO) {
        filter
    } else {
        filter.with_target(audit::ADMIN, Level::INFO)
    }
}

/// Returns the priority of a level in the journal (syslog(3)).
fn priority(level: Level) -> u8 {
    match level {
        Level::ERROR => 3,
        Level::WARN => 4,
        Level::INFO => 6,
        Level::DEBUG | Level::TRACE => 7,
    }
}

/// A format of lines that begin with their priority, as the journal of systemd reads it from standard error
/// (sd-daemon(3)).
struct Journal(Format<Full, ()>);

impl<S, N> FormatEvent<S, N> for Journal
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        write!(writer, "<{}>", priority(*event.metadata().level()))?;
        self.0.format_event(context, writer, event)
    }
}

/// Returns whether the user wants no colours (<https://no-color.org>).
fn is_color_disabled() -> bool {
    std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
}

/// Starts to log to standard error, or to the journal if it reads standard error and the format is for it. The audit trail is kept in
/// memory as well.
///
/// # Errors
/// No file descriptor or thread is available.
pub(crate) fn init(
    filter: &LogFilter,
    format: LogFormat,
    audit: &AuditLog,
) -> io::Result<(LogGuard, FilterHandle)> {
    let targets = targets(filter);
    let (filter, layer) = reload::Layer::new(with_admin_actions(targets.clone()));
    let handle = FilterHandle {
        layer,
        current: Arc::new(Mutex::new(targets)),
    };
    // Avoids the lock of `std::io::stderr`, which is held while the reader is stuck, so that a panic would wait for it.
    let output = File::from(io::stderr().as_fd().try_clone_to_owned()?);
    let socket = match format {
        LogFormat::Journal => journal::socket_of(&output),
        LogFormat::Text | LogFormat::Json => None,
    };
    let is_journal = socket.is_some();
    let lines = match socket {
        Some(socket) => NonBlockingWriter::spawn(JournalSocket::new(socket, output)?)?,
        None => NonBlockingWriter::spawn(output)?,
    };
    let layer = tracing_subscriber::fmt::layer().with_writer(lines.clone());
    let layer = match format {
        LogFormat::Text => layer
            .with_target(false)
            .with_ansi(io::stderr().is_terminal() && !is_color_disabled())
            .boxed(),
        LogFormat::Json => layer.json().flatten_event(true).boxed(),
        LogFormat::Journal if is_journal => JournalLayer(lines.clone()).boxed(),
        LogFormat::Journal => {
            let plain = Format::default().without_time();
            let plain = plain.with_level(false).with_target(false).with_ansi(false);
            layer.with_ansi(false).event_format(Journal(plain)).boxed()
        }
    };
    tracing_subscriber::registry()
        .with(layer.with_filter(filter))
        .with(audit.layer())
        .init();
    Ok((LogGuard { lines, is_journal }, handle))
}
