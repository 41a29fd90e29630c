//! The view that compares two readings of the metrics.
use crate::{escape::escape, units::bytes};
use serde_json::Value;

const VERBS: [&str; 9] = [
    "set",
    "get",
    "del",
    "vdel",
    "keynotify",
    "scan",
    "txn",
    "caps",
    "invalid",
];

/// Returns the metrics between two readings, a line each.
pub(super) fn lines(before: &Value, now: &Value) -> Vec<String> {
    let seconds = (number(&now["now_ms"]) - number(&before["now_ms"])).max(1.0) / 1e3;
    let rate = |path: &str| {
        let (now, before) = (now.pointer(path), before.pointer(path));
        let rise = number(now.unwrap_or(&Value::Null)) - number(before.unwrap_or(&Value::Null));
        // A restarted server counts from zero.
        rise.max(0.0) / seconds
    };
    let at = |path: &str| number(now.pointer(path).unwrap_or(&Value::Null));
    let crash = if now["storage"]["previous_run_crashed"] == true {
        "   the previous run crashed"
    } else {
        ""
    };
    let mut lines = vec![format!(
        "statestored {}   {}{crash}",
        escape(now["version"].as_str().unwrap_or("?").as_bytes()),
        state(now)
    )];
    // A server with a shared engine knows neither number.
    let keys = match (&now["counts"]["keys"], &now["counts"]["entry_bytes"]) {
        (Value::Null, _) | (_, Value::Null) => "keys unknown".to_owned(),
        (keys, size) => format!("keys {:.0} in {}", number(keys), bytes(number(size))),
    };
    lines.push(format!(
        "{keys}   connections {:.0}   sessions {:.0}   watches {:.0}   held {}",
        at("/counts/connections"),
        at("/counts/sessions"),
        at("/watches"),
        bytes(at("/counts/held_bytes")),
    ));
    lines.push(format!(
        "notifications {:.0}/s   messages {:.0}/s   refused {:.0} in all",
        rate("/counts/notifications"),
        rate("/counts/messages"),
        at("/counts/refused"),
    ));
    lines.push(String::new());
    lines.push(format!(
        "{:<10} {:>10} {:>10} {:>10} {:>10}",
        "request", "per s", "not ok/s", "median", "99 %"
    ));
    for verb in VERBS {
        let total = rate(&format!("/requests/{verb}/total"));
        let ok = rate(&format!("/requests/{verb}/ok"));
        let path = format!("/requests/{verb}/times/counts");
        let bounds = &now["time_bounds_us"];
        let of = |share| {
            time(percentile(
                before.pointer(&path),
                now.pointer(&path),
                bounds,
                share,
            ))
        };
        lines.push(format!(
            "{verb:<10} {total:>10.0} {:>10.0} {:>10} {:>10}",
            (total - ok).max(0.0),
            of(0.5),
            of(0.99),
        ));
    }
    lines.push(String::new());
    if now["storage"].is_object() {
        let of = |share| {
            let path = "/storage/syncs/counts";
            let bounds = &now["time_bounds_us"];
            time(percentile(
                before.pointer(path),
                now.pointer(path),
                bounds,
                share,
            ))
        };
        lines.push(format!(
            "disk   commits {:.0}/s   written {}/s   sync {} median, {} 99 %   waiting {}",
            rate("/storage/commits"),
            bytes(rate("/storage/written_bytes")),
            of(0.5),
            of(0.99),
            bytes(at("/storage/waiting_bytes")),
        ));
        let merging = if now["storage"]["is_merging"] == true {
            "merging now".into()
        } else {
            format!("last merge {:.0} ms", at("/storage/merge_ms"))
        };
        lines.push(format!(
            "       log {}   base {}   free {} of {}   {merging}",
            bytes(at("/storage/log_bytes")),
            bytes(at("/storage/base_bytes")),
            bytes(at("/disk/free")),
            bytes(at("/disk/size")),
        ));
    }
    lines.push(format!(
        "process   CPU {:.0} %   memory {}   files {:.0} of {:.0}",
        rate("/process/cpu_s") * 100.0,
        bytes(at("/process/resident_bytes")),
        at("/process/open_fds"),
        at("/process/max_fds"),
    ));
    lines
}

