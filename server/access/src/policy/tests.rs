use super::*;

const POLICY: &str = r#"
apiVersion: mqttbroker.iotoperations.azure.com/v1
kind: BrokerAuthorization
metadata: {name: my-policy, namespace: azure-iot-operations}
spec:
  authorizationPolicies:
    cache: Enabled
    rules:
      - principals:
          usernames: [temperature-sensor, humidity-sensor]
          attributes:
            - building: "17"
              organization: contoso
        brokerResources:
          - method: Connect
            clientIds: ["{principal.attributes.building}*", "sensor-?"]
          - method: Publish
            topics: ["sensors/{principal.attributes.building}/{principal.clientId}/telemetry/#"]
          - method: Subscribe
            topics: ["commands/{principal.attributes.organization}", "news/+"]
        stateStoreResources:
          - method: Read
            keyType: Pattern
            keys: [myreadkey, "myotherkey?", "mynumerickeysuffix[0-9]", "clients:{principal.clientId}:*"]
          - method: readWrite
            keyType: Binary
            keys: [dGVzdA==]
      - principals: {clientIds: [sensor-1]}
        brokerResources: [{method: connect}]
        stateStoreResources: [{method: Write, keys: ["own/{principal.username}/*"]}]
"#;

fn contoso() -> Principal {
    let attributes = [("building", "17"), ("organization", "contoso")];
    let attributes = attributes.map(|(name, value)| (name.into(), value.into()));
    Principal::with_attributes(None, attributes.into())
}

fn user(name: &str) -> Principal {
    Principal::user(name.into())
}

#[test]
fn a_policy_of_the_deployed_store_is_accepted_unchanged() {
    let policy = Policy::parse(POLICY).unwrap();
    let rights = policy.rights(&contoso(), "17-a").unwrap();
    assert!(rights.may_publish("sensors/17/17-a/telemetry/x"));
    assert!(!rights.may_publish("sensors/17/17-b/telemetry/x"));
    assert!(rights.may_subscribe("commands/contoso") && rights.may_subscribe("news/+"));
    assert!(!rights.may_subscribe("news/#") && !rights.may_subscribe("#"));
    for key in [
        "myreadkey",
        "myotherkeyX",
        "mynumerickeysuffix7",
        "clients:17-a:x",
        "test",
    ] {
        assert!(rights.may_read(key.as_bytes()), "{key}");
    }
    for key in [
        "myreadkey2",
        "myotherkey",
        "mynumerickeysuffixx",
        "clients:17-b:x",
    ] {
        assert!(!rights.may_read(key.as_bytes()), "{key}");
    }
    assert!(rights.may_write(b"test") && !rights.may_write(b"myreadkey"));
}

#[test]
fn a_client_without_a_rule_has_no_rights() {
    let policy = Policy::parse(POLICY).unwrap();
    assert!(policy.rights(&Principal::default(), "17-a").is_none());
    assert!(policy.rights(&user("ann"), "17-a").is_none());
    assert!(
        policy.rights(&contoso(), "18-a").is_none(),
        "not with this client id"
    );
    let half = Principal::with_attributes(None, [("building".into(), "17".into())].into());
    assert!(
        policy.rights(&half, "17-a").is_none(),
        "one of two attributes"
    );
}

#[test]
fn rights_of_several_rules_are_combined() {
    let policy = Policy::parse(POLICY).unwrap();
    let rights = policy
        .rights(&user("temperature-sensor"), "sensor-1")
        .unwrap();
    assert!(rights.may_read(b"myreadkey") && rights.may_write(b"own/temperature-sensor/x"));
    assert!(
        !rights.may_publish("sensors//sensor-1/telemetry/x"),
        "it has no building"
    );
    let rights = policy
        .rights(&user("temperature-sensor"), "sensor-2")
        .unwrap();
    assert!(rights.may_read(b"myreadkey") && !rights.may_write(b"own/temperature-sensor/x"));
    let rights = policy.rights(&Principal::default(), "sensor-1").unwrap();
    assert!(!rights.may_read(b"myreadkey") && !rights.may_write(b"own//x"));
    assert!(
        !rights.may_use_store() && !rights.may_write(b"x"),
        "the only key pattern needs a user name"
    );
}

#[test]
fn a_name_with_a_slash_grants_no_rights_of_another_client() {
    let policy = Policy::parse(
        r#"
rules:
- principals: {usernames: [ann, ann/x], clientIds: [a, a/b, "a*"]}
  brokerResources:
  - {method: Connect, clientIds: ["{principal.username}/*", "{principal.username}", "a", "a/b", "a[*]"]}
  - {method: Publish, topics: ["t/{principal.clientId}/#", "u/{principal.username}"]}
  stateStoreResources:
  - {method: ReadWrite, keys: ["{principal.clientId}/*", "shared"]}
  - {method: Read, keyType: String, keys: ["of/{principal.clientId}"]}
"#,
    )
    .unwrap();
    let rights = |name, client| policy.rights(&user(name), client);
    let of_a = rights("ann", "a").unwrap();
    assert!(of_a.may_write(b"a/b/c") && of_a.may_read(b"of/a"));
    assert!(of_a.may_publish("t/a/b/c") && of_a.may_publish("u/ann"));
    let literal = rights("ann", "a*").unwrap();
    assert!(literal.may_write(b"a*/x") && !literal.may_write(b"ab/x"));

    let of_other = rights("ann/x", "a/b").unwrap();
    assert!(!of_other.may_write(b"a/b/c") && !of_other.may_read(b"a/b/c"));
    assert!(!of_other.may_read(b"of/a/b"));
    assert!(!of_other.may_publish("t/a/b/c") && !of_other.may_publish("u/ann/x"));
    assert!(of_other.may_write(b"shared"), "what has no token stays");

    assert!(rights("ann", "ann/x").is_some());
    assert!(
        rights("ann/x", "ann/x").is_some(),
        "exactly its own name is nobody else's"
    );
    assert!(rights("ann/x", "ann/x/y").is_none(), "that is of ann");
}

