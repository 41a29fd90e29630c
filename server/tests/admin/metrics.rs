//! Figures as text.
use crate::authority::Authority;
use crate::certificates::tls;
use crate::http::{admin, client, get, get_with, server, start};
use statestore::SetOutcome;
use statestored::RunningServer;
use statestored::admin::MetricNames;
use statestored::config::Config;
use statestored_access::UserLimits;
use statestored_storage::{Batch, DurableOptions, DurableStorage, Record, Storage, Write};
use statestored_store::keyspace::PrefixLimit;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The samples of an exposition by name and labels.
pub(crate) fn samples(text: &str) -> BTreeMap<String, f64> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let (name, value) = line.rsplit_once(' ').unwrap();
            (name.to_owned(), value.parse().unwrap())
        })
        .collect()
}

/// The names of metrics in a query.
pub(crate) fn names_in(query: &str) -> Vec<String> {
    let is_of_name = |it: char| it.is_ascii_alphanumeric() || it == '_';
    query
        .split(|it| !is_of_name(it))
        .filter(|word| word.starts_with("statestored_") || word.starts_with("process_"))
        .map(str::to_owned)
        .collect()
}

/// The names of the samples that an exposition has or may have, and those of metrics of engines and brokers, which their pages list.
pub(crate) fn exposed(text: &str) -> BTreeSet<String> {
    let mut names: BTreeSet<String> = samples(text)
        .into_keys()
        .map(|name| name.split('{').next().unwrap().to_owned())
        .collect();
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    names.extend(types.map(|it| it.split(' ').next().unwrap().to_owned()));
    for page in [
        include_str!("../../../docs/etcd.md"),
        include_str!("../../../docs/attached.md"),
    ] {
        let items = page.lines().filter_map(|line| line.strip_prefix("- `"));
        let listed = items.filter(|item| item.starts_with("statestored_"));
        names.extend(listed.map(|item| item.split(['{', '`']).next().unwrap().to_owned()));
    }
    names
}

fn scrape(server: &RunningServer) -> BTreeMap<String, f64> {
    let answer = get(server, "/metrics");
    assert_eq!(answer.status, 200);
    samples(&answer.body)
}

/// Sets, reads, watches, and is refused.
pub(crate) async fn work(server: &RunningServer) {
    let client = client(server, "worker").await;
    for value in ["one", "two"] {
        let set = client.set("key", value).await.unwrap();
        assert!(matches!(set, SetOutcome::Applied { .. }), "{set:?}");
    }
    client.get("key").await.unwrap();
    client.get("none").await.unwrap();
    client.del("key").await.unwrap();
    client.close().await;
}

