//! Views of operators that need the log and the options of a process.
use crate::audit::{AuditedServer, TOKEN};
use serde_json::Value;

#[test]
fn the_last_lines_of_the_audit_trail_are_shown_over_http() {
    let server = AuditedServer::start(&["--log", "error"]);
    let _pump = server.daemon.connect("pump");
    let _valve = server.daemon.connect("valve");
    server.post("/api/disconnect", r#"{"client": "pump"}"#);
    let lines = |query: &str| -> Value {
        let (status, body) = server.get(&format!("/api/audit?{query}"));
        assert_eq!(status, 200, "{body}");
        serde_json::from_str(&body).unwrap()
    };
    let events = |query: &str| -> Vec<(String, String)> {
        let lines = lines(query);
        let items = lines["items"].as_array().unwrap().iter();
        let text = |it: &Value| it.as_str().unwrap().to_owned();
        items
            .map(|it| (text(&it["event"]), text(&it["fields"]["client"])))
            .collect()
    };
    let expected = |all: &[(&str, &str)]| -> Vec<(String, String)> {
        let all = all.iter();
        all.map(|&(event, client)| (event.into(), client.into()))
            .collect()
    };
    let of_pump = [
        ("action", "pump"),
        ("disconnected", "pump"),
        ("connected", "pump"),
    ];
    assert_eq!(events("client=pump"), expected(&of_pump));
    let connected = [("connected", "valve"), ("connected", "pump")];
    assert_eq!(events("event=connected"), expected(&connected));
    let newest = &lines("event=action")["items"][0];
    assert_eq!(newest["level"], "info");
    assert_eq!(newest["fields"]["action"], "disconnect");
    assert_eq!(newest["fields"]["disconnected"], 1);
    assert_eq!(lines("user=ann")["items"].as_array().unwrap().len(), 0);
}

#[test]
fn the_options_in_force_are_shown_over_http() {
    let server = AuditedServer::start(&["--max-keys", "7"]);
    let (_, body) = server.get("/api/config");
    let shown: Value = serde_json::from_str(&body).unwrap();
    let option = |name: &str| {
        let mut options = shown["options"].as_array().unwrap().iter();
        options.find(|it| it["name"] == name).unwrap().clone()
    };
    let expected = serde_json::json!({
        "name": "max-keys", "value": "7", "source": "argument", "needs_restart": false
    });
    assert_eq!(option("max-keys"), expected);
    assert_eq!(option("max-sessions")["source"], "default");
    assert!(!body.contains(TOKEN), "only its file is an option");
}
