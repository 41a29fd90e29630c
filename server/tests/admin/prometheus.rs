//! Consumers of the metrics: Prometheus itself, and the dashboard.
use crate::http::{TIMEOUT, get, get_with, server, start, stop};
use crate::metrics::{samples, work};
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

#[tokio::test]
async fn the_dashboard_uses_existing_metrics() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(Config::durable(folder.path().join("data")));
    work(&server).await;
    let there: BTreeSet<String> = samples(&get(&server, "/metrics").body)
        .into_keys()
        .map(|name| name.split('{').next().unwrap().to_owned())
        .collect();
    let dashboard = include_str!("../../../packaging/grafana/statestored.json");
    let document: serde_json::Value = serde_json::from_str(dashboard).unwrap();
    assert_eq!(document["title"], "statestored");
    let is_of_name = |it: char| it.is_ascii_alphanumeric() || it == '_';
    let mut shown = BTreeSet::new();
    for panel in document["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().unwrap() {
            let query = target["expr"].as_str().unwrap();
            let words = query.split(|it| !is_of_name(it));
            let words =
                words.filter(|it| it.starts_with("statestored_") || it.starts_with("process_"));
            shown.extend(words.map(str::to_owned));
        }
    }
    assert!(shown.len() > 20, "{shown:?}");
    let unknown: Vec<_> = shown.difference(&there).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
    stop(server).await;
}
