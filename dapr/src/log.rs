//! The log of the process, in the forms of `statestored`.
use crate::arguments::LogFormat;
use std::fmt;
use std::io::IsTerminal;
use tracing::level_filters::LevelFilter;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::{Format, Full, Writer};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;

/// Libraries that log each frame of HTTP/2. Their lines below warnings are logged at the level trace only.
const TRANSPORT: [&str; 5] = ["h2", "hyper", "hyper_util", "tonic", "tower"];

/// Lines that begin with their priority, in the format that the journal of systemd reads from standard error (sd-daemon(3)).
struct JournalFormat(Format<Full, ()>);

impl<S, N> FormatEvent<S, N> for JournalFormat
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
        let priority = match *event.metadata().level() {
            Level::ERROR => 3,
            Level::WARN => 4,
            Level::INFO => 6,
            Level::DEBUG | Level::TRACE => 7,
        };
        write!(writer, "<{priority}>")?;
        self.0.format_event(context, writer, event)
    }
}

/// Whether the user has turned colours off (<https://no-color.org>).
fn is_color_disabled() -> bool {
    std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
}

/// Writes to standard error from now on.
pub(crate) fn init(level: LevelFilter, format: LogFormat) {
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let lines = match format {
        LogFormat::Text => lines
            .with_target(false)
            .with_ansi(std::io::stderr().is_terminal() && !is_color_disabled())
            .boxed(),
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
        LogFormat::Journal => {
            let plain = Format::default().without_time();
            let plain = plain.with_level(false).with_target(false).with_ansi(false);
            lines
                .with_ansi(false)
                .event_format(JournalFormat(plain))
                .boxed()
        }
    };
    let libraries = if level == LevelFilter::TRACE {
        level
    } else {
        level.min(LevelFilter::WARN)
    };
    let levels = Targets::new()
        .with_default(level)
        .with_targets(TRANSPORT.map(|library| (library, libraries)));
    tracing_subscriber::registry()
        .with(levels)
        .with(lines)
        .init();
}
