//! Metrics as text: Prometheus 0.0.4, or `OpenMetrics` 1.0 for clients that request it.
use statestored_common::histogram::{BucketBounds, Histogram};
use std::fmt::{Display, Write};

/// Kind of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MetricType {
    /// A value that only increases; its name ends with `_total`.
    Counter,
    /// A value that rises and falls.
    Gauge,
    /// Counts by range of values.
    Histogram,
}

/// Format of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ExpositionFormat {
    Prometheus,
    OpenMetrics,
}

impl ExpositionFormat {
    pub(super) fn content_type(self) -> &'static str {
        match self {
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// A text being written. A family begins, and its samples follow.
#[derive(Debug)]
pub(super) struct Exposition {
    text: String,
    format: ExpositionFormat,
    name: &'static str,
}

/// Labels of a sample: names that need no escapes, and any values.
pub(super) type Labels<'a> = &'a [(&'a str, &'a str)];

impl Exposition {
    pub(super) fn new(form: ExpositionFormat) -> Self {
        Self {
            text: String::with_capacity(32 * 1024),
            format: form,
            name: "",
        }
    }

    /// Begins a family. `help` is one line.
    pub(super) fn family(&mut self, name: &'static str, kind: MetricType, help: &str) -> &mut Self {
        self.name = name;
        let is_open = self.format == ExpositionFormat::OpenMetrics;
        let bare = name.strip_suffix("_total");
        // OpenMetrics has the suffix of counters only in the samples, and requires it there.
        let family = bare.filter(|_| is_open).unwrap_or(name);
        let kind = match kind {
            MetricType::Counter if is_open && bare.is_none() => "unknown",
            MetricType::Counter => "counter",
            MetricType::Gauge => "gauge",
            MetricType::Histogram => "histogram",
        };
        self.write(format_args!(
            "# HELP {family} {help}\n# TYPE {family} {kind}\n"
        ));
        if is_open {
            for unit in ["seconds", "bytes"] {
                if family.ends_with(unit) {
                    self.write(format_args!("# UNIT {family} {unit}\n"));
                }
            }
        }
        self
    }

    /// Appends a sample of the family that was begun last.
    pub(super) fn sample(&mut self, labels: Labels<'_>, value: impl Display) -> &mut Self {
        self.line("", labels, None, value);
        self
    }

    /// Appends a histogram of the family. `unit` is the size of a recorded unit in the unit of the metric.
    pub(super) fn histogram(
        &mut self,
        labels: Labels<'_>,
        bounds: &BucketBounds,
        histogram: &Histogram,
        unit: f64,
    ) -> &mut Self {
        let mut total = 0;
        for (bound, count) in bounds.iter().zip(&histogram.counts) {
            total += count;
            #[expect(clippy::cast_precision_loss, reason = "bounds are small")]
            let bound = *bound as f64 * unit;
            // Rounds away the noise of the last bit, which would be part of the name of a series.
            let bound = (bound * 1e9).round() / 1e9;
            self.line("_bucket", labels, Some(&bound.to_string()), total);
        }
        self.line("_bucket", labels, Some("+Inf"), histogram.total());
        #[expect(
            clippy::cast_precision_loss,
            reason = "a sum of times need not be exact"
        )]
        self.line("_sum", labels, None, histogram.sum as f64 * unit);
        self.line("_count", labels, None, histogram.total());
        self
    }

    /// Completes the text and returns it.
    pub(super) fn finish(mut self) -> String {
        if self.format == ExpositionFormat::OpenMetrics {
            self.text.push_str("# EOF\n");
        }
        self.text
    }

    fn line(&mut self, ending: &str, labels: Labels<'_>, le: Option<&str>, value: impl Display) {
        let name = self.name;
        self.write(format_args!("{name}{ending}"));
        let le = le.map(|bound| ("le", bound));
        let mut separator = '{';
        for (label, value) in labels.iter().copied().chain(le) {
            let value = escape(value);
            self.write(format_args!("{separator}{label}=\"{value}\""));
            separator = ',';
        }
        if separator == ',' {
            self.text.push('}');
        }
        self.write(format_args!(" {value}\n"));
    }

    fn write(&mut self, arguments: std::fmt::Arguments<'_>) {
        // Writing to a `String` cannot fail.
        let _ = self.text.write_fmt(arguments);
    }
}

fn escape(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use statestored_common::histogram::LATENCY_BOUNDS;

    fn text(form: ExpositionFormat) -> String {
        let mut exposition = Exposition::new(form);
        let mut times = Histogram::default();
        times.record(&LATENCY_BOUNDS, 10, 2);
        times.record(&LATENCY_BOUNDS, 9_000_000, 1);
        exposition
            .family("a_total", MetricType::Counter, "Counts.")
            .sample(&[("label", "a\"b\\c\nd")], 7);
        exposition
            .family("t_seconds", MetricType::Histogram, "Takes.")
            .histogram(&[], &LATENCY_BOUNDS, &times, 1e-6);
        exposition
            .family("old_name", MetricType::Counter, "Counts as well.")
            .sample(&[], 1);
        exposition.finish()
    }

    #[test]
    fn the_prometheus_format_is_written() {
        let text = text(ExpositionFormat::Prometheus);
        let begin = "# HELP a_total Counts.\n# TYPE a_total counter\na_total{label=\"a\\\"b\\\\c\\nd\"} 7\n\
                     # HELP t_seconds Takes.\n# TYPE t_seconds histogram\nt_seconds_bucket{le=\"0.00001\"} 2\n";
        assert!(text.starts_with(begin), "{text}");
        let end = "t_seconds_bucket{le=\"2.5\"} 2\nt_seconds_bucket{le=\"+Inf\"} 3\nt_seconds_sum 9.00002\n\
                   t_seconds_count 3\n# HELP old_name Counts as well.\n# TYPE old_name counter\nold_name 1\n";
        assert!(text.ends_with(end), "{text}");
    }

    #[test]
    fn the_openmetrics_format_has_units_suffixes_and_eof() {
        let text = text(ExpositionFormat::OpenMetrics);
        assert!(text.contains("# TYPE a counter\na_total{"), "{text}");
        assert!(text.contains("# UNIT t_seconds seconds\n"), "{text}");
        assert!(text.contains("# TYPE old_name unknown\n"), "{text}");
        assert!(text.ends_with("\n# EOF\n"), "{text}");
    }
}
