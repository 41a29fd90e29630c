//! The filter of the log, and a handle to it.
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use tracing::level_filters::LevelFilter;

const FORM: &str = "expected LEVEL or TARGET=LEVEL, with commas between several, such as \
                    info,statestored::audit=debug; levels are off, error, warn, info, debug and trace";

/// The log filter: a level, and levels of targets that differ from it, as in `info,statestored::audit=debug`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogFilter(String);

impl fmt::Display for LogFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for LogFilter {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut directives = Vec::new();
        for directive in text.split(',') {
            let (target, level) = match directive.trim().split_once('=') {
                Some((target, level)) => (Some(target.trim()), level.trim()),
                None => (None, directive.trim()),
            };
            let is_target =
                |it: &str| !it.is_empty() && !it.contains(['[', ']', '{', '}', '"', ' ']);
            if level.is_empty() || !target.is_none_or(is_target) {
                return Err(FORM);
            }
            let level: LevelFilter = level.parse().map_err(|_| FORM)?;
            directives.push(match target {
                Some(target) => format!("{target}={level}"),
                None => level.to_string(),
            });
        }
        Ok(Self(directives.join(",")))
    }
}

/// A handle to the filter of a process's log.
#[derive(Clone)]
pub struct LogControl {
    get: Arc<dyn Fn() -> String + Send + Sync>,
    set: Arc<dyn Fn(&LogFilter) + Send + Sync>,
}

impl LogControl {
    /// Creates a handle that reads and changes the filter with these functions.
    pub fn new(
        get: impl Fn() -> String + Send + Sync + 'static,
        set: impl Fn(&LogFilter) + Send + Sync + 'static,
    ) -> Self {
        Self {
            get: Arc::new(get),
            set: Arc::new(set),
        }
    }

    /// Returns the filter that is in force.
    pub(crate) fn filter(&self) -> String {
        (self.get)()
    }

    /// Changes the filter.
    pub(crate) fn set_filter(&self, filter: &str) -> Result<(), &'static str> {
        (self.set)(&filter.parse()?);
        Ok(())
    }
}

impl fmt::Debug for LogControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LogControl")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_is_a_level_and_levels_of_targets() {
        for (text, meant) in [
            ("info", "info"),
            ("OFF", "off"),
            (
                "info, statestored::audit=Debug",
                "info,statestored::audit=debug",
            ),
            (
                "statestored_broker::hub=trace,warn",
                "statestored_broker::hub=trace,warn",
            ),
        ] {
            assert_eq!(text.parse::<LogFilter>().unwrap().to_string(), meant);
        }
        for text in [
            "",
            "verbose",
            "a=",
            "=info",
            "info,",
            "a[b]=info",
            "a=b=info",
        ] {
            assert!(text.parse::<LogFilter>().is_err(), "{text}");
        }
    }
}
