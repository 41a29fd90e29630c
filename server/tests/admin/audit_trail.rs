//! The audit trail of a server inside another program.
use crate::http::{TOKEN, admin, bearer, client, get_with, json, server, start, stop};
use statestored::config::{AuditLog, Config};
use tracing_subscriber::layer::SubscriberExt;

#[test]
fn a_trail_that_the_program_does_not_keep_is_reported_as_off() {
    let server = server();
    let address = server.http_address().unwrap();
    let answer = get_with(address, "/api/audit", &bearer(TOKEN));
    assert_eq!(answer.status, 404);
    assert!(
        answer.body.contains("the audit trail is off"),
        "{}",
        answer.body
    );
}

#[tokio::test]
async fn a_trail_that_the_program_keeps_is_shown() {
    let trail = AuditLog::default();
    let subscriber = tracing_subscriber::registry().with(trail.layer());
    // No other test of this program sets one.
    tracing::subscriber::set_global_default(subscriber).unwrap();
    let mut port = admin();
    port.audit = Some(trail);
    let server = start(Config {
        admin: Some(port),
        ..Config::in_memory()
    });
    let client = client(&server, "embedded").await;
    let lines = json(&server, "/api/audit?event=connected&client=embedded");
    assert_eq!(lines["items"][0]["fields"]["client"], "embedded");
    client.close().await;
    stop(server).await;
}
