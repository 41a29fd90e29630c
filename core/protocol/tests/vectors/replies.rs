use super::{Raw, load};
use bytes::BytesMut;
use serde::Deserialize;
use statestore_protocol::{Capabilities, Hlc, PageEntry, Rejection, Reply, Version, reply};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    payloads: Vec<Case>,
}

#[derive(Deserialize)]
struct Extensions {
    replies: Vec<Case>,
}

/// The payloads of the protocol, and of what there is besides.
fn payloads() -> impl Iterator<Item = Case> {
    let protocol = load::<File>("replies.json").payloads;
    let extensions = load::<Extensions>("extensions.json").replies;
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
    Malformed { malformed: String },
    Reply(Wanted),
}

#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
enum Wanted {
    Ok,
    NotApplied,
    Nil,
    Value {
        value: Raw,
    },
    Count {
        count: Raw,
    },
    Page {
        keys: Vec<Raw>,
        token: Option<Raw>,
    },
    EntryPage {
        entries: Vec<WantedPageEntry>,
        token: Option<Raw>,
    },
    Entries {
        entries: Vec<Option<(Raw, Raw)>>,
        omitted: Raw,
    },
    ValueAndTime {
        value: Raw,
        expires_in: Option<Raw>,
    },
    Capabilities {
        conditions: bool,
        remaining_time: bool,
        transactions: Option<Raw>,
        eventual: bool,
        max_get_keys: Option<Raw>,
        scan_values: bool,
        observe_matching: bool,
    },
    Transacted {
        versions: Vec<Option<Raw>>,
    },
    Rejected {
        operation: Raw,
        version: Option<Raw>,
        error: Option<String>,
        text: Option<Raw>,
    },
    Error {
        error: String,
        text: Raw,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WantedPageEntry {
    key: Raw,
    value: Raw,
    version: Raw,
    expires_in: Option<Raw>,
}

impl WantedPageEntry {
    fn entry(self) -> PageEntry {
        PageEntry {
            key: self.key.0,
            value: self.value.0,
            version: version(&self.version),
            expires_in_ms: self.expires_in.map(|ms| ms.number()),
        }
    }
}

fn version(text: &Raw) -> Version {
    Version::from(text.hlc())
}

impl Wanted {
    fn reply(self) -> Reply {
        match self {
            Self::Ok => Reply::Ok,
            Self::NotApplied => Reply::NotApplied,
            Self::Nil => Reply::Nil,
            Self::Value { value } => Reply::Value(value.0),
            Self::Count { count } => Reply::Count(count.number()),
            Self::Page { keys, token } => Reply::Page {
                keys: keys.into_iter().map(|key| key.0).collect(),
                token: token.map(|token| token.0),
            },
            Self::EntryPage { entries, token } => Reply::EntryPage {
                entries: entries.into_iter().map(WantedPageEntry::entry).collect(),
                token: token.map(|token| token.0),
            },
            Self::Entries { entries, omitted } => Reply::Entries {
                entries: entries
                    .into_iter()
                    .map(|entry| entry.map(|(value, text)| (value.0, version(&text))))
                    .collect(),
                omitted: omitted.number(),
            },
            Self::ValueAndTime { value, expires_in } => Reply::ValueAndTime {
                value: value.0,
                expires_in_ms: expires_in.map(|ms| ms.number()),
            },
            Self::Capabilities {
                conditions,
                remaining_time,
                transactions,
                eventual,
                max_get_keys,
                scan_values,
                observe_matching,
            } => {
                let mut capabilities = Capabilities::default();
                capabilities.conditions = conditions;
                capabilities.remaining_time = remaining_time;
                capabilities.transactions = transactions.map(|most| most.number());
                capabilities.eventual = eventual;
                capabilities.max_get_keys = max_get_keys.map(|most| most.number());
                capabilities.scan_values = scan_values;
                capabilities.observe_matching = observe_matching;
                Reply::Capabilities(capabilities)
            }
            Self::Transacted { versions } => {
                let versions = versions.iter().map(|text| text.as_ref().map(version));
                Reply::Transacted(versions.collect())
            }
            Self::Rejected {
                operation,
                version: stored,
                error,
                text,
            } => Reply::Rejected {
                operation: operation.number(),
                reason: match (error, text) {
                    (Some(error), Some(text)) => {
                        Rejection::Error(super::errors::named(&error, &text))
                    }
                    _ => Rejection::Condition(stored.as_ref().map(version)),
                },
            },
            Self::Error { error, text } => Reply::Error(super::errors::named(&error, &text)),
        }
    }
}

#[test]
fn payloads_decode_to_replies_or_to_a_reason() {
    for case in payloads() {
        let decoded = Reply::decode(&case.payload.0);
        match case.decode {
            Decoded::Malformed { malformed } => {
                assert_eq!(decoded.unwrap_err().reason, malformed, "{}", case.name);
            }
            Decoded::Reply(wanted) => assert_eq!(decoded, Ok(wanted.reply()), "{}", case.name),
        }
    }
}

#[test]
fn replies_encode_to_payloads() {
    for case in payloads() {
        let Decoded::Reply(wanted) = case.decode else {
            continue;
        };
        let wanted = wanted.reply();
        let expected = case.encode.unwrap_or(case.payload).0;
        let mut out = BytesMut::new();
        wanted.encode(&mut out);
        assert_eq!(out, expected, "{}", case.name);
        assert_eq!(out.len(), wanted.encoded_len(), "{}", case.name);
        if let Reply::Value(value) = wanted {
            out.clear();
            reply::encode_value(&value, &mut out);
            assert_eq!(out, expected, "{}", case.name);
            assert_eq!(out.len(), reply::value_len(value.len()), "{}", case.name);
        }
    }
}

#[test]
fn a_single_capability_is_decoded() {
    let one = |payload: &'static str| Reply::decode(&payload.into()).unwrap().capabilities();
    let conditions = one("*2\r\n$3\r\nIFV\r\n:1\r\n").unwrap();
    assert!(conditions.conditions && !conditions.remaining_time);
    let none = one("*2\r\n$3\r\nNEW\r\n:1\r\n");
    assert_eq!(none, Some(Capabilities::default()));
    for other in [
        "+OK\r\n",
        "$3\r\nIFV\r\n",
        "*2\r\n$3\r\nIFV\r\n:-1\r\n",
        "*1\r\n$-1\r\n",
    ] {
        assert_eq!(one(other), None, "{other:?}");
    }
    let mut all = BytesMut::new();
    Reply::Capabilities(Capabilities::ALL).encode(&mut all);
    let all = Reply::decode(&all.freeze()).unwrap();
    assert_eq!(all.capabilities(), Some(Capabilities::ALL));
}

#[test]
fn versions_are_those_of_a_store() {
    let hlc = Hlc::new(7, 1, "client").unwrap();
    assert_eq!(Hlc::from(Version::from(&hlc)), Hlc::store_version((7, 1)));
    assert!(Version::new(7, 1) < Version::new(7, 2) && Version::new(7, 2) < Version::new(8, 0));
}
