use super::{Raw, load};
use serde::Deserialize;
use statestore_protocol::topic;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    request: Raw,
    response: Vec<Response>,
    notification: Vec<Notification>,
    forbidden_response: Vec<Forbidden>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Response {
    client_id: Raw,
    topic: Raw,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Notification {
    client_id: Raw,
    key: Raw,
    topic: Raw,
    filter: Raw,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Forbidden {
    topic: Raw,
    forbidden: bool,
}

#[test]
fn topics_are_written_and_read() {
    let file = load::<File>("topics.json");
    assert_eq!(topic::REQUEST, file.request.text());
    assert!(topic::REQUEST.contains(topic::STORE_GUID));
    for case in file.response {
        assert_eq!(topic::response(case.client_id.text()), case.topic.text());
    }
    for case in file.notification {
        let client_id = case.client_id.text();
        assert_eq!(
            topic::notification(client_id, &case.key.0),
            case.topic.text()
        );
        assert_eq!(topic::notification_filter(client_id), case.filter.text());
        let key = topic::notification_key(client_id, case.topic.text());
        assert_eq!(key, Some(case.key.0));
    }
}

#[test]
fn response_topics_that_a_store_forbids() {
    for case in load::<File>("topics.json").forbidden_response {
        let topic = case.topic.text();
        assert_eq!(
            topic::is_forbidden_response(topic),
            case.forbidden,
            "{topic}"
        );
    }
}

/// The part after a client id in base 16 in the response topics of the vendor's Go client.
const RESPONSE_SUFFIX: &str =
    "statestore/v1/FA9AE35F-2F64-47CD-9BFF-08E2B32A0FE8/command/invoke/response";

#[test]
fn a_response_topic_identifies_the_requester() {
    let requester = |topic: &str| topic::requester(topic).map(String::from);
    for (topic, expected) in [
        (topic::response("me"), Some("me")),
        ("clients/me/x".into(), Some("me")),
        (format!("clients/6D65/{RESPONSE_SUFFIX}"), Some("me")),
        // No digits as that client writes them, or of no client id.
        (format!("clients/6d65/{RESPONSE_SUFFIX}"), Some("6d65")),
        (format!("clients/6D6/{RESPONSE_SUFFIX}"), Some("6D6")),
        (format!("clients/6G/{RESPONSE_SUFFIX}"), Some("6G")),
        (format!("clients/FF/{RESPONSE_SUFFIX}"), Some("FF")),
        (format!("clients/07/{RESPONSE_SUFFIX}"), Some("07")),
        // Topics of another client.
        (format!("clients/6D65/{RESPONSE_SUFFIX}/x"), Some("6D65")),
        (format!("clients//{RESPONSE_SUFFIX}"), None),
        ("clients/me/".into(), None),
        ("clients/me".into(), None),
        ("answers/me/all".into(), None),
    ] {
        assert_eq!(requester(&topic).as_deref(), expected, "{topic}");
    }
}

#[test]
fn only_a_store_publishes_notifications_and_responses() {
    for (topic, expected) in [
        (topic::response("me"), true),
        (topic::response("m/e"), true),
        (topic::notification("me", b"key"), true),
        (format!("clients/6D65/{RESPONSE_SUFFIX}"), true),
        ("clients/me/services/statestore".into(), true),
        ("clients/me/services/statestores".into(), false),
        // The second place is the one.
        (format!("clients/statestore/v1/me/{RESPONSE_SUFFIX}"), true),
        ("clients/statestore/v1/me".into(), false),
        ("clients/me/other".into(), false),
        (format!("others/6D65/{RESPONSE_SUFFIX}"), false),
        (topic::REQUEST.into(), false),
    ] {
        assert_eq!(topic::is_from_store(&topic), expected, "{topic}");
    }
}
