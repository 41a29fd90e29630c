//! Prometheus as the consumer of the metrics, and its alert rules.
use crate::http::{TIMEOUT, get, get_with, server, start, stop};
use crate::metrics::{exposed, names_in, work};
use statestored::config::Config;
use std::collections::BTreeSet;
use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

/// Runs a program of Prometheus.
///
/// # Panics
/// The program is not installed.
fn spawn(command: &mut Command) -> Child {
    let name = command.get_program().to_owned();
    command.spawn().unwrap_or_else(|error| {
        let name = name.display();
        panic!("{name} cannot be run: {error}; `scripts/test packages` installs it (Debian: prometheus)")
    })
}

#[tokio::test]
async fn promtool_accepts_the_metrics() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(Config::durable(folder.path().join("data")));
    work(&server).await;
    get(&server, "/healthz");
    let text = get(&server, "/metrics").body;
    let mut promtool = spawn(
        Command::new("promtool")
            .args(["check", "metrics"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped()),
    );
    let mut input = promtool.stdin.take().unwrap();
    input.write_all(text.as_bytes()).unwrap();
    drop(input);
    let output = promtool.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{said}");
    stop(server).await;
}

/// Ends with the test.
struct Prometheus(Child);

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test]
async fn prometheus_scrapes_the_server() {
    let server = server();
    work(&server).await;
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("prometheus.yml");
    let target = server.http_address().unwrap();
    let text = format!(
        "global: {{scrape_interval: 1s}}\nscrape_configs:\n  - job_name: statestored\n    static_configs: [{{targets: ['{target}']}}]\n"
    );
    std::fs::write(&config, text).unwrap();
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let address: SocketAddr = free.local_addr().unwrap();
    drop(free);
    let _prometheus = Prometheus(spawn(
        Command::new("prometheus")
            .arg(format!("--config.file={}", config.display()))
            .arg(format!(
                "--storage.tsdb.path={}",
                folder.path().join("tsdb").display()
            ))
            .arg(format!("--web.listen-address={address}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null()),
    ));
    let query = "/api/v1/query?query=statestored_requests_total%7Bverb%3D%22set%22%7D";
    let begin = Instant::now();
    loop {
        assert!(begin.elapsed() < TIMEOUT, "Prometheus has scraped nothing");
        // Prometheus may not listen yet.
        if std::net::TcpStream::connect(address).is_ok() {
            let answer = get_with(address, query, "");
            if answer.status == 200 && answer.body.contains("\"2\"]") {
                break;
            }
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    stop(server).await;
}

const RULES: &str = include_str!("../../../packaging/prometheus/statestored.rules.yml");
const RULE_TESTS: &str = include_str!("../../../packaging/prometheus/statestored.rules.test.yml");

/// The values of a key in the rules, in their order.
fn values_of(key: &str) -> Vec<&'static str> {
    let begin = format!("{key}: ");
    RULES
        .lines()
        .filter_map(|line| line.trim_start_matches([' ', '-']).strip_prefix(&*begin))
        .collect()
}

#[test]
fn promtool_accepts_the_rules_and_their_tests_pass() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../packaging/prometheus");
    for (verb, file) in [
        ("check", "statestored.rules.yml"),
        ("test", "statestored.rules.test.yml"),
    ] {
        let promtool = spawn(
            Command::new("promtool")
                .args([verb, "rules", file])
                .current_dir(folder)
                .stdout(Stdio::piped())
                .stderr(Stdio::piped()),
        );
        let output = promtool.wait_with_output().unwrap();
        let said =
            String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{verb}: {said}");
    }
}

#[test]
fn every_alert_is_tested_and_links_to_a_section() {
    let alerts = values_of("alert");
    assert!(alerts.len() > 20, "{alerts:?}");
    for alert in &alerts {
        for outcome in ["fires", "does not fire"] {
            let name = format!("name: {alert} {outcome}\n");
            assert!(RULE_TESTS.contains(&name), "{name}");
        }
    }
    let page = include_str!("../../../docs/monitoring.md");
    let headings = page.lines().filter(|line| line.starts_with('#'));
    let anchors: BTreeSet<_> = headings
        .map(|line| {
            let title = line.trim_start_matches('#').trim();
            title.to_lowercase().replace(' ', "-")
        })
        .collect();
    let links = values_of("runbook_url");
    assert_eq!(links.len(), alerts.len());
    for link in links {
        let anchor = link.split_once("/docs/monitoring.md#").unwrap().1;
        assert!(anchors.contains(anchor), "{link}");
    }
    for key in ["severity", "summary"] {
        assert_eq!(values_of(key).len(), alerts.len(), "{key}");
    }
}

#[tokio::test]
async fn the_rules_use_existing_metrics() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(Config::durable(folder.path().join("data")));
    work(&server).await;
    let there = exposed(&get(&server, "/metrics").body);
    let used: BTreeSet<_> = values_of("expr").into_iter().flat_map(names_in).collect();
    assert!(used.len() > 20, "{used:?}");
    let unknown: Vec<_> = used.difference(&there).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
    stop(server).await;
}
