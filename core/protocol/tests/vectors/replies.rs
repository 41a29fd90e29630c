use super::{Raw, load};
use bytes::BytesMut;
use serde::Deserialize;
use statestore_protocol::{Reply, reply};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    payloads: Vec<Case>,
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
    Value { value: Raw },
    Count { count: Raw },
    Page { keys: Vec<Raw>, token: Option<Raw> },
    Error { error: String, text: Raw },
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
            Self::Error { error, text } => Reply::Error(super::errors::named(&error, &text)),
        }
    }
}

#[test]
fn payloads_decode_to_replies_or_to_a_reason() {
    for case in load::<File>("replies.json").payloads {
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
    for case in load::<File>("replies.json").payloads {
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
