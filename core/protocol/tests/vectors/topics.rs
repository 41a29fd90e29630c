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
