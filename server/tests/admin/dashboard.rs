//! The dashboard of Grafana.
use crate::http::{get, start, stop};
use crate::metrics::{exposed, names_in, work};
use serde_json::Value;
use statestored::config::Config;
use std::collections::BTreeSet;

/// Columns of a dashboard.
const COLUMNS: u64 = 24;

fn dashboard() -> Value {
    let text = include_str!("../../../packaging/grafana/statestored.json");
    serde_json::from_str(text).unwrap()
}

fn list<'a>(value: &'a Value, key: &str) -> &'a Vec<Value> {
    let found = value[key].as_array();
    found.unwrap_or_else(|| panic!("{key} is no list in {value}"))
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    let found = value[key].as_str();
    found.unwrap_or_else(|| panic!("{key} is no text in {value}"))
}

fn number(value: &Value, key: &str) -> u64 {
    let found = value[key].as_u64();
    found.unwrap_or_else(|| panic!("{key} is no number in {value}"))
}

#[tokio::test]
async fn the_dashboard_uses_existing_metrics() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(Config::durable(folder.path().join("data")));
    work(&server).await;
    let there = exposed(&get(&server, "/metrics").body);
    let document = dashboard();
    let targets = list(&document, "panels")
        .iter()
        .flat_map(|panel| list(panel, "targets"));
    let shown: BTreeSet<_> = targets
        .flat_map(|target| names_in(text(target, "expr")))
        .collect();
    assert!(shown.len() > 40, "{shown:?}");
    let unknown: Vec<_> = shown.difference(&there).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
    stop(server).await;
}

#[test]
fn the_dashboard_is_well_formed() {
    let document = dashboard();
    assert_eq!(text(&document, "title"), "statestored");
    assert_eq!(text(&document, "uid"), "statestored");
    assert!(number(&document, "schemaVersion") >= 39);
    let variables: BTreeSet<_> = list(&document["templating"], "list")
        .iter()
        .map(|variable| text(variable, "name"))
        .collect();
    assert_eq!(variables, BTreeSet::from(["datasource", "instance"]));
    let (mut ids, mut titles, mut cells) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for panel in list(&document, "panels") {
        assert!(ids.insert(number(panel, "id")), "{panel}");
        assert!(titles.insert(text(panel, "title")), "{panel}");
        assert!(["stat", "timeseries"].contains(&text(panel, "type")));
        let place = &panel["gridPos"];
        let [x, y, w, h] = ["x", "y", "w", "h"].map(|key| number(place, key));
        assert!(w > 0 && h > 0 && x + w <= COLUMNS, "{place}");
        for cell in (x..x + w).flat_map(|column| (y..y + h).map(move |row| (column, row))) {
            assert!(cells.insert(cell), "{panel} covers another one");
        }
        check_targets(panel);
        check_thresholds(&panel["fieldConfig"]["defaults"]);
    }
}

/// Checks the queries of a panel.
fn check_targets(panel: &Value) {
    let mut ids = BTreeSet::new();
    for target in list(panel, "targets") {
        assert!(ids.insert(text(target, "refId")), "{target}");
        assert!(!text(target, "legendFormat").is_empty(), "{target}");
        let query = text(target, "expr");
        assert!(query.contains("{instance=~\"$instance\""), "{query}");
        assert_eq!(query.matches('(').count(), query.matches(')').count());
        for source in [&target["datasource"], &panel["datasource"]] {
            assert_eq!(text(source, "uid"), "${datasource}", "{target}");
            assert_eq!(text(source, "type"), "prometheus", "{target}");
        }
    }
    assert!(!ids.is_empty(), "{panel}");
}

/// Checks the unit, and the thresholds if there are any: the first has no value, and the others rise.
fn check_thresholds(defaults: &Value) {
    assert!(!text(defaults, "unit").is_empty(), "{defaults}");
    if defaults["thresholds"].is_null() {
        return;
    }
    assert_eq!(text(&defaults["thresholds"], "mode"), "absolute");
    let steps = list(&defaults["thresholds"], "steps");
    assert!(steps.len() > 1 && steps[0]["value"].is_null(), "{steps:?}");
    let values: Vec<_> = steps[1..]
        .iter()
        .map(|step| step["value"].as_f64().unwrap())
        .collect();
    assert!(values.is_sorted(), "{steps:?}");
    for step in steps {
        assert!(["green", "orange", "red"].contains(&text(step, "color")));
    }
}
