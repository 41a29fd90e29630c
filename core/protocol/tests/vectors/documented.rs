//! The bytes in `docs/extensions.md` are those of the vectors.
use super::{Raw, load};
use serde::Deserialize;
use std::collections::HashSet;
use std::path::Path;

#[derive(Deserialize)]
struct File {
    requests: Vec<Case>,
    replies: Vec<Case>,
    notifications: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    payload: Raw,
}

#[test]
fn every_documented_payload_is_a_vector() {
    let File {
        requests,
        replies,
        notifications,
    } = load("extensions.json");
    let cases = requests.into_iter().chain(replies).chain(notifications);
    let payloads: HashSet<_> = cases.map(|case| case.payload.0).collect();
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/extensions.md");
    let page = std::fs::read_to_string(page).expect("the page is there");
    let mut documented = 0;
    for line in page.lines().filter(|line| line.ends_with("\\r\\n")) {
        let payload = line.replace("\\r", "\r").replace("\\n", "\n");
        assert!(payloads.contains(payload.as_bytes()), "{line}");
        documented += 1;
    }
    assert!(documented > 8, "only {documented} payloads");
}