#[test]
fn rights_shared_by_clients_are_stored_once() {
    let policy = Policy::parse(POLICY).unwrap();
    for client in ["sensor-2", "sensor-3", "sensor-4"] {
        policy.rights(&user("humidity-sensor"), client).unwrap();
    }
    assert_eq!(policy.rights_cache.lock().unwrap().len(), 1);
}

#[test]
fn all_document_forms_are_parsed() {
    let rule =
        r#"{"principals": {"usernames": ["a"]}, "brokerResources": [{"method": "Connect"}]}"#;
    for document in [
        format!(
            r#"{{"properties": {{"authorizationPolicies": {{"cache": "Enabled", "rules": [{rule}]}}, "provisioningState": "Succeeded"}}, "extendedLocation": {{"name": "x", "type": "CustomLocation"}}}}"#
        ),
        format!("authorizationPolicies: {{rules: [{rule}]}}"),
        format!("rules:\n- {rule}\n"),
    ] {
        let policy = Policy::parse(&document).unwrap();
        assert!(policy.rights(&user("a"), "c").is_some());
        assert!(policy.rights(&user("b"), "c").is_none());
    }
    let nobody = Policy::parse("rules: []").unwrap();
    assert!(nobody.is_empty() && nobody.rights(&user("a"), "c").is_none());
}

#[test]
fn invalid_documents_are_refused_with_line_and_column() {
    let rule = "rules:\n- principals: {usernames: [a]}\n";
    for (document, line, problem) in [
        (format!("{rule}  brokerResource: []\n"), 3, "brokerResource"),
        (
            format!("{rule}  stateStoreResources:\n  - {{method: Delete, keys: [a]}}\n"),
            4,
            "Delete",
        ),
        (
            format!(
                "{rule}  stateStoreResources:\n  - method: Read\n    keyType: Glob\n    keys: [a]\n"
            ),
            5,
            "Glob",
        ),
        (
            format!(
                "{rule}  stateStoreResources:\n  - method: Read\n    keyType: Binary\n    keys: ['%']\n"
            ),
            4,
            "base 64",
        ),
        (
            format!(
                "{rule}  stateStoreResources:\n  - method: Read\n    keys: ['a/{{principal.user}}']\n"
            ),
            4,
            "principal.user",
        ),
        (
            format!("{rule}  brokerResources:\n  - method: Publish\n    topics:\n    - a/#/b\n"),
            6,
            "topic filter",
        ),
        (
            format!("{rule}  brokerResources:\n  - method: Publish\n"),
            1,
            "rule 1: Publish and Subscribe need topics",
        ),
        (
            "rules:\n- principals: {}\n".into(),
            1,
            "principals are empty",
        ),
        (
            "rules: []\nspec: {authorizationPolicies: {rules: []}}\n".into(),
            1,
            "one list",
        ),
        ("kind: Pod\nrules: []\n".into(), 1, "BrokerAuthorization"),
        ("apiVersion: v1\n".into(), 1, "one list"),
        ("rules: [\n".into(), 1, "unclosed"),
        (String::new(), 1, ""),
    ] {
        let error = Policy::parse(&document).unwrap_err();
        assert!(error.text.contains(problem), "{document}\n{}", error.text);
        assert_eq!(error.line, line, "{document}\n{}", error.text);
        assert!(!error.text.contains('\n'), "{}", error.text);
    }
}

#[test]
fn the_rule_that_allows_an_action_is_named() {
    use PolicyAction::{Publish, Read, Subscribe, Write};
    let policy = Policy::parse(POLICY).unwrap();
    let user = user("temperature-sensor");
    for (client, action, rule) in [
        (Some("sensor-1"), Read(b"myreadkey"), Some(1)),
        (
            Some("sensor-1"),
            Write(b"own/temperature-sensor/x"),
            Some(2),
        ),
        (Some("sensor-2"), Write(b"own/temperature-sensor/x"), None),
        (Some("sensor-2"), Read(b"clients:sensor-2:x"), Some(1)),
        (None, Read(b"clients:sensor-2:x"), None),
        (None, Read(b"test"), Some(1)),
        (Some("other"), Read(b"test"), None),
        (None, Write(b"myreadkey"), None),
        (None, Subscribe("news/today"), Some(1)),
        (None, Subscribe("news/#"), None),
        (None, Publish("news/today"), None),
        (None, Publish(statestore_protocol::topic::REQUEST), Some(1)),
    ] {
        let found = policy.allowing_rule(&user, client, action);
        assert_eq!(found, rule, "{client:?} {action:?}");
    }
    let anonymous = Principal::default();
    assert_eq!(policy.allowing_rule(&anonymous, None, Read(b"test")), None);
}