fn state(now: &Value) -> String {
    let texts = |list: &Value| {
        let items = list.as_array().map_or(&[][..], Vec::as_slice);
        let texts = items.iter().filter_map(|item| item["text"].as_str());
        let texts: Vec<String> = texts.map(|text| escape(text.as_bytes())).collect();
        texts.join("; ")
    };
    let (reasons, warnings) = (texts(&now["reasons"]), texts(&now["warnings"]));
    match (&*reasons, &*warnings) {
        ("", "") => "ready".into(),
        ("", warnings) => format!("ready, but {warnings}"),
        (reasons, _) => format!("not ready: {reasons}"),
    }
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or(0.0)
}

/// Returns the bound in microseconds for a share of the measurements between the two readings. `None` if there were no
/// measurements, infinite above the last bound.
fn percentile(
    before: Option<&Value>,
    now: Option<&Value>,
    bounds: &Value,
    share: f64,
) -> Option<f64> {
    let counts: Vec<f64> = now?
        .as_array()?
        .iter()
        .enumerate()
        .map(|(range, count)| {
            let before = before.and_then(|before| before.get(range));
            (number(count) - before.map_or(0.0, number)).max(0.0)
        })
        .collect();
    let total: f64 = counts.iter().sum();
    if total == 0.0 {
        return None;
    }
    let mut so_far = 0.0;
    let range = counts.iter().position(|count| {
        so_far += count;
        so_far >= total * share
    })?;
    Some(bounds.get(range).map_or(f64::INFINITY, number))
}

fn time(micros: Option<f64>) -> String {
    match micros {
        None => "-".into(),
        Some(micros) if micros.is_infinite() => "> 2.5 s".into(),
        Some(micros) if micros < 1e3 => format!("< {micros:.0} µs"),
        Some(micros) if micros < 1e6 => format!("< {} ms", micros / 1e3),
        Some(micros) => format!("< {} s", micros / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn rates_and_percentiles_are_computed_between_two_snapshots() {
        let reading = |ms: u64, total: u64, counts: [u64; 3]| {
            json!({
                "now_ms": ms,
                "version": "1\u{1b}[2J",
                "reasons": [],
                "time_bounds_us": [10, 2500],
                "requests": { "set": { "total": total, "ok": total, "times": { "counts": counts } } },
            })
        };
        let before = reading(1000, 100, [90, 0, 0]);
        let now = reading(3000, 300, [90, 190, 10]);
        let lines = lines(&before, &now);
        let set = lines.iter().find(|line| line.starts_with("set")).unwrap();
        let words: Vec<&str> = set.split_whitespace().collect();
        assert_eq!(
            words,
            ["set", "100", "0", "<", "2.5", "ms", ">", "2.5", "s"]
        );
        assert!(lines[0].contains("ready") && !lines[0].contains('\u{1b}'));
        let get = lines.iter().find(|line| line.starts_with("get")).unwrap();
        assert!(get.ends_with('-'), "{get}");
    }

    #[test]
    fn the_first_line_names_a_crash_of_the_previous_run() {
        for (has_crashed, end) in [(true, "ready   the previous run crashed"), (false, "ready")] {
            let now = json!({ "storage": { "previous_run_crashed": has_crashed } });
            let lines = lines(&now, &now);
            assert!(lines[0].ends_with(end), "{}", lines[0]);
        }
    }

    #[test]
    fn the_state_names_reasons_and_warnings() {
        let now =
            |reasons: Value, warnings: Value| json!({ "reasons": reasons, "warnings": warnings });
        let item = |text: &str| json!([{ "code": "code", "text": text }]);
        for (now, expected) in [
            (now(json!([]), json!([])), "ready"),
            (
                now(json!([]), item("the clock is behind")),
                "ready, but the clock is behind",
            ),
            (
                now(item("the server is loading"), item("the clock is behind")),
                "not ready: the server is loading",
            ),
        ] {
            assert_eq!(state(&now), expected);
        }
    }
}
