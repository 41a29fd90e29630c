use super::{Pairs, Raw, hlc_error_name, load};
use bytes::BytesMut;
use serde::Deserialize;
use statestore_protocol::{
    Command, Condition, Hlc, HlcError, ServiceError, SetOptions, TransactionOperation, Version,
    property::{RequestPairs, RequestProperties, client_pairs},
    resp,
};
use std::num::NonZeroU64;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    payloads: Vec<Case>,
    properties_read_by_a_server: Vec<Read>,
    properties_sent_by_a_client: Vec<Sent>,
}

#[derive(Deserialize)]
struct Extensions {
    requests: Vec<Case>,
}

/// The payloads of the protocol, and of what there is besides.
fn payloads() -> impl Iterator<Item = Case> {
    let protocol = load::<File>("requests.json").payloads;
    let extensions = load::<Extensions>("extensions.json").requests;
    protocol.into_iter().chain(extensions)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    #[serde(rename = "source")]
    _source: String,
    payload: Raw,
    decode: Decoded,
    encode: Option<Raw>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Decoded {
    Error { error: String },
    Command(Wanted),
}

#[derive(Deserialize)]
#[serde(tag = "command", deny_unknown_fields)]
enum Wanted {
    #[serde(rename = "SET")]
    Set {
        key: Raw,
        value: Raw,
        condition: Option<String>,
        version: Option<Raw>,
        px: Option<Raw>,
    },
    #[serde(rename = "GET")]
    Get {
        key: Raw,
        #[serde(default)]
        remaining: bool,
        #[serde(default)]
        eventual: bool,
    },
    #[serde(rename = "DEL")]
    Del { key: Raw, version: Option<Raw> },
    #[serde(rename = "VDEL")]
    Vdel {
        key: Raw,
        value: Raw,
        version: Option<Raw>,
    },
    #[serde(rename = "KEYNOTIFY")]
    KeyNotify {
        key: Option<Raw>,
        pattern: Option<Raw>,
        stop: bool,
    },
    #[serde(rename = "SCAN")]
    Scan {
        pattern: Raw,
        token: Option<Raw>,
        #[serde(default)]
        values: bool,
    },
    #[serde(rename = "MGET")]
    GetMany { keys: Vec<Raw> },
    #[serde(rename = "CAPS")]
    Capabilities {},
    #[serde(rename = "TXN")]
    Transact { operations: Vec<WantedOperation> },
}

#[derive(Deserialize)]
#[serde(tag = "operation", deny_unknown_fields)]
enum WantedOperation {
    #[serde(rename = "SET")]
    Set {
        key: Raw,
        value: Raw,
        condition: Option<String>,
        version: Option<Raw>,
        px: Option<Raw>,
        token: Option<Raw>,
    },
    #[serde(rename = "DEL")]
    Del {
        key: Raw,
        version: Option<Raw>,
        token: Option<Raw>,
    },
}

fn version(text: Option<&Raw>) -> Option<Version> {
    text.map(|text| Version::from(text.hlc()))
}

fn options(condition: Option<&str>, version: Option<&Raw>, px: Option<&Raw>) -> SetOptions {
    let condition = match (condition, self::version(version)) {
        (None, None) => Condition::Always,
        (Some("NX"), None) => Condition::IfAbsent,
        (Some("NEX"), None) => Condition::IfAbsentOrEqual,
        (Some("IFV"), Some(version)) => Condition::IfVersion(version),
        other => panic!("condition {other:?}"),
    };
    SetOptions {
        condition,
        expires_in_ms: px.map(|px| NonZeroU64::new(px.number()).expect("at least 1")),
    }
}

impl Wanted {
    fn command(self) -> Command {
        match self {
            Self::Set {
                key,
                value,
                condition,
                version,
                px,
            } => Command::Set {
                key: key.0,
                value: value.0,
                options: options(condition.as_deref(), version.as_ref(), px.as_ref()),
            },
            Self::Get {
                key,
                remaining,
                eventual,
            } => Command::Get {
                key: key.0,
                remaining,
                eventual,
            },
            Self::Del { key, version } => Command::Del {
                key: key.0,
                if_version: self::version(version.as_ref()),
            },
            Self::Vdel {
                key,
                value,
                version,
            } => Command::Vdel {
                key: key.0,
                value: value.0,
                if_version: self::version(version.as_ref()),
            },
            Self::KeyNotify { key, pattern, stop } => match (key, pattern, stop) {
                (Some(key), None, false) => Command::Watch { key: key.0 },
                (Some(key), None, true) => Command::Unwatch { key: key.0 },
                (None, Some(pattern), false) => Command::WatchPattern { pattern: pattern.0 },
                (None, Some(pattern), true) => Command::UnwatchPattern { pattern: pattern.0 },
                other => panic!("KEYNOTIFY of {other:?}"),
            },
            Self::Scan {
                pattern,
                token,
                values,
            } => Command::Scan {
                pattern: pattern.0,
                token: token.map(|token| token.0),
                values,
            },
            Self::GetMany { keys } => Command::GetMany {
                keys: keys.into_iter().map(|key| key.0).collect(),
            },
            Self::Capabilities {} => Command::Capabilities,
            Self::Transact { operations } => Command::Transact {
                operations: operations
                    .into_iter()
                    .map(WantedOperation::operation)
                    .collect(),
            },
        }
    }
}

impl WantedOperation {
    fn operation(self) -> TransactionOperation {
        match self {
            Self::Set {
                key,
                value,
                condition,
                version,
                px,
                token,
            } => TransactionOperation::Set {
                key: key.0,
                value: value.0,
                options: options(condition.as_deref(), version.as_ref(), px.as_ref()),
                token: token.map(|token| token.hlc()),
            },
            Self::Del {
                key,
                version,
                token,
            } => TransactionOperation::Del {
                key: key.0,
                if_version: self::version(version.as_ref()),
                token: token.map(|token| token.hlc()),
            },
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Read {
    name: String,
    properties: Pairs,
    decode: ReadDecoded,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReadDecoded {
    timestamp: Option<Timestamp>,
    fencing_token: Option<Timestamp>,
    persist: bool,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Timestamp {
    Hlc(Raw),
    Error { error: String },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Sent {
    name: String,
    timestamp: Raw,
    fencing_token: Option<Raw>,
    client_id: Raw,
    persist: bool,
    encode: Pairs,
}

#[test]
fn payloads_decode_to_commands_or_to_the_error_of_the_store() {
    for case in payloads() {
        let decoded = Command::decode(&case.payload.0);
        match case.decode {
            Decoded::Error { error } => {
                assert_eq!(decoded.unwrap_err().to_string(), error, "{}", case.name);
            }
            Decoded::Command(wanted) => assert_eq!(decoded, Ok(wanted.command()), "{}", case.name),
        }
    }
}

#[test]
fn commands_encode_to_payloads() {
    for case in payloads() {
        let Decoded::Command(wanted) = case.decode else {
            continue;
        };
        let command = wanted.command();
        let mut out = BytesMut::new();
        command.encode(&mut out);
        assert_eq!(out, case.encode.unwrap_or(case.payload).0, "{}", case.name);
        assert_eq!(out.len(), command.encoded_len(), "{}", case.name);
        // The verb is the first argument.
        let first = format!("${}\r\n{}\r\n", command.verb().len(), command.verb());
        let header = out.iter().position(|&byte| byte == b'\n').expect("a line");
        assert!(
            out[header + 1..].starts_with(first.as_bytes()),
            "{}",
            case.name
        );
    }
}

#[test]
fn a_server_reads_request_properties() {
    let check = |name: &str, read: Option<Result<Hlc, HlcError>>, wanted: Option<Timestamp>| match (
        read, wanted,
    ) {
        (None, None) => {}
        (Some(Ok(hlc)), Some(Timestamp::Hlc(text))) => {
            assert_eq!(hlc.to_string(), text.text(), "{name}");
        }
        (Some(Err(error)), Some(Timestamp::Error { error: wanted })) => {
            assert_eq!(hlc_error_name(&error), wanted, "{name}");
        }
        (read, _) => panic!("{name}: {read:?}"),
    };
    for case in load::<File>("requests.json").properties_read_by_a_server {
        let read = RequestProperties::parse(case.properties.iter());
        check(&case.name, read.timestamp, case.decode.timestamp);
        check(&case.name, read.fencing_token, case.decode.fencing_token);
        assert_eq!(read.persist, case.decode.persist, "{}", case.name);
    }
}

#[test]
fn a_client_sends_request_properties_in_their_order() {
    for case in load::<File>("requests.json").properties_sent_by_a_client {
        let pairs = RequestPairs {
            timestamp: case.timestamp.text(),
            fencing_token: case.fencing_token.as_ref().map(Raw::text),
            persist: case.persist,
        };
        let common = client_pairs(case.client_id.text());
        let sent: Vec<(&str, &str)> = common.into_iter().chain(pairs.iter()).collect();
        assert_eq!(
            sent,
            case.encode.iter().collect::<Vec<_>>(),
            "{}",
            case.name
        );
    }
}

#[test]
fn payloads_that_are_nearly_requests_are_syntax_errors() {
    for payload in [
        // A length without digits.
        "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$\r\n\r\n",
        // An operation whose last argument is after the end of the array.
        "*3\r\n$3\r\nTXN\r\n$1\r\n2\r\n$3\r\nDEL\r\n$1\r\nk\r\n",
        // An option that comes twice.
        "*8\r\n$3\r\nTXN\r\n$1\r\n6\r\n$3\r\nDEL\r\n$1\r\nk\r\n$2\r\nFT\r\n$5\r\n1:0:n\r\n$2\r\nFT\r\n$5\r\n1:0:n\r\n",
        "*8\r\n$3\r\nTXN\r\n$1\r\n6\r\n$3\r\nDEL\r\n$1\r\nk\r\n$3\r\nIFV\r\n$14\r\n1:0:StateStore\r\n$3\r\nIFV\r\n$14\r\n1:0:StateStore\r\n",
    ] {
        let decoded = Command::decode(&payload.into());
        assert_eq!(decoded, Err(ServiceError::Syntax), "{payload:?}");
    }
}

#[test]
fn key_returns_the_key_of_an_operation() {
    let payload = "*4\r\n$3\r\nTXN\r\n$1\r\n2\r\n$3\r\nDEL\r\n$1\r\nk\r\n";
    let Ok(Command::Transact { operations }) = Command::decode(&payload.into()) else {
        panic!("a transaction")
    };
    assert_eq!(operations[0].key(), "k");
}

#[test]
fn numbers_are_written_in_decimal() {
    for value in (0..2_000).chain([u64::MAX - 1, u64::MAX]) {
        let mut out = BytesMut::new();
        resp::put_integer(value, &mut out);
        assert_eq!(out, format!(":{value}\r\n"));
        assert_eq!(out.len(), resp::integer_len(value));
    }
}
