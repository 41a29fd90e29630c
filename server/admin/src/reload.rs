//! The metrics of reloads.
use super::app_state::AppState;
use super::exposition::Exposition;
use super::exposition::MetricType::Gauge;

impl AppState {
    /// Appends the metrics.
    pub(super) fn reload_metrics(&self, text: &mut Exposition) {
        let status = self.server_handle().reload_status();
        text.family(
            "statestored_config_last_reload_successful",
            Gauge,
            "1 if the last reload succeeded.",
        )
        .sample(&[], u8::from(status.has_succeeded()));
        text.family(
            "statestored_config_last_reload_success_timestamp_seconds",
            Gauge,
            "When the configuration was last read, since the Unix epoch.",
        )
        .sample(&[], status.succeeded_at_s());
    }
}