#[tokio::test]
async fn requests_are_counted_by_verb_and_result_and_measured() {
    for config in [Config::in_memory(), {
        let folder = tempfile::tempdir().unwrap();
        Config::durable(folder.keep())
    }] {
        let is_durable = matches!(
            config.storage,
            statestored::config::StorageConfig::Durable(_)
        );
        let server = start(config);
        work(&server).await;
        let samples = scrape(&server);
        let count = |name: &str| samples[&format!("statestored_{name}")];
        assert_eq!(count(r#"requests_total{verb="set",result="ok"}"#), 2.0);
        assert_eq!(count(r#"requests_total{verb="get",result="ok"}"#), 1.0);
        assert_eq!(count(r#"requests_total{verb="get",result="absent"}"#), 1.0);
        assert_eq!(count(r#"requests_total{verb="del",result="ok"}"#), 1.0);
        assert_eq!(count("insertions_total"), 1.0);
        for (verb, times) in [("set", 2.0), ("get", 2.0), ("del", 1.0), ("scan", 0.0)] {
            let measured = |part: &str| count(&format!("request_duration_seconds_{part}"));
            assert_eq!(
                measured(&format!(r#"count{{verb="{verb}"}}"#)),
                times,
                "{verb}"
            );
            let sum = measured(&format!(r#"sum{{verb="{verb}"}}"#));
            assert_eq!(sum > 0.0, times > 0.0, "{verb} took {sum} s");
        }
        assert_eq!(count("keys"), 0.0);
        assert_eq!(count("serving"), 1.0);
        if is_durable {
            assert!(count("commit_writes_count") >= 3.0 && count("commit_writes_sum") == 3.0);
            assert_eq!(
                count("commit_writes_count"),
                count("sync_duration_seconds_count")
            );
            // Waiting for the disk counts towards the time of the request.
            let waited = count(r#"request_duration_seconds_sum{verb="set"}"#)
                + count(r#"request_duration_seconds_sum{verb="del"}"#);
            assert!(waited >= count("sync_duration_seconds_sum"), "{waited}");
            assert!(count("log_bytes") > 0.0 && count("disk_free_bytes") > 0.0);
            assert_eq!(count("waiting_bytes"), 0.0);
        } else {
            assert!(!samples.contains_key("statestored_log_bytes"));
        }
        tokio::task::spawn_blocking(|| server.stop())
            .await
            .unwrap()
            .unwrap();
    }
}

#[test]
fn size_metrics_equal_the_file_sizes() {
    let folder = tempfile::tempdir().unwrap();
    let options = DurableOptions { log_bytes: 2048 };
    let mut storage = DurableStorage::open(folder.path(), options).unwrap();
    let length = |name: &str| {
        let files = std::fs::read_dir(folder.path())
            .unwrap()
            .map(Result::unwrap);
        let named = files.filter(|file| file.file_name().to_str().unwrap().starts_with(name));
        let lengths = named.map(|file| file.metadata().unwrap().len());
        lengths.sum::<u64>().to_string()
    };
    let manifest = folder.path().join("statestore.manifest");
    let is_there = |word| std::fs::read_to_string(&manifest).unwrap().contains(word);
    // A base, a sealed log, and the current one.
    while !(is_there("base ") && is_there(" last ")) {
        let writes = (0..20).map(|key| {
            Write::Put(Record {
                key: key.to_string().into(),
                value: "value".into(),
                version: (1, 0),
                fence: None,
                expiry: None,
            })
        });
        let clock = None;
        let writes = writes.collect();
        storage.commit(&[Batch { writes, clock }]).unwrap();
    }
    drop(storage);
    let server = start(Config::durable(folder.path()));
    let samples = scrape(&server);
    let said = |name: &str| samples[name].to_string();
    assert_eq!(said("statestored_log_bytes"), length("log-"));
    assert_eq!(said("statestored_base_bytes"), length("base-"));
    server.stop().unwrap();
}

#[tokio::test]
async fn deployed_metric_names_are_optional() {
    let mut both = admin();
    both.names = MetricNames::Both;
    both.namespace = "plant".into();
    let mut deployed = both.clone();
    deployed.names = MetricNames::Deployed;
    for (config, has_own) in [(both, true), (deployed, false)] {
        let server = start(Config {
            admin: Some(config),
            ..Config::in_memory()
        });
        work(&server).await;
        let samples = scrape(&server);
        for (name, value) in [
            ("insertions", 1.0),
            ("modifications", 1.0),
            ("deletions", 1.0),
            ("retrievals", 2.0),
            ("keynotify_requests", 0.0),
            ("notifications_sent", 0.0),
        ] {
            let name =
                format!(r#"aio_broker_state_store_{name}{{namespace="plant",backend_chain="0"}}"#);
            assert_eq!(samples.get(&name), Some(&value), "{name}");
        }
        assert_eq!(samples.contains_key("statestored_keys"), has_own);
        tokio::task::spawn_blocking(|| server.stop())
            .await
            .unwrap()
            .unwrap();
    }
}

#[test]
fn every_family_has_help_and_type_once_and_openmetrics_has_eof() {
    let server = server();
    let text = get(&server, "/metrics").body;
    let mut families = BTreeSet::new();
    for line in text.lines() {
        if let Some(family) = line.strip_prefix("# TYPE ") {
            assert!(families.insert(family.split(' ').next().unwrap()), "{line}");
        }
    }
    for name in samples(&text).keys() {
        let name = name.split('{').next().unwrap();
        let bare = ["_bucket", "_sum", "_count"]
            .iter()
            .find_map(|ending| name.strip_suffix(ending));
        let known = families.contains(name) || bare.is_some_and(|bare| families.contains(bare));
        assert!(known, "{name} has no TYPE");
    }
    let accept = "Accept: application/openmetrics-text; version=1.0.0\r\n";
    let open = get_with(server.http_address().unwrap(), "/metrics", accept);
    let kind = open.header("content-type").unwrap();
    assert!(kind.starts_with("application/openmetrics-text"), "{kind}");
    assert!(open.body.ends_with("# EOF\n"));
}

/// Rows of the tables in the documentation: name, kind, meaning.
fn documented() -> BTreeSet<String> {
    let page = include_str!("../../../docs/monitoring.md");
    let rows = page.lines().filter(|line| {
        let families = ["| `statestored_", "| `process_", "| `aio_broker_"];
        families.iter().any(|begin| line.starts_with(begin))
    });
    rows.map(str::to_owned).collect()
}

#[tokio::test]
async fn the_documentation_lists_exactly_these_metrics() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = Config::durable(folder.path().join("data"));
    let mut admin = admin();
    admin.names = MetricNames::Both;
    config.admin = Some(admin);
    config.listeners.push("tls://127.0.0.1:0".parse().unwrap());
    let authority = Authority::new("tests");
    let expiry = Duration::from_secs(2_000_000_000);
    config.listener_config.tls = Some(tls(&authority, folder.path(), expiry));
    config.service.prefixes = vec![PrefixLimit::parse("k keys=9").unwrap()];
    config.limits.users.default_limits = UserLimits::parse("sessions=9").unwrap();
    let server = start(config);
    let _session = client(&server, "open").await;
    work(&server).await;
    // The first answer does not count itself.
    get(&server, "/metrics");
    let text = get(&server, "/metrics").body;
    let mut helps = BTreeMap::new();
    let mut rows = BTreeSet::new();
    for line in text.lines() {
        if let Some((name, help)) = line
            .strip_prefix("# HELP ")
            .and_then(|it| it.split_once(' '))
        {
            helps.insert(name, help);
        } else if let Some((name, kind)) = line
            .strip_prefix("# TYPE ")
            .and_then(|it| it.split_once(' '))
        {
            let begins = [format!("{name}{{"), format!("{name}_bucket{{")];
            let sample = text
                .lines()
                .find_map(|line| begins.iter().find_map(|begin| line.strip_prefix(begin)));
            let labels = sample
                .and_then(|it| it.split_once('}'))
                .map_or("", |it| it.0);
            let labels: Vec<&str> = labels
                .split(',')
                .filter_map(|it| Some(it.split_once('=')?.0))
                .filter(|label| *label != "le")
                .collect();
            let labels = labels.join(", ");
            rows.insert(format!(
                "| `{name}` | {kind} | {labels} | {} |",
                helps[name]
            ));
        }
    }
    let documented = documented();
    let missing: Vec<_> = rows.difference(&documented).collect();
    let wrong: Vec<_> = documented.difference(&rows).collect();
    assert!(
        missing.is_empty() && wrong.is_empty(),
        "docs/monitoring.md lacks:\n{missing:#?}\nand has what there is not:\n{wrong:#?}"
    );
    tokio::task::spawn_blocking(|| server.stop())
        .await
        .unwrap()
        .unwrap();
}
